"""``broker drain``: takes a broker name's write permission, and waits until no client has the route from before."""

from __future__ import annotations

import asyncio
import time

import click

from ...operators import previews
from ...operators.drained import read_drain
from ...operators.instants import parse_length_ms
from ...store.snapshot import read_head
from ...store.store import Store
from .. import FAILED, output
from ..target import target_command
from .broker_name import name_argument
from .confirm import carry_out, yes_option

_LOOK_EVERY_S = 1.0


def _length(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    try:
        return None if text is None else parse_length_ms(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@name_argument
@click.option("--reason", default="", help="Why, for the others.")
@click.option("--for", "for_ms", callback=_length, help="How long it will take, as 2h: the console shows what is late.")
@click.option("--timeout", "timeout_ms", callback=_length, default="10m", help="How long to wait; 10m unless given.")
@yes_option
@target_command
async def drain(
    store: Store, name: str, reason: str, for_ms: int | None, timeout_ms: int, yes: bool, as_json: bool
) -> None:
    """Take broker NAME out of service: nobody sends to it any more.

    Takes the write permission from its topics, and shows which clients have not looked up the new routes since. Ends
    with 0 when none is left that was heard within the last three minutes, with 1 if some are left after --timeout.
    What the broker gives back meanwhile, by a registration of its own, is taken again. Then the broker can be stopped;
    'broker restore NAME' puts back what was taken.

    Consumers go on reading what is there: stop the broker when they are through.

    \b
    Example: mqregistry broker drain broker-a --reason "kernel update" --for 1h
    """  # noqa: D301 (\\b is for click)
    until_ms = None if for_ms is None else round(time.time() * 1000) + for_ms
    await carry_out(previews.drain(store, name, reason, until_ms), yes=yes, as_json=as_json, quiet=as_json)
    deadline_s, shown, seq = time.monotonic() + timeout_ms / 1000, "", (await read_head(store)).seq
    while not (now := await read_drain(store, name, seq)).is_done and time.monotonic() < deadline_s:
        if str(now) != shown and not as_json:
            output.show(str(now))
        shown = str(now)
        await asyncio.sleep(_LOOK_EVERY_S)
        try:
            again = await previews.wipe(store, name)
        except previews.Mistaken as error:
            raise click.ClickException(f"{error}: it was stopped before all clients had the new routes") from None
        if again.work is not None:  # the broker gave topics their permission back
            await again.work()
            seq = (await read_head(store)).seq
    if as_json:
        output.json_line({
            "broker_name": name, "done": now.is_done, "waiting": now.waiting, "addresses": now.addresses,
            "not_known": now.not_known,
        })  # fmt: skip
    else:
        output.show(str(now))
    if not now.is_done:
        raise click.exceptions.Exit(FAILED)
