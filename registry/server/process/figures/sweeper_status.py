"""What ``mqregistry sweep`` shows at its own /metrics: a part of the table of a front end."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final

from .... import __version__
from ....durations import Durations, Told
from ....queued_output import dropped_lines
from ....store.store import CallTimes
from ....store.streams import Alarm
from .table import Series, of_counters, of_durations
from .worker_figures import process_figures

# A pass comes at least every some seconds, also while Redis is away: it fails then.
_HANGS_S: Final = 60.0


class SweepPasses:
    """How long the passes of a sweeper took, and how many failed."""

    def __init__(self) -> None:
        self._times = Durations()
        self._failed = 0

    def passed(self, seconds: float, well: bool) -> None:
        """Note that the sweeper went through once."""
        self._times.add(seconds)
        self._failed += not well

    def durations(self) -> dict[str, Told]:
        """The histogram, by metric."""
        return {"sweep_seconds": self._times.told()}

    def counters(self) -> dict[str, int]:
        """The failures so far, by the name of the metric."""
        return {"sweep_failures_total": self._failed}


class SweeperStatus:
    """What a sweeper's process has done. Written by the event loop, read by HTTP threads."""

    def __init__(self, times: CallTimes) -> None:
        self._lock = threading.Lock()
        self._times = times
        self._passes = SweepPasses()
        self._removed: Counter[str] = Counter()
        self._alarms: Counter[str] = Counter()
        self._swept_s = 0.0
        self._passed_s: float | None = None
        self._started_s = time.time()

    def removed(self, expired: int, reaped: int) -> None:
        """Count brokers that were removed: for silence, and after a dead worker."""
        with self._lock:
            self._removed["brokers_expired_total"] += expired
            self._removed["brokers_reaped_total"] += reaped

    def alarmed(self, alarm: Alarm) -> None:
        """An alarm about a reader of the streams was raised."""
        with self._lock:
            self._alarms[alarm.kind] += 1

    def swept(self) -> None:
        """Note that a sweep went through, and when."""
        self._swept_s = time.time()

    def passed(self, seconds: float, well: bool) -> None:
        """Count a pass: its duration, and whether it went well."""
        self._passes.passed(seconds, well)
        self._passed_s = time.monotonic()

    def hangs(self) -> str:
        """Why /healthz answers 503: it makes no passes any more, well or not; "" = it makes them, or has not begun."""
        silent_s = time.monotonic() - self._passed_s if self._passed_s is not None else 0.0
        return f"it has made no pass for {silent_s:.0f} s" if silent_s > _HANGS_S else ""

    def not_ready(self) -> list[str]:
        """Why /readyz answers 503; "" = it answers 200."""
        return [] if self._swept_s else ["it has not swept yet"]

    def warnings(self) -> list[str]:
        """Return nothing: a sweeper warns of nothing here."""
        return []

    def series(self) -> Iterator[Series]:
        """Every value of /metrics, by its name."""
        with self._lock:
            removed, alarms = dict(self._removed), dict(self._alarms)
        for name in ("brokers_expired_total", "brokers_reaped_total"):
            yield Series(name, "", removed.get(name, 0))
        for kind, number in sorted(alarms.items()):
            yield Series("stream_alarms_total", kind, number)
        yield from of_counters({**self._times.counters(), **self._passes.counters()})
        yield from of_durations({**self._times.durations(), **self._passes.durations()})
        used = process_figures()
        yield Series("process_cpu_seconds", "sweeper", used["cpu_s"])
        yield Series("process_resident_memory_bytes", "sweeper", used["memory_bytes"])
        yield Series("log_lines_dropped_total", "", dropped_lines())
        yield Series("last_sweep_seconds", "", self._swept_s)
        yield Series("build_info", __version__, 1)
        yield Series("ready", "", bool(self._swept_s))
        yield Series("start_time_seconds", "", self._started_s)
