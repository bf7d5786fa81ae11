"""Names that clients ask for in vain: how often, when last, and at which front ends."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ..context import Console, paged
from ..recent.missing import AskedName
from ..twins import Twin

TWIN: Final = Twin(
    "Names that clients asked for in vain within a day.",
    {"rows": list[AskedName], "count": int, "number": int, "pages": int}, ("at", "filter", "page"),
)  # fmt: skip


async def missing(console: Console, request: Request) -> Response:
    """The page of names that clients asked for in vain."""
    text = request.query_params.get("filter", "").strip()
    at_ms, then, unknown = await console.then_if_known(request)
    rows = console.missing.names() if at_ms is None else await console.missing.names_by(at_ms)
    if text:
        rows = [one for one in rows if text.lower() in one.name.lower()]
    await console.facts.now()  # it has the names of the front ends
    topics = then.tables.topics if then else console.state.tables.topics if at_ms is None else None
    return await console.page_of(
        request, "missing.html", then, filter=text, known_ms=console.missing.since_ms,
        front_end=console.facts.front_end, topics=topics, at_ms=at_ms, unknown=unknown, **paged(request, rows),
    )  # fmt: skip
