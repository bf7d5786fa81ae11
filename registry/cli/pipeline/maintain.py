"""``pipeline maintain``: merges small files of the lake, and removes files that nothing needs."""

from __future__ import annotations

import click

from ..options import lake_option
from .session import SparkStart, conf_option, spark_options


@click.command()
@spark_options
@conf_option
@lake_option
def maintain(lake: str, spark: SparkStart) -> None:
    """Merge small files (OPTIMIZE), and remove files that no table has used for seven days (VACUUM).

    'pipeline run', also with --once, does this by itself for tables with many files. While 'pipeline run' runs, this
    command is refused.
    """
    from mqregistry.pipeline.lake.lake import Lake
    from mqregistry.pipeline.maintain import maintain as work
    from mqregistry.pipeline.spark.lock import locked

    where = Lake(lake)
    where.try_to_write()
    with spark.session() as session, locked(session, where, click.echo):
        files = work(session, where)
    if not files:
        raise click.ClickException(f"there is nothing in {where.root} yet: 'mqregistry pipeline run' fills it")
    click.echo(f"{where.root}: {len(files)} tables of {sum(files.values()):,} files, {max(files.values())} at most")
