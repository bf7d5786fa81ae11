"""``broker wipe``: takes a broker name's write permission, by the script of 205."""

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
async def wipe(store: Store, name: str, yes: bool, as_json: bool) -> None:
    """Take the write permission from every topic of broker NAME, before it is taken out of service.

    A broker gives a topic its own permission back when it registers it with a new data version.
    """
    await carry_out(previews.wipe(store, name), yes=yes, as_json=as_json)
