"""Reports Spark's batches of a namespace's streams to the terminal and the metrics."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from pyspark.sql.streaming.query import StreamingQuery

from mqregistry.events.journal import STREAMS

from .bronze import query
from .progress import RunReport

_READ_S: Final = 2.0  # because Spark makes JSON of all its reports each time


class BatchReports:
    """Counts the entries of one namespace's streams, batch by batch.

    Args:
        tell: called with a sentence about every batch.

    Attributes:
        entries: stream -> how many entries its query has read.
    """

    def __init__(self, namespace: str, tell: Callable[[str], None], progress: RunReport) -> None:
        self.entries: dict[str, int] = dict.fromkeys(STREAMS, 0)
        self._namespace = namespace
        self._tell = tell
        self._progress = progress
        self._seen: dict[str, int] = {}  # query -> the last batch that was reported
        self._next_s: dict[str, float] = {}  # query -> when its reports are read again

    def begin(self, name: str) -> None:
        """Note that a query was started: the numbers of its batches begin again."""
        self._seen[name], self._next_s[name] = -1, 0.0

    def read(self, name: str, started: StreamingQuery, *, has_ended: bool) -> None:
        """Report the new batches of a query: every two seconds, and when it has ended."""
        if has_ended or time.monotonic() >= self._next_s[name]:
            self._next_s[name] = time.monotonic() + _READ_S
            for progress in started.recentProgress:
                self._tell_of(name, progress)

    def _tell_of(self, name: str, progress: Any) -> None:
        number, count = progress["batchId"], progress["numInputRows"]
        if number <= self._seen[name] or not progress["sources"]:
            return
        behind_s = query.behind_s(progress)
        self._progress.behind(name, behind_s, self._namespace)
        if not count:
            return
        self._seen[name] = number
        unread = (progress["observedMetrics"].get("bronze") or {"unread": 0})["unread"]
        self.entries[name] += count
        self._progress.took(name, count - unread, unread)
        self._tell(
            f"{name}: {count:,} entries, {progress['processedRowsPerSecond']:,.0f} a second; {behind_s:,.0f} s behind"
        )
        if unread:
            self._tell(f"{unread} entries could not be read: 'pipeline sql' shows them as quarantine, with the reason")
