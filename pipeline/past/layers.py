"""Compares the lake's layers on Spark: bronze with the streams, silver with a replay, gold with figures made again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mqregistry.events.journal import CHANGES
from mqregistry.events.journal import Stream as Name

from ..bronze.query import last_entry
from ..bronze.snapshot import snapshots
from ..gold.inputs import Inputs, day_of
from ..gold.refresh import day_text, work_out
from ..gold.tables import last
from ..lake.lake import Lake
from ..lake.schema import GOLD, OWNER, SILVER, SILVER_KEYS
from ..lake.tables import ensure, frame
from ..redis_stream.ranges import OLDEST, EntryId, parse_id
from ..silver import progress

ROWS_SHOWN: Final = 10  # of one table that differ
_TRIES: Final = 3
_LATER: Final = ("valid_to", "ended_by", "to_by", "to_seq")  # null while a row holds
_GOLD: Final = tuple(table for table in GOLD if table not in ("audited", "refresh"))

_ENTRIES: Final = """
WITH held AS (
    SELECT id_ms, id_n, first(e) AS e, count(*) AS times FROM bronze GROUP BY id_ms, id_n
)
SELECT id_ms, id_n, theirs.e AS history, held.e AS found, times
FROM theirs FULL JOIN held USING (id_ms, id_n)
WHERE theirs.ms IS NULL OR times > 1
    OR (theirs.reason IS NULL AND NOT held.e <=> theirs.e
        AND NOT (times IS NULL AND exists(lost, gap -> theirs.moment BETWEEN gap.from_ms AND gap.to_ms)))
"""


class Difference(NamedTuple):
    """A cell, row or entry that differs from what it is compared with. None as a value: it does not exist.

    history: what it was to be: the replayed value, the entry of the stream, the figures that were worked out again;
    found: the value in ``where`` ("redis", "bronze", "silver", "gold").
    """

    where: str
    table: str
    key: tuple[str, ...]
    history: Any
    found: Any


class StreamChecked(NamedTuple):
    """How many entries of a stream were compared, and what differs."""

    compared: int
    differences: list[Difference]


def compare_stream(
    spark: SparkSession, url: str, lake: Lake, name: Name, place: tuple[str, str], after: str | None
) -> StreamChecked:
    """Compare bronze with the entries of a stream, as far as both have them.

    Args:
        after: the last entry that was compared before; None: none was.
    """
    namespace, epoch = place
    end = last_entry(lake, *place, name)
    start = OLDEST if after is None else parse_id(after)
    if after is None and name == CHANGES:
        start = min((parse_id(taken.last_id) for taken in snapshots(lake, *place)), default=OLDEST)
    theirs = (
        spark.read.format("redis_stream").options(url=url, namespace=namespace, stream=name, epoch=epoch).load()
        .where(_after(start) & ~_after(end)).withColumn("moment", F.col("ms" if name == CHANGES else "id_ms"))
    )  # fmt: skip
    theirs.cache()
    try:
        bounds = theirs.agg(F.count("*").alias("n"), F.min(F.struct("id_ms", "id_n")).alias("first")).collect()[0]
        if not bounds["n"]:
            return StreamChecked(0, [])
        first = EntryId(bounds["first"]["id_ms"], bounds["first"]["id_n"])
        before = EntryId(first.ms, first.n - 1) if first.n else EntryId(first.ms - 1, 1 << 62)
        held = frame(spark, lake, f"bronze/{name}", *place).where(_after(before) & ~_after(end))
        gaps = progress.gaps(lake, *place, name)
        lost = F.array(*(F.struct(F.lit(low).alias("from_ms"), F.lit(high).alias("to_ms")) for low, high in gaps))
        rows = spark.sql(
            _ENTRIES.replace("FROM theirs FULL", "FROM (SELECT *, {lost} AS lost FROM {theirs}) theirs FULL")
            .replace("FROM bronze", "FROM {bronze}"),
            lost=lost if gaps else F.expr("CAST(array() AS array<struct<from_ms: bigint, to_ms: bigint>>)"),
            theirs=theirs, bronze=held,
        ).orderBy("id_ms", "id_n").limit(ROWS_SHOWN).collect()  # fmt: skip
    finally:
        theirs.unpersist()
    found = []
    for row in rows:
        values = ("once", f"{row['times']} times") if (row["times"] or 0) > 1 else (row["history"], row["found"])
        found.append(Difference("bronze", name, (f"{row['id_ms']}-{row['id_n']}",), *values))
    return StreamChecked(bounds["n"], found)


def _after(entry: EntryId) -> Any:
    return (F.col("id_ms") > entry.ms) | ((F.col("id_ms") == entry.ms) & (F.col("id_n") > entry.n))


def compare_silver(
    spark: SparkSession, lake: Lake, place: tuple[str, str], area: str, replayed: int, after: int
) -> Iterator[Difference]:  # fmt: skip
    """Compare rows of silver and of the replay that later changes than ``after`` began or ended.

    As of the last change that both have. The tables of the replay are in ``area``.
    """
    silver = progress.last(lake, *place)
    if silver is None:
        return
    seq = min(silver.seq, replayed)
    for table, schema in SILVER.items():
        sides = []
        for folder in (area, "silver"):
            rows = spark.table(ensure(spark, lake, f"silver/{table}", folder)).where(_owned(place))
            ended = F.col("to_seq") <= seq
            rows = rows.where(F.col("from_seq") <= seq).select(
                *(F.when(ended, F.col(name)).alias(name) if name in _LATER else F.col(name) for name in schema.names)
            )
            sides.append(rows.where((F.col("from_seq") > after) | (F.col("to_seq") > after)))
        for row, difference in _differ("silver", table, *sides):
            yield difference._replace(key=(f"change {row['from_seq']}",))


def _owned(place: tuple[str, str]) -> Any:
    return (F.col(OWNER[0]) == place[0]) & (F.col(OWNER[1]) == place[1])


def _differ(
    where: str, table: str, wanted: DataFrame, found: DataFrame
) -> Iterator[tuple[dict[str, Any], Difference]]:  # fmt: skip
    """Rows that only one side has; those of many are left out."""
    sides = [
        rows.withColumn("_is_found", F.lit(is_found)).limit(ROWS_SHOWN)
        for rows, is_found in ((wanted.exceptAll(found), False), (found.exceptAll(wanted), True))
    ]
    for each in sides[0].unionByName(sides[1]).collect():
        row = {name: _plain(value) for name, value in each.asDict(recursive=True).items() if value is not None}
        is_found = row.pop("_is_found")
        key = tuple(str(row[name]) for name in SILVER_KEYS.get(table, ()) if name in row)
        yield row, Difference(where, table, key, *((None, row) if is_found else (row, None)))


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


class GoldChecked(NamedTuple):
    """How many rows of gold were compared, up to which moment (-1: there is nothing), and what differs."""

    compared: int
    now_ms: int
    differences: list[Difference]


def compare_gold(
    spark: SparkSession, lake: Lake, place: tuple[str, str], area: str, since_ms: int | None
) -> GoldChecked:  # fmt: skip
    """Work out gold's figures from silver and bronze as its last refresh saw them, and compare.

    Args:
        area: a folder for them.
        since_ms: only what a refresh writes when entries of this moment or later come; None: all.
    """
    for _ in range(_TRIES):
        seen = last(lake, *place)
        if seen is None:
            break
        inputs = Inputs(spark.newSession(), lake, *place, seq=seen.seq, versions=json.loads(seen.versions))
        is_whole = since_ms is None
        work_out(inputs, lake, place, seen, since_ms or seen.begin_ms, is_new=is_whole, area=area)
        count, differences = 0, list[Difference]()
        for table in _GOLD:
            name = f"gold/{table}"
            mine, found = (
                spark.table(ensure(spark, lake, name, folder)).where(_owned(place)).drop(*OWNER)
                for folder in (area, "gold")
            )
            if not is_whole and "day" in mine.columns:
                since = F.col("day") >= day_text(day_of((since_ms or 0) - 1))
                mine, found = mine.where(since), found.where(since)
            count += found.count()
            differences += [
                difference._replace(key=tuple(value for value in list(row.values())[:5] if isinstance(value, str)))
                for row, difference in _differ("gold", table, mine, found)
            ]
        if last(lake, *place) == seen:
            return GoldChecked(count, seen.now_ms, differences)
        # somebody refreshed it meanwhile
    return GoldChecked(0, -1, [])
