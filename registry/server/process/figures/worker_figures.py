"""Figures for a worker's status that are no counters: of its process, its event loop and the route tables."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from .... import __version__
from ....events.changes import TYPES
from ....histograms import DurationHistogram
from ....model import MASTER_ID, BrokerRow
from ....queued_output import dropped_lines
from ....tables.tables import Tables
from ....tables.writable import is_unwritable
from ...view.view import Applied
from .metrics_table import Series

_CLUSTERS_MOST: Final = 100
_COUNT_EVERY_S: Final = 30.0
_PAUSE_S: Final = 0.05
# Counting this many topics delays lookups by a fraction of a millisecond.
_TOPICS_AT_ONCE: Final = 500
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def roles(brokers: Mapping[str, BrokerRow]) -> tuple[list[tuple[str, str, int]], int]:
    """The number of broker processes by cluster and role, and how many brokerNames have no master."""
    counted: Counter[tuple[str, str]] = Counter()
    clusters: set[str] = set()
    without_master = 0
    for row in brokers.values():
        cluster = row.cluster if row.cluster in clusters or len(clusters) < _CLUSTERS_MOST else "other"
        clusters.add(cluster)
        masters = int(MASTER_ID in row.broker_addrs)
        without_master += not masters
        counted[cluster, "master"] += masters
        counted[cluster, "slave"] += len(row.broker_addrs) - masters
    return [(cluster, role, number) for (cluster, role), number in sorted(counted.items())], without_master


def process_figures() -> dict[str, Any]:
    """Processor time and memory of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    try:
        with open("/proc/self/statm", "rb") as statm:
            memory_bytes = int(statm.read().split()[1]) * _PAGE_BYTES
    except OSError:  # no Linux: the peak value
        memory_bytes = used.ru_maxrss * 1024
    return {"cpu_s": used.ru_utime + used.ru_stime, "memory_bytes": memory_bytes}


def series_of_process(worker: str, *, ready: bool, started_s: float) -> Iterator[Series]:
    """What /metrics shows of a process that is only a sweeper or a pipeline; worker: the value of the label worker."""
    used = process_figures()
    yield Series("process_cpu_seconds", worker, used["cpu_s"])
    yield Series("process_resident_memory_bytes", worker, used["memory_bytes"])
    yield Series("log_lines_dropped_total", "", dropped_lines())
    yield Series("build_info", __version__, 1)
    yield Series("ready", "", ready)
    yield Series("start_time_seconds", "", started_s)


class LoopDelays:
    """How late the event loop resumes after short pauses: a request that comes meanwhile waits as long."""

    def __init__(self) -> None:
        self.durations = DurationHistogram()
        self._most_s = 0.0

    async def run(self) -> None:
        """Measure twenty times a second. Runs until cancelled."""
        while True:
            asleep_s = time.monotonic()
            await asyncio.sleep(_PAUSE_S)
            delay_s = max(0.0, time.monotonic() - asleep_s - _PAUSE_S)
            self.durations.add(delay_s)
            self._most_s = max(self._most_s, delay_s)

    def take_most_s(self) -> float:
        """The longest delay since the last call."""
        most_s, self._most_s = self._most_s, 0.0
        return most_s


class ChangeCounts:
    """How many changes of the tables came, by type."""

    def __init__(self) -> None:
        # types without a change are shown as 0: then Prometheus sees the first change as an increase
        self._counted: Counter[str] = Counter(dict.fromkeys(TYPES, 0))

    def applied(self, applied: Applied) -> None:
        """Count this event; of a change in several parts, only the first part."""
        if applied.change.part == 1:
            kind = applied.change.type
            self._counted[kind if kind in TYPES else "later"] += 1

    def report(self) -> dict[str, int]:
        """The counters, by metric with its label."""
        return {f'changes_total{{type="{kind}"}}': number for kind, number in self._counted.items()}


class UnwritableTopics:
    """Counts the topics, other than RocketMQ's own, for which a producer finds no queue."""

    def __init__(self, tables: Callable[[], Tables]) -> None:
        self._tables = tables
        self.number = 0

    async def run(self) -> None:
        """Count twice a minute, some topics at a time. Runs until cancelled."""
        while True:
            await self.count()
            await asyncio.sleep(_COUNT_EVERY_S)

    async def count(self) -> None:
        """Count once; topics that come and go meanwhile may be missed."""
        found, topics = 0, list(self._tables().topics)
        for first in range(0, len(topics), _TOPICS_AT_ONCE):
            tables = self._tables()
            for topic in topics[first : first + _TOPICS_AT_ONCE]:
                found += topic in tables.topics and is_unwritable(tables, topic)
            await asyncio.sleep(0)
        self.number = found
