"""``pipeline jars``: fetches what Spark needs for Delta tables into a folder, for machines without internet."""

from __future__ import annotations

from pathlib import Path

import click

from ..extras import extra


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), required=False)
def jars(folder: Path | None) -> None:
    """Fetch the two jars with which Spark writes Delta tables, into FOLDER or where 'pipeline run' looks by itself.

    Maven fetches them where it is installed; else they come from Maven Central over HTTPS. Copy FOLDER to a machine
    without internet: 'mqregistry pipeline run --jars FOLDER' uses it there.
    """
    with extra("spark"):
        from mqregistry.pipeline.spark.jars import CENTRAL, DELTA, fetch, own_folder
    where = (folder or own_folder()).expanduser()
    click.echo(f"{', '.join(jar.coordinates for jar in DELTA)} from Maven Central ({CENTRAL}) into {where}")
    fetched = fetch(where)
    click.echo(f"fetched: {', '.join(fetched)}" if fetched else "all of them are there")
