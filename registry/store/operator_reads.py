"""Reads parts of the tables for the operators' commands; writes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from ..behaviour import behaviour_of
from ..events.by import By
from ..model import ORDER_TOPIC_CONFIG, BrokerRow, QueueData
from ..tables.live_table import LiveInfo
from ..tables.tables import Tables
from . import keys
from .large_rows import read_set
from .processes import BrokerConnection, read_connections
from .snapshot import (
    broker_row,
    decode_queue_data,
    read_head,
    read_lives,
    read_queues,
    read_section,
    read_topic_queues,
)
from .store import Store

_BROKERS_PER_CALL: Final = 500
_SETS_AT_ONCE: Final = 500
_LOOKED_AT_AGAIN: Final = 200
"""The most entries that seem wrong and are read again, as the tables may have changed during the first read."""


class VersionInfo(msgspec.Struct, frozen=True, rename="camel"):
    """A DataVersion under RocketMQ's own names."""

    counter: int
    timestamp: int
    state_version: int


class BrokerInfo(msgspec.Struct, frozen=True, rename="camel"):
    """One broker process under one brokerName. ``expires_in_ms`` is negative for an overdue broker."""

    cluster: str
    broker_name: str
    broker_id: int
    broker_addr: str
    ha_server_addr: str
    data_version: VersionInfo
    last_update_timestamp: int
    heartbeat_timeout_millis: int
    heard_ms_ago: int
    expires_in_ms: int
    front_ends: int
    # who registered it, from the lake (None: the lake does not know); UNSET: Redis was read, which does not have this
    registered_by: By | msgspec.UnsetType | None = msgspec.UNSET
    # its connections to front ends, from Redis; UNSET: the lake was read, which does not have them
    connections: list[BrokerConnection] | msgspec.UnsetType = msgspec.UNSET


class TopicInfo(msgspec.Struct, frozen=True, rename="camel"):
    """One topic: numbers of queues summed over its brokerNames; ``perms``: every perm that one of them has."""

    topic: str
    broker_names: list[str]
    read_queue_nums: int
    write_queue_nums: int
    perms: list[int]


def broker_info(
    name: str, live: LiveInfo, *, heard_ms: int, deadline_ms: int, now_ms: int, front_ends: int,
    by: By | msgspec.UnsetType | None = msgspec.UNSET,
    connections: list[BrokerConnection] | msgspec.UnsetType = msgspec.UNSET,
) -> BrokerInfo:  # fmt: skip
    """One broker process under one brokerName, in the form for operators.

    Args:
        name: the brokerName. heard_ms: time of its last heartbeat. deadline_ms: when it is removed without another.
        front_ends: to how many it is connected. by, connections: registered_by and connections of the result.
    """
    return BrokerInfo(
        cluster=live.cluster,
        broker_name=name,
        broker_id=live.broker_id,
        broker_addr=live.addr,
        ha_server_addr=live.ha or "",
        data_version=VersionInfo(live.counter or 0, live.timestamp or 0, live.state_version or 0),
        last_update_timestamp=heard_ms,
        heartbeat_timeout_millis=live.timeout_ms,
        heard_ms_ago=max(0, now_ms - heard_ms),
        expires_in_ms=deadline_ms - now_ms,
        front_ends=front_ends,
        registered_by=by,
        connections=connections,
    )


async def read_clusters(store: Store) -> tuple[dict[str, list[str]], dict[str, BrokerRow]]:
    """Cluster -> its brokerNames, and every broker row: the contents of an answer to request 106."""
    clusters: dict[str, set[str]] = {}
    async for cluster, flat in read_section(store, "clusters"):
        clusters.setdefault(cluster, set()).update(member.decode() for member in flat)
    rows = {name: broker_row(flat) async for name, flat in read_section(store, "brokers")}
    return {cluster: sorted(names) for cluster, names in sorted(clusters.items())}, dict(sorted(rows.items()))


async def read_brokers(store: Store) -> list[BrokerInfo]:
    """Every broker process under each of its brokerNames."""
    now_ms = (await read_head(store)).now_ms
    found = {who: (int(fields.get(b"update_ms") or 0), infos) async for who, fields, infos in read_lives(store)}
    whos, namespace = list(found), store.namespace
    connections = await read_connections(store, now_ms)
    brokers: list[BrokerInfo] = []
    for first in range(0, len(whos), _BROKERS_PER_CALL):
        part = whos[first : first + _BROKERS_PER_CALL]
        channels = await store.read(*(("HGETALL", keys.channels(namespace, who)) for who in part))
        deadlines = await store.read(*(("ZSCORE", keys.deadlines(namespace), who) for who in part))
        for who, open_ones, deadline in zip(part, channels, deadlines, strict=True):
            heard_ms, infos = found[who]
            held = connections.of(who, open_ones)
            brokers += (
                broker_info(
                    name, live, heard_ms=heard_ms, now_ms=now_ms, front_ends=len(held), connections=held,
                    deadline_ms=int(float(deadline)) if deadline else heard_ms + live.timeout_ms,
                )
                for name, live in infos.items()
            )  # fmt: skip
    return sorted(brokers, key=lambda b: (b.cluster, b.broker_name, b.broker_id, b.broker_addr))


async def read_topics(store: Store) -> list[TopicInfo]:
    """Read every topic, sorted by its name."""
    found: dict[str, dict[str, QueueData]] = {}
    async for name, cells in read_queues(store):
        for raw, data in cells.items():
            topic = raw.decode("utf-8", "replace")
            found.setdefault(topic, {})[name] = decode_queue_data(topic, data)
    return [
        TopicInfo(
            topic,
            sorted(datas),
            sum(data.read_queue_nums for data in datas.values()),
            sum(data.write_queue_nums for data in datas.values()),
            sorted({data.perm for data in datas.values()}),
        )
        for topic, datas in sorted(found.items())
    ]


async def read_topic_tables(store: Store, topic: str) -> Tables:
    """The part of the tables that one topic's route needs, and the shared configuration.

    Cost: about five round trips, and a short script for every 500 brokerNames of the namespace.
    """
    namespace = store.namespace
    queue_datas = await read_topic_queues(store, topic)
    mappings, order, config = await store.read(
        ("HGETALL", keys.mapping(namespace, topic)),
        ("HGET", keys.kv(namespace, ORDER_TOPIC_CONFIG), topic),
        ("HGETALL", keys.config(namespace)),
    )
    tables = Tables()
    rows = await read_rows(store, queue_datas)
    tables.brokers.update(rows)
    for name, data in queue_datas.items():
        if name in rows:  # else it was removed meanwhile
            tables.set_queue_data(topic, name, data)
    who = behaviour_of(store.compat).who
    whos = [who(row.cluster, addr) for row in tables.brokers.values() for addr in row.broker_addrs.values()]
    filters = await store.read(*(("LRANGE", keys.filter_servers(namespace, one), 0, -1) for one in whos))
    for one, servers in zip(whos, filters, strict=True):
        tables.set_filter_servers(one, [server.decode() for server in servers])
    for name, mapping in mappings.items():
        tables.set_mapping(topic, name.decode(), mapping.decode())
    if order is not None:
        tables.kv[ORDER_TOPIC_CONFIG] = {topic: order.decode()}
    tables.config = {key.decode(): value.decode("utf-8", "replace") for key, value in config.items()}
    return tables


async def read_rows(store: Store, broker_names: Iterable[str]) -> dict[str, BrokerRow]:
    """The rows of the brokerNames that exist."""
    names = list(broker_names)
    rows = await store.read(*(("HGETALL", keys.broker(store.namespace, name)) for name in names))
    return {
        name: broker_row([part for pair in row.items() for part in pair])
        for name, row in zip(names, rows, strict=True)
        if row
    }


async def read_topic_names(store: Store) -> set[str]:
    """The names of all topics. After a broker adds or removes many topics, the set may be some seconds old."""
    return {topic.decode("utf-8", "replace") for topic in await read_set(store, keys.topics(store.namespace))}


async def read_kv_value(store: Store, kv_namespace: str, key: str) -> str | None:
    """One value of the KV configuration; None: there is no such key."""
    (value,) = await store.read(("HGET", keys.kv(store.namespace, kv_namespace), key))
    return None if value is None else value.decode("utf-8", "replace")


async def nowhere_else(store: Store, topics: Iterable[str], broker_name: str) -> list[str]:
    """The topics of ``topics`` that only this brokerName has; reads all queue data."""
    alone = {topic.encode() for topic in topics}
    async for name, cells in read_queues(store):
        if name != broker_name:
            alone -= cells.keys()
    return sorted(topic.decode() for topic in alone)


class WorkerInfo(msgspec.Struct, frozen=True):
    """The lease of a worker. heard_ms: its last renewal; None: it ran out. brokers: how many have channels there."""

    incarnation: str
    heard_ms: int | None
    brokers: int


async def read_workers(store: Store) -> list[WorkerInfo]:
    """The worker of every lease that Redis still knows; the last renewed lease comes first."""
    namespace = store.namespace
    (members,) = await store.read(("SMEMBERS", keys.leases(namespace)))
    names = sorted(member.decode() for member in members)
    replies = await store.read(
        *(one for name in names
          for one in (("GET", keys.lease(namespace, name)), ("SCARD", keys.held(namespace, name))))
    )  # fmt: skip
    found = [
        WorkerInfo(name, int(heard) if heard else None, int(held))
        for name, heard, held in zip(names, replies[::2], replies[1::2], strict=True)
    ]  # fmt: skip
    return sorted(found, key=lambda worker: -(worker.heard_ms or 0))


async def count_unsettled(store: Store) -> int:
    """How many brokerNames have topics that tidy_topics has yet to add to the sets of topics, or remove from them."""
    arriving, leaving = await store.read(
        ("HLEN", keys.arriving(store.namespace)), ("HLEN", keys.leaving(store.namespace))
    )  # fmt: skip
    return int(arriving) + int(leaving)


async def wrong_entries(store: Store) -> list[str]:
    """One sentence for each wrong entry of the sets topics and topic:<topic>, at most 200; reads all queue data.

    Topics that tidy_topics has yet to add or remove (:func:`count_unsettled`) are among them.
    """
    namespace, has = store.namespace, dict[bytes, set[bytes]]()
    async for name, cells in read_queues(store):
        for topic in cells:
            has.setdefault(topic, set()).add(name.encode())
    listed = await read_set(store, keys.topics(namespace))
    doubts = list[tuple[bytes, bytes]]()
    topics = sorted(listed | has.keys())
    for first in range(0, len(topics), _SETS_AT_ONCE):
        some = topics[first : first + _SETS_AT_ONCE]
        found = await store.read(*(("SMEMBERS", _key(namespace, topic)) for topic in some))
        for topic, members in zip(some, found, strict=True):
            doubts += ((topic, name) for name in sorted(set(members) ^ has.get(topic, set())))
            if (topic in listed) != bool(members):
                doubts.append((topic, b""))
    return [text for doubt in doubts[:_LOOKED_AT_AGAIN] if (text := await _look_again(store, *doubt))]


def _key(namespace: str, topic: bytes) -> bytes:
    return keys.topic(namespace, "").encode() + topic


async def _look_again(store: Store, topic: bytes, name: bytes) -> str:
    key, shown = _key(store.namespace, topic), topic.decode("utf-8", "replace")
    if not name:
        listed, there = await store.read(("SISMEMBER", keys.topics(store.namespace), topic), ("EXISTS", key))
        return f"topics has {shown}, which is nowhere" if listed > there else "" if listed == there else (
            f"topics lacks {shown}")  # fmt: skip
    member, has = await store.read(
        ("SISMEMBER", key, name), ("HEXISTS", keys.queues(store.namespace, name.decode("utf-8", "replace")), topic)
    )
    if member == has:
        return ""
    return f"topic:{shown} {'has' if member else 'lacks'} {name.decode('utf-8', 'replace')}"
