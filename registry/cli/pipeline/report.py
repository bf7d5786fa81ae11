"""``pipeline report``: one HTML page about what happened, from the pipeline's tables."""

from __future__ import annotations

from pathlib import Path

import click

from ..extras import extra
from ..options import lake_option
from ..time_options import instant_option
from .session import namespace_options


@click.command()
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False, writable=True), default=Path("report.html"),
    show_default=True, metavar="FILE", help="Write the page to this file.",
)  # fmt: skip
@instant_option(
    "--from", "from_ms",
    "Whole hours from this one on: 2026-11-21T14:03 (local time unless it ends with Z or +01:00), 14:03 (the last "
    "one), -2h, -30d.  [default: 24 hours before the end]",
)  # fmt: skip
@instant_option("--to", "to_ms", "Up to this time.  [default: the end of observation]")
@lake_option
@namespace_options
def report(out: Path, from_ms: int | None, to_ms: int | None, lake: str, namespace: str) -> None:
    """Write what happened as one self-contained HTML page, from the pipeline's tables. It needs no Spark.

    The page shows the most important numbers first, then the availability of every broker, registrations and removals,
    heartbeats, uneven queues, and topics that are missing or unused.
    """
    if from_ms is not None and to_ms is not None and from_ms >= to_ms:
        raise click.UsageError("--from must be before --to")
    with extra("spark"):
        from mqregistry.pipeline.lake.lake import Lake
        from mqregistry.pipeline.report.formats import count
        from mqregistry.pipeline.report.page import write
    if not out.parent.is_dir():
        raise click.UsageError(f"--out: there is no folder {out.parent}")
    found = write(Lake(lake), namespace, out, from_ms=from_ms, to_ms=to_ms)
    click.echo(f"{out}: {count(sum(not facts.empty for facts in found), 'epoch')}, {out.stat().st_size / 1e6:.1f} MB")
