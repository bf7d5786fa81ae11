"""Reads of the tables for operators: only what one question needs, and never a write."""

from __future__ import annotations

import difflib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from registry.behaviour import FIVE, behaviour_of
from registry.config import Settings
from registry.errors import StoreError
from registry.model import ORDER_TOPIC_CONFIG, BrokerRow, QueueData, TopicRoute
from registry.route import pick_up_route
from registry.store import keys
from registry.store.address import without_password
from registry.store.connect import mapped_errors
from registry.store.snapshot import broker_row, decode_queue_data, read_head, read_section, read_topic_rows
from registry.store.store import Store, check_schema
from registry.tables import Tables

_PER_PIPELINE: Final = 500


class VersionInfo(msgspec.Struct, frozen=True, rename="camel"):
    """A DataVersion under RocketMQ's own names."""

    counter: int
    timestamp: int
    state_version: int


class BrokerInfo(msgspec.Struct, frozen=True, rename="camel"):
    """One broker process under one brokerName. ``expires_in_ms`` may be negative while a grace lasts."""

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


class TopicInfo(msgspec.Struct, frozen=True, rename="camel"):
    """One topic, summed over its brokerNames; ``perms`` are all that occur."""

    topic: str
    broker_names: list[str]
    read_queue_nums: int
    write_queue_nums: int
    perms: list[int]


@asynccontextmanager
async def existing_namespace(settings: Settings) -> AsyncIterator[Store]:
    """A store on a namespace that is there already: looking must not make one.

    Raises:
        StoreError: there is no such namespace, or it is of another schema version.
        StoreUnavailable: no answer.
    """
    async with Store(
        settings.redis, settings.namespace, timeout_ms=settings.redis_timeout_ms, compat=settings.compat
    ) as store:
        where = f"Redis at {without_password(settings.redis)}"
        with mapped_errors(where):
            schema = await store.client.hget(keys.meta(settings.namespace), "schema")
        if schema is None:
            raise StoreError(
                f"no namespace {settings.namespace!r} in the {where}: no front end has served it yet; "
                "is it another --namespace, or another --redis?"
            )
        check_schema(settings.namespace, schema.decode())
        yield store


async def read_config(settings: Settings) -> dict[str, str]:
    """The shared configuration; empty where there is no such namespace."""
    async with Store(settings.redis, settings.namespace, timeout_ms=settings.redis_timeout_ms) as store:
        with mapped_errors(f"Redis at {without_password(settings.redis)}"):
            found = await store.client.hgetall(keys.prefix(settings.namespace) + "config")
    return {key.decode(): value.decode("utf-8", "replace") for key, value in found.items()}


async def read_clusters(store: Store) -> tuple[dict[str, list[str]], dict[str, BrokerRow]]:
    """Cluster -> its brokerNames, and every broker row: what 106 tells."""
    clusters: dict[str, set[str]] = {}
    async for cluster, flat in read_section(store, "clusters"):
        clusters.setdefault(cluster, set()).update(member.decode() for member in flat)
    rows = {name: broker_row(flat) async for name, flat in read_section(store, "brokers")}
    return {cluster: sorted(names) for cluster, names in sorted(clusters.items())}, dict(sorted(rows.items()))


async def read_brokers(store: Store) -> list[BrokerInfo]:
    """Every broker process under every brokerName that it stands under."""
    now_ms = (await read_head(store)).now_ms
    live: dict[str, dict[bytes, bytes]] = {}
    async for name, flat in read_section(store, "live"):
        live[name] = dict(zip(flat[::2], flat[1::2], strict=True))
    infos = []
    names = list(live)
    P = keys.prefix(store.namespace)
    for first in range(0, len(names), _PER_PIPELINE):
        part = names[first : first + _PER_PIPELINE]
        replies = await _pipeline(
            store,
            [("HLEN", f"{P}channels:{name}") for name in part] + [("ZSCORE", f"{P}deadlines", name) for name in part],
        )
        for at, name in enumerate(part):
            deadline = replies[len(part) + at]
            infos += _broker_infos(live[name], now_ms, int(replies[at]), float(deadline) if deadline else None)
    return sorted(infos, key=lambda b: (b.cluster, b.broker_name, b.broker_id, b.broker_addr))


def _broker_infos(
    fields: dict[bytes, bytes], now_ms: int, front_ends: int, deadline_ms: float | None
) -> list[BrokerInfo]:
    def number(field: bytes) -> int:
        return int(fields.get(field) or 0)

    timeout_ms, updated = number(b"timeout_ms"), number(b"update_ms")
    if deadline_ms is None:
        deadline_ms = updated + timeout_ms
    return [
        BrokerInfo(
            cluster=fields.get(b"cluster", b"").decode(),
            broker_name=field[5:].decode(),
            broker_id=int(broker_id),
            broker_addr=fields.get(b"addr", b"").decode(),
            ha_server_addr=fields.get(b"ha", b"").decode(),
            data_version=VersionInfo(number(b"counter"), number(b"timestamp"), number(b"state_version")),
            last_update_timestamp=updated,
            heartbeat_timeout_millis=timeout_ms,
            heard_ms_ago=max(0, now_ms - updated),
            expires_in_ms=int(deadline_ms) - now_ms,
            front_ends=front_ends,
        )
        for field, broker_id in fields.items()
        if field.startswith(b"name:")
    ]


async def read_topics(store: Store) -> list[TopicInfo]:
    """Every topic."""
    found: dict[str, TopicInfo] = {}
    async for rows in read_topic_rows(store):
        for topic, flat in rows:
            datas = [decode_queue_data(topic, data) for data in flat[1::2]]
            found[topic] = TopicInfo(
                topic,
                sorted(flat[::2]),
                sum(data.read_queue_nums for data in datas),
                sum(data.write_queue_nums for data in datas),
                sorted({data.perm for data in datas}),
            )
    return [found[topic] for topic in sorted(found)]


async def read_route(store: Store, topic: str) -> TopicRoute | None:
    """One topic's route as clients get it; a handful of commands, whatever the size of the tables."""
    P = keys.prefix(store.namespace)
    flat, mappings, order, config, compat = await _pipeline(
        store,
        [
            ("HGETALL", f"{P}topic:{topic}"),
            ("HGETALL", f"{P}mapping:{topic}"),
            ("HGET", f"{P}kv:{ORDER_TOPIC_CONFIG}", topic),
            ("HGETALL", f"{P}config"),
            ("HGET", f"{P}meta", "compat"),
        ],
    )
    tables = Tables()
    queue_datas: dict[str, QueueData] = {name.decode(): decode_queue_data(topic, data) for name, data in flat.items()}
    rows = await _pipeline(store, [("HGETALL", f"{P}broker:{name}") for name in queue_datas])
    for (name, data), row in zip(queue_datas.items(), rows, strict=True):
        tables.set_queue_data(topic, name, data)
        if row:
            tables.brokers[name] = broker_row([part for pair in row.items() for part in pair])
    behaviour = behaviour_of(compat.decode()) if compat else FIVE
    processes = [
        behaviour.who(row.cluster, addr) for row in tables.brokers.values() for addr in row.broker_addrs.values()
    ]
    filters = await _pipeline(store, [("LRANGE", f"{P}filter:{process}", 0, -1) for process in processes])
    for process, servers in zip(processes, filters, strict=True):
        tables.set_filter_servers(process, [server.decode() for server in servers])
    for name, mapping in mappings.items():
        tables.set_mapping(topic, name.decode(), mapping.decode())
    if order is not None:
        tables.kv[ORDER_TOPIC_CONFIG] = {topic: order.decode()}
    return pick_up_route(
        tables,
        topic,
        acting_master=config.get(b"supportActingMaster", b"").lower() == b"true",
        order_messages=config.get(b"orderMessageEnable", b"").lower() == b"true",
        live_by_cluster=behaviour.live_by_cluster,
    )


async def closest_topics(store: Store, topic: str) -> list[str]:
    """Names that whoever asked for ``topic`` may have meant, best first; at most five."""
    names = set()
    with mapped_errors("reading the topic names"):
        async for name in store.client.sscan_iter(keys.prefix(store.namespace) + "topics", count=1000):
            names.add(name.decode())
    by_lower = {name.lower(): name for name in sorted(names, reverse=True)}
    wanted = topic.lower()
    inside = sorted((name for name in names if wanted in name.lower()), key=lambda name: (len(name), name))
    close = [by_lower[name] for name in difflib.get_close_matches(wanted, by_lower, 5, 0.6)]
    return list(dict.fromkeys([*inside[:3], *close]))[:5]


async def _pipeline(store: Store, commands: list[tuple[Any, ...]]) -> list[Any]:
    """Send commands together; not a transaction."""
    if not commands:
        return []
    with mapped_errors(f"reading namespace {store.namespace!r}"):
        pipeline = store.client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        replies: list[Any] = await pipeline.execute()
    return replies
