"""Compares the tables in Redis with their own history: replays all changes, and compares as of one change."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from functools import reduce
from itertools import islice
from typing import Any, Final, NamedTuple

import pyarrow.compute as pc

from mqregistry.errors import StoreError
from mqregistry.store.snapshot import read_head
from mqregistry.store.store import open_existing
from mqregistry.tables.live_table import LiveInfo, LiveTable
from mqregistry.tables.tables import Tables

from ..lake import snapshot
from ..lake.files import rows_in
from ..lake.lake import Lake, LakeError, owner
from ..lake.schema import AUTHORS, BRONZE, SILVER
from ..lake.snapshot import Exact
from ..silver import SilverRun, load
from ..silver.next_changes import MissingChanges
from ..silver.tables import Tables as Silver
from .travel import Past

ROWS_SHOWN: Final = 10  # of one table that differ between silver and the replay
SPARK_FROM_ROWS: Final = 200_000


class Difference(NamedTuple):
    """One cell that differs from the history. None as a value: the cell does not exist.

    history: the replayed value; found: the value in ``where`` ("redis", "silver").
    """

    where: str
    table: str
    key: tuple[str, ...]
    history: Any
    found: Any


class Audit(NamedTuple):
    """The result of an audit.

    seq: the change as of which history and Redis were compared; replayed: the last one that came from the lake, the
    others from the stream. holes: (ms, ms) of which the lake has no changes, only a snapshot after them. missing: which
    changes the history lacks, so that nothing could be compared.
    """

    epoch: str
    seq: int
    replayed: int
    cells: int
    holes: tuple[tuple[int, int], ...]
    differences: list[Difference]
    missing: str | None = None

    @property
    def ok(self) -> bool:
        """Whether history and tables are the same."""
        return not self.differences and self.missing is None


def check(redis_url: str, namespace: str, lake: Lake) -> None:
    """Look at everything that an audit needs but Spark, which takes seconds to start.

    Raises:
        LakeError: the lake has nothing of this namespace, or nothing of the epoch that Redis is in.
        StartError: the lake cannot be written; the replay is.
        StoreError: no such namespace, or another schema. StoreUnavailable: no answer.
    """
    if not lake.epochs("snapshot", namespace):
        raise LakeError(
            f"the lake at {lake.root} holds nothing of namespace {namespace!r}: is it another --lake or --namespace? "
            "'mqregistry pipeline run' fills it"
        )
    epoch = asyncio.run(_read_epoch(redis_url, namespace))
    if snapshot.first(lake, namespace, epoch) is None:
        raise LakeError(
            f"the lake at {lake.root} holds nothing of namespace {namespace!r} since Redis began anew (epoch {epoch}): "
            "run 'mqregistry pipeline run --once' first, or is it another --redis?"
        )
    lake.try_to_write()


def is_small(lake: Lake, namespace: str) -> bool:
    """Whether a replay of all changes here takes no longer than Spark's start."""
    return rows_in(lake.table("bronze/changes").files(namespace=namespace)) < SPARK_FROM_ROWS


async def _read_epoch(redis_url: str, namespace: str) -> str:
    async with open_existing(redis_url, namespace) as store:
        return (await read_head(store)).epoch


def audit(
    spark: Any, redis_url: str, namespace: str, lake: Lake, *, spark_from_rows: int = SPARK_FROM_ROWS
) -> Audit:  # fmt: skip
    """Replay bronze on Spark, then what only the stream has; compare Redis, and then silver, with the replay.

    Args:
        spark: None: everything is replayed and compared here.
        spark_from_rows: fewer rows of silver are compared here in any case.

    Raises:
        LakeError: the lake has nothing of this epoch.
        StoreError: the stream was trimmed after the last change that the lake has.
        StoreUnavailable: no answer.
    """
    exact = asyncio.run(_read_exact(redis_url, namespace))
    area = f"_audit/{secrets.token_hex(4)}"
    run = SilverRun(spark, lake, namespace, exact.epoch, area=area, spark_from_rows=0)
    try:
        try:
            for _ in run.steps(upto_seq=exact.seq):
                pass
        except MissingChanges as hole:
            return Audit(exact.epoch, exact.seq, hole.seq, 0, (), [], str(hole))
        replayed = run.tables
        assert replayed is not None
        now, past = replayed.content, Past(namespace, exact.epoch, replayed)
        tables, lives = past.tables(now.ms), LiveTable(Tables(), live_by_cluster=now.compat == "5.x")
        lives.by_who, lives.tables = past.lives(now.ms), tables
        asyncio.run(_go_on(redis_url, namespace, lake, now.seq, exact, tables, lives))
        found = [
            *compare(tables, lives, exact),
            *_compare_silver(spark, lake, namespace, exact.epoch, replayed, spark_from_rows),
        ]
        return Audit(exact.epoch, exact.seq, now.seq, _count(tables, lives), now.holes, found)
    finally:
        lake.remove(area)


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
            start = _id_before(lake, namespace, exact.epoch, seq)
            async for _, change in snapshot.read_events(store, start, seq, exact.seq):
                tables.apply(change)
                lives.apply(change)
        except StoreError as error:
            raise StoreError(
                f"the lake ends at change {seq}, Redis is at {exact.seq}, and {error}. Run 'mqregistry "
                "pipeline run --once' first; it says what to do where changes were lost"
            ) from error


def _id_before(lake: Lake, namespace: str, epoch: str, seq: int) -> str:
    """The id of a stream entry after which every change follows that comes after ``seq``."""
    files = lake.table("bronze/changes").files(**owner(namespace, epoch))
    before = max((file for file in files if file.high["seq"] <= seq), key=lambda file: file.high["seq"], default=None)
    if before is None:
        return "0-0"
    [row] = (
        lake.dataset([before], BRONZE["changes"])
        .to_table(columns=["id_ms", "id_n"], filter=pc.field("seq") == before.high["seq"])
        .to_pylist()[:1]
    )
    return f"{row['id_ms']}-{row['id_n']}"


def compare(tables: Tables, lives: LiveTable, exact: Exact) -> Iterator[Difference]:
    """Every cell that is not the same in the replay and in Redis."""
    history, redis = _cells(tables, lives), _cells(exact.tables, exact.lives)
    for table in history:
        mine, theirs = history[table], redis[table]
        for key in sorted(mine.keys() | theirs.keys(), key=repr):
            if not _same(mine.get(key), theirs.get(key)):
                yield Difference("redis", table, key, _plain(mine.get(key)), _plain(theirs.get(key)))


def _same(mine: Any, theirs: Any) -> bool:
    if isinstance(theirs, LiveInfo) and isinstance(mine, LiveInfo) and theirs.counter is None:
        # a process that does not count as alive: a replay keeps what it had before (mqregistry.tables.live_table)
        theirs = theirs._replace(
            counter=mine.counter, timestamp=mine.timestamp, state_version=mine.state_version
        )  # fmt: skip
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


def _count(tables: Tables, lives: LiveTable) -> int:
    return sum(map(len, _cells(tables, lives).values()))


def _compare_silver(
    spark: Any, lake: Lake, namespace: str, epoch: str, replayed: Silver, spark_from_rows: int
) -> Iterator[Difference]:  # fmt: skip
    """Compare silver's rows with those of the replay, as of the last change that both have."""
    found = load(lake, namespace, epoch)
    if found is None:
        return
    seq = min(found.content.seq, replayed.content.seq)
    if spark is None or sum(map(rows_in, (*found.files.values(), *replayed.files.values()))) < spark_from_rows:
        differing = {table: _differ_here(table, replayed, found, seq) for table in SILVER}
    else:
        differing = _differ_on_spark(spark, lake, replayed, found, seq)
    for table, (lacking, surplus) in differing.items():
        for row in lacking:
            yield Difference("silver", table, (f"change {row['from_seq']}",), row, None)
        for row in surplus:
            yield Difference("silver", table, (f"change {row['from_seq']}",), None, row)


_Rows = list[dict[str, Any]]


def _compared(table: str) -> list[str]:
    """The columns that must be the same: not who caused a change, which an older release of the pipeline left out."""
    return [name for name in SILVER[table].names if name not in AUTHORS]


def _differ_here(table: str, replayed: Silver, found: Silver, seq: int) -> tuple[_Rows, _Rows]:
    names = _compared(table)

    def rows(tables: Silver) -> Counter[tuple[Any, ...]]:
        counted: Counter[tuple[Any, ...]] = Counter()
        for row in tables.read(table, columns=names).to_pylist():
            if row["from_seq"] > seq:
                continue
            if row["to_seq"] is not None and row["to_seq"] > seq:
                row |= {"valid_to": None, "to_seq": None, "ended_by": None}
            counted[tuple(map(_hashable, row.values()))] += 1
        return counted

    mine, theirs = rows(replayed), rows(found)
    lacking, surplus = (
        [_row(dict(zip(names, row, strict=True))) for row in islice((one - other).elements(), ROWS_SHOWN)]
        for one, other in ((mine, theirs), (theirs, mine))
    )
    return lacking, surplus


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _differ_on_spark(
    spark: Any, lake: Lake, replayed: Silver, found: Silver, seq: int
) -> dict[str, tuple[_Rows, _Rows]]:  # fmt: skip
    """Compare sums of all rows' hashes in one job first; look at rows only where the sums differ."""
    from pyspark.sql import functions as F

    from ..spark.frames import as_of, read_files

    def rows(table: str, tables: Silver) -> Any:
        return as_of(read_files(spark, lake, tables.of(table), SILVER[table]), seq).select(*_compared(table))

    tables = [table for table in SILVER if replayed.of(table) or found.of(table)]
    frames = {(table, side): rows(table, m) for table in tables for side, m in enumerate((replayed, found))}
    hashes = [
        frame.select(F.lit(table).alias("table"), F.lit(side).alias("side"), F.xxhash64(*frame.columns).alias("hash"))
        for (table, side), frame in frames.items()
    ]
    if not hashes:
        return {}
    of_rows = F.sum(F.col("hash").cast("decimal(38,0)"))
    summed = reduce(lambda one, other: one.unionAll(other), hashes).groupBy("table", "side")
    sums: dict[tuple[str, int], Any] = {
        (row["table"], row["side"]): (row["n"], row["of_rows"])
        for row in summed.agg(F.count("*").alias("n"), of_rows.alias("of_rows")).collect()
    }
    differing = {}
    for table in tables:
        if sums.get((table, 0)) != sums.get((table, 1)):
            mine, theirs = frames[table, 0], frames[table, 1]
            lacking, surplus = (
                [_row(row.asDict()) for row in one.exceptAll(other).limit(ROWS_SHOWN).collect()]
                for one, other in ((mine, theirs), (theirs, mine))
            )
            differing[table] = lacking, surplus
    return differing


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in row.items()
        if value is not None
    }


__all__ = ["Audit", "Difference", "LakeError", "audit", "check", "compare"]
