"""``pipeline backfill``: writes silver and gold again, from bronze."""

from __future__ import annotations

import functools

import click

from ..options import lake_option
from .session import SparkStart, conf_option, namespace_options, spark_options


@click.command()
@click.option("--epoch", metavar="EPOCH", help="Only this epoch of the namespace.  [default: all]")
@spark_options
@conf_option
@lake_option
@namespace_options
def backfill(namespace: str, lake: str, epoch: str | None, spark: SparkStart) -> None:
    """Write silver and gold again, from bronze; needs no Redis.

    Until it is done, readers get the old tables. While 'pipeline run' writes to the lake, this command is refused.
    """
    from mqregistry.pipeline import backfill as work
    from mqregistry.pipeline.gold.refresh import refresh
    from mqregistry.pipeline.lake.lake import Lake
    from mqregistry.pipeline.spark.lock import locked

    where = Lake(lake)
    where.try_to_write()
    epochs = [epoch] if epoch else where.epochs(namespace)
    if not epochs:
        raise click.ClickException(
            f"the lake at {where.root} holds nothing of namespace {namespace!r}: is it another --lake or --namespace? "
            "'mqregistry pipeline run' fills it"
        )
    tell = functools.partial(click.echo, err=True)
    tell("starting Spark")
    with spark.session(err=True) as session, locked(session, where, tell):
        for one in epochs:
            for step in work.backfill(session, where, namespace, one):
                tell(f"epoch {one}: silver up to change {step.seq}")
            tell(f"epoch {one}: gold")
            refresh(session, where, namespace, one, since_ms=None)
    click.echo(f"namespace {namespace}: {len(epochs)} epoch{'s' * (len(epochs) != 1)} written again")
