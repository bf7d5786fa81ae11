"""Takes a stream into bronze: few entries in this process, many by streaming queries of Spark."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from mqregistry.events.journal import Stream as Name

from ..garbage import collection_paused
from ..lake.lake import Lake
from ..redis_stream.ranges import OLDEST, UNKNOWN, Position
from ..redis_stream.stream import Stream
from ..spark.errors import plain_errors
from .entries import BronzeBatch, Part, write_entries
from .log import commit_batch, last_batch

# Fewer entries than this are read here: a query of Spark takes about two seconds of CPU to begin and to end.
SPARK_FROM_ENTRIES: Final = 10_000
_POLL: Final = "500ms"  # how often a query that goes on looks for more where there was nothing


class Pause(NamedTuple):
    """When a query that goes on takes the next batch: when so many entries wait, or the first one for so long."""

    least: int
    seconds: float


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
            if stream.has_more(start, limit, newest):
                return False
            end = newest  # in a long stream, entries of one moment look like many
        pages = stream.read(start, end, epoch, stream.head().first_id if start.id == OLDEST else None)
        with collection_paused():
            part = write_entries(lake, stream.name, namespace, epoch, number + 1, (page.batch for page in pages))
        done(number + 1, commit_batch(lake, stream.name, namespace, epoch, number + 1, [part], start))


class Query:
    """A streaming query of Spark that takes a stream into bronze, in threads of its own.

    It begins behind bronze's last commit, so that Spark's own checkpoint is needed by nobody once it has ended.

    Args:
        start: where the very first batch begins.
        done: called with every batch that was committed, from one of these threads.
        limit: entries of a batch.
        pause: None: it ends when it has what is there now; else it goes on until it is closed.

    Attributes:
        busy_s: when it last had a batch that was worth Spark, on the clock of ``time.monotonic``.
    """

    def __init__(
        self, spark: Any, lake: Lake, access: Access, stream: Name, start: Position, done: Done, *,
        limit: int = 250_000, pause: Pause | None = None,
    ) -> None:  # fmt: skip
        from ..redis_stream.data_source import RedisStreamSource

        namespace, epoch = access.namespace, access.epoch
        number, at = last_batch(lake, stream, namespace, epoch)
        reached = at or start
        self.busy_s = time.monotonic()
        self._lake, self._scratch = lake, f"_checkpoints/{secrets.token_hex(8)}"
        mine = Lake(lake.root)  # what a lake knows of its tables is for one thread
        options = {**access.options(), "stream": stream, "startingId": str(reached.id)}
        options |= {"maxEntriesPerTrigger": str(limit), "partitions": str(spark.sparkContext.defaultParallelism)}
        if reached.seq != UNKNOWN:
            options |= {"startingSeq": str(reached.seq), "startingUnread": str(reached.unread)}
        if pause:
            options |= {"minEntriesPerTrigger": str(pause.least), "maxTriggerDelay": str(pause.seconds)}

        def write(frame: Any, spark_batch: int) -> None:
            nonlocal reached
            here = number + 1 + spark_batch
            parts = write_on_spark(frame, mine, stream, namespace, epoch, here)
            if any(part.rows or part.bad_ids for part in parts):
                batch = commit_batch(mine, stream, namespace, epoch, here, parts, reached)
                reached = batch.end
                if pause and batch.rows >= pause.least // 2:
                    self.busy_s = time.monotonic()
                done(here, batch)

        spark.dataSource.register(RedisStreamSource)
        spark.conf.set("spark.sql.streaming.pollingDelay", _POLL if pause else "10ms")  # of queries that begin now
        trigger: dict[str, Any] = {"processingTime": "0 seconds"} if pause else {"availableNow": True}
        self._started = (
            spark.readStream.format("redis_stream").options(**options).load()
            .writeStream.foreachBatch(write).option("checkpointLocation", lake.uri(self._scratch))
            .trigger(**trigger).start()
        )  # fmt: skip

    def ended(self, seconds: float) -> bool:
        """Wait for its end, for so long at most; raises what went wrong with it."""
        with plain_errors():
            return bool(self._started.awaitTermination(seconds))

    def close(self) -> None:
        """End it; a batch that was not committed is read again."""
        try:
            with plain_errors():
                self._started.stop()
        finally:
            self._lake.remove(self._scratch)


def write_on_spark(frame: Any, lake: Lake, stream: Name, namespace: str, epoch: str, number: int) -> list[Part]:
    """Write what the source gave by tasks."""
    root = lake.root

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part = write_entries(Lake(root), stream, namespace, epoch, number, batches)
        yield pa.RecordBatch.from_pydict({"part": pa.array([msgspec.msgpack.encode(part)], pa.binary())})

    return [
        msgspec.msgpack.decode(bytes(row.part), type=Part) for row in frame.mapInArrow(write, "part binary").collect()
    ]
