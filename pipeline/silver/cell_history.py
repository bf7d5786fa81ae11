"""One table of the registry while changes are replayed: which values hold, and which ended meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from .buckets import SNAPSHOT

Key = tuple[Any, ...]
Value = tuple[Any, ...]


class Moment(NamedTuple):
    """An event, as far as a row's validity goes; us: microseconds since 1970, UTC; by: who caused it, as JSON."""

    us: int
    seq: int
    kind: str
    by: str | None = None


class Held(NamedTuple):
    """A value of a cell, and the change that set it."""

    value: Value
    from_us: int
    from_seq: int
    from_by: str | None = None


class CellHistory:
    """The cells of one table.

    held: key -> what holds. ended: rows as the table's schema has them. A value that was set and ended by one and the
    same change was never visible: it leaves no row.
    """

    def __init__(self, held: dict[Key, Held] | None = None) -> None:
        self.held: dict[Key, Held] = held or {}
        self.ended: list[tuple[Any, ...]] = []
        self.touched = False
        self._before: dict[Key, Held] = {}

    def set(self, key: Key, value: Value, at: Moment) -> None:
        """Give a cell a value; nothing happens if it has this value already."""
        old = self.held.get(key)
        if old is not None:
            if old.value == value:
                return
            self._end(key, old, at)
        self.held[key] = Held(value, at.us, at.seq, at.by)
        self.touched = True

    def drop(self, key: Key, at: Moment) -> bool:
        """Remove a cell; False: there was none."""
        old = self.held.pop(key, None)
        if old is None:
            return False
        self._end(key, old, at)
        self.touched = True
        return True

    def _end(self, key: Key, old: Held, at: Moment) -> None:
        if old.from_seq != at.seq:
            self.ended.append((*key, *old.value, old.from_us, at.us, old.from_seq, at.seq, at.kind, old.from_by, at.by))

    def begin_snapshot(self) -> None:
        """A snapshot follows: what it does not hold has ended, and nobody knows which event ended it."""
        self._before, self.held = self.held, {}

    def end_snapshot(self, at: Moment) -> None:
        """End what the snapshot did not set again; called before anything else is applied."""
        at = at._replace(kind=SNAPSHOT, by=None)
        for key, old in self._before.items():
            now = self.held.get(key)
            if now is not None and now.value == old.value:
                self.held[key] = old
            else:
                self._end(key, old, at)
        self._before = {}
        self.touched = True

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The rows that still hold, as the table's schema has them."""
        for key, held in self.held.items():
            yield (*key, *held.value, held.from_us, None, held.from_seq, None, None, held.from_by, None)
