"""Compares Redis and the lake's layers with each other, on Spark.

The tables in Redis and silver are compared with a replay of all changes, as of one change. Bronze is compared with the
streams, and gold with figures that are computed again (``layers.py``).
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterator
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from mqregistry.behaviour import behaviour_of
from mqregistry.errors import StoreError
from mqregistry.events.journal import STREAMS
from mqregistry.store.store import open_existing
from mqregistry.tables.live_table import LiveInfo, LiveTable
from mqregistry.tables.tables import Tables

from ..bronze import snapshot
from ..bronze.query import last_entry
from ..bronze.snapshot import Exact
from ..lake.lake import Lake, LakeError
from ..lake.tables import make_rows, replace
from ..silver import progress
from ..silver.advance import Silver
from ..silver.next_changes import MissingChanges
from .layers import CellDifference, compare_gold, compare_silver, compare_stream
from .travel import EpochPast


class Audit(NamedTuple):
    """The result of an audit.

    ``seq``: the change as of which the replay and Redis were compared. ``replayed``: the last change that came from the
    lake; later ones came from the stream. ``holes``: accepted gaps, from when to when (ms) the lake has no changes.
    entries: stream -> how many of its entries were compared with bronze. ``figures``: how many rows of gold were
    compared. missing: the changes that the lake lacks, as a sentence; nothing was compared then.
    """

    epoch: str
    seq: int
    replayed: int
    cells: int
    holes: tuple[tuple[int, int], ...]
    differences: list[CellDifference]
    entries: dict[str, int]
    figures: int
    missing: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the audit found no difference."""
        return not self.differences and self.missing is None


def check(redis_url: str, namespace: str, lake: Lake) -> None:
    """Check all that an audit needs except Spark, which takes seconds to start.

    Raises:
        LakeError: the lake has nothing of this namespace, or nothing of the epoch that Redis is in.
        StartError: the lake cannot be written, and the replay needs temporary tables there.
        StoreError: no such namespace, or another schema. StoreUnavailable: no answer.
    """
    if not lake.epochs(namespace):
        raise LakeError(
            f"the lake at {lake.root} holds nothing of namespace {namespace!r}: is it another --lake or --namespace? "
            "'mqregistry pipeline run' fills it"
        )
    epoch = snapshot.head_of(redis_url, namespace).epoch
    if epoch not in lake.epochs(namespace):
        raise LakeError(
            f"the lake at {lake.root} holds nothing of namespace {namespace!r} since Redis began anew (epoch {epoch}): "
            "run 'mqregistry pipeline run --once' first, or is it another --redis?"
        )
    lake.try_to_write()


def audit(spark: SparkSession, redis_url: str, namespace: str, lake: Lake, *, since_last: bool = False) -> Audit:
    """Replay the changes in bronze, then the later ones in the stream, and compare as the module's docstring says.

    Args:
        since_last: in bronze, silver and gold compare only rows since the last audit without differences.

    Raises:
        LakeError: the lake has nothing of this epoch.
        StoreError: the stream has lost changes that the lake does not have yet.
        StoreUnavailable: no answer.
    """
    exact = asyncio.run(_read_exact(redis_url, namespace))
    place = namespace, exact.epoch
    clean = _last_clean(lake, place) if since_last else None
    area = f"_audit/{secrets.token_hex(4)}"
    again = Silver(spark, lake, *place, area=area)
    try:
        try:
            for _ in again.advance(upto_seq=exact.seq):
                pass
        except MissingChanges as hole:
            return Audit(exact.epoch, exact.seq, hole.seq, 0, tuple(again.gaps), [], {}, 0, str(hole))
        if again.now is None:
            raise LakeError(f"the lake at {lake.root} has no changes of namespace {namespace!r} yet")
        replayed = EpochPast(lake, *place, again.now, area)
        tables = replayed.tables(again.now.ms)
        lives = LiveTable(tables, live_by_cluster=behaviour_of(again.now.compat).live_by_cluster)
        lives.by_who = replayed.lives(again.now.ms)
        asyncio.run(_go_on(redis_url, namespace, lake, again.now.seq, exact, tables, lives))
        found = list(compare(tables, lives, exact))
        found += compare_silver(spark, lake, place, area, again.now.seq, clean["seq"] if clean else -1)
        entries: dict[str, int] = {}
        for name in STREAMS:
            after = clean["ids"].get(name) if clean else None
            entries[name], differences = compare_stream(spark, redis_url, lake, name, place, after)
            found += differences
        since_ms = clean["now_ms"] if clean else None
        figures, now_ms, differences = compare_gold(spark, lake, place, f"{area}_gold", since_ms)
        found += differences
        if not found:
            ids = {name: str(last_entry(lake, *place, name)) for name in STREAMS}
            silver = progress.last(lake, *place)
            seq = min(again.now.seq, silver.seq if silver else again.now.seq)
            seen = make_rows(spark, "gold/audited", place, [(seq, now_ms, json.dumps(ids))])
            replace(spark, lake, "gold/audited", place, seen)
        cells = sum(map(len, _cells(tables, lives).values()))
        return Audit(exact.epoch, exact.seq, again.now.seq, cells, tuple(again.gaps), found, entries, figures)
    finally:
        lake.remove(area)


def _last_clean(lake: Lake, place: tuple[str, str]) -> dict[str, Any] | None:
    """The row of ``gold/audited`` that the last audit without differences wrote."""
    columns = ["seq", "now_ms", "ids"]
    rows = lake.read("gold/audited", namespace=place[0], epoch=place[1], columns=columns).to_pylist()
    if not rows:
        return None
    # a backfill has written all rows again
    steps = lake.read("silver/progress", namespace=place[0], epoch=place[1], columns=["kind", "seq"])
    written_again = any(row["kind"] == "backfill" and row["seq"] >= rows[0]["seq"] for row in steps.to_pylist())
    return None if written_again else {**rows[0], "ids": json.loads(rows[0]["ids"])}


async def _read_exact(redis_url: str, namespace: str) -> Exact:
    async with open_existing(redis_url, namespace) as store:
        return await snapshot.read_exact(store)


async def _go_on(
    redis_url: str, namespace: str, lake: Lake, seq: int, exact: Exact, tables: Tables, lives: LiveTable
) -> None:
    """Apply the changes that the lake does not have yet."""
    if seq >= exact.seq:
        return
    async with open_existing(redis_url, namespace) as store:
        try:
            start = str(last_entry(lake, namespace, exact.epoch, "changes"))
            async for _, change in snapshot.read_events(store, start, seq, exact.seq):
                tables.apply(change)
                lives.apply(change)
        except StoreError as error:
            raise StoreError(
                f"the lake ends at change {seq}, Redis is at {exact.seq}, and {error}. Run 'mqregistry "
                "pipeline run --once' first; it says what to do where changes were lost"
            ) from error


def compare(tables: Tables, lives: LiveTable, exact: Exact) -> Iterator[CellDifference]:
    """Every cell that differs between the replay and Redis."""
    history, redis = _cells(tables, lives), _cells(exact.tables, exact.lives)
    for table in history:
        mine, theirs = history[table], redis[table]
        for key in sorted(mine.keys() | theirs.keys(), key=repr):
            if not _same(mine.get(key), theirs.get(key)):
                yield CellDifference("redis", table, key, _plain(mine.get(key)), _plain(theirs.get(key)))


def _same(mine: Any, theirs: Any) -> bool:
    if isinstance(theirs, LiveInfo) and isinstance(mine, LiveInfo) and theirs.counter is None:
        # Redis has no DataVersion of a process that does not count as alive; a replay keeps the last DataVersion
        theirs = theirs._replace(counter=mine.counter, timestamp=mine.timestamp, state_version=mine.state_version)
    return bool(mine == theirs)


def _plain(value: Any) -> Any:
    return value._asdict() if isinstance(value, LiveInfo) else value


def _cells(tables: Tables, lives: LiveTable) -> dict[str, dict[tuple[str, ...], Any]]:
    return {
        "broker_row": {
            (name,): {"cluster": row.cluster, "zone": row.zone_name, "acting": row.enable_acting_master}
            for name, row in tables.brokers.items()
        },
        "broker_addr": {
            (name, str(broker_id)): addr
            for name, row in tables.brokers.items()
            for broker_id, addr in row.broker_addrs.items()
        },
        "cluster_member": {
            (cluster, name): "member" for cluster, names in tables.clusters.items() for name in names
        },
        "queue_data": {
            (topic, name): {"read": q.read_queue_nums, "write": q.write_queue_nums, "perm": q.perm,
                            "flag": q.topic_sys_flag}
            for topic, datas in tables.topics.items()
            for name, q in datas.items()
        },
        "mapping": {(topic, name): text for topic, found in tables.mappings.items() for name, text in found.items()},
        "live": {(who, name): info for who, names in lives.by_who.items() for name, info in names.items()},
        "filter_server": {(who,): servers for who, servers in tables.filter_servers.items()},
        "kv_namespace": {(namespace,): "there" for namespace in tables.kv},
        "kv": {(namespace, key): value for namespace, table in tables.kv.items() for key, value in table.items()},
        "config": {(key,): value for key, value in tables.config.items()},
    }  # fmt: skip
