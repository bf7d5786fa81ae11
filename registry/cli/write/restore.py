"""``broker restore``: gives a broker name's topics permission 6, by the script of 327."""

from __future__ import annotations

import click

from ...operators import previews
from ...store.store import Store
from ..target import target_command
from .broker_name import name_argument
from .confirm import carry_out, yes_option


@click.command()
@name_argument
@yes_option
@target_command
async def restore(store: Store, name: str, yes: bool, as_json: bool) -> None:
    """Give every topic of broker NAME the permission to read and write (6), whatever it was, as after 'wipe'."""
    await carry_out(previews.restore(store, name), yes=yes, as_json=as_json)
