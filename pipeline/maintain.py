"""Keeps the lake's tables quick to read with two commands of Delta: OPTIMIZE merges files, VACUUM removes old files.

VACUUM leaves old files for a week, so that programs that have opened a table can still read it.
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

_LOOK_S: Final = 900.0
_MANY_FILES: Final = 60  # in a partition; an hour's commits make as many
_MANY_OLD_FILES: Final = 500  # in a table; some hours' commits make as many


class Upkeep:
    """Maintains tables with many files during a run; the first check is at once, so that short runs do it, too."""

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        self._spark = spark
        self._lake = lake
        self._next_s = time.monotonic()

    def when_due(self) -> None:
        """Maintain the tables at the first call, and then at most every quarter of an hour."""
        if time.monotonic() >= self._next_s:
            optimize(self._spark, self._lake, files=_MANY_FILES)
            vacuum(self._spark, self._lake, files=_MANY_OLD_FILES)
            self._next_s = time.monotonic() + _LOOK_S


def maintain(spark: SparkSession, lake: Lake) -> dict[str, int]:
    """Run OPTIMIZE and VACUUM now; returns how many files each table has."""
    optimize(spark, lake)
    vacuum(spark, lake)
    return {name: delta.get_add_actions().num_rows for name in TABLES if (delta := lake.delta(name)) is not None}


def optimize(spark: SparkSession, lake: Lake, *, files: int = 2) -> None:
    """Merge small files into large ones, in each table with a partition of at least ``files`` files."""
    for table in TABLES:
        delta = lake.delta(table)
        if delta is None:
            continue
        added = pa.table(delta.get_add_actions(flatten=True))
        partitions = [name for name in added.column_names if name.startswith("partition.")]
        most = pc.max(added.group_by(partitions).aggregate([([], "count_all")])["count_all"]).as_py()
        if most is not None and most >= files:
            spark.sql(f"OPTIMIZE {sql_name(lake, table)}")


def vacuum(spark: SparkSession, lake: Lake, *, files: int = 1) -> None:
    """Remove files that no version of the last week uses, from tables with at least ``files`` such files."""
    for name in TABLES:
        delta = lake.delta(name)
        if delta is not None and len(delta.vacuum(dry_run=True)) >= files:
            spark.sql(f"VACUUM {sql_name(lake, name)}")
