"""``clusters``: the clusters, their broker names and addresses."""

from __future__ import annotations

import click

from ...store.operator_reads import read_clusters
from ...store.store import Store
from .. import output
from ..target import target_command


@click.command()
@target_command
async def clusters(store: Store, as_json: bool) -> None:
    """Show clusters, their broker names, and the address of each broker id."""
    found, rows = await read_clusters(store)
    if as_json:
        output.json_page(output.clusters_json(found, rows))
    elif found:
        click.echo(output.clusters_text(found, rows))
    else:
        click.echo("no broker is registered", err=True)
