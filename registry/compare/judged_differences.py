"""Remembers for each cell since when sides differ, and says which differences count.

A difference counts when two sides differed in a cell at every look for longer than a heartbeat period. Two sorts never
count: deliberate differences of this project, and cells in which Java NameServers differ from each other while this
project agrees with one of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from enum import StrEnum
from itertools import combinations

import msgspec

from .content import Content
from .deliberate import row_of
from .differences import Cell, Difference

Pair = tuple[str, str]


class Sort(StrEnum):
    """How a difference is judged.

    ``COUNTED``: it lasts, and is neither MEANT nor NOISE. ``YOUNG``: it may go away when a change has reached all
    sides.
    ``MEANT``: a row of docs/differences.md describes it.
    ``NOISE``: Java NameServers differ from each other in the cell, and this project agrees with one of them.
    """

    COUNTED = "counted"
    YOUNG = "young"
    MEANT = "meant"
    NOISE = "noise"


class Lasted(msgspec.Struct, frozen=True):
    """A present difference, with its age and sort."""

    sort: Sort
    kind: str
    name: str
    part: str
    at: str
    since_ms: int  # since when the first pair of these sides has differed
    between: list[Pair]  # the pairs of sides whose difference is of this sort
    told: Mapping[str, str | None]  # side -> its value; None: it has none
    row: str = ""  # of docs/differences.md, if it is meant

    @property
    def cell(self) -> Cell:
        """The cell of the tables that differs."""
        return Cell(self.kind, self.name, self.part, self.at)


def now_ms() -> int:
    """The present time, in milliseconds since 1970."""
    return round(time.time() * 1000)


class _Pair(msgspec.Struct):
    since_ms: int
    sort: Sort
    row: str


class Lasting:
    """Keeps the present differences, each with its age; a difference older than ``lasting_ms`` counts."""

    def __init__(self, lasting_ms: int) -> None:
        self._lasting_ms = lasting_ms
        self._cells: dict[Cell, dict[Pair, _Pair]] = {}
        self._told: dict[Cell, dict[str, str | None]] = {}

    def look(
        self,
        now_ms: int,
        found: Iterable[Difference],
        contents: Mapping[str, Content],
        seen: Iterable[Cell] | None = None,
    ) -> None:
        """Note the differences that a look found; the differences of sides that were not read stay.

        Args:
            contents: of the sides that were read.
            seen: the cells that this look compared; it may lack the cells of ``found``. None: all cells. Differences in
                cells that were not compared stay.
        """
        now = {difference.cell: difference for difference in found}
        for cell in list(self._cells if seen is None else seen):
            if cell not in now:
                self._keep(cell, {}, contents)
        for cell, difference in now.items():
            pairs, before = dict[Pair, _Pair](), self._cells.get(cell, {})
            for pair in combinations(sorted(difference.told), 2):
                if difference.told[pair[0]] != difference.told[pair[1]]:
                    since_ms = before[pair].since_ms if pair in before else now_ms
                    pairs[pair] = _Pair(since_ms, *_judged(cell, pair, difference.told, contents))
            self._keep(cell, pairs, contents)
            self._told.setdefault(cell, {}).update(difference.told)

    def _keep(self, cell: Cell, pairs: dict[Pair, _Pair], contents: Mapping[str, Content]) -> None:
        """Note the pairs that differ in a cell; pairs with a side that was not read stay as they were."""
        unseen = {pair: was for pair, was in self._cells.get(cell, {}).items() if not contents.keys() >= set(pair)}
        if kept := unseen | pairs:
            self._cells[cell] = kept
        else:
            self._cells.pop(cell, None)
            self._told.pop(cell, None)

    @property
    def cells(self) -> list[Cell]:
        """The cells of the tables that differ."""
        return list(self._cells)

    def open_cells(self) -> list[Cell]:
        """The differing cells that are not deliberate: they must be read again."""
        return [cell for cell in self._cells if self.is_open(cell)]

    def is_open(self, cell: Cell) -> bool:
        """Whether a cell has a difference that is not deliberate."""
        return any(pair.sort is not Sort.MEANT for pair in self._cells.get(cell, {}).values())

    def standing(self, now_ms: int) -> list[Lasted]:
        """The present differences, the oldest first; a cell appears once for each sort that its pairs of sides have."""
        found = []
        for cell, pairs in self._cells.items():
            by_sort: dict[tuple[Sort, str], list[Pair]] = {}
            for pair, state in pairs.items():
                sort = state.sort
                if sort is not Sort.MEANT and now_ms - state.since_ms <= self._lasting_ms:
                    sort = Sort.YOUNG
                by_sort.setdefault((sort, state.row), []).append(pair)
            for (sort, row), some in by_sort.items():
                since_ms = min(pairs[pair].since_ms for pair in some)
                found.append(Lasted(sort, *cell, since_ms, some, dict(self._told[cell]), row))
        return sorted(found, key=lambda one: (one.since_ms, one.cell))


def _judged(
    cell: Cell, pair: Pair, told: Mapping[str, str | None], contents: Mapping[str, Content]
) -> tuple[Sort, str]:
    """The sort of a lasting difference between two sides, and its row if it is deliberate."""
    java = [side for side in pair if contents[side].is_java]
    if not java:
        return Sort.COUNTED, ""
    if len(java) == 2:
        alone = all(content.is_java for content in contents.values())
        return (Sort.COUNTED if alone else Sort.NOISE), ""
    (ours,) = (side for side in pair if side != java[0])
    row = row_of(cell, contents[java[0]], contents[ours])
    if row:
        return Sort.MEANT, row
    agreeing = any(contents[side].is_java and value == told[ours] for side, value in told.items() if side != java[0])
    return (Sort.NOISE if agreeing else Sort.COUNTED), ""
