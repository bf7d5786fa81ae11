"""Cuts a stream into ranges of about equal size without reading all of it; the caller asks Redis.

Redis cannot find the 500,000th entry after another one. But an id begins with the millisecond in which its entry was
written, and it is cheap to ask for one entry near an id. In ``changes``, whose entries have numbers (``seq``), the
search is exact; in other streams a few small samples estimate how many entries there are at each time.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final, NamedTuple

_N_BITS: Final = 24  # ids within one millisecond that the search distinguishes
_N_MASK: Final = (1 << _N_BITS) - 1
_PROBES: Final = 128  # at most, in one search
_SAMPLES: Final = 96  # at most, for one Density
_CELLS: Final = 32
UNKNOWN: Final = -1


class EntryId(NamedTuple):
    """``<ms>-<n>``; ordered as Redis orders them."""

    ms: int
    n: int

    def __str__(self) -> str:
        return f"{self.ms}-{self.n}"


OLDEST: Final = EntryId(0, 0)  # before every entry


def parse_id(text: str) -> EntryId:
    """Parse an id as Redis writes it; without ``-<n>`` the first id of its millisecond.

    Raises:
        ValueError: the text is no id.
    """
    ms, dash, n = text.partition("-")
    if not (ms.isdecimal() and (n.isdecimal() or not dash)):
        raise ValueError(f"{text!r} is no id of a stream entry (<milliseconds>-<number>)")
    return EntryId(int(ms), int(n or 0))


class Position(NamedTuple):
    """A position in a stream: everything up to this entry, which is included.

    ``seq``: the last change up to here that can be read; UNKNOWN in streams without numbers.
    ``unread``: how many entries after that change, up to here, cannot be read.
    """

    id: EntryId
    seq: int = UNKNOWN
    unread: int = 0


def _scalar(entry_id: EntryId) -> int:
    return entry_id.ms << _N_BITS | min(entry_id.n, _N_MASK)


def find_seq(
    at_or_before: Callable[[EntryId], Position], low: Position, high: Position, seq: int, slack: int
) -> Position:
    """Find an entry after ``low`` with a number of at most ``seq``, and at least ``seq - slack`` if the probes suffice.

    If the first entry after ``low`` has a number above ``seq``, that entry is returned: a reader must make progress.

    Args:
        at_or_before: returns the last entry that is not after an id.
        low, high: ``low.seq <= seq < high.seq``; low.id should be shortly before the first entry.
    """
    least, floor, above = low, _scalar(low.id), high
    for probe in range(_PROBES):
        ceiling = _scalar(above.id)
        if (least != low and seq - least.seq <= slack) or ceiling - floor <= 1:
            break
        if probe % 2:  # bisect every second time, because entries may be very uneven in time
            x = (floor + ceiling) // 2
        else:
            x = floor + (ceiling - floor) * (seq - least.seq) // max(1, above.seq - least.seq)
        x = min(max(x, floor + 1), ceiling - 1)
        found = at_or_before(EntryId(x >> _N_BITS, x & _N_MASK))
        if found.seq > seq:
            above = found
        else:
            floor = x
            if found.id > least.id:
                least = found
    return least if least != low else above


class Density:
    """Estimates how many entries there are up to each moment, from small samples; dense times get more samples.

    Args:
        sample: (from_ms, to_ms) -> the milliseconds in the ids of the first entries in between, at most ``size``.
        low_ms, high_ms: the range to estimate, both included.
        most: how many entries there are at most.
    """

    def __init__(
        self, sample: Callable[[int, int], list[int]], low_ms: int, high_ms: int, *, size: int, most: int
    ) -> None:
        def look(begin: int, end: int) -> tuple[float, int, int]:
            found = sample(begin, end - 1)
            if len(found) < size:
                return -len(found), begin, end
            return -min(most, size * (end - found[0]) / (found[-1] + 1 - found[0])), begin, end

        cells = [look(low_ms, high_ms + 1)]  # a heap: the cell with most entries comes first
        for _ in range(_SAMPLES):
            fullest, begin, end = cells[0]
            if -fullest <= max(size, most / _CELLS) or end - begin == 1:
                break
            middle = (begin + end) // 2
            heapq.heapreplace(cells, look(begin, middle))
            heapq.heappush(cells, look(middle, end))
        self._cells = sorted((begin, end, -count) for count, begin, end in cells)
        self.total = sum(count for _, _, count in self._cells)

    def moment(self, count: float) -> int:
        """The moment (ms) up to which there are about ``count`` entries."""
        for begin, end, inside in self._cells:
            if count <= inside:
                return begin + int((end - begin) * (count / inside if inside else 1))
            count -= inside
        return self._cells[-1][1]
