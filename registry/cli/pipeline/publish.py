"""``pipeline publish``: brings Delta tables up to what the lake has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..options import config_file_option, lake_option, read_settings, setting_options
from .extras import spark_extra


@click.command()
@click.option(
    "--delta", required=True, metavar="DIR", envvar="MQREGISTRY_DELTA",
    help="Folder (or URI: s3, az, gs, ...) of the Delta tables: bronze/..., quarantine, silver/..., gold/... "
    "[env: MQREGISTRY_DELTA]",
)  # fmt: skip
@click.option("--vacuum", is_flag=True, help="Also remove files that no version of the last seven days needs.")
@lake_option
@config_file_option
@setting_options("namespace")
def publish(delta: str, vacuum: bool, lake: str, config_file: Path | None, **flags: Any) -> None:
    """Copy to Delta tables what the lake has and they lack, for readers of Delta. It needs no Spark and no Redis.

    It may be ended or killed at any moment and run again, also while 'pipeline run' works: every row is there once.
    """
    with spark_extra():
        from mqregistry.pipeline.delta import publish as bring_up
        from mqregistry.pipeline.lake.lake import Lake, whole_files
    namespace = read_settings(flags, config_file).namespace
    where = Lake(lake)
    if not where.folders("commits", "bronze"):
        raise click.ClickException(f"there is nothing in {where.root} yet: 'mqregistry pipeline run' fills it")
    with whole_files(where):
        versions = bring_up(where, delta, namespace, vacuum=vacuum, tell=click.echo)
    click.echo(f"{delta}: {versions or 'no'} new version{'s' * (versions != 1)}, up to date")
