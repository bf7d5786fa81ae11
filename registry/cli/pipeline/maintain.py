"""``pipeline maintain``: merges small files of the lake, and removes those that nothing needs."""

from __future__ import annotations

import click

from ..options import lake_option
from .extras import spark_extra


@click.command()
@lake_option
def maintain(lake: str) -> None:
    """Merge small files, summarise Delta's logs, and remove files that have not counted for seven days.

    'pipeline run' does this by itself, every hour and every day; for 'pipeline run --once' from cron run it once a day.
    It may run beside either. It needs no Spark and no Redis.
    """
    with spark_extra():
        from mqregistry.pipeline.lake.lake import Lake, whole_files
        from mqregistry.pipeline.lake.maintain import maintain as work
    where = Lake(lake)
    with whole_files(where):
        removed = work(where)
    if not removed:
        raise click.ClickException(f"there is nothing in {where.root} yet: 'mqregistry pipeline run' fills it")
    files = sum(removed.values())
    click.echo(f"{where.root}: {len(removed)} tables merged, {files or 'no'} file{'s' * (files != 1)} removed")
