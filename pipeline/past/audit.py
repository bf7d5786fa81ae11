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

from mqregistry.errors import StartError, StoreError
from mqregistry.store.snapshot import read_head
from mqregistry.store.store import open_existing
from mqregistry.tables.live_table import LiveInfo, LiveTable
from mqregistry.tables.tables import Tables

from ..lake import snapshot
from ..lake.lake import Lake, LakeError, places
from ..lake.schema import AUTHORS, SILVER
from ..lake.snapshot import Exact
from ..silver import SilverRun
from ..silver.files import read_files
from ..silver.manifest import Manifest, forget, log_of, read_last
from ..silver.next_changes import MissingChanges
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
    if not lake.folders("commits", "snapshots", f"namespace={namespace}"):
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
    area = f"audit/{secrets.token_hex(4)}"
    try:
        lake.filesystem.create_dir(lake.path(area), recursive=True)
        lake.remove(area)
    except OSError as error:
        raise StartError(f"cannot write the lake at {lake.root}: {error.strerror or error}") from error


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
    token = secrets.token_hex(4)
    log, area = f"audit/{token}/{places(namespace, exact.epoch)}", f"audit/{token}"
    run = SilverRun(spark, lake, namespace, exact.epoch, log=log, area=area, spark_from_rows=0)
    try:
        try:
            for _ in run.steps(upto_seq=exact.seq):
                pass
        except MissingChanges as hole:
            return Audit(exact.epoch, exact.seq, hole.seq, 0, (), [], str(hole))
        last = read_last(lake, log)
        assert last is not None
        manifest = last[1]
        past = Past(lake, namespace, exact.epoch, manifest)
        tables, lives = past.tables(manifest.ms), LiveTable(Tables(), live_by_cluster=manifest.compat == "5.x")
        lives.by_who, lives.tables = past.lives(manifest.ms), tables
        asyncio.run(_go_on(redis_url, namespace, lake, manifest, exact, tables, lives))
        found = [
            *compare(tables, lives, exact),
            *_compare_silver(spark, lake, namespace, exact.epoch, manifest, spark_from_rows),
        ]
        return Audit(exact.epoch, exact.seq, manifest.seq, _count(tables, lives), manifest.holes, found)
    finally:
        forget(lake, log, commits=0)
        lake.remove(area)
        lake.remove("commits", "audit", token)


async def _read_exact(redis_url: str, namespace: str) -> Exact:
    async with open_existing(redis_url, namespace) as store:
        return await snapshot.read_exact(store)


async def _go_on(
    redis_url: str, namespace: str, lake: Lake, manifest: Manifest, exact: Exact, tables: Tables, lives: LiveTable
) -> None:
    """Apply the changes that the lake does not have yet."""
    if manifest.seq >= exact.seq:
        return
    async with open_existing(redis_url, namespace) as store:
        try:
            start = _id_before(lake, namespace, exact.epoch, manifest)
            async for _, change in snapshot.read_events(store, start, manifest.seq, exact.seq):
                tables.apply(change)
                lives.apply(change)
        except StoreError as error:
            raise StoreError(
                f"the lake ends at change {manifest.seq}, Redis is at {exact.seq}, and {error}. Run 'mqregistry "
                "pipeline run --once' first; it says what to do where changes were lost"
            ) from error


def _id_before(lake: Lake, namespace: str, epoch: str, manifest: Manifest) -> str:
    """The id of a stream entry after which every change follows that the manifest lacks."""
    log = f"bronze/changes/{places(namespace, epoch)}"
    for number in reversed(lake.commits(log)):
        content = lake.read_commit(log, number)
        if content["last_seq"] is not None and content["last_seq"] <= manifest.seq:
            return str(content["last_id"])
    return "0-0"


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
    spark: Any, lake: Lake, namespace: str, epoch: str, replayed: Manifest, spark_from_rows: int
) -> Iterator[Difference]:  # fmt: skip
    """Compare silver's rows with those of the replay, as of the last change that both have."""
    last = read_last(lake, log_of(namespace, epoch))
    if last is None:
        return
    found, seq = last[1], min(last[1].seq, replayed.seq)
    if spark is None or sum(file.rows for file in (*found.files, *replayed.files)) < spark_from_rows:
        differing = {table: _differ_here(lake, table, replayed, found, seq) for table in SILVER}
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


def _differ_here(lake: Lake, table: str, replayed: Manifest, found: Manifest, seq: int) -> tuple[_Rows, _Rows]:
    names = _compared(table)

    def rows(manifest: Manifest) -> Counter[tuple[Any, ...]]:
        files = manifest.of(table)
        counted: Counter[tuple[Any, ...]] = Counter()
        for row in read_files(lake, table, files).to_table(columns=names).to_pylist() if files else ():
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
    spark: Any, lake: Lake, replayed: Manifest, found: Manifest, seq: int
) -> dict[str, tuple[_Rows, _Rows]]:  # fmt: skip
    """Compare sums of all rows' hashes in one job first; look at rows only where the sums differ."""
    from pyspark.sql import functions as F

    from ..silver.spark_tables import read_manifest

    def rows(table: str, manifest: Manifest) -> Any:
        held = F.col("to_seq").isNull() | (F.col("to_seq") > seq)
        frame = read_manifest(spark, lake, table, manifest).where(F.col("from_seq") <= seq)
        for name in ("valid_to", "ended_by", "to_seq"):  # to_seq last: the others depend on it
            frame = frame.withColumn(name, F.when(~held, F.col(name)))
        return frame.select(*_compared(table))

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
