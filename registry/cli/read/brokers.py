"""``brokers``: shows each broker process, and the time until it expires."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from msgspec import UNSET

from ...store.operator_reads import read_brokers
from .. import output
from ..options import lake_option
from ..target import ask_target, target_options
from ..time_options import at_option


@click.command()
@at_option
@lake_option
@target_options
def brokers(as_json: bool, config_file: Path | None, at_ms: int | None, lake: str, **flags: Any) -> None:
    """Show each broker: when it was last heard, when it expires, its front ends, and the address of each connection.

    With --at: each broker as it was then, who registered it, and at how many front ends. If the lake has no heartbeat
    of a broker, the broker counts as last heard when it registered.
    """
    if at_ms is not None:
        from .lake_tables import read_brokers_at

        infos = read_brokers_at(at_ms, lake, flags, config_file)
    else:
        infos = ask_target(flags, config_file, lambda store, _: read_brokers(store))
    headings = ("CLUSTER", "BROKER NAME", "ID", "ADDRESS", "HEARD", "EXPIRES IN", "TIMEOUT", "DATA VERSION",
                "FRONT ENDS")  # fmt: skip
    with_authors = bool(infos) and infos[0].registered_by is not UNSET
    output.listing(
        as_json, infos, (*headings, "REGISTERED BY") if with_authors else headings,
        (
            (
                info.cluster, info.broker_name, info.broker_id, info.broker_addr, output.duration(info.heard_ms_ago),
                output.duration(info.expires_in_ms), output.duration(info.heartbeat_timeout_millis),
                f"{info.data_version.counter}@{info.data_version.timestamp}",
                info.front_ends if info.connections is UNSET else ", ".join(map(str, info.connections)),
                *((info.registered_by or "not known",) if with_authors else ()),
            )
            for info in infos
        ),
        right=("ID", "HEARD", "EXPIRES IN", "TIMEOUT", *(("FRONT ENDS",) if with_authors else ())),
        none="no broker is registered",
    )  # fmt: skip
