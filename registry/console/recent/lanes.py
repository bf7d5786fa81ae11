"""Keeps the last day of each broker process (its lane): when it was there, when and why it went, when it became master.

The stream of changes is read once, from a checkpoint on; then each change that the console sees is added. A page only
draws the lanes, and each drawing is cached for the time that one pixel shows.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Iterator
from gettext import NullTranslations
from typing import Final, NamedTuple

from markupsafe import Markup
from msgspec import UNSET

from ...errors import RegistryError
from ...events.by import By
from ...events.changes import BrokerChange, Change, WritePermSet
from ...follow.follow import Follow, StreamGap
from ...model import MASTER_ID
from ...operators.language import language, marked, say
from ...operators.time_zone import local_datetime, time_zone_name
from ...operators.words import counted
from ...store.snapshot import read_head
from ...tasks import cancelled, pause
from ..past import Past
from ..state import State

logger = logging.getLogger(__name__)

DAY_MS: Final = 86_400_000
SPANS: Final = {"hour": 3_600_000, "day": DAY_MS}
_WIDTH: Final = 240
_HEIGHT: Final = 12
_EVENTS: Final = 300
_RETRY_S: Final = 1.0
_AT_ONCE: Final = 25  # changes of 500 topics at most; pages are answered between two reads

CAME: Final = marked("registered")
MASTER: Final = marked("became master")
NO_MASTER: Final = marked("is no master any more")
# The other two marks in brokers.html. Each mark has its own shape, for people who do not see colours.
GONE: Final = marked("gone")
REPLACED: Final = marked("replaced")
_LEFT: Final = {
    "broker_unregistered": marked("broker unregistered"), "broker_closed": marked("broker closed"),
    "broker_expired": marked("broker expired"), "broker_reaped": marked("broker reaped"),
}  # fmt: skip
_MARKS: Final = {CAME: "came", MASTER: "master", NO_MASTER: "slave"}


class Moment(NamedTuple):
    """Something that happened to a process."""

    ms: int
    kind: str  # one of the words above, or the type of event that removed it
    broker_id: int = MASTER_ID  # the id that it had when it left
    by: By | None = None
    seq: int = 0  # the number of the change that removed it

    @property
    def gone(self) -> bool:
        """Whether the process left."""
        return self.kind not in (CAME, MASTER, NO_MASTER)


class Lane:
    """One process under one broker name. ``before``: whether it was there before its first kept moment."""

    def __init__(self, *, before: bool) -> None:
        self.before = before
        self.moments: deque[Moment] = deque()
        self._drawn: tuple[tuple[int, int, int, str, NullTranslations], Markup] | None = None

    def add(self, moment: Moment) -> None:
        """Add a moment; if there are too many, the oldest one is forgotten."""
        self.moments.append(moment)
        self._drawn = None
        while len(self.moments) > _EVENTS or self.moments[0].ms < moment.ms - DAY_MS:
            self.before = self._after(self.before, self.moments.popleft())

    @staticmethod
    def _after(there: bool, moment: Moment) -> bool:
        return not moment.gone and (moment.kind == CAME or there)

    @property
    def there(self) -> bool:
        """Whether the process is there now."""
        there = self.before
        for moment in self.moments:
            there = self._after(there, moment)
        return there

    def draw(self, since_ms: int, now_ms: int, span_ms: int) -> Markup:
        """The lane as SVG, which says the same in words. ``since_ms``: nothing is known before."""
        pixel_ms = span_ms // _WIDTH
        key = now_ms // pixel_ms, span_ms, since_ms, time_zone_name(), language()
        if self._drawn is None or self._drawn[0] != key:
            begin_ms = (now_ms // pixel_ms + 1) * pixel_ms - span_ms
            self._drawn = key, self._svg(max(begin_ms, since_ms), begin_ms, now_ms, pixel_ms)
        return self._drawn[1]

    def _svg(self, known_ms: int, begin_ms: int, now_ms: int, pixel_ms: int) -> Markup:
        def x(ms: int) -> float:
            return min(_WIDTH, max(0.0, (ms - begin_ms) / pixel_ms))

        there, since, shown = self.before, known_ms, list[Moment]()
        parts = [Markup('<rect class="rail" x="{:.1f}" y="4" width="{:.1f}" height="4"/>').format(
            x(known_ms), _WIDTH - x(known_ms))]  # fmt: skip

        def stretch(until: int) -> None:
            if there and until > since:
                bar = Markup('<rect class="fill" x="{:.1f}" y="3" width="{:.1f}" height="6"/>')
                parts.append(bar.format(x(since), max(0.5, x(until) - x(since))))

        for moment in self.moments:
            if moment.ms < known_ms:
                there = self._after(there, moment)
                continue
            shown.append(moment)
            after = self._after(there, moment)
            if after != there:
                stretch(moment.ms)
                there, since = after, moment.ms
        stretch(now_ms + pixel_ms)
        marks = [
            Markup('<use class="{0}" href="#mark-{0}" x="{1:.1f}%"/>').format(_MARKS.get(moment.kind, GONE), at)
            for moment, at in ((one, x(one.ms) * 100 / _WIDTH) for one in shown)
        ]  # fmt: skip
        words = _words(shown, there, known_ms, begin_ms)
        # The bars stretch to the width of the cell; the marks keep their shape.
        return Markup(
            '<svg class="lane" role="img" aria-label="{words}"><title>{words}</title>'
            '<svg viewBox="0 0 {w} {h}" preserveAspectRatio="none">{bars}</svg>{marks}</svg>'
        ).format(w=_WIDTH, h=_HEIGHT, words=words, bars=Markup("").join(parts), marks=Markup("").join(marks))


def _words(shown: list[Moment], there: bool, known_ms: int, begin_ms: int) -> str:
    texts = [f"{_clock(moment.ms)} {say(_LEFT.get(moment.kind, moment.kind))}" for moment in shown[-6:]]
    if len(shown) > len(texts):
        texts.insert(0, counted(len(shown) - len(texts), "earlier moment"))
    if not texts:
        texts = [say("there all the time") if there else say("not there")]
    if known_ms > begin_ms:
        texts.insert(0, say("known since {time}", time=_clock(known_ms)))
    return ", ".join(texts)


def _clock(ms: int) -> str:
    return local_datetime(ms).strftime("%H:%M:%S")


class Gone(NamedTuple):
    """A process that is not there any more."""

    broker_name: str
    addr: str
    moment: Moment


class Lanes:
    """The lanes of all processes of the namespace that a state follows."""

    def __init__(self, state: State, past: Past) -> None:
        self._state = state
        self._past = past
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._rows: dict[str, dict[int, str]] = {}
        self.perm_changes: dict[str, WritePermSet] = {}  # the last change of write permission of each brokerName
        self._seq = 0
        self._waiting: list[Change] | None = None
        self._due = asyncio.Event()
        self.since_ms: int | None = None  # since when the lanes are known; None: they are not read yet
        state.on_load.append(self._due.set)
        state.on_change.append(self._changed)

    async def keep(self) -> None:
        """Read the lanes each time that the tables were read. Runs until cancelled."""
        while not cancelled():
            await self._due.wait()
            self._due.clear()
            try:
                await self.read()
            except RegistryError as error:
                logger.info("the last day of the brokers is read again: %s", error)
                self._due.set()
                await pause(_RETRY_S)

    async def read(self) -> None:
        """Read the last day of all processes from the stream of changes."""
        self._waiting = []
        now_ms = (await read_head(self._state.store)).now_ms
        begin = await self._past.begin(now_ms - DAY_MS)
        self._lanes, self._rows, self.perm_changes, self.since_ms = {}, {}, {}, None
        rows, self._seq, since_ms, last_id = (
            (begin.tables.brokers, begin.place.seq, begin.since_ms, begin.place.last_id)
            if begin is not None
            else (self._state.tables.brokers, self._state.seq, now_ms, self._state.last_id)
        )
        for name, row in rows.items():
            self._rows[name] = dict(row.broker_addrs)
            for addr in row.broker_addrs.values():
                self._lanes[name, addr] = Lane(before=True)
        follow = Follow(self._state.tail_store, seq=self._seq if begin is not None else None, last_id=last_id)
        gap = False
        while True:
            try:
                changes = await follow.read(block_ms=0, count=_AT_ONCE)
            except StreamGap:  # the lanes are known from the change after the gap on
                gap = True
                continue
            if not changes:
                break
            since_ms, gap = changes[0].ms if gap else since_ms, False
            for change in changes:
                for part in follow.whole(change):
                    self._apply(part)
            await asyncio.sleep(0)
        waiting, self._waiting = self._waiting, None
        self.since_ms = since_ms
        for change in waiting:
            self._changed(change)

    def _changed(self, change: Change) -> None:
        if self._waiting is not None:
            self._waiting.append(change)
        elif change.seq > self._seq:
            self._apply(change)

    def _apply(self, change: Change) -> None:
        self._seq = change.seq
        if isinstance(change, WritePermSet):
            self.perm_changes[change.broker_name] = change
        row = getattr(change, "row", UNSET)
        if not isinstance(change, BrokerChange) or row is UNSET:
            return
        name, new = change.broker_name, {} if row is None else dict(row.addrs)
        before = {addr: broker_id for broker_id, addr in self._rows.pop(name, {}).items()}
        after = {addr: broker_id for broker_id, addr in new.items()}
        for addr, broker_id in before.items():
            if addr not in after:
                # a process with another address may have taken its place by registering
                kind = REPLACED if change.type == "broker_registered" else change.type
                self._lane(name, addr, there=True).add(Moment(change.ms, kind, broker_id, change.by, change.seq))
            elif (after[addr] == MASTER_ID) != (broker_id == MASTER_ID):
                kind = MASTER if after[addr] == MASTER_ID else NO_MASTER
                self._lane(name, addr, there=True).add(Moment(change.ms, kind))
        for addr in after:
            if addr not in before:
                self._lane(name, addr, there=False).add(Moment(change.ms, CAME))
        if new:
            self._rows[name] = new

    def _lane(self, name: str, addr: str, *, there: bool) -> Lane:
        lane = self._lanes.get((name, addr))
        if lane is None:
            lane = self._lanes[name, addr] = Lane(before=there)
        return lane

    def draw(self, name: str, addr: str, now_ms: int, span_ms: int) -> Markup:
        """The lane of one process; empty: it is not known."""
        lane = self._lanes.get((name, addr))
        return Markup("") if lane is None or self.since_ms is None else lane.draw(self.since_ms, now_ms, span_ms)

    def alive_by_minute(self, now_ms: int, minutes: int) -> dict[int, int]:
        """How many processes there were at the end of each of the last minutes, as far as it is known."""
        if self.since_ms is None:
            return {}
        last, changed = now_ms // 60_000, Counter[int]()
        for lane in self._lanes.values():
            for moment in reversed(lane.moments):
                if moment.ms // 60_000 <= last - minutes:
                    break
                if moment.gone or moment.kind == CAME:
                    changed[moment.ms // 60_000] += -1 if moment.gone else 1
        there, found = sum(map(len, self._rows.values())), dict[int, int]()
        for minute in range(last, max(last - minutes, self.since_ms // 60_000 - 1), -1):
            found[minute] = there
            there -= changed[minute]
        return found

    def gone(self, now_ms: int, span_ms: int) -> Iterator[Gone]:
        """The processes that left within this time and are not back. Forgets those that left before the last day."""
        for (name, addr), lane in list(self._lanes.items()):
            if addr in self._rows.get(name, {}).values():
                continue
            last = next((moment for moment in reversed(lane.moments) if moment.gone), None)
            if last is None or last.ms < now_ms - DAY_MS:
                del self._lanes[name, addr]
            elif last.ms >= now_ms - span_ms:
                yield Gone(name, addr, last)
