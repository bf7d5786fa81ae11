"""Writes silver again from bronze. Readers see each table as it was until the new one is complete."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import SparkSession

from .lake.lake import Lake
from .lake.schema import SILVER
from .lake.tables import frame, make_rows, replace
from .silver.advance import Silver
from .silver.progress import Progress


def backfill(spark: SparkSession, lake: Lake, namespace: str, epoch: str) -> Iterator[Progress]:
    """Write silver again, up to the same change as before; the next refresh then computes all of gold again.

    Raises:
        LakeError: see :meth:`mqregistry.pipeline.silver.advance.Silver.advance`.
    """
    before = Silver(spark, lake, namespace, epoch)
    area = f"_backfill/{namespace}/{epoch}"
    lake.remove(area)  # tables of a backfill that was killed
    again = Silver(spark, lake, namespace, epoch, area=area)
    yield from again.advance(upto_seq=before.now.seq if before.now else None)
    place = namespace, epoch
    for table in SILVER:
        name = f"silver/{table}"
        replace(spark, lake, name, place, frame(spark, lake, name, *place, area=area))
    gaps = make_rows(spark, "silver/gap", place, [("changes", *gap) for gap in again.gaps])
    replace(spark, lake, "silver/gap", place, gaps, where="stream = 'changes'")
    replace(spark, lake, "silver/clock_step", place, make_rows(spark, "silver/clock_step", place, again.steps))
    assert again.now is not None
    before.now = again.now._replace(number=before.now.number if before.now else again.now.number)
    before.tell("backfill", touched_ms=0)
    lake.remove(area)
