"""Works out the settings in force, from a process's own settings, the shared configuration and the compat mode.

Front ends, sweepers and commands call :func:`in_force`, so that all of them use the same values.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from ..behaviour import behaviour_of
from .settings import DEFAULT, Settings, options, options_by_key

logger = logging.getLogger(__name__)

SHARED: Final = "shared configuration"
_HIDDEN: Final = frozenset({"redis"})  # a URL may hold a password
_MOST_CHARS: Final = 200


def in_force(own: Settings, shared: Mapping[str, str], *, compat: str | None = None) -> Settings:
    """The settings that a process obeys.

    A key that the NameServer of the compat mode does not know keeps its default, wherever it was set
    (``docs/semantics.md``, the table of differences between 4.8.0 and 5.x). The shared configuration replaces neither
    keys that belong to one process, nor values from the environment or a flag. A shared value that is not allowed is
    logged and ignored, because it must not stop a running front end.

    Args:
        own: the settings that this process was started with.
        shared: the shared configuration of its namespace (``P:config``), property key -> text.
        compat: the namespace's mode; None: ``own.compat``.

    Raises:
        ConfigError: there is no such compat mode.
    """
    ignored = behaviour_of(own.compat if compat is None else compat).ignored_settings
    settings = without(own, ignored)
    values: dict[str, Any] = {}
    sources = dict(settings.sources)
    for key, text in shared.items():
        option = options_by_key().get(key)
        if key in ignored or option is None or not option.about.shared or settings.is_fixed(option.name):
            continue
        try:
            values[option.name] = option.parse(text)
        except ValueError:
            logger.warning("%s=%r of the %s is ignored: expected %s", key, text, SHARED, option.allowed)
            continue
        sources[option.name] = SHARED
    return msgspec.structs.replace(settings, **values, sources=sources)


def without(settings: Settings, keys: Collection[str]) -> Settings:
    """Settings in which these property keys have their defaults again."""
    names = [option.name for key, option in options_by_key().items() if key in keys]
    sources = {name: source for name, source in settings.sources.items() if name not in names}
    defaults = {name: options()[name].default for name in names}
    return msgspec.structs.replace(settings, **defaults, sources=sources)


def own_values(settings: Settings) -> dict[str, tuple[str, str]]:
    """The settings that a process did not leave at their defaults: key -> value and source.

    Other users may read the result: it has no secret and no URL of Redis, and long values are cut.
    """
    return {
        option.key: (option.show(getattr(settings, name))[:_MOST_CHARS], settings.source(name))
        for name, option in options().items()
        if settings.source(name) != DEFAULT and not option.about.secret and name not in _HIDDEN
    }
