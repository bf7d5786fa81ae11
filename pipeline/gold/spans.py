"""Arithmetic on stretches of time of many keys at once, on numpy arrays; linear but for one sort.

Moments are milliseconds (int64); a stretch is ``[start, end)``. Keys are small numbers (an index into a list of names).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# Later than any moment (the year 2109): what has no end yet ends here. Keys and moments then fit in one int64.
NEVER: Final = 1 << 42
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS


class Spans(NamedTuple):
    """Stretches of keys, in order of key and start. Those of one key neither overlap nor touch."""

    key: Ints
    start: Ints
    end: Ints

    def clipped(self, start: int, end: int = NEVER) -> Spans:
        """The parts of them that are in ``[start, end)``."""
        begin, finish = np.maximum(self.start, start), np.minimum(self.end, end)
        inside = begin < finish
        return Spans(self.key[inside], begin[inside], finish[inside])


def ints(values: Any) -> Ints:
    """An int64 array of anything like one."""
    return np.asarray(values, dtype=np.int64)


def levels(key: Ints, ms: Ints, delta: Ints) -> tuple[Ints, Ints, Ints]:
    """Changes of a count, added up: ``(key, ms, level)``, where level holds from ms to the key's next ms.

    The deltas of each key add up to 0. What does not change the level is left out, so neighbours differ.
    """
    at = key * NEVER + ms
    order = np.argsort(at, kind="stable")
    at, delta = at[order], delta[order]
    first = np.flatnonzero(np.diff(at, prepend=-1))
    if not len(first):
        return ints([]), ints([]), ints([])
    change = np.add.reduceat(delta, first)
    kept = change != 0
    at, level = at[first][kept], np.cumsum(change[kept])
    return at // NEVER, at % NEVER, level


def from_deltas(key: Ints, ms: Ints, delta: Ints) -> Spans:
    """Where a count, given by its changes, is above 0. A change at NEVER may be left out."""
    if not len(key):
        return Spans(ints([]), ints([]), ints([]))
    left_over = np.bincount(key, weights=delta).astype(np.int64)
    open_keys = np.flatnonzero(left_over)
    key, ms, level = levels(
        np.concatenate([key, open_keys]),
        np.concatenate([ms, np.full(len(open_keys), NEVER - 1)]),
        np.concatenate([delta, -left_over[open_keys]]),
    )
    before = np.concatenate([ints([0]), level[:-1]])
    starts, ends = (level > 0) & (before <= 0), (level <= 0) & (before > 0)
    finish = ms[ends]
    return Spans(key[starts], ms[starts], np.where(finish == NEVER - 1, NEVER, finish))


def union(key: Ints, start: Ints, end: Ints) -> Spans:
    """Where at least one of these stretches is. Empty ones count for nothing."""
    one = np.ones(len(key), dtype=np.int64)
    closed = end < NEVER
    return from_deltas(
        np.concatenate([key, key[closed]]),
        np.concatenate([start, end[closed]]),
        np.concatenate([one, -one[closed]]),
    )


def without(spans: Spans, holes: Sequence[tuple[int, int]]) -> Spans:
    """The parts of stretches that are in none of these holes (rising, start and end)."""
    if not holes:
        return spans
    begins, ends = [0, *(end for _, end in holes)], [*(start for start, _ in holes), NEVER]
    parts = [spans.clipped(begin, end) for begin, end in zip(begins, ends, strict=True)]
    key, start, finish = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((start, key))
    return Spans(key[order], start[order], finish[order])


def overlaps(key: Ints, start: Ints, end: Ints, others: Spans) -> tuple[Ints, Ints, Ints]:
    """Each stretch cut down to each of ``others`` of its key: ``(row, start, end)``, row being its index."""
    low = np.searchsorted(others.key * NEVER + others.end - 1, key * NEVER + start, side="left")
    high = np.searchsorted(others.key * NEVER + others.start, key * NEVER + np.maximum(end - 1, 0), side="right")
    row, other = expand(low, high)
    begin, finish = np.maximum(start[row], others.start[other]), np.minimum(end[row], others.end[other])
    inside = begin < finish
    return row[inside], begin[inside], finish[inside]


def expand(low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Every number of every range ``[low, high)``, with the index of its range."""
    count = np.maximum(high - low, 0)
    row = np.repeat(np.arange(len(low)), count)
    total = int(count.sum())
    offset = np.arange(total) - np.repeat(np.cumsum(count) - count, count)
    return row, low[row] + offset


@dataclass(frozen=True)
class Periods:
    """Hours or days one after the other, up to the end of observation.

    first: start of the first one; step: its length; count: how many; now: end of observation, which cuts the last one.
    """

    first: int
    step: int
    count: int
    now: int

    @property
    def start(self) -> Ints:
        """The start of each period (ms)."""
        return self.first + self.step * np.arange(self.count)

    @property
    def last(self) -> Ints:
        """The last millisecond of each that was observed; at the end of observation that moment itself."""
        return np.minimum(self.start + self.step - 1, self.now)

    def index(self, ms: Ints) -> Ints:
        """Which one a moment lies in; -1: none of these, or after the end of observation."""
        index = (ms - self.first) // self.step
        return np.where((index >= 0) & (index < self.count) & (ms <= self.now), index, -1)

    def ends(self, at: Ints, step: int) -> Flags:
        """Whether shorter periods (their starts) are the last ones of these."""
        last: Ints = np.minimum(at // self.step * self.step + self.step - step, self.now // step * step)
        return np.equal(at, last)

    def parts(self, count: int) -> list[Periods]:
        """The same in runs of at most ``count``."""
        return [
            replace(self, first=self.first + done * self.step, count=min(count, self.count - done))
            for done in range(0, self.count, count)
        ]


def periods(since: int, now: int, step: int) -> Periods:
    """Those that begin before ``now``, from the one that ``since`` lies in."""
    first = since // step * step
    return Periods(first, step, max(0, -(-(now - first) // step)), now)


def per_period(spans: Spans, when: Periods, keys: int) -> Ints:
    """Milliseconds of the stretches within each period: array [key, period]."""
    spans = spans.clipped(when.first, min(when.now, when.first + when.step * when.count))
    row, period = expand((spans.start - when.first) // when.step, (spans.end - 1 - when.first) // when.step + 1)
    begin = when.first + period * when.step
    length = np.minimum(spans.end[row], begin + when.step) - np.maximum(spans.start[row], begin)
    return _table(np.bincount(spans.key[row] * when.count + period, length, keys * when.count), when)


def count_per_period(key: Ints, ms: Ints, when: Periods, keys: int, weight: Ints | None = None) -> Ints:
    """How many moments (or their weights' sum) fall into each period: array [key, period]."""
    period = when.index(ms)
    inside = period >= 0
    weights = None if weight is None else weight[inside]
    return _table(np.bincount(key[inside] * when.count + period[inside], weights, keys * when.count), when)


def max_per_period(key: Ints, ms: Ints, value: Ints, when: Periods, keys: int) -> Ints:
    """The greatest value of the moments in each period, -1 where there is none: array [key, period]."""
    period = when.index(ms)
    inside = period >= 0
    greatest = np.full(keys * when.count, -1, dtype=np.int64)
    np.maximum.at(greatest, key[inside] * when.count + period[inside], value[inside])
    return greatest.reshape(keys, when.count)


def _table(flat: Any, when: Periods) -> Ints:
    counts: Ints = flat.astype(np.int64).reshape(-1, when.count)
    return counts
