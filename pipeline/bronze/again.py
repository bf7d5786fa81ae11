"""Reads entries in quarantine again, which an earlier release could not read; readable ones become rows of bronze."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from mqregistry.events.journal import STREAMS, Stream

from ..lake.lake import Lake
from ..lake.schema import BRONZE
from ..lake.tables import ensure, frame, owned
from ..redis_stream.entries import page
from ..silver.advance import Silver


def requarantine(spark: SparkSession, lake: Lake, namespace: str, epoch: str) -> tuple[int, int]:
    """Read the entries in quarantine again, of all streams; the call may be killed and repeated.

    Returns:
        How many entries can be read now, and how many still cannot.
    """
    read = left = 0
    silver = Silver(spark, lake, namespace, epoch)
    for stream in STREAMS:
        name = f"bronze/{stream}"
        if lake.delta(name) is None:
            continue
        unread = frame(spark, lake, name, namespace, epoch).where("reason IS NOT NULL")
        columns = BRONZE[stream]
        rows = unread.select("id_ms", "id_n", "raw").mapInArrow(
            functools.partial(_read, stream), from_arrow_schema(columns)
        ).persist()  # fmt: skip
        good = rows.where("reason IS NULL")
        [[count, first_ms]] = good.agg(F.count(F.lit(1)), F.min("ms")).collect()
        read, left = read + count, left + rows.count() - count
        if count:
            if silver.now is not None:  # before the MERGE: a kill in between costs only a needless refresh
                silver.tell("requarantine", touched_ms=first_ms)
            sets = ", ".join(f"{column} = s.{column}" for column in columns.names if column not in ("id_ms", "id_n"))
            spark.sql(
                f"MERGE INTO {ensure(spark, lake, name)} t USING {{good}} s ON "
                f"{owned((namespace, epoch), 't.')} AND t.id_ms = s.id_ms AND t.id_n = s.id_n AND t.reason IS NOT NULL "
                f"WHEN MATCHED THEN UPDATE SET {sets}, day = date_format(timestamp_millis(s.ms), 'yyyy-MM-dd')",
                good=good,
            )
        rows.unpersist()
    return read, left


def _read(stream: Stream, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = batch.to_pylist()
        # if an entry did not have e as its one field, its raw is a JSON array: it still cannot be read
        entries = [(f"{row['id_ms']}-{row['id_n']}".encode(), [b"e", row["raw"]]) for row in rows]
        if entries:
            yield page(stream, entries).batch
