"""Compares the times of two servers that were loaded in turn, pair by pair: a busy host slows both of a pair."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Took(NamedTuple):
    """The cost of one load: its time, and the CPU time of front end and Redis; for the same number of requests."""

    time: float
    cpu: float


class Pairs(NamedTuple):
    """By how many percent the times of one side exceed those of the other side, over all rounds."""

    median: float
    lower_quartile: float
    upper_quartile: float


def slower(kind: Sequence[float], than: Sequence[float]) -> Pairs:
    """Compare the times of two sides, round by round."""
    ratios = [(one / other - 1) * 100 for one, other in zip(kind, than, strict=True)]
    if len(ratios) < 2:
        return Pairs(ratios[0], ratios[0], ratios[0])
    lower, _, upper = statistics.quantiles(ratios, n=4, method="inclusive")
    return Pairs(statistics.median(ratios), lower, upper)
