"""Makes the views that gold is computed from: silver and bronze as of the moment when a refresh began."""

from __future__ import annotations

import functools
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..lake.lake import Lake
from ..lake.schema import day_text
from ..lake.tables import frame
from .figures import DAY_MS, HOUR_MS

_STREAMS: Final = ("bronze/changes", "bronze/heartbeats", "bronze/lookups")
_TABLES: Final = (*_STREAMS, "bronze/snapshot", "silver/broker_addr", "silver/broker_row", "silver/queue_data",
                  "silver/gap", "silver/clock_step")  # fmt: skip
_WRITABLE: Final = "perm & 2 <> 0 AND write_queue_nums > 0"
_HEARTBEAT: Final = "who string, broker_name string, front_end string, kind string, interval_ms bigint"


def day_of(ms: int) -> int:
    """The start of the day (UTC) that a moment is in."""
    return ms // DAY_MS * DAY_MS


class Inputs:
    """The inputs of one namespace and epoch.

    Args:
        spark: a session for these views alone.
        versions: table -> the version to read; None: the newest.
        seq: the change up to which silver counts.

    Attributes:
        versions: table -> the version that is read: rows that are written later do not count.
    """

    def __init__(
        self, spark: SparkSession, lake: Lake, namespace: str, epoch: str, *, seq: int,
        versions: dict[str, int] | None = None,
    ) -> None:  # fmt: skip
        self.spark = spark
        self._lake = lake
        self._place = namespace, epoch
        self._seq = seq
        self._cached: list[DataFrame] = []
        if versions is None:
            found = {name: lake.delta(name) for name in _TABLES}
            versions = {name: delta.version() for name, delta in found.items() if delta is not None}
        self.versions = versions

    def table(self, name: str) -> DataFrame:
        """The rows of a table that are of this namespace and epoch."""
        version = self.versions.get(name)
        rows = frame(self.spark, self._lake, name, *self._place, version=version)
        return rows.limit(0) if version is None else rows

    def held(self, name: str, since_ms: int, now_ms: int) -> DataFrame:
        """Rows of a silver table that held at some moment from ``since_ms`` to ``now_ms``, or ended in that time.

        Further columns are from_ms, to_ms (null: the value still held at ``now_ms``) and, for queue data, is_writable.
        """
        ended = f"to_seq <= {self._seq} AND unix_millis(valid_to) <= {now_ms}"
        rows = (  # conditions on bare columns let Delta skip files by their statistics
            self.table(f"silver/{name}").where(f"from_seq <= {self._seq} AND valid_from <= timestamp_millis({now_ms})")
            .where(f"current OR to_seq > {self._seq} OR valid_to >= timestamp_millis({since_ms})")
            .selectExpr("*", "unix_millis(valid_from) AS from_ms", f"IF({ended}, unix_millis(valid_to), NULL) AS to_ms")
        )  # fmt: skip
        return rows.selectExpr("*", f"{_WRITABLE} AS is_writable") if name == "queue_data" else rows

    def view(self, name: str, rows: DataFrame, *, keep: bool = False) -> None:
        """Make a view of rows. ``keep``: cache them, because several statements read them."""
        if keep:
            self._cached.append(rows.cache())
        rows.createOrReplaceTempView(name)

    def small_view(self, name: str, rows: DataFrame) -> None:
        """Make a view of a few rows, which each query plan then contains; an empty view makes plans simpler."""
        self.view(name, self.spark.createDataFrame(rows.toArrow()))

    def views(self, since_ms: int, hour_ms: int, now_ms: int) -> None:
        """Make the views that the statements in ``sql`` read.

        Args:
            since_ms: the start of a day; silver and changes are needed from then on.
            hour_ms: the start of an hour; heartbeats and lookups are needed from then on.
        """
        self.view("broker_addr", self.held("broker_addr", 0, now_ms), keep=True)
        for table in ("queue_data", "broker_row"):
            self.view(table, self.held(table, since_ms, now_ms), keep=True)
        for name, rows in (
            ("gap", self.table("silver/gap")),
            ("clock_step", self.table("silver/clock_step")),
            ("snapshot", self.table("bronze/snapshot").select("seq").distinct()),
        ):
            self.small_view(name, rows)
        self.view("lookups", self.entries("lookups", hour_ms, now_ms))
        # the interval that ends with a heartbeat may have begun an hour earlier
        beats = self.entries("heartbeats", hour_ms - HOUR_MS, now_ms).withColumn("of", F.from_json("e", _HEARTBEAT))
        self.view("heartbeats", beats.select("ms", "id_ms", "id_n", "of.*"))
        self.changes_since(since_ms)

    def changes_since(self, since_ms: int) -> None:
        """Make the view of changes. It has no end: a clock that was ahead wrote times that are too late."""
        self.view("changes", self.entries("changes", since_ms))

    def entries(self, stream: str, since_ms: int, now_ms: int | None = None) -> DataFrame:
        """The readable entries of a stream from ``since_ms`` to ``now_ms`` (None: to its end), both included."""
        since = f"day >= '{day_text(max(0, since_ms))}' AND ms >= {since_ms} AND reason IS NULL"
        return self.table(f"bronze/{stream}").where(since if now_ms is None else f"{since} AND ms <= {now_ms}")

    def begin_ms(self) -> int | None:
        """The first moment with any data."""
        first = [self.table(name).where("reason IS NULL").agg(F.min("ms").alias("ms")) for name in _STREAMS]
        first += [
            self.table(f"silver/{name}").agg(F.unix_millis(F.min("valid_from")).alias("ms"))
            for name in ("broker_addr", "queue_data")
        ]
        found: int | None = functools.reduce(DataFrame.unionAll, first).agg(F.min("ms")).collect()[0][0]
        return found

    def newest_beat_ms(self, since_ms: int) -> int:
        """When the newest heartbeat of ``since_ms`` or later was written; -1: there is none."""
        found = self.entries("heartbeats", since_ms).agg(F.max("ms")).collect()[0][0]
        return -1 if found is None else int(found)

    def close(self) -> None:
        """Free the memory of the cached views."""
        for rows in self._cached:
            rows.unpersist()
