"""KV configuration and settings: values, now or then, and where each value comes from."""

from __future__ import annotations

from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import HTMLResponse

from ...config.in_force import SHARED, in_force
from ...config.java_keys import KNOWN_TO_JAVA
from ...config.settings import options
from ..context import PER_PAGE, Console, page_number


class Setting(NamedTuple):
    """A setting of the namespace. source: where its value comes from; help: what it is for."""

    key: str
    value: str
    source: str
    help: str


async def kv(console: Console, request: Request) -> HTMLResponse:
    """The page."""
    text = request.query_params.get("filter", "").strip()
    then = await console.then(request)
    tables = console.state.tables if then is None else then.tables
    rows = [
        (name, key, value)
        for name, table in sorted(tables.kv.items())
        for key, value in sorted(table.items())
        if not text or text.lower() in f"{name}\0{key}".lower()
    ]
    number, pages = page_number(request, len(rows))
    return await console.page(
        request, "kv.html", rows=rows[(number - 1) * PER_PAGE : number * PER_PAGE], count=len(rows), number_=number,
        pages=pages, filter=text, then=then, at_ms=then.at_ms if then else None, shared=_shared(console, tables.config),
        empty=sorted(name for name, table in tables.kv.items() if not table),
        **await console.slider(),
    )  # fmt: skip


def _shared(console: Console, config: dict[str, str]) -> list[Setting]:
    """Every setting that is one for a namespace, those first that somebody set."""
    force = in_force(console.settings, config, compat=console.state.store.compat)
    found = []
    for option in options().values():
        if not option.about.shared or option.about.secret:
            continue
        is_set = option.key in config
        ignored = is_set and force.source(option.name) != SHARED
        value = config[option.key] if is_set else option.show(option.default)
        source = "set for all front ends" + (", but ignored" if ignored else "") if is_set else "default"
        found.append(Setting(option.key, value, source, option.about.help))
    found += [
        Setting(key, value, "set for all front ends", "A key of Java's NameServer, without effect here.")
        for key, value in config.items() if key in KNOWN_TO_JAVA and key not in {one.key for one in found}
    ]  # fmt: skip
    return sorted(found, key=lambda one: (one.source == "default", one.key))
