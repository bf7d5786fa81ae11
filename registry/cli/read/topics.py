"""``topics``: shows each topic with its queues, summed over its brokers."""

from __future__ import annotations

from fnmatch import fnmatchcase

import click

from ...store.operator_reads import read_topics
from ...store.store import Store
from .. import complete_names, output
from ..target import target_command


@click.command()
@click.argument("pattern", default="*", shell_complete=complete_names.topics)
@target_command
async def topics(store: Store, pattern: str, as_json: bool) -> None:
    """Show topics with their queues, summed over their brokers. PATTERN is as for file names: 'order-*'."""
    infos = [info for info in await read_topics(store) if fnmatchcase(info.topic, pattern)]
    output.listing(
        as_json, infos, ("TOPIC", "READ", "WRITE", "PERM", "BROKER NAMES"),
        (
            (info.topic, info.read_queue_nums, info.write_queue_nums, ", ".join(map(output.perm, info.perms)),
             _shortened(info.broker_names))
            for info in infos
        ),
        right=("READ", "WRITE"), none="no topic is registered" if pattern == "*" else f"no topic matches {pattern}",
    )  # fmt: skip


def _shortened(names: list[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
