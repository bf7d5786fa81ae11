"""``broker restore``: gives a broker name's topics permission 6, by the script of 327."""

from __future__ import annotations

from collections import Counter
from typing import Final

import click

from ...model import PERM_READ, PERM_WRITE
from ...operators.words import counted, some
from ...store.route_writes import RouteStore
from ...store.store import Store
from .. import output
from ..target import target_command
from .broker_name import done, head, name_argument, read
from .confirm import confirm, yes_option

_RESTORED: Final = PERM_READ | PERM_WRITE


@click.command()
@name_argument
@yes_option
@target_command
async def restore(store: Store, name: str, yes: bool, as_json: bool) -> None:
    """Give every topic of broker NAME the permission to read and write (6), whatever it was, as after 'wipe'."""
    row, queue_datas = await read(store, name)
    other = {topic: data.perm for topic, data in queue_datas.items() if data.perm != _RESTORED}
    if other:
        confirm(
            head(name, row),
            *(f"{counted(count, 'topic')} with permission {output.perm(perm)} get{'s' * (count == 1)} "
              f"{output.perm(_RESTORED)}: {some(topic for topic, had in other.items() if had == perm)}"
              for perm, count in sorted(Counter(other.values()).items())),
            yes=yes, as_json=as_json,
        )  # fmt: skip
        await RouteStore(store).set_write_perm(name, "add")
    done(
        f"{name}: {counted(len(other), 'topic')} restored" if other else f"{name}: every topic has permission 6 RW",
        {"broker_name": name, "topics": sorted(other)}, as_json=as_json,
    )  # fmt: skip
