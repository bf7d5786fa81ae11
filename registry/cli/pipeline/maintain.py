"""``pipeline maintain``: merges small files of the lake, and removes those that nothing needs."""

from __future__ import annotations

import click

from ..options import conf_option, lake_option, spark_options
from .extras import spark_extra


@click.command()
@spark_options
@conf_option
@lake_option
def maintain(lake: str, master: str, driver_memory: str, jars: str | None, conf: dict[str, str]) -> None:
    """Merge small files (OPTIMIZE), and remove files that have not counted for seven days (VACUUM).

    'pipeline run' does this by itself, every hour and every day; for 'pipeline run --once' from cron run it once a day.
    It may run beside either.
    """
    with spark_extra():
        from mqregistry.pipeline.lake.lake import Lake
        from mqregistry.pipeline.maintain import maintain as work
        from mqregistry.pipeline.spark.session import ending, open_session
    where = Lake(lake)
    where.try_to_write()
    spark = open_session(master=master, driver_memory=driver_memory, jars=jars, tell=click.echo, config=conf)
    with ending(spark):
        files = work(spark, where)
    if not files:
        raise click.ClickException(f"there is nothing in {where.root} yet: 'mqregistry pipeline run' fills it")
    click.echo(f"{where.root}: {len(files)} tables of {sum(files.values()):,} files, {max(files.values())} at most")
