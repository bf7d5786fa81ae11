"""Works out what a Redis that lost changes must get back: its cells that differ from those of the known tables. Pure.

A cell is one value in the tables. Changes after the loss are newer: a cell that they set or removed stays as it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import UNSET

from ..events import cells
from ..events.cells import operations
from ..events.changes import BrokerChange, BrokerRegistered, BrokerRemoved, Change
from ..model import QueueData
from .tables import Tables

# The most cells of one script call (lua/include/collect).
AT_ONCE = 250
_BYTES_AT_ONCE = 1 << 20

Cell = tuple[str, ...]


class Values(NamedTuple):
    """Cells of one table that Redis must set or remove; kind and name: arguments of lua/restore_changes."""

    kind: str
    name: str
    given: Mapping[str, str | QueueData]
    gone: Sequence[str]


class LostBroker(NamedTuple):
    """An address that is missing in a broker row, or has another id there."""

    broker_name: str
    broker_id: int
    addr: str


class GoneBroker(NamedTuple):
    """An address that had left a broker row, and is in it again because of the loss."""

    broker_name: str
    addr: str


Gift = Values | LostBroker | GoneBroker


def touched_by(change: Change) -> Iterator[Cell]:
    """The cells that an event of the new history has set or removed."""
    if isinstance(change, BrokerChange) and change.addr is not None:
        yield "addr", change.broker_name, change.addr
        if isinstance(change, BrokerRegistered) and change.row is not UNSET:
            yield "id", change.broker_name, str(change.broker_id)
        if isinstance(change, BrokerRemoved) and change.row is None:
            yield "name", change.broker_name
    for of in operations(change):
        if isinstance(of, cells.SetQueueData):
            yield from (("queues", of.broker_name, topic) for topic in of.queue_datas)
        elif isinstance(of, cells.DropQueueData):
            yield from (("queues", of.broker_name, topic) for topic in of.topics)
        elif isinstance(of, cells.SetKv):
            yield "kv", of.kv_namespace, of.key or ""
        elif isinstance(of, cells.SetConfig):
            yield from (("config", "", key) for key in of.config)


def lost(known: Tables, there: Tables, touched: set[Cell], *, whole: bool) -> Iterator[Gift]:
    """What Redis must get back to have the known tables again, except cells that the new history touched.

    Args:
        touched: the cells of all known changes since the loss. whole: every change since the loss is known. If not,
            only missing cells are given back, and no present cell is changed.
    """
    yield from _brokers(known, there, touched, whole)
    for name in known.broker_topics.keys() | (there.broker_topics.keys() if whole else ()):
        if name in known.brokers and ("name", name) not in touched:
            old = {topic: known.topics[topic][name] for topic in known.broker_topics.get(name, ())}
            new = {topic: there.topics[topic][name] for topic in there.broker_topics.get(name, ())}
            yield from _values("queues", name, old, new, touched, whole)
    for name in known.kv.keys() | there.kv.keys():
        if name in known.kv and name not in there.kv and not known.kv[name]:
            yield Values("kv", name, {}, ())
        yield from _values("kv", name, known.kv.get(name, {}), there.kv.get(name, {}), touched, whole)
    # no event removes a setting
    yield from _values("config", "", known.config, there.config, touched, whole, removes=False)


def _brokers(known: Tables, there: Tables, touched: set[Cell], whole: bool) -> Iterator[Gift]:
    for name, row in there.brokers.items() if whole else ():
        old = known.brokers.get(name)
        for addr in row.broker_addrs.values():
            if (old is None or addr not in old.broker_addrs.values()) and ("addr", name, addr) not in touched:
                yield GoneBroker(name, addr)
    for name, row in known.brokers.items():
        new = there.brokers.get(name)
        for broker_id, addr in sorted(row.broker_addrs.items()):
            taken = new is not None and (
                new.broker_addrs.get(broker_id) == addr
                if whole
                else addr in new.broker_addrs.values() or broker_id in new.broker_addrs
            )
            if not taken and touched.isdisjoint({("addr", name, addr), ("id", name, str(broker_id))}):
                yield LostBroker(name, broker_id, addr)


def _values(
    kind: str, name: str, old: Mapping[str, str | QueueData], new: Mapping[str, str | QueueData], touched: set[Cell],
    whole: bool, *, removes: bool = True,
) -> Iterator[Gift]:  # fmt: skip
    given = [
        key for key, value in old.items()
        if new.get(key) != value and (whole or key not in new) and (kind, name, key) not in touched
    ]  # fmt: skip
    gone = [key for key in new if key not in old and (kind, name, key) not in touched] if whole and removes else []
    for some, more in itertools.zip_longest(_batches(given, old), _batches(gone, {})):
        yield Values(kind, name, {key: old[key] for key in some or ()}, more or ())


def _batches(keys: Sequence[str], values: Mapping[str, str | QueueData]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for key in keys:
        value = values.get(key, "")
        more = len(value) if isinstance(value, str) else 0
        if len(batch) == AT_ONCE or (batch and size + more > _BYTES_AT_ONCE):
            yield batch
            batch, size = [], 0
        batch.append(key)
        size += more
    if batch:
        yield batch
