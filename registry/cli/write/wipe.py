"""``broker wipe``: takes a broker name's write permission, by the script of 205."""

from __future__ import annotations

import click

from ...model import PERM_WRITE
from ...operators.words import counted, some
from ...store.route_writes import RouteStore
from ...store.store import Store
from ..target import target_command
from .broker_name import done, head, name_argument, read
from .confirm import confirm, yes_option


@click.command()
@name_argument
@yes_option
@target_command
async def wipe(store: Store, name: str, yes: bool, as_json: bool) -> None:
    """Take the write permission from every topic of broker NAME, before it is taken out of service.

    A broker gives a topic its own permission back when it registers it with a new data version.
    """
    row, queue_datas = await read(store, name)
    losing = [topic for topic, data in queue_datas.items() if data.perm & PERM_WRITE]
    if losing:
        confirm(
            head(name, row), f"{counted(len(losing), 'topic')} lose{'s' * (len(losing) == 1)} the write bit: "
            f"{some(losing)}", yes=yes, as_json=as_json,
        )  # fmt: skip
        await RouteStore(store).set_write_perm(name, "wipe")
    done(f"{name}: {counted(len(losing), 'topic')} wiped" if losing else f"{name} has no topic with the write bit",
          {"broker_name": name, "topics": sorted(losing)}, as_json=as_json)  # fmt: skip
