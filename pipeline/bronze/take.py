"""Takes a stream into bronze: few entries in this process, many by a streaming query of Spark."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from mqregistry.events.journal import Stream as Name

from ..garbage import collection_paused
from ..lake.lake import Lake
from ..redis_stream.ranges import OLDEST, UNKNOWN, Position
from ..redis_stream.stream import Stream
from .entries import BronzeBatch, Part, write_entries
from .log import commit_batch, last_batch

# Fewer entries than this are read here: a query of Spark takes about two seconds of CPU to begin and to end.
SPARK_FROM_ENTRIES: Final = 10_000


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


Done = Callable[[int, BronzeBatch], None]


def take_here(
    lake: Lake, stream: Stream, namespace: str, epoch: str, start: Position, done: Done, *, limit: int,
    alone: bool = False,
) -> bool:  # fmt: skip
    """Take in everything that is there now, if that is little.

    Args:
        start: where the very first batch begins; later ones go on from the last commit.
        limit: about so many entries are a batch.
        alone: all of it, batch after batch, however much it is.
        done: called with every batch that was committed.

    Returns:
        False: there is more than one batch; nothing was read.
    """
    newest = stream.last()
    while True:
        number, at = last_batch(lake, stream.name, namespace, epoch)
        start = at or start
        end = stream.after(start, limit, newest)
        if end.id <= start.id:
            return True
        if end.id < newest.id and not alone:
            return False
        pages = stream.read(start, end, epoch, stream.head().first_id if start.id == OLDEST else None)
        with collection_paused():
            part = write_entries(lake, stream.name, namespace, epoch, number + 1, (page.batch for page in pages))
        done(number + 1, commit_batch(lake, stream.name, namespace, epoch, number + 1, [part], start))


@contextlib.contextmanager
def query(
    spark: Any, lake: Lake, access: Access, stream: Name, start: Position, done: Done, *, limit: int = 250_000
) -> Iterator[Any]:
    """A streaming query that takes in everything that is there now, and ends by itself.

    It begins behind bronze's last commit, so that Spark's own checkpoint is needed by nobody once it has ended.

    Args:
        start: where the very first batch begins.
        limit: entries of a batch.
        done: called with every batch that was committed.
    """
    from ..redis_stream.data_source import RedisStreamSource

    namespace, epoch = access.namespace, access.epoch
    number, at = last_batch(lake, stream, namespace, epoch)
    reached = [at or start]
    spark.dataSource.register(RedisStreamSource)
    reader = spark.readStream.format("redis_stream").options(
        **access.options(),
        stream=stream,
        startingId=str(reached[0].id),
        maxEntriesPerTrigger=str(limit),
        partitions=str(spark.sparkContext.defaultParallelism),
    )
    if reached[0].seq != UNKNOWN:
        reader = reader.option("startingSeq", str(reached[0].seq)).option("startingUnread", str(reached[0].unread))

    def write(frame: Any, spark_batch: int) -> None:
        mine = number + 1 + spark_batch
        parts = write_on_spark(frame, lake, stream, namespace, epoch, mine)
        if any(part.rows or part.bad_ids for part in parts):
            batch = commit_batch(lake, stream, namespace, epoch, mine, parts, reached[0])
            reached[0] = batch.end
            done(mine, batch)

    scratch = f"_checkpoints/{secrets.token_hex(8)}"
    started = (
        reader.load()
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", lake.uri(scratch))
        .trigger(availableNow=True)
        .start()
    )
    try:
        yield started
    finally:
        started.stop()
        lake.remove(scratch)


def write_on_spark(frame: Any, lake: Lake, stream: Name, namespace: str, epoch: str, number: int) -> list[Part]:
    """Write what the source gave by tasks."""
    root = lake.root

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part = write_entries(Lake(root), stream, namespace, epoch, number, batches)
        yield pa.RecordBatch.from_pydict({"part": pa.array([msgspec.msgpack.encode(part)], pa.binary())})

    return [
        msgspec.msgpack.decode(bytes(row.part), type=Part) for row in frame.mapInArrow(write, "part binary").collect()
    ]
