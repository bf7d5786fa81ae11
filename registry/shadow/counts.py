"""Counts what a shadow does, and how long both servers take to answer."""

from __future__ import annotations

from collections import Counter
from typing import Final

from ..histograms import BOUNDS_S, DurationHistogram

JAVA: Final = "Java"
OURS: Final = "ours"


class Counts:
    """Counters since the start."""

    def __init__(self) -> None:
        self.requests = 0  # requests that were passed through and could be read
        # Reads that our server answered, by request code and result: "same", "different", or "meant" (the answers
        # differ only in what docs/differences.md describes).
        self.repeated: Counter[tuple[int, str]] = Counter()
        self.failed = 0  # reads that our server did not answer
        self.skipped = 0  # reads that were not repeated, because there were too many
        self.tls_connections = 0  # TLS connections, which are passed through without being read
        self.unreadable_connections = 0
        self.took = {JAVA: DurationHistogram(), OURS: DurationHistogram()}  # for the reads that were repeated

    def of(self, result: str) -> int:
        """How many reads had this result."""
        return sum(number for (_, one), number in self.repeated.items() if one == result)


def quantile_s(durations: DurationHistogram, share: float) -> float | None:
    """A quantile in seconds, rounded up to the bound of a bucket: this share of the durations was at most this long.

    A duration above the last bound counts as the last bound. None: there were no durations.
    """
    seen, wanted = 0, share * durations.times
    for bound_s, count in zip((*BOUNDS_S, BOUNDS_S[-1]), durations.counts, strict=True):
        seen += count
        if seen and seen >= wanted:
            return bound_s
    return None
