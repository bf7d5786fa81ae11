"""Holds the route tables that one worker serves, and how far in the change stream they are.

Nothing here waits or talks to anybody: the follower feeds the view, requests read it, and listeners (encoded answers,
watches, notices to brokers, ...) act on what changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import NamedTuple

from ...events.changes import BrokerChange, Change
from ...model import BrokerRow
from ...tables.tables import Tables
from .freshness import Freshness, Seen
from .merged_tables import apply_merged, merge_tables

logger = logging.getLogger(__name__)


class Applied(NamedTuple):
    """What one event did to the view.

    topics: those whose route may look different now, or may be gone. row_before: the row of the change's brokerName
    before it, as Redis had it; None if there was none.
    """

    change: Change
    topics: Collection[str]
    row_before: BrokerRow | None


class Entry(NamedTuple):
    """An entry of the change stream that was applied, and the seq of its change."""

    entry_id: str
    seq: int


class View:
    """The tables as served.

    exact: what Redis holds, as of ``seq``; registrations are compared with it.
    served: what lookups see. The same object, except after Redis came back with less than before: until the grace is
        over, ``served`` then keeps the known entries and adds new ones (``merged``).
    epoch, seq: how far ``exact`` is; seq counts every change of the namespace, epoch names its data set.
    last_entry: the last entry of the change stream that was read into ``exact``; None: the stream has had none.
    load_id: changes whenever the tables are read from Redis; anything remembered about the tables is valid only while
        it stays the same.
    freshness: what the answers may rely on.
    """

    def __init__(self) -> None:
        self.exact = Tables()
        self.served = self.exact
        self.epoch = ""
        self.seq = -1
        self.last_entry: Entry | None = None
        self.load_id = 0
        self.freshness = Freshness.LOADING
        self._on_applied: list[Callable[[Applied], object]] = []
        self._on_replaced: list[Callable[[str, int], object]] = []

    def subscribe(
        self, applied: Callable[[Applied], object] | None = None, replaced: Callable[[str, int], object] | None = None
    ) -> None:
        """Have a listener called, after those that came before it and within the change itself.

        Args:
            applied: with each event's outcome.
            replaced: with epoch and seq when other tables are served, so that anything may have changed.
        """
        if applied is not None:
            self._on_applied.append(applied)
        if replaced is not None:
            self._on_replaced.append(replaced)

    @property
    def merged(self) -> bool:
        """Whether more is served than Redis has."""
        return self.served is not self.exact

    def saw(self, seen: Seen) -> None:
        """Change ``freshness`` as this finding about Redis requires."""
        before, self.freshness = self.freshness, self.freshness.after(seen)
        if before is Freshness.AWAY and self.freshness is not before:
            logger.warning("Redis is back")

    def apply(self, change: Change) -> Applied:
        """Apply one event, the next in order, and tell the listeners.

        Raises:
            UnknownChange: nothing was applied; the tables must be read again.
        """
        row_before = self.exact.brokers.get(change.broker_name) if isinstance(change, BrokerChange) else None
        topics = self.exact.apply(change)
        if self.merged:
            topics = {*topics, *apply_merged(self.served, change)}
        self.seq = change.seq
        applied = Applied(change, topics, row_before)
        for listener in self._on_applied:
            listener(applied)
        return applied

    def load(self, tables: Tables, epoch: str, seq: int) -> None:
        """Serve these tables, a snapshot with every later change applied, from now on."""
        self.exact = self.served = tables
        self._loaded(epoch, seq, Seen.LOADED)

    def load_merged(self, tables: Tables, epoch: str, seq: int) -> None:
        """Follow these tables, but go on serving the known ones, with the new entries added."""
        self.exact = tables  # self.served is still what exact was before, or what was merged before that
        merge_tables(self.served, tables)
        self._loaded(epoch, seq, Seen.LESS_THERE)

    def _loaded(self, epoch: str, seq: int, seen: Seen) -> None:
        self.epoch, self.seq = epoch, seq
        self.load_id += 1
        self.saw(seen)
        self._replaced()

    def end_merge(self) -> None:
        """The grace is over: serve exactly what Redis has."""
        self.served = self.exact
        self._replaced()

    def _replaced(self) -> None:
        for listener in self._on_replaced:
            listener(self.epoch, self.seq)
