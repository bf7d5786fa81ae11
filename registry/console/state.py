"""Holds the tables now: one copy for all pages, kept up to date from the stream of changes.

The console reads and follows the tables as a front end does (:mod:`mqregistry.follow`). Unlike a front end it holds no
lease, writes nothing, and restores nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from ..errors import NoNamespace, RegistryError, StoreUnavailable
from ..events.changes import Change, UnknownChange
from ..follow.follow import Follow, Loaded, StreamGap
from ..names import printable
from ..operators.language import marked, say
from ..store.change_reader import count_by_minute
from ..store.store import Store
from ..tables.tables import Tables
from ..tasks import cancelled, pause

logger = logging.getLogger(__name__)

BLOCK_MS: Final = 1000
_RETRY_S: Final = 0.25
_ANSWER_S: Final = 0.5
_CHANGES_PER_READ: Final = 100
_NONE: Final = marked("no namespace {name} in this Redis: it was emptied, or no front end served it yet")
_RECENT: Final = 500
# The first change after a quiet time is read at once. The next changes are read together: to read them one by one would
# cost twice as much, just when front ends on the same core apply them.
_GATHERED_S: Final = 0.15
# 50 pages are woken within 30 ms. To wake them one at a time costs a third more: a wake costs as much as a page.
_PAGES_AT_ONCE: Final = 2
MOMENT_S: Final = 0.001
MINUTE_MS: Final = 60_000
MINUTES: Final = 60  # changes are counted for the last hour


class WakingPace:
    """Wakes open pages that have something new, two at a time, with a pause of 1 ms in between.

    A console may share a core with a front end, which then answers lookups in these pauses.
    """

    def __init__(self) -> None:
        self._due: dict[OpenPage, None] = {}  # the page that has waited longest comes first

    def add(self, listener: OpenPage) -> None:
        """Something is new for this page."""
        if not self._due:
            asyncio.get_running_loop().call_later(MOMENT_S, self._next)
        self._due[listener] = None

    def _next(self) -> None:
        for listener in list(islice(self._due, _PAGES_AT_ONCE)):
            del self._due[listener]
            listener.wake()
        if self._due:
            asyncio.get_running_loop().call_later(MOMENT_S, self._next)


class OpenPage:
    """The stream of events of one browser, for one namespace or several; it is woken when something is new."""

    def __init__(self, *states: State) -> None:
        self._states = states
        self._new = asyncio.Event()

    def note(self) -> None:
        """Note that something is new for this page."""
        self._states[0].pace.add(self)

    def wake(self) -> None:
        """Make :meth:`wait` return at once."""
        self._new.set()

    async def wait(self, most_s: float) -> None:
        """Wait until something is new, or for this long."""
        end = asyncio.get_running_loop().call_later(most_s, self._new.set)
        try:
            await self._new.wait()
        finally:
            end.cancel()
        self._new.clear()

    def __enter__(self) -> OpenPage:
        for state in self._states:
            state.listeners.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        for state in self._states:
            state.listeners.discard(self)


class State:
    """The tables now, and since when they may be out of date."""

    def __init__(self, store: Store, tail_store: Store) -> None:
        self.store = store  # for scripts
        self.tail_store = tail_store  # the same namespace with a timeout above BLOCK_MS
        self.tables = Tables()
        self.epoch, self.seq, self.last_id = "", 0, "0-0"
        self.generation = 0  # changes whenever any of the data changes
        self.loaded = False
        # when Redis last answered (time of this machine), None while it does
        self.stale_since_ms: int | None = round(time.time() * 1000)
        self._why: tuple[str, dict[str, Any]] = marked("the tables are being read"), {}
        self.away: tuple[int, int] | None = None  # the last time that Redis was away: begin and end
        # the entries of the stream of changes in the last hour, by minute since 1970
        self.per_minute: dict[int, int] = {}
        self.counted_ms: int | None = None  # since when they are counted; None: the whole hour
        self.latest_ms = 0  # the latest time of a change that was applied
        self.recent: deque[Change] = deque(maxlen=_RECENT)
        self.listeners: set[OpenPage] = set()
        self.pace = WakingPace()
        self.stopping = False
        # on_load, on_change: called when the tables were read, and with each change that is applied to them afterwards
        self.on_load: list[Callable[[], None]] = []
        self.on_change: list[Callable[[Change], None]] = []
        self._follow: Follow | None = None  # None: the tables must be read, for the first time or again
        self._gathers = False  # whether the next changes are read together
        self._last_seq = -1  # of the last event that was read; the tables may lack parts of its change
        self._asked = False  # whether a read failed, and Redis was then asked once more
        self._heard_ms = round(time.time() * 1000)

    @property
    def reason(self) -> str:
        """Why the page may be out of date, in the language of the page; empty while Redis answers."""
        message, values = self._why
        return say(message, **values) if message else ""

    @property
    def position(self) -> str:
        """The last change that the tables have; it differs whenever a page would show something else."""
        return f"{self.epoch}:{self.seq}"

    @property
    def is_whole(self) -> bool:
        """Whether the tables have only whole changes: no part of a change waits for the other parts."""
        return self.loaded and self._last_seq == self.seq

    def stop(self) -> None:
        """End the streams of open pages."""
        self.stopping = True
        self._tell()

    async def follow(self) -> None:
        """Read the tables, then apply what changes. Runs until cancelled."""
        while not cancelled():
            try:
                if self._follow is None:
                    await self._load()
                else:
                    await self._read(self._follow)
                self._heard()
            except (StreamGap, UnknownChange) as error:
                logger.info("the tables are read again: %s", error)
                self._follow = None
                await pause(_RETRY_S)
            except StoreUnavailable as error:
                if not await self._answers():
                    self._unheard(marked("Redis does not answer: {error}"), error=error)
                await pause(_RETRY_S)
            except NoNamespace:
                self._follow = None
                self._unheard(_NONE, name=repr(self.store.namespace))
                await pause(_RETRY_S)
            except RegistryError as error:
                self._follow = None
                self._unheard(str(error))
                await pause(_RETRY_S)

    async def _answers(self) -> bool:
        """Whether Redis answers after all: a read also fails if this process was suspended, or if one connection broke.

        Redis is asked once, and again only after a read succeeded.
        """
        if self._asked:
            return False
        self._asked = True
        try:
            async with asyncio.timeout(_ANSWER_S):
                await self.store.exists()
        except (TimeoutError, RegistryError):
            return False
        return True

    async def _load(self) -> None:
        if not await self.store.exists():  # else the scripts below would make the namespace
            raise NoNamespace(self.store.namespace)
        loaded = await Loaded.read(self.store, self.tail_store)
        this_minute_ms = (round(time.time() * 1000) // MINUTE_MS + 1) * MINUTE_MS - 1
        counted = await count_by_minute(self.store, this_minute_ms, MINUTES, last_seq=loaded.seq)
        self.per_minute, self.counted_ms = counted
        self.tables, self.epoch, self.seq = loaded.tables, loaded.epoch, loaded.seq
        self._follow, self._last_seq = loaded.follow, loaded.seq
        self.last_id, self.latest_ms = loaded.follow.last_id, 0
        self.loaded = True
        self.recent.clear()
        self.generation += 1
        for tell in self.on_load:
            tell()
        self.wake_listeners()

    async def _read(self, follow: Follow) -> None:
        if self._gathers:
            await pause(_GATHERED_S)
        changes = await follow.read_or_check(block_ms=BLOCK_MS, count=_CHANGES_PER_READ)
        self._gathers = 0 < len(changes) < _CHANGES_PER_READ
        if self._gathers:
            await asyncio.sleep(MOMENT_S)
        for change in changes:
            self._last_seq = change.seq
            for whole in follow.whole(change):
                self._apply(whole)
        self.last_id = follow.last_id

    def _apply(self, change: Change) -> None:
        self.tables.apply(change)
        minute = change.ms // MINUTE_MS
        self.per_minute[minute] = self.per_minute.get(minute, 0) + change.seq - self.seq
        while len(self.per_minute) > MINUTES:
            del self.per_minute[min(self.per_minute)]
        self.seq = change.seq
        self.recent.append(change)
        self.latest_ms = max(self.latest_ms, change.ms)
        self.generation += 1
        for tell in self.on_change:
            tell(change)
        self.wake_listeners()

    def _heard(self) -> None:
        now_ms = round(time.time() * 1000)
        self._heard_ms, self._asked = now_ms, False
        if self.stale_since_ms is None or self._follow is None:
            return
        if self.generation > 1:  # not the start
            self.away = self.stale_since_ms, now_ms
        self.stale_since_ms, self._why = None, ("", {})
        self._tell()

    def _unheard(self, reason: str, **values: Any) -> None:
        why = reason, {name: str(value) for name, value in values.items()}
        is_new, is_other = self.stale_since_ms is None, why != self._why
        self._why = why
        if is_new:
            self.stale_since_ms = self._heard_ms
            logger.warning("%s; pages show what was known", printable(self.reason))
        elif not is_other:
            return
        self._tell()

    def _tell(self) -> None:
        self.generation += 1
        self.wake_listeners()

    def wake_listeners(self) -> None:
        """Wake the open pages: the tables or the rules have changed."""
        for listener in self.listeners:
            listener.note()
