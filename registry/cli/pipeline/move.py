"""``pipeline move``: copies a lake of before the Delta tables into one of today."""

from __future__ import annotations

import click

from ..options import lake_option
from .extras import spark_extra


@click.command()
@click.argument("old")
@lake_option
def move(old: str, lake: str) -> None:
    """Copy OLD, a lake of before the Delta tables, to --lake; silver and gold are made of its bronze.

    It needs no Spark and no Redis, and goes on where it was when it is run again. 'pipeline run' then continues with
    the new lake.
    """
    with spark_extra():
        from mqregistry.pipeline.lake.lake import Lake, whole_files
        from mqregistry.pipeline.move import move as work
    where = Lake(lake)
    where.try_to_write()
    with whole_files(where):
        moved = work(Lake(old), where, tell=click.echo)
    click.echo(f"{moved} epoch{'s' * (moved != 1)} moved to {where.root}")
