"""Reduces the large inputs to figures on Spark, in groups of keys of which one task holds one in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from mqregistry.events.changes import StreamAlarm

from ..lake.schema import BRONZE, GOLD, SILVER
from . import beats, queues
from .brokers import EVENTS
from .in_process import BROKER_EVENTS, broker_events
from .inputs import Inputs
from .spans import Periods
from .tables import GRAINS

GROUP_ROWS: Final = 250_000  # rows that a task works on at a time, give or take those of one topic or process
_ALARM: Final = ("alarm", "reader", "stream")
Batches = tuple[int, int]


class OnSpark:
    """The same as :class:`mqregistry.pipeline.gold.in_process.InProcess`.

    Args:
        uri: of the folder that a table's rows go into.
    """

    def __init__(self, spark: SparkSession, inputs: Inputs, uri: Callable[[str], str]) -> None:
        self._spark = spark
        self._inputs = inputs
        self._uri = uri

    def counts(self, since: int, now: int, batches: Batches) -> DataFrame:
        """Lookups per topic and period: topic, grain, at_ms, found, missing."""
        entry = F.from_json("e", "found map<string,bigint>, missing map<string,bigint>").alias("entry")
        entries = self._entries("lookups", since, now, batches).dropDuplicates(["id_ms", "id_n"]).select("ms", entry)
        none = F.lit(0).cast("long")
        found = entries.select("ms", F.explode("entry.found").alias("topic", "found"), none.alias("missing"))
        missing = entries.select("ms", F.explode("entry.missing").alias("topic", "missing"), none.alias("found"))
        grain = F.explode(F.create_map(*(F.lit(value) for pair in GRAINS.items() for value in pair)))
        return (
            found.unionByName(missing)
            .select("topic", "ms", "found", "missing", grain.alias("grain", "step"))
            .withColumn("at_ms", F.col("ms") - F.col("ms") % F.col("step"))
            .groupBy("topic", "grain", "at_ms")
            .agg(F.sum("found").alias("found"), F.sum("missing").alias("missing"))
            .persist(StorageLevel.DISK_ONLY)
        )

    def queue_parts(
        self, known: queues.Brokers, grains: dict[str, Periods], since: int, now: int, snapshots: Sequence[int]
    ) -> DataFrame:
        """RESULT rows of mqregistry.pipeline.gold.queues."""
        day = grains["day"].first
        paths, most = self._inputs.files("queue_data", day)
        rows = (
            self._parquet(paths, SILVER["queue_data"])
            .select(
                *queues.COLUMNS,
                F.unix_millis("valid_from").alias("from_ms"), F.unix_millis("valid_to").alias("to_ms"),
            )
            .where((F.col("to_ms").isNull() | (F.col("to_ms") >= day)) & (F.col("from_ms") <= now))
        )  # fmt: skip
        shared = self._spark.sparkContext.broadcast(known)
        return _in_groups(
            rows, most, "topic", queues.RESULT, lambda of: queues.figures(of, shared.value, grains, since, snapshots)
        ).persist(StorageLevel.DISK_ONLY)

    def deltas(self, parts: DataFrame) -> pa.Table:
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

    def cluster_sums(self, parts: DataFrame) -> tuple[pa.Table, pa.Table]:
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

    def write_topics(self, parts: DataFrame, counts: DataFrame) -> None:
        """The tables topic, unused_topic and missing_topic."""
        period = ["topic", "grain", "at_ms"]
        topics = (
            parts.where(F.col("kind") == queues.TOPIC)
            .withColumnRenamed("name", "topic")
            .join(counts.select(*period, F.col("found").alias("lookups")), period, "left")
            .withColumn("lookups", F.coalesce("lookups", F.lit(0).cast("long")))
        )
        self._write("topic", topics)
        self._write("unused_topic", topics.where("lookups = 0 and routable_ms > 0"))
        self._write("missing_topic", counts.where("missing > 0").withColumn("lookups", F.col("missing")))

    def write_beats(self, grains: dict[str, Periods], since: int, now: int, batches: Batches) -> None:
        """The table heartbeat; grains: its periods; since: LOOK_BACK_MS before the first."""
        entry = F.from_json(
            "e", "who string, broker_name string, front_end string, kind string, interval_ms bigint"
        ).alias("entry")
        rows = (
            self._entries("heartbeats", since, now, batches)
            .select("ms", "id_ms", "id_n", entry)
            .select("ms", "id_ms", "id_n", "entry.*")
            .withColumn("broker_name", F.nullif("broker_name", F.lit("")))
            .withColumn("interval_ms", F.coalesce("interval_ms", F.lit(-1).cast("long")))
        )
        most = self._inputs.folders("heartbeats", *batches)[1]
        self._write("heartbeat", _in_groups(rows, most, "who", beats.RESULT, lambda of: beats.figures(of, grains)))

    def events(self, since: int, now: int, batches: Batches) -> pa.Table:
        """Broker events that silver has: name, cluster, type, at_ms (the hour's start), n."""
        return (
            self._changes(since, now, batches)
            .where(F.col("type").isin(*EVENTS) & (F.col("part") == 1))
            .select("ms", "seq", "type", "e")
            # in Python: get_json_object takes five times as long
            .mapInArrow(lambda batches: broker_events(batches), from_arrow_schema(BROKER_EVENTS))
            .dropDuplicates(["seq"])  # only now: what it sorts and sends is small
            .groupBy("name", "cluster", "type", "at_ms")
            .agg(F.count("*").alias("n"))
            .toArrow()
        )

    def alarms(self, since: int, now: int, batches: Batches) -> pa.Table:
        """stream_alarm events: ms, seq, alarm, reader, stream."""
        members = [F.get_json_object("e", f"$.{name}").alias(name) for name in _ALARM]
        found = self._changes(since, now, batches).where(F.col("type") == StreamAlarm.type).dropDuplicates(["seq"])
        return found.select("ms", "seq", *members).toArrow()

    def close(self, *parts: DataFrame) -> None:
        """Let Spark drop what it keeps for these."""
        for part in parts:
            part.unpersist()

    def _entries(self, stream: str, since: int, now: int, batches: Batches) -> DataFrame:
        folders, _ = self._inputs.folders(stream, *batches)
        return self._parquet(folders, BRONZE[stream]).where(F.col("ms").between(since, now))

    def _changes(self, since: int, now: int, batches: Batches) -> DataFrame:
        return self._entries("changes", since, now, batches).where(F.col("seq") <= self._inputs.manifest.seq)

    def _parquet(self, paths: list[str], schema: pa.Schema) -> DataFrame:
        columns = from_arrow_schema(schema)
        if not paths:
            return self._spark.createDataFrame([], columns)
        lake = self._inputs.lake
        # no columns are looked for in the paths: silver's open and closed rows lie in batches of their own
        reader = self._spark.read.schema(columns).option("recursiveFileLookup", "true")
        return reader.parquet(*(lake.uri(path) for path in paths)).select(*schema.names)

    def _write(self, table: str, rows: DataFrame) -> None:
        columns = [
            F.timestamp_millis("at_ms").alias(name) if name == "period_start" else F.col(name)
            for name in GOLD[table].names
        ]
        ordered = rows.select(*columns).sortWithinPartitions(*GOLD[table].names[:3])
        # microseconds, as pyarrow and the schemas have them
        with _setting(self._spark, "spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS"):
            ordered.write.mode("overwrite").parquet(self._uri(table))


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
