"""``pipeline requarantine``: reads the entries in quarantine again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..options import conf_option, config_file_option, lake_option, read_settings, setting_options, spark_options
from .extras import spark_extra


@click.command()
@spark_options
@conf_option
@lake_option
@setting_options("namespace")
@config_file_option
def requarantine(
    config_file: Path | None, lake: str, master: str, driver_memory: str, jars: str | None, conf: dict[str, str],
    **flags: Any,
) -> None:  # fmt: skip
    """Read the entries that could not be read again, after an upgrade to a release that knows them.

    The next 'pipeline run' goes on with what can be read now; where it went on behind a gap already, 'pipeline
    backfill' closes the gap. It needs no Redis.
    """
    namespace = read_settings(flags, config_file).namespace
    with spark_extra():
        from mqregistry.pipeline.bronze.again import requarantine as work
        from mqregistry.pipeline.lake.lake import Lake
        from mqregistry.pipeline.spark.lock import lock
        from mqregistry.pipeline.spark.session import ending, open_session
    where = Lake(lake)
    where.try_to_write()
    spark = open_session(master=master, driver_memory=driver_memory, jars=jars, tell=click.echo, config=conf)
    with ending(spark):
        release = lock(spark, where, namespace, click.echo)
        done = [work(spark, where, namespace, epoch) for epoch in where.epochs(namespace)]
        release()
    read, left = sum(one.read for one in done), sum(one.left for one in done)
    if not read and not left:
        click.echo(f"nothing of namespace {namespace} is in quarantine at {where.root}")
        return
    click.echo(f"{read} entr{'y' if read == 1 else 'ies'} read and taken into bronze, {left} still in quarantine")
