"""The tables exactly as of one change: where the lake's past begins, and what an audit compares with."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.lake import Lake, places
from pipeline.lives import LiveInfo, Lives
from pipeline.schema import BRONZE
from registry import change as kinds
from registry.behaviour import behaviour_of
from registry.change import Change, Live, Parts, Row, decode_change
from registry.errors import StoreError
from registry.store import keys
from registry.store.address import without_password
from registry.store.connect import mapped_errors
from registry.store.snapshot import ChangeReader, read_head, read_section, read_tables
from registry.store.store import Store, check_schema
from registry.tables import Tables

_PART_TOPICS: Final = 500


class Snapshot(NamedTuple):
    """A snapshot in the lake.

    seq: the change it is as of; ms: Redis time then; last_id: the change stream's entry of that seq, after which to
    read on; rows: events that it is made of.
    """

    epoch: str
    seq: int
    ms: int
    last_id: str
    rows: int = 0
    compat: str = "5.x"


class Exact(NamedTuple):
    """What Redis held right after change ``seq``, at ``ms``."""

    epoch: str
    seq: int
    ms: int
    last_id: str
    tables: Tables
    lives: Lives
    compat: str


def take(redis_url: str, namespace: str, lake: Lake, *, behind_gap: bool = False) -> Snapshot:
    """Read the tables and write them into the lake. A stream that still has its first entry tells everything itself:
    the snapshot is then the empty one before it.

    Args:
        behind_gap: the stream does not tell everything, whatever it begins with.

    Raises:
        StoreError: no such namespace, or another schema; the stream was trimmed while it was read.
        StoreUnavailable: no answer.
    """
    return asyncio.run(take_async(redis_url, namespace, lake, behind_gap=behind_gap))


async def take_async(redis_url: str, namespace: str, lake: Lake, *, behind_gap: bool = False) -> Snapshot:
    """The same for a caller with an event loop."""
    async with open_existing(redis_url, namespace) as store:
        begun = None if behind_gap else await _from_first_entry(store)
        if begun is not None:
            snapshot, events = begun, []
        else:
            exact = await read_exact(store)
            events = list(events_of(exact))
            snapshot = Snapshot(exact.epoch, exact.seq, exact.ms, exact.last_id, len(events), exact.compat)
    _write(lake, namespace, snapshot, events)
    return snapshot


def read_now(redis_url: str, namespace: str) -> int:
    """The time of a namespace, ms: that of its Redis.

    Raises:
        As :func:`take`.
    """

    async def read() -> int:
        async with open_existing(redis_url, namespace) as store:
            return (await read_head(store)).now_ms

    return asyncio.run(read())


@contextlib.asynccontextmanager
async def open_existing(redis_url: str, namespace: str, *, timeout_ms: int = 10_000) -> AsyncIterator[Store]:
    """A store on a namespace that is there, with the compat that it was made for.

    Raises:
        StoreError: there is none, or it is of another schema.
        StoreUnavailable: no answer.
    """
    async with Store(redis_url, namespace, timeout_ms=timeout_ms) as store:
        where = f"Redis at {without_password(redis_url)}"
        with mapped_errors(where):
            schema, compat = await store.client.hmget(keys.meta(namespace), "schema", "compat")
        if schema is None:
            raise StoreError(
                f"no namespace {namespace!r} in the {where}: no front end has served it yet; is it another "
                "--namespace, or another --redis?"
            )
        check_schema(namespace, schema.decode())
        store.compat = compat.decode()
        yield store


async def _from_first_entry(store: Store) -> Snapshot | None:
    """The empty snapshot, if the stream begins with the first change, or nothing ever changed."""
    head = await read_head(store)
    with mapped_errors("reading the change stream"):
        entries = await store.client.xrange(keys.changes(store.namespace), count=1)
    if not entries:
        return Snapshot(head.epoch, 0, head.now_ms, "0-0", 0, store.compat) if head.seq == 0 else None
    try:
        first = decode_change(entries[0][1][b"e"])
    except (KeyError, msgspec.DecodeError):
        return None
    return Snapshot(head.epoch, 0, first.ms, "0-0", 0, store.compat) if first.seq == 1 else None


async def read_exact(store: Store) -> Exact:
    """Everything as of one change: pages first, then each event up to a seq that is later than all of them.

    Raises:
        StoreError: the stream was trimmed, or the namespace made anew, meanwhile: ask again.
    """
    behaviour = behaviour_of(store.compat)
    before, tables = await read_tables(store)
    lives = Lives(tables, live_by_cluster=behaviour.live_by_cluster)
    async for who, flat in read_section(store, "live"):
        lives.by_who[who] = _live_infos(dict(zip(flat[::2], flat[1::2], strict=True)))
    after = await read_head(store)
    if after.epoch != before.epoch:
        raise StoreError(f"namespace {store.namespace!r} was made anew while it was read: try again")
    last_id = before.last_id
    async for entry_id, change in read_events(store, before.last_id, before.seq, after.seq):
        tables.apply(change)
        lives.apply(change)
        last_id = entry_id
    return Exact(before.epoch, after.seq, after.now_ms, last_id, tables, lives, store.compat)


async def read_events(store: Store, last_id: str, seq: int, upto_seq: int) -> AsyncIterator[tuple[str, Change]]:
    """The events behind ``last_id``, of seq + 1 to ``upto_seq``, each with its id; whole sets of parts.

    Raises:
        StoreError: one is missing.
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
            f"the change stream of namespace {store.namespace!r} lacks change {seq + 1}: it was trimmed before this "
            "could be read; try again, and see that more of it is kept"
        )


def _live_infos(fields: dict[bytes, bytes]) -> dict[str, LiveInfo]:
    def number(field: bytes) -> int | None:
        return int(fields[field]) if field in fields else None

    ha = fields.get(b"ha")
    return {
        field[5:].decode(): LiveInfo(
            fields.get(b"cluster", b"").decode(), fields.get(b"addr", b"").decode(), int(broker_id),
            number(b"timeout_ms") or 0, number(b"counter"), number(b"timestamp"), number(b"state_version"),
            ha.decode() if ha is not None else None,
        )
        for field, broker_id in fields.items()
        if field.startswith(b"name:")
    }  # fmt: skip


def events_of(exact: Exact) -> Iterator[Change]:
    """Made-up events that bring about these tables, all with one seq, as one set of parts."""
    events = list(_events_of(exact))
    for part, change in enumerate(events, 1):
        yield msgspec.structs.replace(change, part=part, parts=len(events))


def _events_of(exact: Exact) -> Iterator[Change]:
    tables = exact.tables

    def event(kind: str, **fields: Any) -> Change:
        return Change(exact.seq, exact.ms, kind, **fields)

    names: dict[str, None] = {}
    for who, infos in sorted(exact.lives.by_who.items()):
        for name, info in sorted(infos.items()):
            names[name] = None
            live = Live(info.timeout_ms, info.counter or 0, info.timestamp or 0, info.state_version or 0, info.ha)
            yield event(
                kinds.BROKER_REGISTERED, broker_name=name, who=who, cluster=info.cluster, addr=info.addr,
                broker_id=info.broker_id, live=live,
            )  # fmt: skip
    for name in names:  # an event with live info tells of a cluster too, which the name need not be in any more
        yield event(kinds.BROKER_REAPED, broker_name=name, row=None)
    for who, servers in sorted(tables.filter_servers.items()):
        yield event(kinds.BROKER_REGISTERED, who=who, filter_servers=servers)
    for cluster, members in sorted(tables.clusters.items()):
        for name in sorted(members):
            yield event(kinds.BROKER_REGISTERED, broker_name=name, cluster=cluster)
    for name, row in sorted(tables.brokers.items()):
        value = Row(row.cluster, row.broker_addrs, row.zone_name, row.enable_acting_master)
        yield event(kinds.BROKER_REGISTERED, broker_name=name, row=value, rev=row.rev)
    for name, topics in sorted(tables.broker_topics.items()):
        for some in _in_parts(sorted(topics)):
            datas = {topic: tables.topics[topic][name] for topic in some}
            yield event(kinds.BROKER_REGISTERED, broker_name=name, topics=datas)
    mappings = [(t, name, text) for t, found in sorted(tables.mappings.items()) for name, text in sorted(found.items())]
    for part in _in_parts(mappings):
        yield event(kinds.BROKER_REGISTERED, mappings=list(part))
    for namespace, table in sorted(tables.kv.items()):
        yield event(kinds.KV_PUT, kv_namespace=namespace)
        for key, text in sorted(table.items()):
            yield event(kinds.KV_PUT, kv_namespace=namespace, key=key, value=text)
    if tables.config:
        yield event(kinds.CONFIG_SET, config=tables.config, config_rev=tables.config_rev)


_Item = TypeVar("_Item")


def _in_parts(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    return (items[first : first + _PART_TOPICS] for first in range(0, len(items), _PART_TOPICS))


def file_of(namespace: str, epoch: str, seq: int) -> str:
    """Where the events of a snapshot are, within the lake."""
    return f"snapshots/{places(namespace, epoch)}/seq={seq:012d}.parquet"


def _write(lake: Lake, namespace: str, snapshot: Snapshot, events: list[Change]) -> None:
    if events:
        path = lake.path(file_of(namespace, snapshot.epoch, snapshot.seq))
        lake.filesystem.create_dir(path.rpartition("/")[0], recursive=True)
        rows = [
            (0, change.part, change.seq, change.ms, change.type, change.part, change.parts,
             msgspec.json.encode(change).decode())
            for change in events
        ]  # fmt: skip
        schema = BRONZE["changes"]
        columns = [pa.array(values, f.type) for values, f in zip(zip(*rows, strict=True), schema, strict=True)]
        pq.write_table(pa.Table.from_arrays(columns, schema=schema), path, filesystem=lake.filesystem)
    content = {name: value for name, value in snapshot._asdict().items() if name != "epoch"}
    lake.commit(_log(namespace, snapshot.epoch), snapshot.seq, content)


def _log(namespace: str, epoch: str) -> str:
    return f"snapshots/{places(namespace, epoch)}"


def first(lake: Lake, namespace: str, epoch: str, *, from_seq: int = 0) -> Snapshot | None:
    """The first snapshot of ``from_seq`` or later that was taken of an epoch."""
    for number in lake.commits(_log(namespace, epoch)):
        if number >= from_seq:
            return Snapshot(epoch, **lake.read_commit(_log(namespace, epoch), number))
    return None
