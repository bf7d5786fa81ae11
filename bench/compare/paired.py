"""Times of two servers that were loaded in turn, compared pair by pair: a busy host slows both of a pair."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Took(NamedTuple):
    """What one load took: a time, and CPU time of the front end and its Redis; of the same number of requests."""

    time: float
    cpu: float


class Pairs(NamedTuple):
    """By how many percent the time of a kind exceeds another's, over all rounds."""

    median: float
    lower_quartile: float
    upper_quartile: float


def slower(kind: Sequence[float], than: Sequence[float]) -> Pairs:
    """Compare two kinds' times, round by round."""
    ratios = [(one / other - 1) * 100 for one, other in zip(kind, than, strict=True)]
    if len(ratios) < 2:
        return Pairs(ratios[0], ratios[0], ratios[0])
    lower, _, upper = statistics.quantiles(ratios, n=4, method="inclusive")
    return Pairs(statistics.median(ratios), lower, upper)
