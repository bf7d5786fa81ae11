"""Silver: the registry's tables with their validity, made of bronze's changes.

:func:`advance` takes in what bronze has, :func:`read` gives a table to Spark; without Spark see ``pipeline.travel``.
"""

from __future__ import annotations

from typing import Any

from pipeline.lake import Lake
from pipeline.silver.job import Run, Step
from pipeline.silver.manifest import observe
from pipeline.silver.ops import LakeError


def advance(spark: Any, lake: Lake, namespace: str, epoch: str) -> bool:
    """Take in every committed batch after the last silver commit, whole sets of parts only; False: nothing new.

    Args:
        spark: None: without Spark, for as much as one process can take.

    Raises:
        LakeError: there is no snapshot yet; or a change is missing (the message names both seqs) and no snapshot was
            taken behind the hole. What came before the hole is committed.
    """
    return any([True for _ in Run(spark, lake, namespace, epoch).steps()])


def read(spark: Any, lake: Lake, table: str, namespace: str, epoch: str) -> Any:
    """A DataFrame of all rows of a table, with the columns of ``SILVER[table]``."""
    from pipeline.silver import frames

    return frames.read(spark, lake, table, namespace, epoch)


__all__ = ["LakeError", "Run", "Step", "advance", "observe", "read"]
