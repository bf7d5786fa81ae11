"""Builds the settings of one process from a properties file, the environment and the command line.

Precedence: default < properties file < shared configuration in Redis (:mod:`mqregistry.config.in_force`) <
environment < flag. Each setting knows where its value came from (``Settings.sources``).
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from ..errors import ConfigError
from . import properties
from .java_keys import KNOWN_TO_JAVA, home, java_paths
from .option import PREFIX, Option
from .settings import Settings, options, options_by_key

logger = logging.getLogger(__name__)

# Variables with our prefix that are read elsewhere.
OTHER_VARIABLES: Final = frozenset(
    {
        "MQREGISTRY_REDIS_PASSWORD", "MQREGISTRY_CONFIG",
        "MQREGISTRY_FRESH",  # of serve
        "MQREGISTRY_LAKE", "MQREGISTRY_DELTA_JARS",  # of the pipeline's commands
        "MQREGISTRY_REDIS_SERVER",  # of the embedded Redis
        "MQREGISTRY_CACHE", "MQREGISTRY_INTEROP", "MQREGISTRY_INTEROP_SERVER",  # of the tests with real RocketMQ
    }
)  # fmt: skip

# Kubernetes sets variables for each Service in a container, unless enableServiceLinks is false. For a Service with the
# name mqregistry it sets MQREGISTRY_PORT=tcp://10.0.0.1:9876, which is no port of ours.
_SERVICE_LINK: Final = re.compile(r"\w+_(?:SERVICE_(?:HOST|PORT(?:_\w+)?)|PORT_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)")
_SERVICE_ADDRESS: Final = re.compile(r"(?:tcp|udp|sctp)://")

# Input methods for Chinese write these for = and :. Java reads them as a part of the key, so the setting has no effect.
_FULL_WIDTH: Final = frozenset("＝：")

# RocketMQ's own variable: its broker and NameServer read it, and ignore a blank value.
_JAVA_SERIALIZE_TYPE: Final = "ROCKETMQ_SERIALIZE_TYPE"


def build(
    *,
    flags: Mapping[str, Any] | None = None,
    assigned: Mapping[str, Any] | None = None,
    config_file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    defaults: Mapping[str, Any] | None = None,
    warn: Callable[[str], None] = logger.warning,
) -> Settings:
    """The settings of this process; the shared configuration is added later, by ``in_force``.

    Args:
        flags: attribute -> value from the command line; None: the flag was not given.
        assigned: attribute -> value from --set; a value in ``flags`` has precedence.
        config_file: a properties file.
        environ: default: the process environment.
        defaults: attribute -> default of this command, if it differs from the default in settings.
        warn: gets one line for each unknown key or variable.

    Raises:
        ConfigError: the file cannot be read, or a value is not allowed; the message has key, value, file and line.
    """
    environ = {
        name: text
        for name, text in (os.environ if environ is None else environ).items()
        if not (name.startswith(PREFIX) and (_SERVICE_LINK.fullmatch(name) or _SERVICE_ADDRESS.match(text)))
    }
    values: dict[str, Any] = {"data_dir": str(default_data_dir(environ)), **(defaults or {})}
    sources: dict[str, str] = {}
    without_effect: dict[str, str] = {}

    def put(option: Option, text: str, source: str, said: str) -> None:
        try:
            values[option.name] = option.parse(text)
        except ValueError:
            raise ConfigError(f"{said}={text!r} ({source}): expected {option.allowed}") from None
        sources[option.name] = source

    if config_file is not None:
        for entry in _read_file(config_file):
            option = options_by_key().get(entry.key)
            place = f"{config_file}:{entry.line}"
            if entry.key[:1] in ("{", "[", "<"):
                raise ConfigError(f"{place}: {entry.key[:40]!r}: expected lines like listenPort=9876, not JSON or XML")
            if _FULL_WIDTH & set(entry.key):
                raise ConfigError(f"{place}: {entry.key[:40]!r} has a full-width ＝ or ：; write = (U+003D)")
            if option is not None:
                put(option, entry.value, f"file {place}", entry.key)
            elif entry.key not in KNOWN_TO_JAVA:
                warn(f"{place}: unknown key {entry.key!r}{_closest(entry.key, options_by_key())}")
            else:
                without_effect[entry.key] = entry.value
            if entry.key == "enableControllerInNamesrv" and entry.value.strip().lower() == "true":
                warn(f"{place}: {entry.key}=true has no effect: {KNOWN_TO_JAVA[entry.key].why}")
    of_java = environ.get(_JAVA_SERIALIZE_TYPE, "").strip()
    if of_java:
        put(options()["serialize_type"], of_java, f"environment {_JAVA_SERIALIZE_TYPE}", _JAVA_SERIALIZE_TYPE)
    known = set(OTHER_VARIABLES)
    for option in options().values():
        known.update(option.variables)
        variable = next((name for name in option.variables if name in environ), None)
        if variable is not None:
            put(option, environ[variable], f"environment {variable}", variable)
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known:
            warn(f"environment: unknown variable {name}{_closest(name, known)}")
    for name, value in (assigned or {}).items():
        values[name], sources[name] = value, f"flag --set {options()[name].key}"
    for name, value in (flags or {}).items():
        if value is not None:
            option = options()[name]
            values[name], sources[name] = value, f"flag {option.flag}"
    settings = Settings(
        **values, sources=sources, without_effect=without_effect,
        java_paths=java_paths(environ, config_file, without_effect),
    )  # fmt: skip
    shared = [key for key, option in options_by_key().items() if option.about.shared]
    for key in settings.config_allow_list.split(";"):
        if key and key not in shared:
            warn(f"configAllowList: no request can change {key!r}{_closest(key, shared)}")
    return settings


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """The default of ``data_dir``: where ``up`` keeps its data (XDG base directories)."""
    data_home = environ.get("XDG_DATA_HOME") or ""
    if data_home.startswith("/"):
        return Path(data_home) / "mqregistry"
    return home(environ) / ".local" / "share" / "mqregistry"


def _read_file(path: Path) -> list[properties.Property]:
    try:
        return properties.parse(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot read the properties file {path}: {error.strerror or error}") from error
    except properties.PropertiesSyntaxError as error:
        raise ConfigError(f"{path}:{error.line}: {error}") from error


def _closest(name: str, known: Iterable[str]) -> str:
    import difflib  # not at the top: only an unknown name needs it

    by_lower = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), by_lower, 1, 0.7)
    return f"; did you mean {by_lower[close[0]]}?" if close else ""
