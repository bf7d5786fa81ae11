"""``pipeline requarantine``: reads the entries in quarantine again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..options import config_file_option, lake_option, read_settings, setting_options
from .extras import spark_extra


@click.command()
@lake_option
@setting_options("namespace")
@config_file_option
def requarantine(config_file: Path | None, lake: str, **flags: Any) -> None:
    """Read the entries in quarantine again, after an upgrade to a release that knows them.

    What can be read now is in bronze then. The next 'pipeline run' goes on with it; where it went on behind a gap
    already, 'pipeline backfill' closes the gap. It needs no Spark and no Redis.
    """
    namespace = read_settings(flags, config_file).namespace
    with spark_extra():
        from mqregistry.pipeline.bronze.again import requarantine as work
        from mqregistry.pipeline.lake.lake import Lake, whole_files
    where = Lake(lake)
    with whole_files(where):
        done = [work(where, namespace, epoch) for epoch in where.epochs("snapshot", namespace)]
    read, left = sum(one.read for one in done), sum(one.left for one in done)
    if not read and not left:
        click.echo(f"nothing of namespace {namespace} is in quarantine at {where.root}")
        return
    click.echo(f"{read} entr{'y' if read == 1 else 'ies'} read and taken into bronze, {left} still in quarantine")
