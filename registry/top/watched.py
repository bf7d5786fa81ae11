"""Reads the data of ``top`` from Redis: brokers, the last changes, and the rates of requests."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

import msgspec

from ..errors import NoNamespace, StoreError
from ..events.changes import Change
from ..events.journal import CHANGED, HEARTBEATS, LOOKUPS, SAME, decode_heartbeat
from ..follow.follow import Follow, StreamGap
from ..operators.history import whole
from ..store.change_reader import read_back
from ..store.operator_reads import BrokerInfo, read_brokers
from ..store.processes import Fleet, read_fleet
from ..store.snapshot import NamespaceHead, read_head
from ..store.store import Store
from ..store.streams import EntryReader

WINDOW_MS: Final = 60_000
_FIRST: Final = 50
_PAGE: Final = 1000
# The most pages that one look reads; the next looks read the rest.
_PAGES: Final = 20


class ShownRates(NamedTuple):
    """Rates a second over the last minute. ``missing``: lookups of unknown topics, which ``lookups`` includes."""

    lookups: float
    missing: float
    registrations: float
    heartbeats: float
    changes: float


class Look(NamedTuple):
    """One look at the registry."""

    now_ms: int
    brokers: list[BrokerInfo]
    fleet: Fleet
    rates: ShownRates
    changes: list[Change]  # since the last look, the oldest first
    anew: bool  # the changes do not follow those of the last look: the namespace is new, or some are missing


class _Lookups(msgspec.Struct):
    ms: int
    found: dict[str, int] = {}
    missing: dict[str, int] = {}


_lookups = msgspec.json.Decoder(_Lookups)


class _Window:
    """Several counts, summed over the last minute."""

    def __init__(self, numbers: int) -> None:
        self._entries: deque[tuple[int, tuple[int, ...]]] = deque()
        self._numbers = numbers

    def add(self, ms: int, *counts: int) -> None:
        self._entries.append((ms, counts))

    def per_second(self, now_ms: int) -> list[float]:
        while self._entries and self._entries[0][0] <= now_ms - WINDOW_MS:
            self._entries.popleft()
        sums = [0] * self._numbers
        for _, counts in self._entries:
            for place, count in enumerate(counts):
                sums[place] += count
        return [total * 1000 / WINDOW_MS for total in sums]


class Watched:
    """An existing namespace that is read again and again."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._follow: Follow | None = None  # None: the next look begins anew
        self._before: list[Change] = []

    async def look(self) -> Look:
        """Look once.

        Raises:
            StoreUnavailable: Redis does not answer. NoNamespace: Redis was emptied. StoreError: this release does not
                understand the data, or its login may not read some of them.
        """
        store = self._store
        if not await store.exists():  # the scripts below would create the namespace
            raise NoNamespace(
                f"no namespace {store.namespace!r} in this Redis: Redis was emptied, and no front end serves it yet"
            )
        head = await read_head(store)
        anew = self._follow is None
        try:
            changes = await self._new_changes(self._follow or await self._begin(head))
        except StreamGap:
            head = await read_head(store)
            anew, changes = True, await self._new_changes(await self._begin(head))
        except StoreError:
            self._follow = None
            raise
        await self._count()
        lookups, missing = self._lookups_seen.per_second(head.now_ms)
        registrations, beats = self._beats_seen.per_second(head.now_ms)
        (changes_rate,) = self._changes_seen.per_second(head.now_ms)
        rates = ShownRates(lookups, missing, registrations, beats, changes_rate)
        fleet = await read_fleet(store)
        brokers = sorted(await read_brokers(store), key=lambda one: one.expires_in_ms)
        return Look(head.now_ms, brokers, fleet, rates, changes, anew)

    async def _begin(self, head: NamespaceHead) -> Follow:
        """Follow the changes from now on; the next look also gets the last 50 changes before now."""
        store, now_ms = self._store, head.now_ms
        self._lookups_seen, self._beats_seen, self._changes_seen = _Window(2), _Window(2), _Window(1)
        self._lookups = EntryReader(store, LOOKUPS, now_ms - WINDOW_MS)
        self._beats = EntryReader(store, HEARTBEATS, now_ms - WINDOW_MS)
        ms, _, number = head.last_id.partition("-")
        found: list[list[Change]] = []
        async for parts in read_back(store, before=f"{ms}-{int(number) + 1}"):
            if len(found) >= _FIRST and parts[0].ms <= now_ms - WINDOW_MS:
                break
            found.append(parts)
        for parts in reversed(found):
            self._changes_seen.add(parts[0].ms, 1)
        self._before = [whole(parts) for parts in found[_FIRST - 1 :: -1]]
        self._follow = Follow.behind(store, head)
        return self._follow

    async def _new_changes(self, follow: Follow) -> list[Change]:
        found = [*self._before]
        for _ in range(_PAGES):
            changes = await follow.read_or_check(block_ms=0, count=_PAGE)
            for change in changes:
                if parts := list(follow.whole(change)):
                    found.append(whole(parts))
                    self._changes_seen.add(change.ms, 1)
            if len(changes) < _PAGE:
                break
        self._before = []
        return found

    async def _count(self) -> None:
        """Count the requests of brokers and clients since the last look."""
        async for entry in _new_entries(self._beats):
            beat = decode_heartbeat(entry)
            self._beats_seen.add(beat.ms, beat.kind in (SAME, CHANGED), 1)
        async for entry in _new_entries(self._lookups):
            report = _lookups.decode(entry)
            missing = sum(report.missing.values())
            self._lookups_seen.add(report.ms, sum(report.found.values()) + missing, missing)


async def _new_entries(reader: EntryReader) -> AsyncIterator[bytes]:
    for _ in range(_PAGES):
        entries = await reader.read(_PAGE)
        for entry in entries:
            yield entry
        if len(entries) < _PAGE:
            break
