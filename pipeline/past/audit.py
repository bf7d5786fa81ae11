"""Compares Redis and the lake's layers with each other.

All changes are replayed, and the tables in Redis and silver are compared with that as of one change; bronze is compared
with the streams, and gold with figures that are worked out again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from mqregistry.errors import StoreError
from mqregistry.events.journal import STREAMS, Stream
from mqregistry.store.snapshot import read_head
from mqregistry.store.store import open_existing
from mqregistry.tables.live_table import LiveInfo, LiveTable
from mqregistry.tables.tables import Tables

from ..gold.run import SPARK_FROM_ROWS as gold_from_rows
from ..lake import snapshot
from ..lake.files import File, rows_in
from ..lake.lake import NONE, Lake, LakeError, State, owner
from ..lake.schema import AUTHORS, BRONZE, SILVER, SILVER_KEYS
from ..lake.snapshot import Exact
from ..redis_stream.ranges import parse_id
from ..silver import SilverRun, load
from ..silver.buckets import parts
from ..silver.next_changes import MissingChanges
from ..silver.tables import Content, as_of
from ..silver.tables import Tables as Silver
from .layers import ROWS_SHOWN, Difference, compare_gold, compare_stream
from .travel import Past

SPARK_FROM_ROWS: Final = 200_000
_PART: Final = "audit"


class Clean(Content, frozen=True):
    """What an audit leaves that found no difference: silver as it was.

    ids: stream -> the last entry that was compared with bronze. gold_ms: how far gold's figures were.
    """

    ids: dict[str, str] = msgspec.field(default_factory=dict)
    gold_ms: int = NONE


class Audit(NamedTuple):
    """The result of an audit.

    seq: the change as of which history and Redis were compared; replayed: the last one that came from the lake, the
    others from the stream. holes: (ms, ms) of which the lake has no changes, only a snapshot after them. entries:
    stream -> how many of its entries were compared with bronze. figures: rows of gold that were compared. missing:
    which changes the history lacks, so that nothing could be compared.
    """

    epoch: str
    seq: int
    replayed: int
    cells: int
    holes: tuple[tuple[int, int], ...]
    differences: list[Difference]
    entries: dict[str, int]
    figures: int
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


def is_small(lake: Lake, namespace: str, *, since_last: bool = False) -> bool:
    """Whether a replay of the changes here takes no longer than Spark's start, and figures need no Spark."""
    epochs = lake.epochs(_PART, namespace) if since_last else []
    done = {epoch: clean for epoch in epochs if (clean := _clean(lake, namespace, epoch))}

    def rows(name: Stream) -> int:
        def is_new(file: File) -> bool:
            clean = done.get(file.partition["epoch"])
            return clean is None or file.high["id_ms"] > parse_id(clean.ids.get(name, "0-0")).ms

        return rows_in(filter(is_new, lake.table(f"bronze/{name}").files(namespace=namespace)))

    return rows("changes") < SPARK_FROM_ROWS and rows("heartbeats") < gold_from_rows


def _clean(lake: Lake, namespace: str, epoch: str) -> Clean | None:
    state = lake.state(_PART, namespace, epoch)
    return None if state is None else msgspec.convert(state.content, Clean)


def _last_clean(lake: Lake, namespace: str, epoch: str) -> Silver | None:
    """Silver as it was when an audit found no difference; None: never, or its rows were all written again since."""
    then, silver = _clean(lake, namespace, epoch), load(lake, namespace, epoch)
    if then is None or silver is None:
        return None
    same = (then.rewritten, then.holes) == (silver.content.rewritten, silver.content.holes)
    return Silver(lake, then, NONE, silver.files) if same and then.seq <= silver.content.seq else None


async def _read_epoch(redis_url: str, namespace: str) -> str:
    async with open_existing(redis_url, namespace) as store:
        return (await read_head(store)).epoch


def audit(spark: Any, redis_url: str, namespace: str, lake: Lake, *, since_last: bool = False) -> Audit:
    """Replay bronze on Spark, then what only the stream has; compare Redis, and then silver, with the replay.

    Then bronze with the streams, and gold with figures that are worked out again.

    Args:
        spark: None: everything is replayed here.
        since_last: go on from the tables as they were at the last audit that found no difference.

    Raises:
        LakeError: the lake has nothing of this epoch.
        StoreError: the stream was trimmed after the last change that the lake has.
        StoreUnavailable: no answer.
    """
    exact = asyncio.run(_read_exact(redis_url, namespace))
    area = f"_audit/{secrets.token_hex(4)}"
    run = SilverRun(spark, lake, namespace, exact.epoch, area=area, spark_from_rows=0)
    run.tables = _last_clean(lake, namespace, exact.epoch) if since_last else None
    clean = run.tables.content if run.tables and isinstance(run.tables.content, Clean) else None
    after = clean.seq if clean else NONE
    try:
        try:
            for _ in run.steps(upto_seq=exact.seq):
                pass
        except MissingChanges as hole:
            return Audit(exact.epoch, exact.seq, hole.seq, 0, (), [], {}, 0, str(hole))
        replayed = run.tables
        assert replayed is not None
        now, past = replayed.content, Past(namespace, exact.epoch, replayed)
        tables, lives = past.tables(now.ms), LiveTable(Tables(), live_by_cluster=now.compat == "5.x")
        lives.by_who, lives.tables = past.lives(now.ms), tables
        asyncio.run(_go_on(redis_url, namespace, lake, now.seq, exact, tables, lives))
        streams = {
            name: compare_stream(
                redis_url, lake, name, namespace, exact.epoch, clean.ids.get(name) if clean else None, now.holes
            )
            for name in STREAMS
        }
        since_ms = clean.gold_ms if clean and clean.gold_ms != NONE else None
        figures = compare_gold(spark, lake, namespace, exact.epoch, since_ms)
        found = [
            *compare(tables, lives, exact),
            *(difference for entries in streams.values() for difference in entries.differences),
            *_compare_silver(lake, namespace, exact.epoch, replayed, area, after),
            *figures.differences,
        ]
        if not found:
            ids: dict[str, str] = {name: entries.last for name, entries in streams.items()}
            _remember(lake, namespace, exact.epoch, now, ids, figures.now_ms)
        compared: dict[str, int] = {name: entries.compared for name, entries in streams.items()}
        cells = _count(tables, lives)
        return Audit(exact.epoch, exact.seq, now.seq, cells, now.holes, found, compared, figures.compared)
    finally:
        lake.remove(area)


def _remember(
    lake: Lake, namespace: str, epoch: str, replayed: Content, ids: dict[str, str], gold_ms: int
) -> None:  # fmt: skip
    """All is right up to here."""
    silver, before = load(lake, namespace, epoch), lake.state(_PART, namespace, epoch)
    if silver is not None and silver.content.seq >= replayed.seq:
        content = msgspec.to_builtins(msgspec.structs.replace(replayed, rewritten=silver.content.rewritten))
        number = before.number + 1 if before else NONE + 1
        lake.set_state(_PART, namespace, epoch, State(number, content | {"ids": ids, "gold_ms": gold_ms}))


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
    lake: Lake, namespace: str, epoch: str, replayed: Silver, area: str, after: int
) -> Iterator[Difference]:  # fmt: skip
    """Compare rows of silver and of the replay that later changes than ``after`` began or ended; a part at a time.

    As of the last change that both have. The files of the replay are in ``area``.
    """
    found = load(lake, namespace, epoch)
    if found is None:
        return
    seq = min(found.content.seq, replayed.content.seq)
    files = {table: [file for file in replayed.of(table) if file.path.startswith(area)] for table in SILVER}
    replayed = Silver(lake, replayed.content, NONE, files)
    for table in SILVER:
        shown = [0, 0]
        for buckets in parts({int(file.partition["bucket"]) for file in (*found.of(table), *replayed.of(table))}):
            rows = [_rows(table, tables, buckets, after, seq) for tables in (replayed, found)]
            if rows[0].equals(rows[1]):
                continue
            mine, theirs = (Counter(map(_hashable, of.to_pylist())) for of in rows)
            for side, only in enumerate((mine - theirs, theirs - mine)):
                for values in islice(only.elements(), ROWS_SHOWN - shown[side]):
                    shown[side] += 1
                    row = _row(dict(zip(rows[0].schema.names, values, strict=True)))
                    of_both = (row, None) if side == 0 else (None, row)
                    yield Difference("silver", table, (f"change {row['from_seq']}",), *of_both)


def _rows(table: str, tables: Silver, buckets: frozenset[int] | None, after: int, seq: int) -> pa.Table:
    """Such rows, in order; but not who caused them, which an older release of the pipeline left out."""
    names = [name for name in SILVER[table].names if name not in AUTHORS]
    rows = as_of(tables.read(table, files=tables.of(table, buckets), columns=names), seq)
    rows = rows.filter((pc.field("from_seq") > after) | (pc.field("to_seq") > after))
    return rows.sort_by([(name, "ascending") for name in (*SILVER_KEYS[table], "from_seq")])


def _hashable(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(tuple(value) if isinstance(value, list) else value for value in row.values())


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in row.items()
        if value is not None
    }


__all__ = ["Audit", "Difference", "LakeError", "audit", "check", "compare"]
