"""Knows whether the queue data of a brokerName is all of one process and its present DataVersion.

A registration with the DataVersion of the one before is usually the same one again, and must not bring back what an
operator took away (docs/semantics.md 13). But it may also be the next part of a split registration (docs/differences.md
D33). While nobody else has changed the queue data, both can be treated as the latter.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from ...events.changes import (
    BrokerRegistered,
    BrokerRemoved,
    ConfigSet,
    TopicDeleted,
    TopicRegistered,
    WritePermSet,
)
from ...model import DataVersion
from ..view.view import Applied


class _Since(NamedTuple):
    """A process's DataVersion, and the seq of its first registration with it."""

    version: DataVersion
    seq: int


class _Writer(NamedTuple):
    """Who changed a brokerName's queue data last (None: no registration did), and since which seq nobody else did."""

    who: str | None
    seq: int


class DataVersions:
    """Follows who registered with which DataVersion; what came before the tables were read is not known."""

    def __init__(self) -> None:
        self._since: dict[str, _Since] = {}
        self._writers: dict[str, _Writer] = {}  # by brokerName

    def may_be_part(self, who: str, version: DataVersion, broker_name: str) -> bool:
        """Whether nobody else changed the queue data since this process registered with this version first."""
        since, writer = self._since.get(who), self._writers.get(broker_name)
        if since is None or writer is None:
            return False
        return since.version == version and writer.who == who and writer.seq <= since.seq

    def applied(self, applied: Applied) -> None:
        """Take in a change of the tables."""
        change = applied.change
        if isinstance(change, BrokerRegistered):
            self._registered(change, applied)
        elif isinstance(change, BrokerRemoved):
            if change.who is not None:
                self._since.pop(change.who, None)
            if change.row is None:
                self._writers.pop(change.broker_name, None)
            elif change.topics:
                self._writers[change.broker_name] = _Writer(None, change.seq)
        elif isinstance(change, WritePermSet):
            self._writers[change.broker_name] = _Writer(None, change.seq)
        elif isinstance(change, TopicRegistered):
            self._writers.update(dict.fromkeys(change.queue_datas, _Writer(None, change.seq)))
        elif isinstance(change, ConfigSet):  # it may decide anew what a registration changes
            self._writers.clear()
        elif isinstance(change, TopicDeleted):  # in 4.8 it stays deleted
            self._writers.update(dict.fromkeys(change.broker_names, _Writer(None, change.seq)))

    def _registered(self, change: BrokerRegistered, applied: Applied) -> None:
        before = applied.row_before.broker_addrs if applied.row_before is not None else {}
        ids = before if isinstance(change.row, msgspec.UnsetType) else change.row.addrs
        if change.who is None or change.live is None or change.broker_id != min(ids, default=None):
            return  # a slave's topics do not count
        # with another id it has another role, and all that it registers counts again
        begins = change.first or change.broker_id not in before
        if begins:
            live = change.live
            version = DataVersion(live.counter, live.timestamp, live.state_version)
            self._since[change.who] = _Since(version, change.seq)
        writer = self._writers.get(change.broker_name)
        changed = bool(change.topics or change.dropped)
        if begins or (changed and (writer is None or writer.who != change.who)):
            self._writers[change.broker_name] = _Writer(change.who, change.seq)

    def replaced(self, epoch: str, seq: int) -> None:
        """Forget all: other tables are served."""
        self._since.clear()
        self._writers.clear()
