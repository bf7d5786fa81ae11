"""Keeps the lake's tables quick to read, by Delta's own commands: OPTIMIZE merges small files, VACUUM removes old ones.

An old file stays for a week, so that programs that have opened the table can still read it.
"""

from __future__ import annotations

import time
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from .lake.lake import Lake
from .lake.schema import TABLES
from .lake.tables import sql_name

_OPTIMIZE_S: Final = 3600.0
_VACUUM_S: Final = 86_400.0


class Upkeep:
    """The maintenance during a run: OPTIMIZE once an hour, VACUUM once a day."""

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        self._spark = spark
        self._lake = lake
        self._optimize_s = time.monotonic() + _OPTIMIZE_S
        self._vacuum_s = time.monotonic() + _OPTIMIZE_S

    def when_due(self) -> None:
        """Run OPTIMIZE and VACUUM if their time has come."""
        now_s = time.monotonic()
        if now_s >= self._optimize_s:
            optimize(self._spark, self._lake)
            self._optimize_s = now_s + _OPTIMIZE_S
        if now_s >= self._vacuum_s:
            vacuum(self._spark, self._lake)
            self._vacuum_s = now_s + _VACUUM_S


def maintain(spark: SparkSession, lake: Lake) -> dict[str, int]:
    """Run OPTIMIZE and VACUUM now; returns how many files each table has."""
    optimize(spark, lake)
    vacuum(spark, lake)
    return {name: delta.get_add_actions().num_rows for name in TABLES if (delta := lake.delta(name)) is not None}


def optimize(spark: SparkSession, lake: Lake) -> None:
    """Merge small files into large ones, in tables with several files in a partition."""
    for table in TABLES:
        delta = lake.delta(table)
        if delta is None:
            continue
        files = pa.table(delta.get_add_actions(flatten=True))
        partitions = [name for name in files.column_names if name.startswith("partition.")]
        most = pc.max(files.group_by(partitions).aggregate([([], "count_all")])["count_all"]).as_py()
        if most is not None and most > 1:
            spark.sql(f"OPTIMIZE {sql_name(lake, table)}")


def vacuum(spark: SparkSession, lake: Lake) -> None:
    """Remove the files that have not counted for a week, from the tables that have any."""
    for name in TABLES:
        delta = lake.delta(name)
        if delta is not None and delta.vacuum(dry_run=True):
            spark.sql(f"VACUUM {sql_name(lake, name)}")
