"""``broker forget``: removes a broker name with all it has, by the script of 104."""

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
async def forget(store: Store, name: str, yes: bool, as_json: bool) -> None:
    """Remove broker NAME with all its addresses and topics, as if each had said goodbye (104).

    For brokers that are gone for good. One that lives comes back with its next registration.
    """
    await carry_out(previews.forget(store, name), yes=yes, as_json=as_json)
