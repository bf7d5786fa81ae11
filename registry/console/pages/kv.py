"""KV configuration and settings: values, now or then, and where each value comes from."""

from __future__ import annotations

from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ...config.in_force import SHARED, in_force
from ...config.java_keys import KNOWN_TO_JAVA
from ...config.settings import options, options_by_key
from ...operators.language import marked, say
from ..context import Console, paged
from ..facts import Facts
from ..login.needs import READ_CONFIG, of_kv
from ..login.viewer import viewer_of
from ..twins import Twin

_SET: Final = marked("set for all front ends")
_IGNORED: Final = marked("set for all front ends, but ignored")


class Setting(NamedTuple):
    """A setting of the namespace. ``source``: where its value comes from."""

    key: str
    value: str
    source: str
    help: str


class OwnSetting(NamedTuple):
    """A setting with which front ends were started. ``counts``: whether its value is in force there, in words."""

    key: str
    value: str
    source: str
    front_ends: list[str]
    counts: str


TWIN: Final = Twin(
    "The KV configuration, as (namespace, key, value), and settings.",
    {"rows": list[tuple[str, str, str]], "count": int, "number": int, "pages": int, "shared": list[Setting],
     "own": list[OwnSetting]},
    ("at", "filter", "page"),
)  # fmt: skip


async def kv(console: Console, request: Request) -> Response:
    """The page of the KV configuration."""
    text = request.query_params.get("filter", "").strip()
    then = await console.then(request)
    tables = console.state.tables if then is None else then.tables
    viewer = viewer_of(request)
    seen = {name: table for name, table in sorted(tables.kv.items()) if viewer.may(of_kv(name))}
    sees_config = viewer.may(READ_CONFIG)
    rows = [
        (name, key, value)
        for name, table in seen.items()
        for key, value in sorted(table.items())
        if not text or text.lower() in f"{name}\0{key}".lower()
    ]
    return await console.page_of(
        request, "kv.html", then, filter=text, shared=_shared(console, tables.config),
        empty=[name for name, table in seen.items() if not table], unseen=len(tables.kv) - len(seen),
        own=_own(await console.facts.now(), tables.config) if then is None else [], sees_config=sees_config,
        **paged(request, rows),
    )  # fmt: skip


def _shared(console: Console, config: dict[str, str]) -> list[Setting]:
    """Every shared setting of a namespace; those that were set come first."""
    force = in_force(console.settings, config, compat=console.state.store.compat)
    found = []
    for option in options().values():
        if not option.about.shared or option.about.secret:
            continue
        is_set = option.key in config
        ignored = is_set and force.source(option.name) != SHARED
        value = config[option.key] if is_set else option.show(option.default)
        source = (_IGNORED if ignored else _SET) if is_set else marked("default")
        found.append(Setting(option.key, value, say(source), say(option.about.help)))
    found += [
        Setting(key, value, say(_SET), say("A key of Java's NameServer, without effect here."))
        for key, value in config.items() if key in KNOWN_TO_JAVA and key not in {one.key for one in found}
    ]  # fmt: skip
    return sorted(found, key=lambda one: (one.source == say("default"), one.key))


def _own(facts: Facts | None, config: dict[str, str]) -> list[OwnSetting]:
    """The start settings of the running front ends; front ends with the same value and source share a row."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for one in facts.fleet.front_ends if facts else ():
        if one.state != "gone":
            for key, (value, source) in one.settings.items():
                found.setdefault((key, value, source), []).append(one.name)
    return [
        OwnSetting(key, value, source, names, _counts(key, source, config))
        for (key, value, source), names in sorted(found.items())
    ]


def _counts(key: str, source: str, config: dict[str, str]) -> str:
    option = options_by_key().get(key)
    if option is None or not option.about.shared or key not in config:
        return say("counts")
    if source.startswith(("environment ", "flag ")):  # as Settings.is_fixed
        return say("counts, not {value} of all front ends", value=config[key])
    return say("does not count: {value} is set for all front ends", value=config[key])
