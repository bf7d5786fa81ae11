"""Reads the rows that are added to bronze and silver as Spark streams, which start the batches of silver and gold."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mqregistry.events.journal import HEARTBEATS, LOOKUPS

from .lake.lake import Lake
from .lake.tables import ensure, owned

_CERTAIN_S: Final = 6 * 86_400.0  # Delta keeps its logs for seven days (lake/tables.py)


def changes(spark: SparkSession, lake: Lake, namespace: str, epoch: str) -> DataFrame:
    """The ``seq`` of each change that is added to bronze."""
    return _added(spark, lake, "bronze/changes", namespace, epoch).select("seq")


def moments(spark: SparkSession, lake: Lake, namespace: str, epoch: str) -> DataFrame:
    """The moments (ms) to which new rows of silver or bronze belong."""
    steps = _added(spark, lake, "silver/progress", namespace, epoch)
    found = steps.select(F.coalesce("touched_ms", "observed_ms").alias("ms"))
    for stream in (HEARTBEATS, LOOKUPS):
        found = found.unionByName(_added(spark, lake, f"bronze/{stream}", namespace, epoch).select("ms"))
    return found


def forget_old(checkpoint: str) -> None:
    """Remove a checkpoint if Delta's log may lack the next version; its query then reads the whole table."""
    commits = Path(checkpoint, "commits").glob("[0-9]*")
    newest_s = max((commit.stat().st_mtime for commit in commits), default=None)
    if newest_s is not None and time.time() - newest_s > _CERTAIN_S:
        shutil.rmtree(checkpoint)


def _added(spark: SparkSession, lake: Lake, table: str, namespace: str, epoch: str) -> DataFrame:
    """Rows that are added to a table, without those that OPTIMIZE or ``requarantine`` writes again."""
    ensure(spark, lake, table)
    rows = spark.readStream.format("delta").option("skipChangeCommits", "true").load(lake.path(table))
    return rows.where(owned((namespace, epoch)))
