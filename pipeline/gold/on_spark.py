"""Reduces the large inputs to figures on Spark, in groups of keys of which one task holds one in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from mqregistry.events.journal import Stream

from ..lake.files import File, rows_in, write_partitions
from ..lake.lake import Lake, owner
from ..lake.schema import BRONZE, GOLD, SILVER
from ..spark.frames import read_files, write_files
from . import beats, queues
from .in_process import InProcess, Write
from .inputs import Inputs
from .spans import Periods
from .tables import with_period

GROUP_ROWS: Final = 250_000  # rows that a task works on at a time, give or take those of one topic or process


class OnSpark(InProcess):
    """The same as :class:`mqregistry.pipeline.gold.in_process.InProcess`; queue data and heartbeats are left to tasks.

    Args:
        files: what is written is added to them, by table.
    """

    def __init__(
        self, spark: SparkSession, inputs: Inputs, write: Write, place: tuple[str, str], files: dict[str, list[File]]
    ) -> None:
        super().__init__(inputs, write)
        self._spark = spark
        self._place = owner(*place)
        self._files = files

    def queue_parts(
        self, known: queues.Brokers, grains: dict[str, Periods], since: int, now: int, snapshots: Sequence[int]
    ) -> DataFrame:
        """RESULT rows of mqregistry.pipeline.gold.queues."""
        day = grains["day"].first
        files = self._inputs.files("queue_data", day)
        rows = (
            read_files(self._spark, self._inputs.lake, files, SILVER["queue_data"])
            .select(
                *queues.COLUMNS,
                F.unix_millis("valid_from").alias("from_ms"), F.unix_millis("valid_to").alias("to_ms"),
            )
            .where((F.col("to_ms").isNull() | (F.col("to_ms") >= day)) & (F.col("from_ms") <= now))
        )  # fmt: skip
        shared = self._spark.sparkContext.broadcast(known)
        return _in_groups(
            rows,
            rows_in(files),
            "topic",
            queues.RESULT,
            lambda of: queues.figures(of, shared.value, grains, since, snapshots),
        ).persist(StorageLevel.DISK_ONLY)

    def deltas(self, parts: Any) -> pa.Table:
        """When each broker gets its first writable queue data, and when it loses the last: name, at_ms, delta."""
        count = F.sum("delta").over(Window.partitionBy("name").orderBy("at_ms"))
        return (
            parts.where(F.col("kind") == queues.DELTA)
            .groupBy("name", "at_ms")
            .agg(F.sum("delta").alias("delta"))
            .where("delta != 0")
            .select("name", "at_ms", "delta", count.alias("count"))
            .where("count = 0 or count = delta")
            .select("name", "at_ms", F.when(F.col("count") == 0, -1).otherwise(1).cast("long").alias("delta"))
            .toArrow()
        )

    def cluster_sums(self, parts: Any) -> tuple[pa.Table, pa.Table]:
        """As mqregistry.pipeline.gold.clusters takes it."""
        period = ["cluster", "grain", "at_ms"]
        queue_sum = F.when(F.col("present"), F.col("write_queues"))
        sums = (
            parts.where(F.col("kind") == queues.BROKER)
            .groupBy(*period, "name", "present")
            .agg(F.sum("write_queues").alias("write_queues"), F.sum("changes").alias("changes"))
            .groupBy(*period)
            .agg(
                F.sum(queue_sum).alias("write_queues"),
                F.sum(queue_sum.cast("double") * queue_sum).alias("squares"),
                F.max(queue_sum).alias("most"),
                F.sum("changes").alias("changes"),
            )
        )
        topics = parts.where(F.col("kind") == queues.CLUSTER).groupBy(*period).agg(F.sum("brokers").alias("topics"))
        return sums.toArrow(), topics.toArrow()

    def write_topics(self, parts: Any, counts: pa.Table) -> None:
        """The tables topic, unused_topic and missing_topic."""
        period = ["topic", "grain", "at_ms"]
        looked_up: Any = self._spark.createDataFrame(counts.select([*period, "found"]))
        topics = (
            parts.where(F.col("kind") == queues.TOPIC)
            .withColumnRenamed("name", "topic")
            .join(looked_up.withColumnRenamed("found", "lookups"), period, "left")
            .withColumn("lookups", F.coalesce("lookups", F.lit(0).cast("long")))
        )
        self._write_frame("topic", topics)
        self._write_frame("unused_topic", topics.where("lookups = 0 and routable_ms > 0"))
        self._write_missing(counts)

    def write_beats(self, grains: dict[str, Periods], since: int, now: int) -> None:
        """The table heartbeat; grains: its periods; since: LOOK_BACK_MS before the first."""
        entry = F.from_json(
            "e", "who string, broker_name string, front_end string, kind string, interval_ms bigint"
        ).alias("entry")
        rows = (
            self._entries("heartbeats", since, now)
            .select("ms", "id_ms", "id_n", entry)
            .select("ms", "id_ms", "id_n", "entry.*")
            .withColumn("broker_name", F.nullif("broker_name", F.lit("")))
            .withColumn("interval_ms", F.coalesce("interval_ms", F.lit(-1).cast("long")))
        )
        most, lost = rows_in(self._inputs.entry_files("heartbeats", since, now)), self._inputs.lost_beats
        self._write_frame(
            "heartbeat", _in_groups(rows, most, "who", beats.RESULT, lambda of: beats.figures(of, grains, lost))
        )

    def close(self, parts: Any) -> None:
        """Let Spark drop what it keeps for them."""
        parts.unpersist()

    def _entries(self, stream: Stream, since: int, now: int) -> DataFrame:
        files = self._inputs.entry_files(stream, since, now)
        frame = read_files(self._spark, self._inputs.lake, files, BRONZE[stream])
        return frame.where(F.col("ms").between(since, now))

    def _write_frame(self, table: str, rows: DataFrame) -> None:
        schema, root, place = GOLD[table], self._inputs.lake.root, self._place
        columns = [
            F.timestamp_millis("at_ms").alias(name) if name == "period_start" else F.col(name) for name in schema.names
        ]

        def write(batches: Iterable[pa.RecordBatch]) -> list[File]:
            some = [batch for batch in batches if batch.num_rows]
            if not some:
                return []
            found = pa.Table.from_batches(some).cast(schema)
            found = with_period(table, found.sort_by([(name, "ascending") for name in schema.names[:3]]))
            return write_partitions(Lake(root), f"gold/{table}", found, "period", place)

        ordered = rows.select(*columns).repartition("grain", "period_start")
        self._files[table] = write_files(ordered, write)


def _in_groups(
    rows: DataFrame, most: int, key: str, schema: pa.Schema, work: Callable[[pa.Table], pa.Table]
) -> DataFrame:
    """Rows (``most`` of them at most) to rows, all of a key's in one call, many keys in one call."""
    groups = _groups(most)
    grouped: Any = rows.withColumn("group", F.pmod(F.xxhash64(key), F.lit(groups))).groupBy("group")
    frame: DataFrame = grouped.applyInArrow(lambda of: work(of), from_arrow_schema(schema))
    return frame


def _groups(rows: int) -> int:
    return max(1, -(-rows // GROUP_ROWS))


@contextlib.contextmanager
def partitions(spark: SparkSession, rows: int) -> Iterator[None]:
    """As many partitions as this many rows need: Spark's 200 cost it 30 s of CPU in a refresh, however small."""
    with _setting(
        spark, "spark.sql.shuffle.partitions", str(max(spark.sparkContext.defaultParallelism, _groups(rows)))
    ):
        yield


@contextlib.contextmanager
def _setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, str(before))
