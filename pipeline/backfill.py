"""Silver anew from bronze, and gold from it. Readers see the old tables until the new ones are whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from pipeline import gold
from pipeline.lake import Lake, number_of, places
from pipeline.silver.job import SPARK_FROM_ROWS, Run, Step
from pipeline.silver.manifest import AREA, forget, log_of, read_last
from pipeline.silver.ops import LakeError


def backfill(
    spark: Any, lake: Lake, namespace: str, epoch: str, *, spark_from_rows: int = SPARK_FROM_ROWS
) -> Iterator[Step]:
    """Write silver anew; killed and started again, it goes on from where it was.

    It has a log of its own until it is done; then one commit puts the new files in the place of the old ones.

    Raises:
        LakeError: see :func:`pipeline.silver.advance`; or silver moved meanwhile.
    """
    log = log_of(namespace, epoch)
    before = read_last(lake, log)
    number = before[0] + 1 if before else 0
    own_log = f"{_logs(namespace, epoch)}/from={number:09d}"
    _clean(lake, namespace, epoch, number)
    run = Run(
        spark, lake, namespace, epoch, log=own_log, area=f"{AREA}/from={number:09d}", spark_from_rows=spark_from_rows
    )
    yield from run.steps()
    made = read_last(lake, own_log)
    assert made is not None
    now = read_last(lake, log)
    if (now[0] if now else -1) != number - 1:
        raise LakeError(
            f"silver of namespace {namespace!r} moved on while it was written anew: stop 'mqregistry pipeline run', "
            "and run the backfill again"
        )
    lake.commit(log, number, msgspec.structs.replace(made[1], rewritten=number).content())
    forget(lake, log)
    _clean(lake, namespace, epoch, number + 1)


def _clean(lake: Lake, namespace: str, epoch: str, number: int) -> None:
    """Forget backfills that were done, or given up because silver moved on."""
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


def gold_anew(spark: Any, lake: Lake, namespace: str, epoch: str) -> None:
    """Gold from this silver, nothing kept of what it was before; readers see that until this one is whole."""
    gold.refresh(spark, lake, namespace, epoch, anew=True)
