"""What a registration changes, given the tables: the decision part of registerBroker, pure.

Source: RouteInfoManager.registerBroker (rocketmq 5.x); semantics 12-25.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from registry.model import (
    MASTER_ID,
    PERM_WRITE,
    BrokerRow,
    DataVersion,
    QueueData,
    Registration,
)
from registry.tables import Cells, Tables


class Changes(NamedTuple):
    """The difference: queue data to write, topics to take away, mappings to store (topic, brokerName, JSON).

    before: what each of ``topics`` replaces, in their order; None where there was nothing.
    """

    topics: dict[str, QueueData]
    dropped: list[str]
    mappings: list[tuple[str, str, str]]
    before: Sequence[QueueData | None]


def compare(
    registration: Registration,
    known_version: DataVersion | None,
    tables: Tables,
    *,
    delete_missing_topics: bool = False,
    restore_missing_topics: bool = True,
    cells: list[Cells] | None = None,
) -> Changes:
    """Which queue data, topics and mappings this registration changes.

    Args:
        known_version: the DataVersion of this very process's last registration; None: it is not alive.
        delete_missing_topics: deleteTopicWithBrokerRegistration.
        restore_missing_topics: whether an unchanged version brings back what was deleted meanwhile (5.x).
        cells: takes what ``tables.topics`` has for each of the result's topics that stands there.

    Only the master's topics count, or with acting masters those of the lowest id (whose write permission goes
    while enableActingMaster is true). With the version unchanged, queue data that exists is left alone, so that
    a wiped permission survives, and queue data that is absent is added (5.x).
    """
    role = role_of(registration, tables.brokers.get(registration.broker_name))
    if not role.counts:
        return Changes({}, [], [], [])

    everything = role.is_new or known_version != registration.data_version
    name = registration.broker_name
    perm_mask = ~PERM_WRITE if role.wipes_write else -1
    topics: dict[str, QueueData] = {}
    before: list[QueueData | None] = []
    table = tables.topics
    seen: list[Cells] = [] if cells is None else cells
    for topic, config in registration.topics.items():
        queue_datas = table.get(topic)
        present = queue_datas.get(name) if queue_datas else None
        read, write, flag = config.read_queue_nums, config.write_queue_nums, config.topic_sys_flag
        perm = config.perm & perm_mask
        if present is None:
            if not everything and not restore_missing_topics:
                continue
        elif not everything or (
            present.read_queue_nums == read
            and present.write_queue_nums == write
            and present.perm == perm
            and present.topic_sys_flag == flag
        ):
            continue
        topics[topic] = QueueData(read, write, perm, flag)
        before.append(present)
        if queue_datas is not None:
            seen.append(queue_datas)

    dropped: list[str] = []
    if delete_missing_topics and not registration.mappings:
        dropped = sorted(tables.broker_topics.get(name, set()) - registration.topics.keys())
    mappings: list[tuple[str, str, str]] = []
    if everything:
        for topic, (mapped_name, mapping) in registration.mappings.items():
            if tables.mappings.get(topic, {}).get(mapped_name) != mapping:
                mappings.append((topic, mapped_name, mapping))
    return Changes(topics, dropped, mappings, before)


class Role(NamedTuple):
    """What a registration is for its brokerName.

    counts: its topics are the brokerName's. wipes_write: without write permission. is_new: nobody had its id.
    """

    counts: bool
    wipes_write: bool
    is_new: bool


def role_of(registration: Registration, row: BrokerRow | None) -> Role:
    """Its role, given the brokerName's row before it."""
    ids = _ids_after(registration, row)
    is_new = row is None or registration.broker_id not in ids
    ids.add(registration.broker_id)
    is_master = registration.broker_id == MASTER_ID
    is_prime_slave = (
        registration.enable_acting_master is not None and not is_master and registration.broker_id == min(ids)
    )
    return Role(is_master or is_prime_slave, is_prime_slave and bool(registration.enable_acting_master), is_new)


def _ids_after(registration: Registration, row: BrokerRow | None) -> set[int]:
    """Broker ids of the name once the address has left any other id it had (one address has one id)."""
    if row is None:
        return set()
    return {
        broker_id
        for broker_id, addr in row.broker_addrs.items()
        if addr != registration.broker_addr or broker_id == registration.broker_id
    }
