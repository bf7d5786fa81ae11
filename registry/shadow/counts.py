"""What a shadow has counted, and how long both servers took."""

from __future__ import annotations

from collections import Counter
from typing import Final

from ..durations import BOUNDS_S, Durations

JAVA: Final = "Java"
OURS: Final = "ours"


class Counts:
    """Counters since the start.

    requests: that were passed through and could be read. repeated: reads that ours answered, by code and result (same,
    different, meant). failed: reads that ours did not answer. skipped: reads that were not repeated, because there were
    more than it may repeat. tls_connections, unreadable_connections: passed through without being read.
    took: server -> how long it took for the reads that were repeated.
    """

    def __init__(self) -> None:
        self.requests = 0
        self.repeated: Counter[tuple[int, str]] = Counter()
        self.failed = 0
        self.skipped = 0
        self.tls_connections = 0
        self.unreadable_connections = 0
        self.took = {JAVA: Durations(), OURS: Durations()}

    def of(self, result: str) -> int:
        """How many reads had this result."""
        return sum(number for (_, one), number in self.repeated.items() if one == result)


def quantile_s(durations: Durations, share: float) -> float | None:
    """The bucket's bound, in seconds, below which that share of them was; None: there were none.

    What took longer than the last bound counts as that.
    """
    seen, wanted = 0, share * durations.times
    for bound_s, count in zip((*BOUNDS_S, BOUNDS_S[-1]), durations.counts, strict=True):
        seen += count
        if seen and seen >= wanted:
            return bound_s
    return None
