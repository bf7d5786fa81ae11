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
    told = {worker.incarnation for one in facts.fleet.front_ends for worker in one.workers} if facts else set()
    workers = facts.workers if facts else []
    nameless = [worker for worker in workers if worker.incarnation not in told and worker.heard_ms]
    return await console.page(
        request, "front_ends.html", facts=facts, nameless=nameless, redis=without_password(console.state.store.url)
    )  # fmt: skip


async def streams(console: Console, request: Request) -> HTMLResponse:
    """The three streams, how far back each goes, and what each reader has acknowledged."""
    facts = await console.facts.now()
    return await console.page(
        request, "streams.html", facts=facts, streams=STREAMS, **await console.slider()
    )  # fmt: skip
