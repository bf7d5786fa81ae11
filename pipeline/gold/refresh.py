"""Brings gold up to date: the statements in ``sql`` compute each day again to which new input belongs.

Figures of heartbeats and lookups are computed per hour, and the figures of a day from its hours. One commit per table
replaces the rows of these days, so a refresh that was killed and is repeated gives the same tables.
"""

from __future__ import annotations

import contextlib
import json
from importlib.resources import files
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..lake.lake import Lake
from ..lake.schema import day_text
from ..lake.tables import frame, make_rows, replace
from ..silver import progress
from .figures import HOUR_MS, Refreshed, last
from .inputs import Inputs, day_of

FLAP_MS: Final = 300_000
_SQL: Final = files(__package__) / "sql"  # the package may be in a zip
_SPAN_MS: Final = ("*", "unix_millis(valid_from) AS from_ms", "unix_millis(valid_to) AS to_ms")
_OF_DAYS: Final = ("heartbeat", "topic", "unused_topic", "missing_topic", "cluster", "resilience")


def refresh(
    spark: SparkSession, lake: Lake, namespace: str, epoch: str, *, since_ms: int | None = None,
    flap_ms: int = FLAP_MS, now_ms: int | None = None,
) -> bool:  # fmt: skip
    """Compute the figures that depend on input of ``since_ms`` or later, up to the end of observation.

    Args:
        since_ms: None: compute everything.
        flap_ms: a broker flaps if it returns after a shorter absence. If the last refresh had another value,
            everything is computed again.
        now_ms: end of observation; default: the time of silver's last change or of the newest heartbeat, the later one.

    Returns:
        Whether there was anything to do.
    """
    silver, before = progress.last(lake, namespace, epoch), last(lake, namespace, epoch)
    if silver is None:
        return False
    if before is not None and (since_ms is None or since_ms <= before.begin_ms or before.flap_ms != flap_ms):
        before = None
    inputs = Inputs(spark.newSession(), lake, namespace, epoch, seq=silver.seq)
    if before is None:
        since_ms = begin_ms = inputs.begin_ms()
    else:
        begin_ms, since_ms = before.begin_ms, min(since_ms or 0, before.now_ms)
    if since_ms is None or begin_ms is None:
        return False
    if now_ms is None:
        heard_ms = inputs.newest_beat_ms(since_ms)
        if silver.observed_ms is not None:  # a later heartbeat was written while the clock was ahead
            heard_ms = min(heard_ms, silver.observed_ms)
        now_ms = max(silver.ms, heard_ms, before.now_ms if before else 0)
    seen = Refreshed(begin_ms, now_ms, flap_ms, silver.seq, json.dumps(inputs.versions))
    if since_ms > now_ms:
        return False
    GoldRun(inputs, lake, (namespace, epoch), seen, since_ms, is_new=before is None).write()
    return True


class GoldRun:
    """Writes the tables of gold from the day of ``since_ms`` on; a statement may read tables that were written before.

    Args:
        inputs: :meth:`write` closes them.
        is_new: all rows in the tables are replaced.
        area: another folder to write to, for a comparison.
    """

    def __init__(
        self, inputs: Inputs, lake: Lake, place: tuple[str, str], seen: Refreshed, since_ms: int, *, is_new: bool,
        area: str | None = None,
    ) -> None:  # fmt: skip
        self._inputs = inputs
        self._spark = inputs.spark
        self._lake = lake
        self._place = place
        self._seen = seen
        self._is_new = is_new
        self._area = area
        # minus 1: input of exactly midnight also completes the day before
        self._since_ms = day_of(since_ms - 1)
        self._hour_ms = max(self._since_ms, (since_ms - 1) // HOUR_MS * HOUR_MS)

    def write(self) -> None:
        """Write all tables; the last one records the versions that were read."""
        with contextlib.closing(self._inputs):
            self._inputs.views(self._since_ms, self._hour_ms, self._seen.now_ms)
            self._inputs.small_view("known_state", self._known("broker_state").selectExpr(*_SPAN_MS))
            for name in ("period", "changed", "writable"):
                self._view(name, self._since_ms)
            self._write("broker_state", self._sql("broker_state", self._since_ms))
            self._inputs.view("state", self._read("broker_state").selectExpr(*_SPAN_MS), keep=True)
            self._view("spell", self._since_ms)
            self._brokers()
            self._write_days("alarm", self._sql("alarm", self._since_ms), moment="at")
            self._write_days("front_end_heartbeat", self._with_kept("front_end_heartbeat"))
            hours = self._with_kept("lookup")
            days = hours.groupBy(
                F.lit("day").alias("grain"), F.date_trunc("day", "period_start").alias("period_start"), "topic"
            ).agg(F.sum("found").alias("found"), F.sum("missing").alias("missing"))  # fmt: skip
            self._write_days("lookup", hours.unionByName(days))
            self._view("member", self._since_ms)
            for name in _OF_DAYS:
                self._write_days(name, self._sql(name, self._since_ms))
            self._write("refresh", make_rows(self._spark, "gold/refresh", self._place, [self._seen]))

    def _brokers(self) -> None:
        """Write ``broker``; if a broker has returned, compute also all periods since it left."""
        away_ms = self._spark.sql(
            "SELECT min(from_ms) FROM spell WHERE kind = 'away' AND from_ms < {since_ms} AND to_ms >= {since_ms}",
            since_ms=self._since_ms,
        ).collect()[0][0]
        since_ms = self._since_ms if away_ms is None else day_of(away_ms)
        self._inputs.changes_since(since_ms)
        for name in ("period", "member", "event"):
            self._view(name, since_ms)
        self._write_days("broker", self._sql("broker", since_ms), since_ms)
        self._view("period", self._since_ms)

    def _with_kept(self, table: str) -> DataFrame:
        """The newly computed hours, with the unchanged earlier hours of the same days."""
        kept = self._known(table).where(
            f"period_start >= timestamp_millis({self._since_ms}) AND period_start < timestamp_millis({self._hour_ms})"
        )
        if table == "lookup":
            kept = kept.where("grain = 'hour'")
        found = self._sql(table, self._hour_ms)
        return found.unionByName(kept.select(found.columns))

    def _sql(self, name: str, since_ms: int) -> DataFrame:
        text = (_SQL / f"{name}.sql").read_text(encoding="utf-8")
        seen = self._seen
        return self._spark.sql(text, since_ms=since_ms, now_ms=seen.now_ms, flap_ms=seen.flap_ms, seq=seen.seq)

    def _view(self, name: str, since_ms: int) -> None:
        make = self._inputs.small_view if name == "period" else self._inputs.view
        make(name, self._sql(name, since_ms))

    def _write_days(
        self, table: str, rows: DataFrame, since_ms: int | None = None, *, moment: str = "period_start"
    ) -> None:
        """Replace the rows of the day of ``since_ms`` and later days; a view with the table's name has the new rows."""
        since = day_text(self._since_ms if since_ms is None else since_ms)
        self._write(table, rows.withColumn("day", F.date_format(moment, "yyyy-MM-dd")), f"day >= '{since}'")
        written = self._read(table)
        self._inputs.view(table, written.where(F.col("day") >= since))

    def _write(self, table: str, rows: DataFrame, replaced: str | None = None) -> None:
        """Replace the rows of this namespace and epoch that a condition selects; default: all."""
        where = None if self._is_new else replaced
        replace(self._spark, self._lake, f"gold/{table}", self._place, rows, where=where, area=self._area)

    def _read(self, table: str) -> DataFrame:
        return frame(self._spark, self._lake, f"gold/{table}", *self._place, area=self._area)

    def _known(self, table: str) -> DataFrame:
        """The rows that earlier refreshes have written."""
        rows = frame(self._spark, self._lake, f"gold/{table}", *self._place)
        return rows.limit(0) if self._is_new else rows
