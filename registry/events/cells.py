"""The effect of each event: the cells (single entries) of the registry's tables that it sets and removes.

:func:`operations` turns an event into a few operations. They change ``Tables`` and the live table in memory, and silver
in the lake. Operations are plain values, so processes can exchange them. They do not depend on the tables: an operation
that removes a brokerName does not list its topics. (Their tags are short numbers, because only processes of one
release exchange operations.)

One operation has all topics of an event, in the event's own dict, so that no topic needs an object of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET

from ..model import QueueData
from . import changes
from .changes import Change, Live, Row


class SetRow(msgspec.Struct, array_like=True, tag=1, gc=False):
    """A broker row with all its addresses; rev None is 0."""

    broker_name: str
    row: Row
    rev: int | None


class SetRev(msgspec.Struct, array_like=True, tag=2, gc=False):
    """The revision of a broker row; no effect if the row does not exist."""

    broker_name: str
    rev: int


class DropBroker(msgspec.Struct, array_like=True, tag=3, gc=False):
    """Removes a brokerName: row, place in every cluster, all queue data."""

    broker_name: str


class JoinCluster(msgspec.Struct, array_like=True, tag=4, gc=False):
    """A brokerName becomes a member of one more cluster."""

    cluster: str
    broker_name: str


class SetFilterServers(msgspec.Struct, array_like=True, tag=5, gc=False):
    """The filter servers of a broker process; empty: the cell is removed."""

    who: str
    addrs: Sequence[str]


class SetQueueData(msgspec.Struct, array_like=True, tag=6, gc=False):
    """Queue data of one brokerName, by topic."""

    broker_name: str
    queue_datas: dict[str, QueueData]


class DropQueueData(msgspec.Struct, array_like=True, tag=7, gc=False):
    """Removes the queue data that one brokerName has of these topics."""

    broker_name: str
    topics: list[str]


class SetMappings(msgspec.Struct, array_like=True, tag=8, gc=False):
    """Static-topic mappings: topic, brokerName, JSON text."""

    mappings: list[tuple[str, str, str]]


class SetLive(msgspec.Struct, array_like=True, tag=9, gc=False):
    """Live info that a process sent under one brokerName; its brokerNames differ only in broker_id."""

    who: str
    broker_name: str
    cluster: str
    addr: str
    broker_id: int
    live: Live


class EndLive(msgspec.Struct, array_like=True, tag=10, gc=False):
    """A process left a brokerName: its live info ends there."""

    who: str
    broker_name: str
    # True: the event has the new row, so the live info ends even if the row still has the address (which may be alive
    # under another cluster). False: the live info ends only if the known row no longer has the address
    certain: bool
    # whether the process unregistered itself. With compat 4.8 its live info then ends under every name, unless the row
    # of one of these names has the address
    goodbye: bool


class SetKv(msgspec.Struct, array_like=True, tag=11, gc=False):
    """Makes a KV namespace, and sets one key of it (None: no key); value None: removes the key."""

    kv_namespace: str
    key: str | None
    value: str | None


class SetConfig(msgspec.Struct, array_like=True, tag=12, gc=False):
    """Values of the shared configuration; config_rev None: unchanged."""

    config: dict[str, str]
    config_rev: int | None


Operation = (
    SetRow | SetRev | DropBroker | JoinCluster | SetFilterServers | SetQueueData | DropQueueData | SetMappings
    | SetLive | EndLive | SetKv | SetConfig
)  # fmt: skip


def operations(change: Change) -> Sequence[Operation]:
    """The operations of an event, in their order.

    Raises:
        changes.UnknownChange: this release does not know the event's effect, so no later event may be applied.
    """
    return MEANINGS[type(change)](change)


def _registered(change: changes.BrokerRegistered) -> list[Operation]:
    name, who, found = change.broker_name, change.who, list[Operation]()
    if who is not None and change.filter_servers is not None:
        found.append(SetFilterServers(who, change.filter_servers))
    if change.cluster is not None:
        found.append(JoinCluster(change.cluster, name))
    if change.row is not UNSET:
        found.append(SetRow(name, change.row, change.rev))
    elif change.rev is not None:
        found.append(SetRev(name, change.rev))
    if change.topics:
        found.append(SetQueueData(name, change.topics))
    if change.dropped:
        found.append(DropQueueData(name, change.dropped))
    if change.mappings:
        found.append(SetMappings(change.mappings))
    if who is not None and change.live is not None:
        addr = change.addr if change.addr is not None else addr_of(who)
        found.append(SetLive(who, name, change.cluster or "", addr, change.broker_id or 0, change.live))
    return found


def _removed(change: changes.BrokerRemoved) -> list[Operation]:
    name, who, found = change.broker_name, change.who, list[Operation]()
    if who is not None:
        found.append(SetFilterServers(who, ()))
    if change.row is None:
        found.append(DropBroker(name))
    elif change.row is not UNSET:
        found.append(SetRow(name, change.row, change.rev))
    elif change.rev is not None:
        found.append(SetRev(name, change.rev))
    if change.topics and change.row is not None:
        found.append(SetQueueData(name, change.topics))
    if who is not None:
        found.append(EndLive(who, name, change.row is not UNSET, isinstance(change, changes.BrokerUnregistered)))
    return found


def _write_perm_set(change: changes.WritePermSet) -> list[Operation]:
    found: list[Operation] = [] if change.rev is None else [SetRev(change.broker_name, change.rev)]
    return [*found, SetQueueData(change.broker_name, change.topics)]


def _topic_deleted(change: changes.TopicDeleted) -> list[Operation]:
    found: list[Operation] = []
    for name in change.broker_names:
        found.append(DropQueueData(name, [change.topic]))
        if change.rev is not None:
            found.append(SetRev(name, change.rev))
    return found


def _topic_registered(change: changes.TopicRegistered) -> list[Operation]:
    found: list[Operation] = []
    for name, queue_data in change.queue_datas.items():
        found.append(SetQueueData(name, {change.topic: queue_data}))
        if change.rev is not None:
            found.append(SetRev(name, change.rev))
    return found


def _nothing(change: changes.BrokerRefused | changes.StreamAlarm | changes.AuthChanged) -> tuple[()]:
    """No cell changes. After BrokerRefused, tables and history keep the live info of the process."""
    return ()


def _unknown(change: changes.LaterChange) -> tuple[()]:
    if not change.ignorable:
        raise changes.UnknownChange(change)
    return ()


MEANINGS: Final[dict[type[Change], Callable[[Any], Sequence[Operation]]]] = {
    changes.BrokerRegistered: _registered,
    changes.BrokerRefused: _nothing,
    changes.BrokerUnregistered: _removed,
    changes.BrokerClosed: _removed,
    changes.BrokerExpired: _removed,
    changes.BrokerReaped: _removed,
    changes.WritePermSet: _write_perm_set,
    changes.TopicDeleted: _topic_deleted,
    changes.TopicRegistered: _topic_registered,
    changes.KvPut: lambda change: [SetKv(change.kv_namespace, change.key, change.value)],
    changes.KvDeleted: lambda change: [SetKv(change.kv_namespace, change.key, None)],
    changes.ConfigSet: lambda change: [SetConfig(change.config, change.config_rev)],
    changes.StreamAlarm: _nothing,
    changes.AuthChanged: _nothing,
    changes.LaterChange: _unknown,
}


def addr_of(who: str) -> str:
    """The address in ``<cluster>|<brokerAddr>``."""
    return who.rpartition("|")[2]
