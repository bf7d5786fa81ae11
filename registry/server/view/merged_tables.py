"""Tables that keep what Redis has lost: served after Redis came back with less, until the grace is over."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import UNSET

from ...events.changes import BrokerRegistered, BrokerRemoved, Change
from ...model import BrokerRow
from ...tables.tables import Tables


def merge_tables(known: Tables, new: Tables) -> None:
    """Take everything of ``new`` into ``known``; what only ``known`` has stays."""
    for cluster, names in new.clusters.items():
        known.clusters.setdefault(cluster, set()).update(names)
    for name, row in new.brokers.items():
        known.brokers[name] = _with_addrs_of(known.brokers.get(name), row)
    for topic, queue_datas in new.topics.items():
        for name, queue_data in queue_datas.items():
            known.set_queue_data(topic, name, queue_data)
    known.filter_servers.update(new.filter_servers)
    for topic, mappings in new.mappings.items():
        known.mappings.setdefault(topic, {}).update(mappings)
    for kv_namespace, table in new.kv.items():
        known.kv.setdefault(kv_namespace, {}).update(table)
    known.config.update(new.config)


def _with_addrs_of(old: BrokerRow | None, row: BrokerRow) -> BrokerRow:
    """The new row, with the addresses of the old one under ids that the new one does not have."""
    taken = set(row.broker_addrs.values())
    addrs = {broker_id: addr for broker_id, addr in old.broker_addrs.items() if addr not in taken} if old else {}
    return _with_addrs(row, addrs | row.broker_addrs)


def _with_addrs(row: BrokerRow, addrs: dict[int, str]) -> BrokerRow:
    return BrokerRow(row.cluster, addrs, row.zone_name, row.enable_acting_master, row.rev)


def apply_merged(known: Tables, change: Change) -> Collection[str]:
    """Apply an event to tables that hold more than Redis had when it wrote the event.

    Additions and explicit changes are applied as always. A removal takes only the address that it names: that its row
    is empty in a Redis that lost the others does not mean that they are gone.

    Returns:
        the topics whose route may look different now.
    """
    if not isinstance(change, (BrokerRegistered, BrokerRemoved)):
        return known.apply(change)
    name = change.broker_name
    old = known.brokers.get(name)
    touched = set(known.broker_topics.get(name, ()))
    if isinstance(change, BrokerRemoved):
        if old is None or change.addr is None or change.row is UNSET:
            return ()
        if change.row is not None and change.addr in change.row.addrs.values():
            return ()  # it is alive under another cluster, and stays
        addrs = {broker_id: addr for broker_id, addr in old.broker_addrs.items() if addr != change.addr}
        if not addrs:
            return known.drop_broker(name)
        known.brokers[name] = _with_addrs(old, addrs)
        return touched
    affected = known.apply(change)
    row = known.brokers.get(name)
    if old is not None and row is not None and row is not old:
        known.brokers[name] = _with_addrs_of(old, row)
    return touched.union(affected)
