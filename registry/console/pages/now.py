"""The page Now: what is wrong now, or was wrong at an instant."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ...errors import StoreUnavailable
from ...events.changes import Change
from ...events.journal import CHANGES
from ...operators.history import whole
from ...operators.language import say
from ...store.change_reader import count_by_minute, read_back
from ...store.store import Store
from ...store.streams import last_entry_by
from ..context import BadRequest, Console, NotThere, PageNotAllowed
from ..facts import Facts
from ..findings import LEVEL_NAMES, ConsoleFinding, TopicSums, find, find_then, sum_topics
from ..forms import read_checked_form
from ..login.viewer import Viewer, viewer_of
from ..past import Then
from ..recent.departures import depart
from ..recent.dismissed import Dismissed, dismiss, read_dismissed
from ..recent.incidents import incidents, left
from ..recent.lanes import DAY_MS, Gone
from ..recent.missing import HOUR_MS
from ..recent.signs import signs_by
from ..state import MINUTES
from ..twins import Twin

_SCANNED: Final = 2000
_KEY: Final = re.compile(r"([a-z_]{1,40}):(\d{1,15}):(\d{1,15})")

TWIN: Final = Twin(
    "What is wrong, in words, the worst first; and the sizes.",
    {"findings": list[ConsoleFinding], "dismissed": list[tuple[ConsoleFinding, Dismissed]], "seq": int | None,
     "sums": TopicSums,
     "brokers": int, "front_ends": int | None, "per_minute": dict[int, int],
     "alive": dict[int, int] | None, "lookups": dict[int, int] | None, "in_vain": dict[int, int] | None,
     "beats": dict[int, int] | None, "beats_s": float | None,
     "last": Change | None},
)  # fmt: skip


async def now(console: Console, request: Request) -> Response:
    """The findings for an operator, in words, and the sizes of everything."""
    then = await console.then(request)
    if then is not None:
        return await _then(console, request, then)
    facts = await console.facts.now()
    state, sums = console.state, console.sums()
    findings, dismissed = await wrong_now(console, facts)
    now_ms, viewer = round(time.time() * 1000), viewer_of(request)
    last = next(filter(viewer.may_see, reversed(state.recent)), None)
    if last is None and state.stale_since_ms is None:
        with contextlib.suppress(StoreUnavailable):  # Redis has just gone: the page says so
            last = await _last_before(state.store, viewer)
    counted_ms = state.counted_ms if (state.counted_ms or 0) > now_ms - HOUR_MS else None
    return await console.page_of(
        request, "now.html", None, findings=findings, tables=state.tables, seq=state.seq, sums=sums,
        brokers=len(facts.brokers) if facts else 0,
        front_ends=sum(one.state != "gone" for one in facts.fleet.front_ends) if facts else 0,
        per_minute=state.per_minute, until_ms=now_ms, counted_ms=counted_ms,
        alive=console.lanes.alive_by_minute(now_ms, MINUTES), lookups=_of_hour(console.missing.lookups, now_ms),
        in_vain=_of_hour(console.missing.in_vain, now_ms),
        beats=dict(console.beats.per_minute), beats_s=console.beats.per_second(), last=last,
        dismissed=dismissed,
    )  # fmt: skip


def _of_hour(counts: Mapping[int, int], now_ms: int) -> dict[int, int]:
    """The counts of the minutes that the charts show."""
    return {minute: count for minute, count in counts.items() if minute > now_ms // 60_000 - MINUTES}


async def wrong_now(
    console: Console, facts: Facts | None
) -> tuple[list[ConsoleFinding], list[tuple[ConsoleFinding, Dismissed]]]:
    """The findings, the worst first; and the dismissed ones, with the operators' names."""
    state = console.state
    happened, dismissed = await _incidents(console, facts)
    found = find(
        facts, state.tables, console.sums(), stale_since_ms=state.stale_since_ms, reason=state.reason, away=state.away,
        recent=tuple(state.recent),
    )  # fmt: skip
    return sorted([*happened, *found], key=lambda one: list(LEVEL_NAMES).index(one.level)), dismissed


async def _incidents(
    console: Console, facts: Facts | None
) -> tuple[list[ConsoleFinding], list[tuple[ConsoleFinding, Dismissed]]]:
    """The incidents of brokers; and the dismissed ones, with the operators' names."""
    tables, lanes = console.state.tables, console.lanes
    if facts is None or lanes.since_ms is None:
        return [], []
    now_ms = facts.head.now_ms
    known = await asyncio.to_thread(read_dismissed, console.past.folder)
    gone: dict[Dismissed | None, list[Gone]] = {}
    for one in lanes.gone(now_ms, DAY_MS):
        gone.setdefault(next((each for each in known if each.covers(one.moment)), None), []).append(one)
    shown = incidents(tables, depart(gone.pop(None, ()), tables.brokers), lanes.perm_changes, now_ms)
    hidden = [(one, by) for by, some in gone.items() if by for one in left(depart(some, tables.brokers), now_ms)]
    return shown, hidden


async def ask_dismiss(console: Console, request: Request) -> Response:
    """The form that takes a departure off the page."""
    key = request.query_params.get("key", "")
    happened, _ = await _incidents(console, await console.facts.now())
    finding = next((one for one in happened if one.dismiss and one.dismiss == key), None)
    if finding is None:
        raise NotThere(say("These brokers are back, or somebody has dismissed this already."))
    return await console.page(request, "dismiss.html", finding=finding, live=False)


async def do_dismiss(console: Console, request: Request) -> RedirectResponse:
    """Take the departure off the page, and go back to the page."""
    form = await read_checked_form(request)
    name, key = viewer_of(request).name or form.get("name", "").strip(), form.get("key", "")
    match = _KEY.fullmatch(key)
    if not 0 < len(name) <= 64 or match is None:
        raise BadRequest(say("a name of 1 to 64 characters is needed: the page says who dismissed it"))
    one = Dismissed(match[1], int(match[2]), int(match[3]), name, round(time.time() * 1000))
    try:
        await asyncio.to_thread(dismiss, console.past.folder, one)
    except OSError as error:
        raise PageNotAllowed(say(
            "this cannot be kept: {error}; give a folder that can be written to as --checkpoints", error=error
        )) from None  # fmt: skip
    return RedirectResponse(console.url("/"), 303)


async def _then(console: Console, request: Request, then: Then) -> Response:
    """The findings of a past instant, as far as it is known."""
    store, tables, sums = console.state.store, then.tables, sum_topics(then.tables)
    signs = await signs_by(store, then.at_ms)
    newest = await last_entry_by(store, CHANGES, then.at_ms)
    last = None if newest is None else await _last_before(store, viewer_of(request), newest.behind)
    hour = await count_by_minute(store, then.at_ms, MINUTES)
    return await console.page_of(
        request, "now.html", then, findings=find_then(tables, sums, signs, then.at_ms), tables=tables,
        seq=None if then.of_lake else then.seq, sums=sums,
        brokers=sum(len(row.broker_addrs) for row in tables.brokers.values()),
        front_ends=len(signs.of) if signs.heard_ms is not None else None,
        alive=None, lookups=None, in_vain=None, beats=None, beats_s=None,
        per_minute=hour.per_minute, until_ms=then.at_ms, counted_ms=hour.since_ms, last=last,
        dismissed=[],
    )  # fmt: skip


async def _last_before(store: Store, viewer: Viewer, before: str = "") -> Change | None:
    """The last change that the viewer may see, among the last changes before an entry of the stream."""
    scanned = 0
    async for parts in read_back(store, before=before):
        if viewer.may_see(one := whole(parts)):
            return one
        scanned += len(parts)
        if scanned >= _SCANNED:
            break
    return None
