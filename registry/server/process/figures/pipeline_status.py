"""The values that ``mqregistry pipeline run`` shows at its own /metrics: a part of the table of metrics."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from ....events.journal import STREAMS
from .metrics_table import Series
from .worker_figures import series_of_process

_RESULTS: Final = ("done", "redis_away", "worker_late", "failed")


class PipelineStatus:
    """The counters of a pipeline. Written by its thread (pipeline/progress.py), read by HTTP threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._behind_s: dict[tuple[str, str], float] = {}
        self._rows: Counter[str] = Counter(dict.fromkeys(STREAMS, 0))
        self._quarantined: Counter[str] = Counter(dict.fromkeys(STREAMS, 0))
        self._rounds: Counter[str] = Counter(dict.fromkeys(_RESULTS, 0))
        self._figures: dict[str, dict[str, dict[str, float]]] = {}  # namespace -> metric -> cluster
        self._last_s = self._round_s = 0.0
        self._seqs: dict[str, int] = {}
        self._started_s = time.time()

    def behind(self, stream: str, seconds: float, namespace: str) -> None:
        """Note how far the lake is behind a stream: the time from its last entry in the lake to its newest entry."""
        with self._lock:
            self._behind_s[stream, namespace] = seconds

    def took(self, stream: str, rows: int, quarantined: int) -> None:
        """Count the entries of a batch that came into the lake, and those that came into its table quarantine."""
        with self._lock:
            self._rows[stream] += rows
            self._quarantined[stream] += quarantined

    def figures(self, read: Callable[[], dict[str, dict[str, float]]], namespace: str) -> None:
        """Read new figures of the lake's last whole hour: metric -> cluster -> value."""
        values = read()
        with self._lock:
            self._figures[namespace] = values

    def round_done(self, seconds: float, seq: int, namespace: str) -> None:
        """Note the duration of a round, and the number of the last change in the lake's tables."""
        with self._lock:
            self._rounds["done"] += 1
            self._last_s, self._round_s, self._seqs[namespace] = time.time(), seconds, seq

    def round_failed(self, why: str) -> None:
        """Note that a round ended with an error."""
        with self._lock:
            self._rounds[why] += 1

    def not_ready(self) -> list[str]:
        """Why /readyz answers 503; empty = it answers 200."""
        return [] if self._last_s else ["no round has gone through yet"]

    def warnings(self) -> list[str]:
        """Return nothing: the pipeline warns of nothing here."""
        return []

    def series(self) -> Iterator[Series]:
        """Every value of /metrics, by its name."""
        with self._lock:
            rounds = dict(self._rounds)
            behind_s: dict[str, float] = {}
            for (stream, _), seconds in self._behind_s.items():
                behind_s[stream] = max(seconds, behind_s.get(stream, 0.0))
            rows, quarantined = dict(self._rows), dict(self._quarantined)
            last_s, round_s, seq = self._last_s, self._round_s, sum(self._seqs.values())
            figures: dict[str, dict[str, float]] = {}
            for of_namespace in self._figures.values():
                for name, by_cluster in of_namespace.items():
                    figures.setdefault(name, {}).update(by_cluster)
        shown: dict[str, Mapping[str, float]] = {
            "pipeline_behind_seconds": behind_s, "pipeline_rows_total": rows,
            "pipeline_quarantined_total": quarantined, "pipeline_rounds_total": rounds, **figures,
        }  # fmt: skip
        for name, values in shown.items():
            for label, value in sorted(values.items()):
                yield Series(name, label, value)
        yield Series("pipeline_last_round_seconds", "", last_s)
        yield Series("pipeline_round_duration_seconds", "", round_s)
        yield Series("pipeline_seq", "", seq)
        yield from series_of_process("pipeline", ready=bool(last_s), started_s=self._started_s)
