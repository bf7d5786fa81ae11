"""``clusters``: shows the clusters, their broker names and addresses."""

from __future__ import annotations

import click
import msgspec

from ...protocol.bodies.route_lists import broker_json
from ...store.operator_reads import read_clusters
from ...store.store import Store
from .. import output
from ..target import target_command


@click.command()
@target_command
async def clusters(store: Store, as_json: bool) -> None:
    """Show clusters, their broker names, and the address of each broker id."""
    found, rows = await read_clusters(store)
    told = {name: msgspec.Raw(broker_json(name, row, True, acting_master=True)) for name, row in rows.items()}
    output.listing(
        as_json, {"brokerAddrTable": told, "clusterAddrTable": found}, output.CLUSTER_HEADINGS,
        output.cluster_rows(found, rows), right=("ID",), none="no broker is registered",
    )  # fmt: skip
