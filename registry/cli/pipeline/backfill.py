"""``pipeline backfill``: writes silver and gold again, from bronze."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..options import conf_option, config_file_option, lake_option, read_settings, setting_options, spark_options
from .extras import spark_extra


@click.command()
@click.option("--epoch", metavar="EPOCH", help="Only this epoch of the namespace.  [default: all]")
@spark_options
@conf_option
@lake_option
@setting_options("namespace")
@config_file_option
def backfill(
    config_file: Path | None, lake: str, epoch: str | None, master: str, driver_memory: str, jars: str | None,
    conf: dict[str, str], **flags: Any,
) -> None:  # fmt: skip
    """Write silver and gold again, from bronze; needs no Redis.

    Until it is done the old tables are read. While 'pipeline run' works on the namespace it is refused.
    """
    namespace = read_settings(flags, config_file).namespace
    with spark_extra():
        from mqregistry.pipeline import backfill as work
        from mqregistry.pipeline.gold.refresh import refresh
        from mqregistry.pipeline.lake.lake import Lake
        from mqregistry.pipeline.spark.lock import lock
        from mqregistry.pipeline.spark.session import ending, open_session
    where = Lake(lake)
    where.try_to_write()
    epochs = [epoch] if epoch else where.epochs(namespace)
    if not epochs:
        raise click.ClickException(
            f"the lake at {where.root} holds nothing of namespace {namespace!r}: is it another --lake or --namespace? "
            "'mqregistry pipeline run' fills it"
        )
    click.echo("starting Spark", err=True)
    spark = open_session(master=master, driver_memory=driver_memory, jars=jars, tell=_tell, config=conf)
    with ending(spark):
        release = lock(spark, where, namespace, _tell)
        for one in epochs:
            for step in work.backfill(spark, where, namespace, one):
                click.echo(f"epoch {one}: silver up to change {step.seq}", err=True)
            click.echo(f"epoch {one}: gold", err=True)
            refresh(spark, where, namespace, one, since_ms=None)
        release()
    click.echo(f"namespace {namespace}: {len(epochs)} epoch{'s' * (len(epochs) != 1)} written again")


def _tell(text: str) -> None:
    click.echo(text, err=True)
