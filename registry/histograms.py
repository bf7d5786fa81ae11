"""Counts durations in buckets from ten microseconds to five seconds: the histograms of ``/metrics``."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final

BOUNDS_S: Final = (
    0.00001, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
)  # fmt: skip
"""The upper bounds of the buckets; one more bucket counts longer durations."""

Told = tuple[Sequence[int], float]
"""A histogram as one process sends it to another: the count of each bucket, and the sum in seconds."""


class DurationHistogram:
    """One histogram; adding to it takes a fraction of a microsecond."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration, in seconds."""
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.total_s += seconds

    @property
    def times(self) -> int:
        """How many durations were counted."""
        return sum(self.counts)

    def told(self) -> Told:
        """The form that is sent to other processes."""
        return self.counts, self.total_s


def buckets(counts: Sequence[int]) -> list[tuple[str, float]]:
    """The buckets as Prometheus has them: each upper bound, and how many durations were not longer."""
    return [*zip((*map(str, BOUNDS_S), "+Inf"), accumulate(counts), strict=True)]


def add_up(many: Iterable[Mapping[str, Told]]) -> dict[str, Told]:
    """Add up histograms of the same name."""
    found: dict[str, Told] = {}
    for one in many:
        for name, (counts, total_s) in one.items():
            known, known_s = found.get(name, ((0,) * len(counts), 0.0))
            found[name] = [a + b for a, b in zip(known, counts, strict=True)], known_s + total_s
    return found
