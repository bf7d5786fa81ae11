"""Reads the histograms that ``histogram.h`` writes: log-linear buckets, each at most 1/128 of its value wide."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

SUB = 128


def bucket_top(bucket: int) -> int:
    """The largest value of a bucket."""
    if bucket < 2 * SUB:
        return bucket
    shift = bucket // SUB - 1
    return ((bucket - shift * SUB + 1) << shift) - 1


@dataclass
class Histogram:
    """Counts of latencies, in nanoseconds. buckets: number of the bucket -> count."""

    max_ns: int = 0
    buckets: dict[int, int] = field(default_factory=dict)

    @classmethod
    def read(cls, raw: dict[str, Any]) -> Histogram:
        """From the generator's JSON.

        Raises:
            ValueError: the counts do not add up.
        """
        histogram = cls(raw["max"], {bucket: count for bucket, count in raw["buckets"]})
        if histogram.count != raw["count"]:
            raise ValueError(f"the buckets hold {histogram.count} values, the generator counted {raw['count']}")
        return histogram

    @property
    def count(self) -> int:
        return sum(self.buckets.values())

    def percentile_ns(self, percent: float) -> int:
        """The percentile in nanoseconds, to 1/128; 0 if nothing was counted."""
        rank, seen = max(1, math.ceil(percent / 100 * self.count)), 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= rank:
                return min(bucket_top(bucket), self.max_ns)
        return 0

    def percentile_ms(self, percent: float) -> float:
        return self.percentile_ns(percent) / 1e6

    @classmethod
    def sum(cls, parts: Iterable[Histogram]) -> Histogram:
        total = cls()
        for part in parts:
            total.max_ns = max(total.max_ns, part.max_ns)
            for bucket, count in part.buckets.items():
                total.buckets[bucket] = total.buckets.get(bucket, 0) + count
        return total
