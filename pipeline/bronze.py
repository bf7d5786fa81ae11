"""Writes bronze: every entry of the streams as it was, in batches that count once their commit file is there.

A batch of Spark's is a range of entry ids, fixed in its checkpoint before it is read. It is written as a whole to a
folder of its own, and written again when the job was killed; so each entry is in the tables exactly once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import LongType, StringType, StructType

from mqregistry.events.journal import CHANGES, Stream

from .lake.lake import Lake, number_of, places
from .lake.schema import BRONZE, QUARANTINE
from .redis_stream.data_source import RedisStreamSource
from .redis_stream.ranges import UNKNOWN, EntryId, Position, parse_id
from .redis_stream.stream import GapError

_DAY_MS: Final = 86_400_000
_FILES_AT_ONCE: Final = 8  # days of a batch that a task writes without sorting it first


class BronzeBatch(NamedTuple):
    """A batch, as its commit file describes it.

    rows: in bronze; quarantined: beside it. first_seq, last_seq: None where entries have no number.
    unread: how many quarantined entries come after last_seq.
    """

    rows: int
    first_id: str
    last_id: str
    first_seq: int | None
    last_seq: int | None
    quarantined: int
    unread: int = 0


def log_of(stream: Stream, namespace: str, epoch: str) -> str:
    """The commit log of a stream's batches."""
    return f"bronze/{stream}/{places(namespace, epoch)}"


def _folder(n: int) -> str:
    return f"batch={n:09d}"


def read(
    spark: SparkSession, lake: Lake, stream: Stream, namespace: str, epoch: str, after_batch: int = -1
) -> DataFrame:
    """Committed batches: the columns of ``BRONZE[stream]``, batch (int64) and day (``2026-11-21``, UTC)."""
    schema = from_arrow_schema(BRONZE[stream]).add("batch", LongType()).add("day", StringType())
    paths = [
        lake.uri("bronze", stream, places(namespace, epoch), _folder(n))
        for n in lake.commits(log_of(stream, namespace, epoch))
        if n > after_batch and read_commit(lake, stream, namespace, epoch, n).rows
    ]
    if not paths:
        return spark.createDataFrame([], StructType(schema.fields))
    base = lake.uri("bronze", stream, places(namespace, epoch))
    return spark.read.schema(schema).option("basePath", base).parquet(*paths)


def read_commit(lake: Lake, stream: Stream, namespace: str, epoch: str, n: int) -> BronzeBatch:
    """The batch of a commit."""
    return BronzeBatch(**lake.read_commit(log_of(stream, namespace, epoch), n))


def last_position(lake: Lake, stream: Stream, namespace: str, epoch: str) -> Position | None:
    """The last entry of a stream that bronze has; None: nothing yet."""
    last_id, unread = None, 0
    for number in reversed(lake.commits(log_of(stream, namespace, epoch))):
        batch = read_commit(lake, stream, namespace, epoch, number)
        last_id, unread = last_id or parse_id(batch.last_id), unread + batch.unread
        if stream != CHANGES:
            return Position(last_id)
        if batch.last_seq is not None:
            return Position(last_id, batch.last_seq, unread)
    return last_id and Position(last_id, UNKNOWN, unread)


def restart(lake: Lake, stream: Stream, namespace: str, epoch: str, at: Position) -> None:
    """Let the next batch begin after ``at``, whatever was read before: after a gap that was accepted.

    An empty batch in the log records it; Spark begins a new checkpoint after that.
    """
    log = log_of(stream, namespace, epoch)
    number = max(lake.commits(log), default=-1) + 1
    # the checkpoint first: without the commit it is never used, as the gap is still there
    begin = lake.path(*_checkpoints(stream, namespace, epoch), f"from={number + 1:09d}")
    lake.filesystem.create_dir(begin, recursive=True)
    seq = None if at.seq == UNKNOWN else at.seq
    lake.commit(log, number, BronzeBatch(0, str(at.id), str(at.id), seq, seq, 0)._asdict())


def _checkpoints(stream: Stream, namespace: str, epoch: str) -> tuple[str, ...]:
    return ("checkpoints", "bronze", stream, places(namespace, epoch))


class Access(NamedTuple):
    """Which streams are read, and how. password: None where the URL or the environment has it."""

    url: str
    namespace: str
    epoch: str
    password: str | None = None

    def options(self) -> dict[str, str]:
        """The data source's options for these streams."""
        options = {"url": self.url, "namespace": self.namespace, "epoch": self.epoch}
        return options | ({"password": self.password} if self.password else {})

    def __repr__(self) -> str:
        return f"Access({self.namespace!r}, {self.epoch!r})"


def start_query(
    spark: SparkSession,
    lake: Lake,
    access: Access,
    stream: Stream,
    start: Position,
    *,
    limit: int = 250_000,
    done: Callable[[int, BronzeBatch], None] = lambda number, batch: None,
) -> Any:
    """Begin to take everything that is there now into bronze, as a streaming query that ends by itself.

    Args:
        start: where the very first batch begins; later ones go on from the last commit.
        limit: entries of a batch.
        done: called with every batch that was committed.
    """
    namespace, epoch = access.namespace, access.epoch
    checkpoints = _checkpoints(stream, namespace, epoch)
    bases = [number_of(name) for name in lake.folders(*checkpoints)]
    commits = lake.commits(log_of(stream, namespace, epoch))
    # Spark counts its batches from 0 wherever a checkpoint begins; ours go on
    base = max(bases) if bases else commits[-1] + 1 if commits else 0
    start = last_position(lake, stream, namespace, epoch) or start
    spark.dataSource.register(RedisStreamSource)
    reader = spark.readStream.format("redis_stream").options(
        **access.options(),
        stream=stream,
        startingId=str(start.id),
        maxEntriesPerTrigger=str(limit),
        partitions=str(spark.sparkContext.defaultParallelism),
    )
    if start.seq != UNKNOWN:
        reader = reader.option("startingSeq", str(start.seq)).option("startingUnread", str(start.unread))

    def write(frame: DataFrame, spark_batch: int) -> None:
        number = base + spark_batch
        batch = write_batch(frame, lake, stream, namespace, epoch, number)
        if batch is not None:
            done(number, batch)

    return (
        reader.load()
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", lake.uri(*checkpoints, f"from={base:09d}"))
        .trigger(availableNow=True)
        .start()
    )


def write_batch(
    frame: DataFrame, lake: Lake, stream: Stream, namespace: str, epoch: str, number: int
) -> BronzeBatch | None:
    """Write what the source gave as batch ``number`` and commit it; None: it was committed before.

    Raises:
        GapError: the batch does not follow on the one before it.
    """
    log = log_of(stream, namespace, epoch)
    if number in lake.commits(log):
        return None  # killed between our commit and Spark's
    place, columns = places(namespace, epoch), BRONZE[stream].names
    seen = Observation()
    spark = frame.sparkSession
    spark.conf.set("spark.sql.maxConcurrentOutputFileWriters", _FILES_AT_ONCE)
    (
        frame.observe(seen, F.count("reason").alias("quarantined"))
        .where(F.col("reason").isNull())
        .select(*columns, F.date_from_unix_date((F.col("ms") / _DAY_MS).cast("int")).alias("day"))
        .write.partitionBy("day")
        .mode("overwrite")
        .parquet(lake.uri("bronze", stream, place, _folder(number)))
    )
    quarantined = int(seen.get["quarantined"])
    where = ("quarantine", stream, place, _folder(number))
    lake.remove(*where)
    if quarantined:
        bad = frame.where(F.col("reason").isNotNull()).withColumn("stream", F.lit(stream))
        bad.select(*QUARANTINE.names).coalesce(1).write.parquet(lake.uri(*where))
    batch = _summary(lake, stream, ("bronze", stream, place, _folder(number)), where if quarantined else None)
    if batch.quarantined != quarantined:
        raise GapError(
            f"{batch.quarantined} of {quarantined} unreadable entries of batch {number} of {stream} were still there "
            "when they were to be written"
        )
    lake.commit(log, number, batch._asdict())
    return batch


def _summary(lake: Lake, stream: Stream, good: tuple[str, ...], bad: tuple[str, ...] | None) -> BronzeBatch:
    """Count what was written, and check that no change is missing in it."""
    names = ["id_ms", "id_n", *(["seq"] if stream == CHANGES else [])]
    ids = _read(lake, good, names)
    bad_ids = _read(lake, bad, ["id_ms", "id_n"]) if bad else ids.slice(0, 0).select(["id_ms", "id_n"])
    every = pa.concat_tables([ids.select(["id_ms", "id_n"]), bad_ids])
    first, last = _ends(every)
    first_seq = last_seq = None
    unread = 0
    if stream == CHANGES and ids.num_rows:
        seqs = np.sort(ids["seq"].to_numpy())
        first_seq, last_seq = int(seqs[0]), int(seqs[-1])
        missing = last_seq - first_seq + 1 - len(seqs)
        if len(np.unique(seqs)) != len(seqs) or missing > bad_ids.num_rows:
            raise GapError(f"what was written of {stream} is not {first_seq} to {last_seq}, each once: a defect")
        if bad_ids.num_rows:
            last_good = _ends(ids)[1]
            unread = sum(1 for pair in bad_ids.to_pylist() if (pair["id_ms"], pair["id_n"]) > last_good)
    elif stream == CHANGES:
        unread = bad_ids.num_rows
    return BronzeBatch(ids.num_rows, str(first), str(last), first_seq, last_seq, bad_ids.num_rows, unread)


def _ends(ids: pa.Table) -> tuple[EntryId, EntryId]:
    found = []
    for function in (pc.min, pc.max):
        ms = function(ids["id_ms"])
        found.append(EntryId(ms.as_py(), function(ids.filter(pc.equal(ids["id_ms"], ms))["id_n"]).as_py()))
    return found[0], found[1]


def _read(lake: Lake, place: tuple[str, ...], names: list[str]) -> pa.Table:
    """Columns of int64 of all files in a folder; there may be no file."""
    files = ds.dataset(lake.path(*place), format="parquet", filesystem=lake.filesystem).files
    tables = [pq.read_table(file, columns=names, filesystem=lake.filesystem, partitioning=None) for file in files]
    schema = pa.schema([(name, pa.int64()) for name in names])
    return pa.concat_tables([table.cast(schema) for table in tables] or [schema.empty_table()])
