"""Writes silver from bronze again, and gold from it. Readers see each table as it was until the new one is complete."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from . import gold
from .lake.errors import OtherWriter
from .lake.lake import NONE, Lake, owner
from .lake.schema import SILVER
from .silver.job import SilverRun, Step
from .silver.tables import PART, app, begun, load, save


def backfill(spark: Any, lake: Lake, namespace: str, epoch: str) -> Iterator[Step]:
    """Write silver again; nothing of it counts before all of it is written.

    Raises:
        LakeError: see :func:`mqregistry.pipeline.silver.advance`.
        OtherWriter: a run brought silver on meanwhile.
    """
    before, name = load(lake, namespace, epoch), app(namespace, epoch)
    rewritten, _ = begun(lake, namespace, epoch)
    versions = {table: lake.table(f"silver/{table}").version(name) for table in SILVER}
    run = SilverRun(spark, lake, namespace, epoch, area="silver")
    yield from run.steps(upto_seq=before.content.seq if before else None)
    assert run.tables is not None
    backfills = before.content.backfills if before else 0
    content = msgspec.structs.replace(run.tables.content, rewritten=rewritten + 1, backfills=backfills + 1)
    state = lake.state(PART, namespace, epoch)
    if (state.number if state else NONE) != (before.number if before else NONE):
        raise OtherWriter(
            f"silver of namespace {namespace!r} changed while it was written again: stop 'mqregistry pipeline run', "
            "and run the backfill again"
        )
    for table in SILVER:
        lake.table(f"silver/{table}").commit(
            run.tables.of(table), name, content.number, after=versions[table], replaced=owner(namespace, epoch)
        )  # fmt: skip
    save(lake, namespace, epoch, before, content)


def rebuild_gold(spark: Any, lake: Lake, namespace: str, epoch: str) -> None:
    """Write gold again from silver; readers see the old tables until the new ones are complete."""
    gold.refresh(spark, lake, namespace, epoch, from_scratch=True)
