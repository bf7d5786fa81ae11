"""Sums the status of a front end's workers for ``/metrics`` and ``/readyz``.

Counters continue when a worker restarts: the counts of workers that have ended are kept.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from ... import __version__
from ...histograms import Told, add_up, buckets
from ...queued_output import dropped_lines
from ...store.store import CallTimes
from .figures.metrics_table import METRICS, OF_PIPELINE, OF_WORKERS, PREFIX, Series, of_counters, of_durations
from .figures.pipeline_status import PipelineStatus
from .figures.sweeper_status import SweeperStatus, Sweeps

# A worker that sends no status for this time may be paused or hang; workers send one every second.
SILENT_S: Final = 5.0
# A sweeper removes a broker within milliseconds of its deadline: if a broker is overdue for this time, no sweeper runs.
UNSWEPT_S: Final = 30.0


class Status(msgspec.Struct, kw_only=True, frozen=True):
    """The members of a worker's status line that /metrics and /readyz use. ``gauges``: those of ``OF_WORKERS``."""

    ready: bool = False
    draining: bool = False
    redis_away: bool = False
    gauges: dict[str, float] = {}
    roles: list[tuple[str, str, int]] = []
    cpu_s: float = 0.0
    memory_bytes: int = 0
    counters: dict[str, float] = {}
    durations: dict[str, Told] = {}
    certificates_end_s: dict[str, float] = {}


class _LastStatus(NamedTuple):
    status: Status
    at: float


class _Totals:
    """Counters, summed over workers."""

    def __init__(self) -> None:
        self.counted: dict[str, float] = {}
        self.durations: dict[str, Told] = {}

    def add(self, counted: Mapping[str, float], durations: Mapping[str, Told]) -> None:
        for name, value in counted.items():
            self.counted[name] = self.counted.get(name, 0) + value
        self.durations = add_up((self.durations, durations))


class FrontEndWorkers:
    """The workers of one front end, by their last status. Written by the event loop, read by HTTP threads."""

    def __init__(self, workers: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._expected = workers
        self._clock = clock
        self._lock = threading.Lock()
        self._told: dict[int, _LastStatus] = {}
        self._ended = _Totals()
        self.draining = False
        self.restarts = 0
        self._shown: dict[str, list[Series]] = {}
        self._started_s = time.time()
        self.sweeps = Sweeps()
        """What the sweeper of this process did."""
        self.times: CallTimes | None = None
        """Times of the Redis calls of this process, for example of its sweeper."""

    def told(self, index: int, status: Status) -> None:
        """Note the status that worker ``index`` has sent."""
        with self._lock:
            self._told[index] = _LastStatus(status, self._clock())

    def gone(self, index: int) -> None:
        """Forget worker ``index``, which has ended, but keep its counts."""
        with self._lock:
            told = self._told.pop(index, None)
            if told is not None:
                self._ended.add(told.status.counters, told.status.durations)

    def show(self, source: str, series: Iterable[Series]) -> None:
        """Show these values of a source instead of those that it gave before."""
        with self._lock:
            self._shown[source] = list(series)

    def not_ready(self) -> list[str]:
        """Why /readyz answers 503; empty = 200, also while Redis is away, because known routes are still served."""
        if self.draining:
            return ["draining"]
        reasons = []
        now = self._clock()
        with self._lock:
            for index in range(self._expected):
                told = self._told.get(index)
                if told is None:
                    reasons.append(f"worker {index + 1} is not up")
                elif now - told.at > SILENT_S:
                    reasons.append(f"worker {index + 1} has been silent for {now - told.at:.0f} s")
                elif not told.status.ready:
                    why = ": Redis is away" if told.status.redis_away else ""
                    reasons.append(f"worker {index + 1} has not read the tables yet{why}")
                elif told.status.draining:
                    reasons.append(f"worker {index + 1} is draining")
        return reasons

    def warnings(self) -> list[str]:
        """The warnings of /readyz: faults that all front ends share, so that no other front end would serve better."""
        with self._lock:
            overdue_s = _of_all([told.status for told in self._told.values()], "broker_overdue_seconds")
        if overdue_s <= UNSWEPT_S:
            return []
        return [
            f"no sweeper has run for {overdue_s:.0f} s: brokers that fell silent stay in the tables; start "
            "'mqregistry sweep', or a front end without --no-sweep"
        ]

    def series(self) -> Iterator[Series]:
        """Every value that /metrics shows, in the order of ``METRICS``."""
        ready = not self.not_ready()
        totals = _Totals()
        with self._lock:
            now = self._clock()
            heard = [told.status for told in self._told.values()]
            labelled = [*_of_workers({index: told.status for index, told in self._told.items()})]
            labelled += (series for shown in self._shown.values() for series in shown)
            answering = sum(told.status.ready and now - told.at <= SILENT_S for told in self._told.values())
            totals.add(self._ended.counted, self._ended.durations)
        for status in heard:
            totals.add(status.counters, status.durations)
        totals.add({"log_lines_dropped_total": dropped_lines()}, {})
        totals.add(self.sweeps.counters(), self.sweeps.durations())
        if self.times is not None:
            totals.add(self.times.counters(), self.times.durations())
        gauges: dict[str, float] = {
            **{name: _of_all(heard, name) for name in OF_WORKERS},
            "redis_away": sum(status.redis_away for status in heard),
            "leases": sum(status.ready and not status.redis_away for status in heard),
            "workers": answering,
            "worker_restarts_total": self.restarts,
            "last_sweep_seconds": self.sweeps.last_s,
            "ready": ready,
            "start_time_seconds": self._started_s,
        }
        found: dict[str, list[Series]] = {}
        for one in labelled:
            found.setdefault(one.name, []).append(one)
        for one in (*of_counters(totals.counted), *of_durations(totals.durations)):
            found.setdefault(one.name, []).append(one)
        for name, metric in METRICS.items():
            if name in gauges:
                yield Series(name, "", float(gauges[name]))
            elif name in found:
                yield from found[name]
            elif metric.kind == "counter" and not metric.label:
                yield Series(name, "", 0.0)


def _of_all(heard: Sequence[Status], name: str) -> float:
    """The value that /metrics shows of a gauge that each worker has."""
    return OF_WORKERS[name]([status.gauges.get(name, 0.0) for status in heard]) if heard else 0.0


def _of_workers(heard: Mapping[int, Status]) -> Iterator[Series]:
    for index, status in sorted(heard.items()):
        yield Series("process_cpu_seconds", str(index + 1), status.cpu_s)
        yield Series("process_resident_memory_bytes", str(index + 1), status.memory_bytes)
    yield Series("build_info", __version__, 1)
    newest = max(heard.values(), key=lambda status: status.gauges.get("view_seq", 0.0), default=Status())
    for what in sorted({what for status in heard.values() for what in status.certificates_end_s}):
        ends = [status.certificates_end_s[what] for status in heard.values() if what in status.certificates_end_s]
        yield Series("tls_end_seconds", what, min(ends))
    for cluster, role, number in newest.roles:
        yield Series("brokers", cluster, number, second=role)


Shows = FrontEndWorkers | SweeperStatus | PipelineStatus
"""The source of what the HTTP port shows: a front end, or a process that is only a sweeper or a pipeline."""


def exposition(fleet: Shows, accept: str) -> tuple[bytes, str]:
    """The page of /metrics and its content type, in the format that the scraper asks for."""
    # Imported here: a start does not need this library, and its import takes long.
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import choose_encoder

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(fleet))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _Collector:
    """Gives the library prometheus_client the values of /metrics."""

    def __init__(self, fleet: Shows) -> None:
        self._fleet = fleet

    def collect(self) -> Iterator[Any]:
        from prometheus_client import core

        kinds = {
            "counter": core.CounterMetricFamily,
            "gauge": core.GaugeMetricFamily,
            "histogram": core.HistogramMetricFamily,
        }
        families: dict[str, Any] = {
            name: kinds[metric.kind](PREFIX + name, metric.help, labels=metric.labels)
            for name, metric in METRICS.items()
        }
        for series in self._fleet.series():
            labels = [series.label_value, series.second, series.third][: len(METRICS[series.name].labels)]
            if METRICS[series.name].kind == "histogram":
                families[series.name].add_metric(labels, buckets=buckets(series.counts), sum_value=series.value)
            else:
                families[series.name].add_metric(labels, series.value)
        whole = isinstance(self._fleet, FrontEndWorkers)  # other processes have only a part of the table
        for name, family in families.items():
            if family.samples or (whole and name not in OF_PIPELINE):
                yield family
