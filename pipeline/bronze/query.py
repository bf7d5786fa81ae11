"""The streaming query that writes one stream of Redis to its table in bronze.

Spark's checkpoint and Delta's transaction ids write each entry exactly once; the source tells Redis what it may trim.
"""

from __future__ import annotations

from typing import Any

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


def start(
    spark: SparkSession, lake: Lake, place: tuple[str, str], stream: Stream, trigger: dict[str, Any], *, url: str,
    reader: str | None, limit: int, starting_id: EntryId | None = None,
) -> StreamingQuery:  # fmt: skip
    """Start the query; it goes on from its checkpoint, or begins after the last accepted gap.

    Args:
        reader: under this name Redis keeps the entries that were not read; None: it keeps none.
        limit: entries of a batch.
        starting_id: begin after this entry; the caller then writes the row of the gap that ends there.
    """
    namespace, epoch = place
    options = {
        "url": url, "namespace": namespace, "epoch": epoch, "stream": stream, "maxEntriesPerTrigger": str(limit),
        "partitions": str(spark.sparkContext.defaultParallelism),
    }  # fmt: skip
    if reader:
        options["reader"] = reader
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
    """The folder of a query's checkpoint."""
    return lake.path(f"{CHECKPOINTS}/{namespace}/{epoch}/{name}")


def last_entry(lake: Lake, namespace: str, epoch: str, stream: Stream) -> EntryId:
    """The last entry of a stream in bronze; for ``changes`` the last snapshot's entry, if that is later."""
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
    """How far a query is behind its stream: from the last entry that it has read to the stream's last entry."""
    [source] = progress["sources"]
    read, newest = (_id(source[name]) for name in ("endOffset", "latestOffset"))
    return max(0, newest.ms - read.ms) / 1000 if read != OLDEST else 0.0


def _id(offset: Any) -> EntryId:
    found = msgspec.json.decode(offset) if isinstance(offset, str) else offset
    return parse_id(found["id"]) if found else OLDEST
