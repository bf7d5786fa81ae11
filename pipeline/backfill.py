"""Writes silver from bronze again, and gold from it. Readers see the old tables until the new ones are complete."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from . import gold
from .lake.lake import Lake, LakeError, number_of, places
from .silver.job import SPARK_FROM_ROWS, SilverRun, Step
from .silver.manifest import AREA, forget, log_of, read_last


def backfill(
    spark: Any, lake: Lake, namespace: str, epoch: str, *, spark_from_rows: int = SPARK_FROM_ROWS
) -> Iterator[Step]:
    """Write silver again; killed and started again, it goes on from its last commit.

    It has a log of its own until it is done; then one commit puts the new files in the place of the old ones.

    Raises:
        LakeError: see :func:`mqregistry.pipeline.silver.advance`; or silver changed meanwhile.
    """
    log = log_of(namespace, epoch)
    before = read_last(lake, log)
    number = before[0] + 1 if before else 0
    own_log = f"{_logs(namespace, epoch)}/from={number:09d}"
    _clean(lake, namespace, epoch, number)
    run = SilverRun(
        spark, lake, namespace, epoch, log=own_log, area=f"{AREA}/from={number:09d}", spark_from_rows=spark_from_rows
    )
    yield from run.steps()
    made = read_last(lake, own_log)
    assert made is not None
    now = read_last(lake, log)
    if (now[0] if now else -1) != number - 1:
        raise LakeError(
            f"silver of namespace {namespace!r} changed while it was written again: stop 'mqregistry pipeline run', "
            "and run the backfill again"
        )
    lake.commit(log, number, msgspec.structs.replace(made[1], rewritten=number).content())
    forget(lake, log)
    _clean(lake, namespace, epoch, number + 1)


def _clean(lake: Lake, namespace: str, epoch: str, number: int) -> None:
    """Forget backfills that were done, or given up because silver changed meanwhile."""
    last = read_last(lake, log_of(namespace, epoch))
    for folder in lake.folders("commits", _logs(namespace, epoch)):
        own_log = f"{_logs(namespace, epoch)}/{folder}"
        if number_of(folder) != number:
            forget(lake, own_log, last[1].files if last else (), commits=0)
            lake.remove("commits", own_log)


def _logs(namespace: str, epoch: str) -> str:
    return f"backfill/{places(namespace, epoch)}"


def epochs(lake: Lake, namespace: str) -> list[str]:
    """The epochs of a namespace that the lake began to record."""
    found = lake.folders("commits", "snapshots", f"namespace={namespace}")
    return [folder.partition("=")[2] for folder in found]


def rebuild_gold(spark: Any, lake: Lake, namespace: str, epoch: str) -> None:
    """Write gold again from silver; readers see the old tables until the new ones are complete."""
    gold.refresh(spark, lake, namespace, epoch, from_scratch=True)
