"""Takes snapshots: reads the tables from Redis as of one change, with which the lake's history begins or goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from mqregistry.behaviour import behaviour_of
from mqregistry.errors import StoreError
from mqregistry.events.changes import BrokerReaped, BrokerRegistered, Change, ConfigSet, KvPut, Live, Parts, Row
from mqregistry.store.change_reader import ChangeReader
from mqregistry.store.snapshot import NamespaceHead, read_head, read_lives, read_tables
from mqregistry.store.store import Store, open_existing
from mqregistry.tables.live_table import LiveTable
from mqregistry.tables.tables import Tables

from ..lake.lake import Lake
from ..lake.tables import add

_PART_TOPICS: Final = 500


class Snapshot(NamedTuple):
    """A snapshot in the lake.

    ``seq``: the last change that it includes. ``ms``: the time of Redis then. ``last_id``: the entry of that change;
    the stream is read after it. ``rows``: how many events the snapshot consists of.
    """

    epoch: str
    seq: int
    ms: int
    last_id: str
    rows: int = 0
    compat: str = "5.x"


class Exact(NamedTuple):
    """The tables in Redis right after change ``seq``, at ``ms``."""

    epoch: str
    seq: int
    ms: int
    last_id: str
    tables: Tables
    lives: LiveTable
    compat: str


def take(spark: SparkSession, redis_url: str, namespace: str, lake: Lake, *, behind_gap: bool = False) -> Snapshot:
    """Read the tables and write them into the lake.

    If the stream still has its first entry, it has the whole history: the snapshot is then empty, of the time before.

    Args:
        behind_gap: entries of the stream are missing, so that the snapshot must have the tables.

    Raises:
        StoreError: no such namespace, or another schema; the stream was trimmed while it was read.
        StoreUnavailable: no answer.
    """
    snapshot, found = asyncio.run(read(redis_url, namespace, behind_gap=behind_gap))
    write(spark, lake, namespace, snapshot, found)
    return snapshot


async def read(redis_url: str, namespace: str, *, behind_gap: bool = False) -> tuple[Snapshot, list[Change]]:
    """What :func:`take` writes."""
    async with open_existing(redis_url, namespace) as store:
        begun = None if behind_gap else await _from_first_entry(store)
        if begun is not None:
            return begun, []
        exact = await read_exact(store)
        found = list(events_of(exact))
        return Snapshot(exact.epoch, exact.seq, exact.ms, exact.last_id, len(found), exact.compat), found


def head_of(redis_url: str, namespace: str) -> NamespaceHead:
    """The state of a namespace now.

    Raises:
        As :func:`take`.
    """

    async def ask() -> NamespaceHead:
        async with open_existing(redis_url, namespace) as store:
            return await read_head(store)

    return asyncio.run(ask())


async def _from_first_entry(store: Store) -> Snapshot | None:
    """The empty snapshot, if the stream begins with the first change, or nothing ever changed."""
    head = await read_head(store)
    try:
        changes = await ChangeReader(store, "0-0").read(block_ms=0, count=1)
    except StoreError:  # the first entry cannot be read
        return None
    if not changes:
        return Snapshot(head.epoch, 0, head.now_ms, "0-0", 0, store.compat) if head.seq == 0 else None
    first = changes[0]
    return Snapshot(head.epoch, 0, first.ms, "0-0", 0, store.compat) if first.seq == 1 else None


async def read_exact(store: Store) -> Exact:
    """All tables as of one change: they are read in pages; then events bring all of them to the same, later change.

    Raises:
        StoreError: the stream was trimmed, or the namespace was made again, meanwhile: repeat the call.
    """
    behaviour = behaviour_of(store.compat)
    before, tables = await read_tables(store)
    lives = LiveTable(tables, live_by_cluster=behaviour.live_by_cluster)
    async for who, _, infos in read_lives(store):
        lives.by_who[who] = infos
    after = await read_head(store)
    if after.epoch != before.epoch:
        raise StoreError(f"namespace {store.namespace!r} was made again while it was read: try again")
    last_id = before.last_id
    async for entry_id, change in read_events(store, before.last_id, before.seq, after.seq):
        tables.apply(change)
        lives.apply(change)
        last_id = entry_id
    return Exact(before.epoch, after.seq, after.now_ms, last_id, tables, lives, store.compat)


async def read_events(store: Store, last_id: str, seq: int, upto_seq: int) -> AsyncIterator[tuple[str, Change]]:
    """The changes seq + 1 to ``upto_seq``, which follow ``last_id``, each with its id and with all its parts.

    Raises:
        StoreError: a change is missing.
    """
    reader, parts = ChangeReader(store, last_id), Parts()
    while seq < upto_seq:
        changes = await reader.read(block_ms=0, count=min(500, upto_seq - seq))
        for change in changes:
            if change.seq <= seq:
                continue
            if change.seq != seq + 1:
                break
            seq = change.seq
            for whole in parts.add(change):
                yield reader.last_id, whole
        else:
            if changes:
                continue
        raise StoreError(
            f"the change stream of namespace {store.namespace!r} lacks change {seq + 1}: the stream was trimmed "
            "before it was read; try again, and let Redis keep more of it"
        )


def events_of(exact: Exact) -> Iterator[Change]:
    """Events that fill empty tables with the snapshot; they are the parts of one change."""
    events = list(_events_of(exact))
    for part, change in enumerate(events, 1):
        yield msgspec.structs.replace(change, part=part, parts=len(events))


def _events_of(exact: Exact) -> Iterator[Change]:
    tables = exact.tables

    def event(kind: type[Change], **fields: Any) -> Change:
        return kind(exact.seq, exact.ms, **fields)

    names: dict[str, None] = {}
    for who, infos in sorted(exact.lives.by_who.items()):
        for name, info in sorted(infos.items()):
            names[name] = None
            live = Live(info.timeout_ms, info.counter or 0, info.timestamp or 0, info.state_version or 0, info.ha)
            yield event(
                BrokerRegistered, broker_name=name, who=who, cluster=info.cluster, addr=info.addr,
                broker_id=info.broker_id, live=live,
            )  # fmt: skip
    for name in names:  # the events above also put the name into its cluster, even if it has left the cluster
        yield event(BrokerReaped, broker_name=name, row=None)
    for who, servers in sorted(tables.filter_servers.items()):
        yield event(BrokerRegistered, who=who, filter_servers=servers)
    for cluster, members in sorted(tables.clusters.items()):
        for name in sorted(members):
            yield event(BrokerRegistered, broker_name=name, cluster=cluster)
    for name, row in sorted(tables.brokers.items()):
        value = Row(row.cluster, row.broker_addrs, row.zone_name, row.enable_acting_master)
        yield event(BrokerRegistered, broker_name=name, row=value, rev=row.rev)
    for name, topics in sorted(tables.broker_topics.items()):
        for some in _in_parts(sorted(topics)):
            datas = {topic: tables.topics[topic][name] for topic in some}
            yield event(BrokerRegistered, broker_name=name, topics=datas)
    mappings = [(t, name, text) for t, found in sorted(tables.mappings.items()) for name, text in sorted(found.items())]
    for part in _in_parts(mappings):
        yield event(BrokerRegistered, mappings=list(part))
    for namespace, table in sorted(tables.kv.items()):
        yield event(KvPut, kv_namespace=namespace)
        for key, text in sorted(table.items()):
            yield event(KvPut, kv_namespace=namespace, key=key, value=text)
    if tables.config:
        yield event(ConfigSet, config=tables.config, config_rev=tables.config_rev)


def _in_parts(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (items[first : first + _PART_TOPICS] for first in range(0, len(items), _PART_TOPICS))


def write(spark: SparkSession, lake: Lake, namespace: str, snapshot: Snapshot, events: list[Change]) -> None:
    """Write a snapshot into the lake, unless the lake already has one of this ``seq``."""
    about = msgspec.json.encode(snapshot._asdict()).decode()
    rows = [(snapshot.seq, snapshot.ms, "snapshot", 0, snapshot.rows, about)]
    rows += [
        (change.seq, change.ms, change.type, change.part, change.parts, msgspec.json.encode(change).decode())
        for change in events
    ]
    add(spark, lake, "bronze/snapshot", (namespace, snapshot.epoch), rows, number=snapshot.seq)


def snapshots(lake: Lake, namespace: str, epoch: str) -> list[Snapshot]:
    """The snapshots that were taken of an epoch, in the order of their seq."""
    rows = lake.read("bronze/snapshot", namespace=namespace, epoch=epoch, where=pc.field("part") == 0)
    found = (Snapshot(**msgspec.json.decode(text)) for text in rows["e"].to_pylist())
    return sorted(found, key=lambda snapshot: snapshot.seq)
