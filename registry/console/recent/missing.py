"""Counts the names that clients asked for in vain within the last day, from the stream ``lookups``.

Front ends write into the stream; it holds at most a day and 32 MiB. It is read once, and then only its new entries.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from ...events.journal import LOOKUPS
from ...store.snapshot import read_head
from ...store.streams import EntryReader
from ..state import MINUTE_MS, State
from .rereading import Rereading

HOUR_MS: Final = 3_600_000
HOURS: Final = 24
OTHERS: Final = "(others)"
_EVERY_S: Final = 5.0
_PAGE: Final = 25  # entries of 32 KiB at most; pages are answered between two reads
_NAMES: Final = 20_000  # counted one by one in an hour; each worker reports 10,000 at most
_FRONT_ENDS: Final = 20
_CLIENTS: Final = 10


class _MissingReport(msgspec.Struct):
    """The members of an entry that are always decoded; the found names, most of the entry, are skipped."""

    ms: int
    front_end: str
    missing: dict[str, int] = {}
    clients: dict[str, list[str]] = {}


class _Found(msgspec.Struct):
    """The found names of an entry, which are decoded only for the last hour."""

    found: dict[str, int] = {}


_report: Final = msgspec.json.Decoder(_MissingReport)
_found: Final = msgspec.json.Decoder(_Found)


class AskedName(NamedTuple):
    """A name that clients asked for."""

    name: str  # OTHERS: all names beyond those that are counted one by one
    times: int  # how often within the last day
    first_ms: int  # when its first count was written
    last_ms: int  # when its last count was written
    front_ends: tuple[str, ...]  # the ids of the front ends that were asked
    clients: tuple[str, ...] = ()  # the addresses of some clients that asked

    def and_also(self, other: AskedName) -> AskedName:
        """Add two counts of one name."""
        front_ends = self.front_ends
        if any(one not in front_ends for one in other.front_ends):
            front_ends = tuple(sorted({*front_ends, *other.front_ends}))[:_FRONT_ENDS]
        clients = self.clients
        if any(one not in clients for one in other.clients):
            clients = tuple(dict.fromkeys((*other.clients, *clients)))[:_CLIENTS]
        return AskedName(
            self.name, self.times + other.times, min(self.first_ms, other.first_ms), max(self.last_ms, other.last_ms),
            front_ends, clients,
        )  # fmt: skip


class MissingNames(Rereading):
    """The names that clients of a namespace asked for in vain."""

    def __init__(self, state: State) -> None:
        super().__init__(state, LOOKUPS, _EVERY_S)
        self._reader: EntryReader | None = None
        self._busy = asyncio.Lock()
        self._hours: dict[int, dict[str, AskedName]] = {}
        self._begins: dict[int, str] = {}  # hour -> the stream position before its first entry
        self._sorted: list[AskedName] | None = None
        self.since_ms: int | None = None  # since when the names are known; None: nothing was read yet
        # counts by minute of the last hour: all lookups; lookups in vain; by cluster, lookups that found a topic of it
        self.lookups, self.in_vain = Counter[int](), Counter[int]()
        self.of_cluster: defaultdict[str, Counter[int]] = defaultdict(Counter)

    async def read(self) -> None:
        """Count the lookups that are new."""
        async with self._busy:
            await self._read()

    async def _read(self) -> None:
        store = self._state.store
        if not await store.exists():  # else the script of read_head would make the namespace
            return
        now_ms = (await read_head(store)).now_ms
        begin_ms = now_ms - HOURS * HOUR_MS
        reader = self._reader
        if reader is None or self._due.is_set():
            self._due.clear()
            self._hours, self._begins, self._sorted, self.since_ms = {}, {}, None, None
            self.lookups, self.in_vain, self.of_cluster = Counter(), Counter(), defaultdict(Counter)
            reader = EntryReader(store, LOOKUPS, begin_ms)
        since_ms = now_ms if self.since_ms is None else self.since_ms
        begin, clusters = reader.position, dict[str, tuple[str, ...]]()
        while entries := await reader.read(_PAGE):
            for entry in entries:
                report = _report.decode(entry)
                since_ms = min(since_ms, report.ms)
                if report.ms > now_ms - HOUR_MS:
                    minute, in_vain = report.ms // MINUTE_MS, sum(report.missing.values())
                    self.in_vain[minute] += in_vain
                    found = _found.decode(entry).found
                    self.lookups[minute] += in_vain + sum(found.values())
                    for topic, times in found.items():
                        if topic not in clusters:
                            clusters[topic] = self._clusters_of(topic)
                        for cluster in clusters[topic]:
                            self.of_cluster[cluster][minute] += times
                if report.missing or report.clients:
                    self._sorted = None
                    hour = report.ms // HOUR_MS
                    self._begins.setdefault(hour, begin)
                    _add(self._hours.setdefault(hour, {}), report)
            begin = reader.position
            await asyncio.sleep(0)
        for hour in [hour for hour in self._hours if hour < begin_ms // HOUR_MS]:
            del self._hours[hour], self._begins[hour]
            self._sorted = None
        for counts in (self.lookups, self.in_vain, *self.of_cluster.values()):
            for minute in [minute for minute in counts if minute <= (now_ms - HOUR_MS) // MINUTE_MS]:
                del counts[minute]
        self.since_ms, self._reader = max(since_ms, begin_ms), reader

    def _clusters_of(self, topic: str) -> tuple[str, ...]:
        """The clusters of the broker names that a topic is at."""
        tables = self._state.tables
        rows = (tables.brokers.get(name) for name in tables.topics.get(topic, ()))
        return tuple({row.cluster for row in rows if row is not None})

    def names(self) -> list[AskedName]:
        """All missing names, the most wanted first; sorted once for each state of the stream."""
        if self._sorted is None:
            self._sorted = _sort(self._hours.values())
        return self._sorted

    async def names_by(self, at_ms: int) -> list[AskedName]:
        """The missing names from ``since_ms`` to an instant; reads the hour of the instant again, up to the instant."""
        own, last = at_ms // HOUR_MS, dict[str, AskedName]()
        hours = [names for hour, names in self._hours.items() if hour < own]
        if own in self._begins:
            reader = EntryReader(self._state.store, LOOKUPS, self._begins[own])
            while entries := await reader.read(_PAGE):
                reports = [_report.decode(entry) for entry in entries]
                for report in reports:
                    if report.ms // HOUR_MS == own and report.ms <= at_ms:
                        _add(last, report)
                if reports[-1].ms > at_ms:
                    break
                await asyncio.sleep(0)
        return _sort([*hours, last])


def _add(names: dict[str, AskedName], report: _MissingReport) -> None:
    for name, times in report.missing.items():
        if name not in names and len(names) >= _NAMES:
            name = OTHERS
        one = AskedName(name, times, report.ms, report.ms, (report.front_end,))
        names[name] = names[name].and_also(one) if name in names else one
    for name, clients in report.clients.items():  # in the same entry as the counts, or in a later one
        if name in names:
            names[name] = names[name].and_also(names[name]._replace(times=0, clients=tuple(clients)))


def _sort(hours: Iterable[Mapping[str, AskedName]]) -> list[AskedName]:
    """The missing names of several hours together, the most wanted first."""
    found: dict[str, AskedName] = {}
    for names in hours:
        for name, one in names.items():
            found[name] = found[name].and_also(one) if name in found else one
    return sorted(found.values(), key=lambda one: (-one.times, one.name))
