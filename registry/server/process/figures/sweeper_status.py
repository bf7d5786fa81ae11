"""The values that ``mqregistry sweep`` shows at its own /metrics."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final

from ....histograms import DurationHistogram, Told
from ....store.store import CallTimes
from ....store.streams import Alarm
from .metrics_table import Series, of_counters, of_durations
from .worker_figures import series_of_process

# A sweeper makes a pass every few seconds, even while Redis is away: the pass fails then.
_HANGS_S: Final = 60.0


class Sweeps:
    """The counters of a sweeper. Written by the event loop, read by HTTP threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._passes = DurationHistogram()
        self._counted = Counter(brokers_expired_total=0, brokers_reaped_total=0, sweep_failures_total=0)
        self.last_s = 0.0  # when it last swept; 0: it has not
        self._passed_s: float | None = None

    def removed(self, expired: int, reaped: int) -> None:
        """Count removed brokers. expired: for silence. reaped: because the worker with their connection had died."""
        with self._lock:
            self._counted["brokers_expired_total"] += expired
            self._counted["brokers_reaped_total"] += reaped

    def alarmed(self, alarm: Alarm) -> None:
        """Count an alarm about a reader of the streams."""
        with self._lock:
            self._counted[f'stream_alarms_total{{alarm="{alarm.kind}"}}'] += 1

    def swept(self) -> None:
        """Note the time of a successful sweep."""
        self.last_s = time.time()

    def passed(self, seconds: float, well: bool) -> None:
        """Count a pass: its duration, and whether it succeeded."""
        with self._lock:
            self._passes.add(seconds)
            self._counted["sweep_failures_total"] += not well
        self._passed_s = time.monotonic()

    def durations(self) -> dict[str, Told]:
        """The histogram, by metric."""
        return {"sweep_seconds": self._passes.told()}

    def counters(self) -> dict[str, int]:
        """The counters, by metric with its label."""
        with self._lock:
            return dict(self._counted)

    def hangs(self) -> str:
        """Why /healthz answers 503: the sweeper makes no passes any more, not even passes that fail; "" = 200."""
        silent_s = time.monotonic() - self._passed_s if self._passed_s is not None else 0.0
        return f"it has made no pass for {silent_s:.0f} s" if silent_s > _HANGS_S else ""


class SweeperStatus(Sweeps):
    """The status of a process that is only a sweeper."""

    def __init__(self, times: CallTimes) -> None:
        super().__init__()
        self._times = times
        self._started_s = time.time()

    def not_ready(self) -> list[str]:
        """Why /readyz answers 503; empty = it answers 200."""
        return [] if self.last_s else ["it has not swept yet"]

    def warnings(self) -> list[str]:
        """Return nothing: a sweeper warns of nothing here."""
        return []

    def series(self) -> Iterator[Series]:
        """Every value of /metrics, by its name."""
        yield from of_counters({**self._times.counters(), **self.counters()})
        yield from of_durations({**self._times.durations(), **self.durations()})
        yield Series("last_sweep_seconds", "", self.last_s)
        yield from series_of_process("sweeper", ready=bool(self.last_s), started_s=self._started_s)
