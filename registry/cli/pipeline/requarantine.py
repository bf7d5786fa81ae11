"""``pipeline requarantine``: reads the entries in quarantine again."""

from __future__ import annotations

import click

from ..options import lake_option
from .session import SparkStart, conf_option, namespace_options, spark_options


@click.command()
@spark_options
@conf_option
@lake_option
@namespace_options
def requarantine(namespace: str, lake: str, spark: SparkStart) -> None:
    """Read entries in quarantine once more, after an upgrade to a release that understands them.

    An entry is in quarantine if it could not be read. The next 'pipeline run' continues with the entries that can be
    read now. If a run has continued without these entries, 'pipeline backfill' then adds them. It needs no Redis.
    """
    from mqregistry.pipeline.bronze.again import requarantine as work
    from mqregistry.pipeline.lake.lake import Lake
    from mqregistry.pipeline.spark.lock import locked

    where = Lake(lake)
    where.try_to_write()
    with spark.session() as session, locked(session, where, click.echo):
        done = [work(session, where, namespace, epoch) for epoch in where.epochs(namespace)]
    read, left = sum(read for read, _ in done), sum(left for _, left in done)
    if not read and not left:
        click.echo(f"nothing of namespace {namespace} is in quarantine at {where.root}")
        return
    click.echo(f"{read} entr{'y' if read == 1 else 'ies'} read and taken into bronze, {left} still in quarantine")
