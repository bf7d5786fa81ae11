"""Silver: the registry's tables with the time for which each value held, made of bronze's changes.

:func:`advance` takes in what bronze has, :func:`read` gives a table to Spark; without Spark see
``mqregistry.pipeline.past.travel``.
"""

from __future__ import annotations

from typing import Any

from ..lake.lake import Lake, LakeError
from ..lake.schema import SILVER
from .job import SilverRun, Step
from .tables import load, observe


def advance(spark: Any, lake: Lake, namespace: str, epoch: str) -> bool:
    """Take in every committed batch after the last silver commit, whole sets of parts only; False: nothing new.

    Args:
        spark: None: without Spark, for as much as one process can take.

    Raises:
        LakeError: there is no snapshot yet; or a change is missing (the message names both seqs) and no snapshot was
            taken after the hole. What came before the hole is committed.
    """
    return any([True for _ in SilverRun(spark, lake, namespace, epoch).steps()])


def read(spark: Any, lake: Lake, table: str, namespace: str, epoch: str) -> Any:
    """A DataFrame of all rows of a table, with the columns of ``SILVER[table]``."""
    from ..spark.frames import as_of, read_files

    tables = load(lake, namespace, epoch)
    if tables is None:
        return read_files(spark, lake, [], SILVER[table])
    return as_of(read_files(spark, lake, tables.of(table), SILVER[table]), tables.content.seq)


__all__ = ["LakeError", "SilverRun", "Step", "advance", "load", "observe", "read"]
