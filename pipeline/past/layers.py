"""Compares the lake's layers on Spark: bronze with the streams, silver with a replay, gold with figures made again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from mqregistry.events.journal import CHANGES
from mqregistry.events.journal import Stream as Name

from ..bronze.query import last_entry
from ..bronze.snapshot import snapshots
from ..gold.figures import last
from ..gold.inputs import Inputs, day_of
from ..gold.refresh import GoldRun
from ..lake.gold_schema import FIGURES
from ..lake.lake import Lake
from ..lake.schema import LATER, SILVER, day_text
from ..lake.tables import frame
from ..redis_stream.ranges import OLDEST, EntryId, parse_id
from ..silver import progress

ROWS_SHOWN: Final = 10  # differing rows of one table
_TRIES: Final = 3
_EXACT: Final = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}  # options of to_json

_ENTRIES: Final = """
WITH held AS (
    SELECT id_ms, id_n, first(e) AS e, count(*) AS times FROM {bronze} GROUP BY id_ms, id_n
)
SELECT id_ms, id_n, theirs.e AS history, held.e AS found, times
FROM {theirs} theirs FULL JOIN held USING (id_ms, id_n)
WHERE theirs.ms IS NULL OR times > 1
    OR (theirs.reason IS NULL AND NOT held.e <=> theirs.e
        AND NOT (times IS NULL AND exists(lost, gap -> theirs.moment BETWEEN gap.from_ms AND gap.to_ms)))
"""


class CellDifference(NamedTuple):
    """A cell, row or entry that differs from what it is compared with.

    ``history``: the right value: a cell of the replay, an entry of the stream, or a row that was computed again.
    ``found``: the value in ``where`` ("redis", "bronze", "silver", "gold"). None: there is no such cell, entry or row.
    """

    where: str
    table: str
    key: tuple[str, ...]
    history: Any
    found: Any


def compare_stream(
    spark: SparkSession, url: str, lake: Lake, name: Name, place: tuple[str, str], after: str | None
) -> tuple[int, list[CellDifference]]:
    """Compare bronze with the entries of a stream, as far as both have them.

    Args:
        after: the last entry that an earlier audit compared; None: there was no such audit.

    Returns:
        How many entries were compared, and the differences.
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
            return 0, []
        first = EntryId(bounds["first"]["id_ms"], bounds["first"]["id_n"])
        before = EntryId(first.ms, first.n - 1) if first.n else EntryId(first.ms - 1, 1 << 62)
        held = frame(spark, lake, f"bronze/{name}", *place).where(_after(before) & ~_after(end))
        gaps = progress.gaps(lake, *place, name)
        spans = ", ".join(f"named_struct('from_ms', {low}L, 'to_ms', {high}L)" for low, high in gaps)
        lost = F.expr(f"CAST(array({spans}) AS array<struct<from_ms: bigint, to_ms: bigint>>)")
        wanted = theirs.withColumn("lost", lost)
        rows = spark.sql(_ENTRIES, theirs=wanted, bronze=held).orderBy("id_ms", "id_n").limit(ROWS_SHOWN).collect()
    finally:
        theirs.unpersist()
    found = []
    for row in rows:
        values = ("once", f"{row['times']} times") if (row["times"] or 0) > 1 else (row["history"], row["found"])
        found.append(CellDifference("bronze", name, (f"{row['id_ms']}-{row['id_n']}",), *values))
    return bounds["n"], found


def _after(entry: EntryId) -> Any:
    return (F.col("id_ms") > entry.ms) | ((F.col("id_ms") == entry.ms) & (F.col("id_n") > entry.n))


def compare_silver(
    spark: SparkSession, lake: Lake, place: tuple[str, str], area: str, replayed: int, after: int
) -> list[CellDifference]:  # fmt: skip
    """Compare silver with the replay, whose tables are in ``area``, as of the last change that both have.

    It compares only rows that began or ended with a change after ``after``.
    """
    silver = progress.last(lake, *place)
    if silver is None:
        return []
    seq = min(silver.seq, replayed)

    def known(table: str, folder: str | None) -> DataFrame:
        rows = frame(spark, lake, f"silver/{table}", *place, area=folder).where(f"from_seq <= {seq}")
        names = SILVER[table].names
        then = (f"IF(to_seq <= {seq}, {name}, NULL) AS {name}" if name in LATER else name for name in names)
        return rows.selectExpr(*then).where(f"from_seq > {after} OR to_seq > {after}")

    sides = {table: (known(table, area), known(table, None)) for table in SILVER}
    return _differ("silver", sides, lambda row: (f"change {row['from_seq']}",))[1]


def _differ(
    where: str, sides: dict[str, tuple[DataFrame, DataFrame]], key: Callable[[dict[str, Any]], tuple[str, ...]]
) -> tuple[int, list[CellDifference]]:
    """Compare tables in one query.

    Args:
        sides: table -> its right rows, and the rows that were found.
        key: gives the key of a row in a difference.

    Returns:
        How many rows were found, and the rows that only one side has (at most ROWS_SHOWN of each table and side).
    """
    every: DataFrame | None = None
    for table, of_table in sides.items():
        for times, rows in zip((-1, 1), of_table, strict=True):
            row = F.to_json(F.struct(*rows.columns), _EXACT)
            shown = rows.select(F.lit(table).alias("table"), row.alias("row"), F.lit(times).alias("times"))
            every = shown if every is None else every.unionAll(shown)
    assert every is not None
    together = every.groupBy("table", "row").agg(
        F.sum("times").alias("more"), F.sum(F.expr("IF(times > 0, 1, 0)")).alias("found")
    ).persist()  # fmt: skip
    try:
        [[count]] = together.agg(F.sum("found")).collect()
        number = F.row_number().over(Window.partitionBy("table", F.col("more") > 0).orderBy("row"))
        unlike = together.where("more <> 0").withColumn("number", number).where(F.col("number") <= ROWS_SHOWN).collect()
    finally:
        together.unpersist()
    differences = []
    for each in unlike:
        row = json.loads(each["row"])
        values = (None, row) if each["more"] > 0 else (row, None)
        differences.append(CellDifference(where, each["table"], key(row), *values))
    return count or 0, differences


def _texts(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(value for value in list(row.values())[:5] if isinstance(value, str))


def compare_gold(
    spark: SparkSession, lake: Lake, place: tuple[str, str], area: str, since_ms: int | None
) -> tuple[int, int, list[CellDifference]]:
    """Compute gold's figures again from silver and bronze as its last refresh saw them, and compare.

    Args:
        area: a folder for the new figures.
        since_ms: compare only what a refresh computes for input of this moment or later; None: all.

    Returns:
        How many rows were compared, the end of their observation (ms; -1: gold is empty), and what differs.
    """
    for _ in range(_TRIES):
        seen = last(lake, *place)
        if seen is None:
            break
        inputs = Inputs(spark.newSession(), lake, *place, seq=seen.seq, versions=json.loads(seen.versions))
        since = since_ms or seen.begin_ms
        GoldRun(inputs, lake, place, seen, since, is_new=since_ms is None, area=area).write()

        def known(table: str, folder: str | None) -> DataFrame:
            rows = frame(spark, lake, f"gold/{table}", *place, area=folder)
            if since_ms is None or "day" not in rows.columns:
                return rows
            return rows.where(F.col("day") >= day_text(day_of(since_ms - 1)))

        sides = {table: (known(table, area), known(table, None)) for table in FIGURES}
        count, differences = _differ("gold", sides, _texts)
        if last(lake, *place) == seen:
            return count, seen.now_ms, differences
        # a refresh has written gold meanwhile: compare again
    return 0, -1, []
