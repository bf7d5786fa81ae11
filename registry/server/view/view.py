"""Holds the route tables that one worker serves, and their position in the change stream.

No code here waits or does I/O. The follower updates the view, requests read it, and listeners (encoded answers,
watches, notices to brokers and others) act on each change.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from typing import NamedTuple

from ...events.changes import BrokerChange, BrokerRegistered, Change
from ...model import BrokerRow
from ...tables.history import History
from ...tables.live_table import LiveTable
from ...tables.tables import Tables
from .freshness import Freshness, Seen

logger = logging.getLogger(__name__)


class Applied(NamedTuple):
    """An event that the view has applied."""

    change: Change
    topics: Collection[str]  # the topics whose route may have changed, or may be gone
    row_before: BrokerRow | None  # the row of the change's brokerName before the change; None: there was none


class LastEntry(NamedTuple):
    """An entry of the change stream that was applied, and the seq of its change."""

    entry_id: str
    seq: int


class View:
    """The tables that a worker serves: the tables of Redis after the change ``seq``.

    ``epoch``: names the data set of the namespace. ``seq``: the number of the last change; it counts every change of
    the
        namespace. ``last_ms``: the latest time of a change. ``losses``: how often Redis lost changes, by lease
        renewals.
    ``lives``: live info of the brokers. ``history``: the last changes. ``last_entry``: the last entry of the change
    stream that was
        read; None: the stream has had none.
    ``load_id``: changes whenever the tables are read from Redis. What somebody remembers about the tables is valid only
        while it stays the same.
    ``freshness``: what answers may rely on. ``has_lost``: Redis has lost changes that the tables have; they are being
    restored,
        and no write starts.
    ``awaited``: brokers that were restored after a loss and have not registered since -> when they were restored
        (time.monotonic); None: the brokers before the last loss are not known.
    """

    def __init__(self) -> None:
        self.tables = Tables()
        self.lives = LiveTable(self.tables)
        self.history = History()
        self.epoch, self.seq, self.last_ms = "", -1, 0
        self.losses = 0
        self.last_entry: LastEntry | None = None
        self.load_id = 0
        self.freshness = Freshness.LOADING
        self.has_lost = False
        self.awaited: dict[str, float] | None = None
        self._on_applied: list[Callable[[Applied], object]] = []
        self._on_replaced: list[Callable[[str, int], object]] = []

    @property
    def known(self) -> str:
        """The argument by which scripts check that Redis has this view's last change (lua/include/emit); "" = none."""
        seq, entry_id = (self.last_entry.seq, self.last_entry.entry_id) if self.last_entry else (0, "0-0")
        chain = self.history.chain(seq)
        return f"{self.epoch} {seq} {chain} {entry_id} " if chain else ""

    def subscribe(
        self, applied: Callable[[Applied], object] | None = None, replaced: Callable[[str, int], object] | None = None
    ) -> None:
        """Add a listener; listeners are called in the order in which they were added.

        Args:
            applied: called with each applied event.
            replaced: called with epoch and seq when the tables were loaded again, so that anything may have changed.
                ``has_lost`` then says whether Redis had lost changes.
        """
        if applied is not None:
            self._on_applied.append(applied)
        if replaced is not None:
            self._on_replaced.append(replaced)

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
        row_before = self.tables.brokers.get(change.broker_name) if isinstance(change, BrokerChange) else None
        topics = self.tables.apply(change)
        self.lives.apply(change)
        self.seq, self.last_ms = change.seq, max(self.last_ms, change.ms)
        self.history.add(change.seq, change.chain)
        self.note_return(change)
        applied = Applied(change, topics, row_before)
        for listener in self._on_applied:
            listener(applied)
        return applied

    def load(self, tables: Tables, epoch: str, seq: int, *, lives: LiveTable | None = None) -> None:
        """Serve these tables from now on."""
        self.tables = tables
        self.lives = LiveTable(tables) if lives is None else lives
        self.epoch, self.seq = epoch, seq
        self.load_id += 1
        self.saw(Seen.LOADED)
        for listener in self._on_replaced:
            listener(epoch, seq)
        self.has_lost = False

    def note_return(self, change: Change) -> None:
        """Await a broker that this event restores; await it no longer once it registers or is removed."""
        if self.awaited is not None and isinstance(change, BrokerChange) and change.who is not None:
            if change.knew and isinstance(change, BrokerRegistered):
                self.awaited.setdefault(change.who, time.monotonic())
            else:
                self.awaited.pop(change.who, None)
