"""One broker name: its processes, how long each has left, its topics, its last changes, and what can be done to it."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse

from ...events.changes import Change
from ...operators.history import broker_names_of, whole
from ...store.change_reader import read_back
from ..context import Console, NotThere
from ..login.viewer import viewer_of
from ..recent.lanes import DAY_MS
from .brokers import live_rows, past_rows

_CHANGES: Final = 20
_SCANNED: Final = 5_000


async def broker(console: Console, request: Request) -> HTMLResponse:
    """The page, also of a name that has left within the last day."""
    name = request.query_params.get("name", "")
    then = await console.then(request)
    facts = await console.facts.now()
    tables = console.state.tables if then is None else then.tables
    rows = past_rows(then) if then else live_rows(console, facts)
    rows = [row for row in rows if row.broker_name == name]
    redis_ms = facts.head.now_ms if facts else 0
    gone = [] if then else [one for one in console.lanes.gone(redis_ms, DAY_MS) if one.broker_name == name]
    if not rows and not gone and name not in tables.broker_topics:
        raise NotThere(f"No broker name {name!r} is registered, and none of this name left within the last day.")
    changes = await _changes_of(console, request, name) if then is None else []
    return await console.page(
        request, "broker.html", name=name, rows=rows, row=tables.brokers.get(name), gone=gone, changes=changes,
        topics=len(tables.broker_topics.get(name, ())), redis_ms=redis_ms, lanes=console.lanes, span_ms=DAY_MS,
        then=then, at_ms=then.at_ms if then else None, **await console.slider(),
    )  # fmt: skip


async def _changes_of(console: Console, request: Request, name: str) -> list[Change]:
    """The last changes of a brokerName that this viewer may see, the newest first."""
    viewer, found, scanned = viewer_of(request), list[Change](), 0
    if console.state.stale_since_ms is not None:
        return [one for one in reversed(console.state.recent) if name in broker_names_of(one) and viewer.may_see(one)]
    async for parts in read_back(console.state.store):
        one = whole(parts)
        if name in broker_names_of(one) and viewer.may_see(one):
            found.append(one)
        scanned += len(parts)
        if len(found) >= _CHANGES or scanned >= _SCANNED:
            break
    return found
