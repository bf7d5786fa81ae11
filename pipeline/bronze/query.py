"""The streaming query that takes one stream of Redis into its table of bronze: source, a few columns, Delta's sink.

Exactly once by Spark's checkpoint and Delta's transaction ids; the source tells Redis what may be trimmed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from mqregistry.events.journal import CHANGES, Stream

from ..lake.lake import CHECKPOINTS, Lake
from ..lake.schema import TABLES
from ..lake.tables import ensure
from ..redis_stream.data_source import RedisStreamSource
from ..redis_stream.ranges import OLDEST, EntryId, parse_id
from ..silver.progress import gaps
from .snapshot import snapshots


class Access(NamedTuple):
    """Which registry is read, and how; reader: the name under which Redis keeps what was not read (None: nobody)."""

    url: str
    namespace: str
    epoch: str
    reader: str | None
    limit: int


def start(
    spark: SparkSession, lake: Lake, access: Access, stream: Stream, trigger: dict[str, Any],
    starting_id: EntryId | None = None,
) -> StreamingQuery:  # fmt: skip
    """Start the query; it goes on where its checkpoint is, or begins behind the last gap that was accepted.

    Args:
        starting_id: it begins behind this entry, and behind a gap of which the row follows.
    """
    namespace, epoch = access.namespace, access.epoch
    options = {
        "url": access.url, "namespace": namespace, "epoch": epoch, "stream": stream,
        "maxEntriesPerTrigger": str(access.limit), "partitions": str(spark.sparkContext.defaultParallelism),
    }  # fmt: skip
    if access.reader:
        options["reader"] = access.reader
    if stream == CHANGES:
        taken = snapshots(lake, namespace, epoch)
        begun = len(taken)
        options |= {"startingId": taken[-1].last_id, "startingSeq": str(taken[-1].seq)}
    else:
        begun = len(gaps(lake, namespace, epoch, stream)) + (starting_id is not None)
        if starting_id is not None:
            options["startingId"] = str(starting_id)
    name = f"bronze/{stream}"
    ensure(spark, lake, name)
    spark.dataSource.register(RedisStreamSource)
    rows = (
        spark.readStream.format("redis_stream").options(**options).load()
        .observe("bronze", F.count(F.lit(1)).alias("rows"), F.count("reason").alias("unread"))
        .withColumns({
            "namespace": F.lit(namespace), "epoch": F.lit(epoch),
            "day": F.date_format(F.timestamp_millis("ms"), "yyyy-MM-dd"),
        })
        .select(*TABLES[name].columns.names)
    )  # fmt: skip
    return (
        rows.writeStream.format("delta").queryName(f"{namespace} {stream}").trigger(**trigger)
        .option("checkpointLocation", checkpoint(lake, namespace, epoch, f"{stream}-{begun}"))
        .start(lake.path(name))
    )  # fmt: skip


def checkpoint(lake: Lake, namespace: str, epoch: str, name: str) -> str:
    """Where a query keeps how far it is."""
    return lake.path(f"{CHECKPOINTS}/{namespace}/{epoch}/{name}")


def last_entry(lake: Lake, namespace: str, epoch: str, stream: Stream) -> EntryId:
    """The last entry of a stream that bronze has; for changes at least that of the last snapshot."""
    found = OLDEST
    delta = lake.delta(f"bronze/{stream}")
    if delta is not None:
        owned = {"namespace": namespace, "epoch": epoch}
        days = [part["day"] for part in delta.partitions() if owned.items() <= part.items()]
        if days:
            rows = lake.read(
                f"bronze/{stream}", namespace=namespace, epoch=epoch, columns=["id_ms", "id_n"],
                where=pc.field("day") == max(days),
            ).sort_by([("id_ms", "descending"), ("id_n", "descending")])  # fmt: skip
            found = EntryId(rows["id_ms"][0].as_py(), rows["id_n"][0].as_py())
    if stream == CHANGES:
        found = max([found, *(parse_id(taken.last_id) for taken in snapshots(lake, namespace, epoch))])
    return found


def behind_s(progress: dict[str, Any]) -> float:
    """How long before the stream's last entry the last one was written that a query has read."""
    [source] = progress["sources"]
    read, newest = (_id(source[name]) for name in ("endOffset", "latestOffset"))
    return max(0, newest.ms - read.ms) / 1000 if read != OLDEST else 0.0


def _id(offset: Any) -> EntryId:
    found = msgspec.json.decode(offset) if isinstance(offset, str) else offset
    return parse_id(found["id"]) if found else OLDEST
