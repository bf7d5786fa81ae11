"""Now: is anything wrong?"""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import HTMLResponse

from ..context import Console
from ..findings import find
from ..login.viewer import viewer_of


async def now(console: Console, request: Request) -> HTMLResponse:
    """What somebody should look at, in words, and the sizes of everything."""
    facts = await console.facts.now()
    state, sums = console.state, console.sums()
    findings = find(
        facts,
        state.tables,
        sums,
        stale_since_ms=state.stale_since_ms,
        reason=state.reason,
        away=state.away,
        recent=tuple(state.recent),
    )
    now_ms = round(time.time() * 1000)
    return await console.page(
        request, "now.html", findings=findings, facts=facts, sums=sums, now_ms=now_ms,
        last=next(filter(viewer_of(request).may_see, reversed(state.recent)), None),
    )  # fmt: skip
