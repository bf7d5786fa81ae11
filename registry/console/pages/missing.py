"""Names that clients ask for in vain: how often, when last, and at which front ends."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import HTMLResponse

from ..context import PER_PAGE, Console, page_number


async def missing(console: Console, request: Request) -> HTMLResponse:
    """The page."""
    text = request.query_params.get("filter", "").strip()
    at_ms, then, unknown = await console.then_if_known(request)
    rows = console.missing.names() if at_ms is None else await console.missing.names_by(at_ms)
    if text:
        rows = [one for one in rows if text.lower() in one.name.lower()]
    number, pages = page_number(request, len(rows))
    await console.facts.now()
    topics = then.tables.topics if then else console.state.tables.topics if at_ms is None else None
    return await console.page(
        request, "missing.html", rows=rows[(number - 1) * PER_PAGE : number * PER_PAGE], count=len(rows),
        number_=number, pages=pages, filter=text, known_ms=console.missing.since_ms,
        front_end=console.facts.front_end, topics=topics, at_ms=at_ms, then=then, unknown=unknown,
        **await console.slider(),
    )  # fmt: skip
