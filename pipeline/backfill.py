"""Writes silver from bronze again, and gold from it. Readers see each table as it was until the new one is complete."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from .lake.lake import Lake
from .lake.schema import SILVER
from .lake.tables import ensure, make_rows, owned
from .silver.advance import Silver
from .silver.progress import Progress

_AREA: Final = "_backfill"


def backfill(spark: SparkSession, lake: Lake, namespace: str, epoch: str) -> Iterator[Progress]:
    """Write silver again, up to the change where it is. Each table counts as it is written; gold follows the last one.

    Raises:
        LakeError: see :meth:`mqregistry.pipeline.silver.advance.Silver.advance`.
    """
    before = Silver(spark, lake, namespace, epoch)
    area = f"{_AREA}/{namespace}/{epoch}"
    lake.remove(area)  # of one that was killed
    again = Silver(spark, lake, namespace, epoch, area=area)
    yield from again.advance(upto_seq=before.now.seq if before.now else None)
    of_epoch = owned((namespace, epoch))
    for table in SILVER:
        ensure(spark, lake, f"silver/{table}", area)  # one to which nothing was written is empty
        rows = spark.read.format("delta").load(lake.path(f"{area}/{table}"))
        _replace(spark, lake, f"silver/{table}", of_epoch, rows)
    of_changes = [("changes", *gap) for gap in again.gaps]
    found = make_rows(spark, "silver/gap", (namespace, epoch), of_changes) if of_changes else None
    _replace(spark, lake, "silver/gap", f"{of_epoch} AND stream = 'changes'", found)
    found = make_rows(spark, "silver/clock_step", (namespace, epoch), again.steps) if again.steps else None
    _replace(spark, lake, "silver/clock_step", of_epoch, found)
    assert again.now is not None
    before.now = again.now._replace(number=before.now.number if before.now else again.now.number)
    before.tell("backfill", touched_ms=0)
    lake.remove(area)


def _replace(spark: SparkSession, lake: Lake, name: str, where: str, rows: DataFrame | None) -> None:
    """Replace some rows by these; without new rows the old ones are deleted."""
    if rows is None:
        spark.sql(f"DELETE FROM {ensure(spark, lake, name)} WHERE {where}")
        return
    ensure(spark, lake, name)
    rows.write.format("delta").mode("overwrite").option("replaceWhere", where).save(lake.path(name))
