"""Reduces the large inputs on Spark, in groups of keys of which one task holds one in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from ..lake.files import rows_in
from ..lake.schema import SILVER, TABLES
from ..spark.frames import as_of, read_files
from . import beats, queues
from .in_process import InProcess
from .inputs import Inputs
from .spans import Periods

GROUP_ROWS: Final = 250_000  # rows that a task works on at a time, give or take those of one topic or process


class OnSpark(InProcess):
    """:class:`mqregistry.pipeline.gold.in_process.InProcess` that leaves queue data and heartbeats to tasks."""

    def __init__(self, spark: SparkSession, inputs: Inputs) -> None:
        super().__init__(inputs)
        self._spark = spark

    def queues(self, known: queues.Brokers, when: Periods, since: int, snapshots: Sequence[int]) -> pa.Table:
        """RESULT rows of mqregistry.pipeline.gold.queues."""
        files = self._inputs.files("queue_data", when.first)
        every = as_of(
            read_files(self._spark, self._inputs.lake, files, SILVER["queue_data"]), self._inputs.tables.content.seq
        )
        rows = every.select(
            *queues.COLUMNS, F.unix_millis("valid_from").alias("from_ms"), F.unix_millis("valid_to").alias("to_ms")
        ).where((F.col("to_ms").isNull() | (F.col("to_ms") >= when.first)) & (F.col("from_ms") <= when.now))
        shared = self._spark.sparkContext.broadcast(known)
        return _in_groups(
            rows, rows_in(files), "topic", queues.RESULT,
            lambda of: queues.figures(of, shared.value, when, since, snapshots),
        )  # fmt: skip

    def beats(self, when: Periods) -> pa.Table:
        """HOURS rows of mqregistry.pipeline.gold.beats."""
        since = when.first - beats.LOOK_BACK_MS
        files = self._inputs.entry_files("heartbeats", since, when.now)
        entry = F.from_json(
            "e", "who string, broker_name string, front_end string, kind string, interval_ms bigint"
        ).alias("entry")
        batches = self._inputs.batches
        rows = (
            read_files(self._spark, self._inputs.lake, files, TABLES["bronze/heartbeats"].columns)
            .where(F.col("ms").between(since, when.now))
            .where(F.lit(True) if batches is None else F.col("batch") <= batches["heartbeats"])
            .select("ms", "id_ms", "id_n", entry)
            .select("ms", "id_ms", "id_n", "entry.*")
            .withColumn("broker_name", F.nullif("broker_name", F.lit("")))
            .withColumn("interval_ms", F.coalesce("interval_ms", F.lit(-1).cast("long")))
        )
        lost = self._inputs.lost_beats
        return _in_groups(rows, rows_in(files), "who", beats.HOURS, lambda of: beats.hours(of, when, lost))


def _in_groups(
    rows: DataFrame, most: int, key: str, schema: pa.Schema, work: Callable[[pa.Table], pa.Table]
) -> pa.Table:
    """Rows (``most`` of them at most) to rows, all of a key's in one call, many keys in one call."""
    groups = _groups(most)
    grouped: Any = rows.withColumn("group", F.pmod(F.xxhash64(key), F.lit(groups))).groupBy("group")
    frame: DataFrame = grouped.applyInArrow(lambda of: work(of), from_arrow_schema(schema))
    return frame.toArrow().cast(schema)


def _groups(rows: int) -> int:
    return max(1, -(-rows // GROUP_ROWS))


@contextlib.contextmanager
def partitions(spark: SparkSession, rows: int) -> Iterator[None]:
    """As many partitions as this many rows need: Spark's 200 cost it 30 s of CPU in a refresh, however small."""
    name = "spark.sql.shuffle.partitions"
    before = str(spark.conf.get(name))
    spark.conf.set(name, str(max(spark.sparkContext.defaultParallelism, _groups(rows))))
    try:
        yield
    finally:
        spark.conf.set(name, before)
