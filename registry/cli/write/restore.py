"""``broker restore``: gives a broker name's topics the write permission back that a wipe took."""

from __future__ import annotations

import click

from ...operators import previews
from ...store.store import Store
from ..target import target_command
from .broker_name import name_argument
from .confirm import carry_out, yes_option


@click.command()
@name_argument
@click.option("--all", "every", is_flag=True, help="Give every topic permission 6, as 327 does, not what it had.")
@yes_option
@target_command
async def restore(store: Store, name: str, every: bool, yes: bool, as_json: bool) -> None:
    """Give the topics of broker NAME back what 'wipe' or 'drain' took, and end its maintenance.

    The stream of changes tells which topics lost their write permission: a topic that had none before stays so.

    \b
    Example: mqregistry broker restore broker-a
    """  # noqa: D301 (\\b is for click)
    await carry_out((previews.restore_all if every else previews.restore)(store, name), yes=yes, as_json=as_json)
