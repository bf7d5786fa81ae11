"""Now: is anything wrong? And then: was anything?"""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import HTMLResponse

from ...events.changes import Change
from ...events.journal import CHANGES
from ...operators.history import whole
from ...store.change_reader import read_back
from ...store.store import Store
from ...store.streams import last_entry_by
from ..context import Console
from ..findings import find, find_then, sum_topics
from ..login.viewer import Viewer, viewer_of
from ..past import Then
from ..recent.missing import HOUR_MS
from ..recent.signs import signs_by

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
    now_ms = round(time.time() * 1000)
    return await console.page(
        request, "now.html", findings=findings, tables=state.tables, seq=state.seq, sums=sums,
        brokers=len(facts.brokers) if facts else 0,
        front_ends=sum(one.state != "gone" for one in facts.fleet.front_ends) if facts else 0,
        per_minute=state.per_minute, until_ms=now_ms, counted_ms=None, then=None,
        last=next(filter(viewer_of(request).may_see, reversed(state.recent)), None), **await console.slider(),
    )  # fmt: skip


async def _then(console: Console, request: Request, then: Then) -> HTMLResponse:
    """The same of an instant, as far as it is known."""
    store, tables, sums = console.state.store, then.tables, sum_topics(then.tables)
    signs = await signs_by(store, then.at_ms)
    hour = await _hour_before(store, then.at_ms, viewer_of(request))
    return await console.page(
        request, "now.html", findings=find_then(tables, sums, signs, then.at_ms), tables=tables,
        seq=None if then.of_lake else then.seq, sums=sums,
        brokers=sum(len(row.broker_addrs) for row in tables.brokers.values()),
        front_ends=len(signs.of) if signs.heard_ms is not None else None,
        per_minute=hour.per_minute, until_ms=then.at_ms, counted_ms=hour.since_ms, last=hour.last, then=then,
        at_ms=then.at_ms, **await console.slider(),
    )  # fmt: skip


class _Hour(NamedTuple):
    """The changes of the hour before an instant. since_ms: later ones are counted; None: all of the hour. last: the
    last one that may be seen.
    """

    per_minute: dict[int, int]
    since_ms: int | None
    last: Change | None


async def _hour_before(store: Store, at_ms: int, viewer: Viewer) -> _Hour:
    per_minute: dict[int, int] = {}
    last: Change | None = None
    newest = await last_entry_by(store, CHANGES, at_ms)
    if newest is None:
        return _Hour(per_minute, at_ms, None)
    oldest, scanned = None, 0
    async for parts in read_back(store, before=newest.behind):
        oldest = parts[0]
        if oldest.ms < at_ms - HOUR_MS:
            return _Hour(per_minute, None, last)
        minute = oldest.ms // 60_000
        per_minute[minute] = per_minute.get(minute, 0) + len(parts)
        if last is None and viewer.may_see(one := whole(parts)):
            last = one
        scanned += len(parts)
        if scanned >= _SCANNED:
            break
    return _Hour(per_minute, None if oldest is None or oldest.seq == 1 else oldest.ms, last)
