"""Summarizes a comparison for people, programs and Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from .judged_differences import Lasted, Sort


class SideNow(msgspec.Struct, frozen=True):
    """One side at the last look."""

    name: str
    what: str  # a description of the side
    topics: int = 0
    brokers: int = 0
    error: str = ""  # why it could not be read
    untold: dict[str, str] = {}  # kind of cells -> why they could not be read at this side


class Report(msgspec.Struct, frozen=True):
    """The state of a comparison."""

    at_ms: int  # the time of the last look
    lasting_ms: int
    looks: int  # the number of looks
    look_ms: int  # how long the last look at everything took
    sides: Sequence[SideNow]
    differences: Sequence[Lasted]

    def of(self, sort: Sort) -> list[Lasted]:
        """The differences of one sort."""
        return [one for one in self.differences if one.sort is sort]

    @property
    def unread(self) -> list[SideNow]:
        """The sides that could not be read."""
        return [side for side in self.sides if side.error]

    @property
    def same(self) -> bool:
        """Whether all sides were read, and no difference counts."""
        return not self.unread and not self.of(Sort.COUNTED)

    @property
    def settled(self) -> bool:
        """Whether all sides were read, and no difference counts now or could count when it is older."""
        return self.same and not self.of(Sort.YOUNG)


class Alike(msgspec.Struct):
    """Differences that differ only in their names, e.g. of all topics of one broker."""

    one: Lasted  # the first difference
    names: list[str]  # of all these differences


def alike(differences: Iterable[Lasted]) -> list[Alike]:
    """Group differences that differ only in their names, the oldest first."""
    found: dict[object, Alike] = {}
    for one in differences:
        same = (one.sort, one.row, one.kind, one.part, one.at, tuple(sorted(one.told.items())), tuple(one.between))
        group = found.setdefault(same, Alike(one, []))
        group.names.append(one.name)
    return list(found.values())


def counts(differences: Iterable[Lasted]) -> Counter[tuple[str, str]]:
    """(sort, kind) -> the number of differences."""
    return Counter((one.sort.value, one.kind) for one in differences)
