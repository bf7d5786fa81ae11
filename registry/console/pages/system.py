"""Front ends and Redis; the streams and their readers."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import HTMLResponse

from ...events.journal import STREAMS
from ...store.connection.url import without_password
from ..context import Console


async def front_ends(console: Console, request: Request) -> HTMLResponse:
    """The processes that hear brokers, and the Redis that all of them share."""
    facts = await console.facts.now()
    return await console.page(
        request, "front_ends.html", facts=facts, redis=without_password(console.state.store.url)
    )  # fmt: skip


async def streams(console: Console, request: Request) -> HTMLResponse:
    """The three streams, how far back each goes, and what each reader has acknowledged."""
    facts = await console.facts.now()
    return await console.page(
        request, "streams.html", facts=facts, streams=STREAMS, **await console.slider()
    )  # fmt: skip
