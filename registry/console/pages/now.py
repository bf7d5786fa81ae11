"""Now: is anything wrong? And then: was anything?"""

from __future__ import annotations

import contextlib
import time
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse

from ...errors import StoreUnavailable
from ...events.changes import Change
from ...events.journal import CHANGES
from ...operators.history import whole
from ...store.change_reader import count_by_minute, read_back
from ...store.store import Store
from ...store.streams import last_entry_by
from ..context import Console
from ..findings import find, find_then, sum_topics
from ..login.viewer import Viewer, viewer_of
from ..past import Then
from ..recent.missing import HOUR_MS
from ..recent.signs import signs_by
from ..state import MINUTES

_SCANNED: Final = 2000


async def now(console: Console, request: Request) -> HTMLResponse:
    """What somebody should look at, in words, and the sizes of everything."""
    then = await console.then(request)
    if then is not None:
        return await _then(console, request, then)
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
    now_ms, viewer = round(time.time() * 1000), viewer_of(request)
    last = next(filter(viewer.may_see, reversed(state.recent)), None)
    if last is None and state.stale_since_ms is None:
        with contextlib.suppress(StoreUnavailable):  # just gone: the page says so
            last = await _last_before(state.store, viewer)
    counted_ms = state.counted_ms if (state.counted_ms or 0) > now_ms - HOUR_MS else None
    return await console.page(
        request, "now.html", findings=findings, tables=state.tables, seq=state.seq, sums=sums,
        brokers=len(facts.brokers) if facts else 0,
        front_ends=sum(one.state != "gone" for one in facts.fleet.front_ends) if facts else 0,
        per_minute=state.per_minute, until_ms=now_ms, counted_ms=counted_ms, then=None,
        last=last, **await console.slider(),
    )  # fmt: skip


async def _then(console: Console, request: Request, then: Then) -> HTMLResponse:
    """The same of an instant, as far as it is known."""
    store, tables, sums = console.state.store, then.tables, sum_topics(then.tables)
    signs = await signs_by(store, then.at_ms)
    newest = await last_entry_by(store, CHANGES, then.at_ms)
    last = None if newest is None else await _last_before(store, viewer_of(request), newest.behind)
    hour = await count_by_minute(store, then.at_ms, MINUTES)
    return await console.page(
        request, "now.html", findings=find_then(tables, sums, signs, then.at_ms), tables=tables,
        seq=None if then.of_lake else then.seq, sums=sums,
        brokers=sum(len(row.broker_addrs) for row in tables.brokers.values()),
        front_ends=len(signs.of) if signs.heard_ms is not None else None,
        per_minute=hour.per_minute, until_ms=then.at_ms, counted_ms=hour.since_ms, last=last, then=then,
        at_ms=then.at_ms, **await console.slider(),
    )  # fmt: skip


async def _last_before(store: Store, viewer: Viewer, before: str = "") -> Change | None:
    """The last change that somebody may see, of the last ones before an entry."""
    scanned = 0
    async for parts in read_back(store, before=before):
        if viewer.may_see(one := whole(parts)):
            return one
        scanned += len(parts)
        if scanned >= _SCANNED:
            break
    return None
