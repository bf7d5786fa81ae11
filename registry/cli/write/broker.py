"""``broker wipe``, ``drain``, ``restore`` and ``forget``: operators' changes of a broker name."""

from __future__ import annotations

import asyncio
import time
from typing import Final

import click

from ...operators import previews
from ...operators.drained import read_drain
from ...store.snapshot import read_head
from ...store.store import Store
from .. import FAILED, complete_names, output
from ..target import target_command
from ..time_options import length_ms
from .confirm import carry_out, yes_option

_LOOK_EVERY_S: Final = 1.0

_name = click.argument("name", shell_complete=complete_names.broker_names)


@click.group()
def broker() -> None:
    """Operators' changes of a broker name; and a test broker, which only registers and stores no messages."""


@broker.command()
@_name
@yes_option
@target_command
async def wipe(store: Store, name: str, yes: bool, as_json: bool) -> None:
    """Take the write permission from every topic of broker NAME, before it is taken out of service.

    If a broker registers a topic with a new data version, the topic gets the broker's own permission again.
    """
    await carry_out(previews.wipe(store, name), yes=yes, as_json=as_json)


@broker.command()
@_name
@click.option("--reason", default="", help="Why the broker is taken out of service, for other operators.")
@click.option(
    "--for",
    "for_ms",
    callback=length_ms,
    help="How long this will take, e.g. 2h; the console shows when it takes longer.",
)
@click.option(
    "--timeout", "timeout_ms", callback=length_ms, default="10m", help="How long to wait for clients; 10m unless given."
)
@yes_option
@target_command
async def drain(
    store: Store, name: str, reason: str, for_ms: int | None, timeout_ms: int, yes: bool, as_json: bool
) -> None:
    """Take broker NAME out of service: nobody sends to it any more.

    Takes the write permission from its topics, and shows which clients have not looked up the new routes yet. Ends with
    0 when every client that was heard within the last three minutes has the new routes, with 1 if some still do not
    have them after --timeout. If the broker meanwhile registers with its own permissions, they are taken again. Stop
    the broker when this has ended with 0. 'broker restore NAME' puts back what was taken.

    Consumers go on reading the messages of the broker: stop it when they have read all.

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
            raise click.ClickException(
                f"{error}: the broker was removed before all clients had the new routes"
            ) from None
        if again.work is not None:  # the broker gave topics their permission back
            await again.work()
            seq = (await read_head(store)).seq
    told = {"broker_name": name, "done": now.is_done, "waiting": now.waiting, "addresses": now.addresses,
            "not_known": now.not_known}  # fmt: skip
    output.answer(as_json, told, str(now))
    if not now.is_done:
        raise click.exceptions.Exit(FAILED)


@broker.command()
@_name
@click.option("--all", "every", is_flag=True, help="Give every topic permission 6, as request 327 does.")
@yes_option
@target_command
async def restore(store: Store, name: str, every: bool, yes: bool, as_json: bool) -> None:
    """Give the topics of broker NAME back what 'wipe' or 'drain' took, and end its maintenance.

    The stream of changes tells which topics lost their write permission. A topic that had none before gets none.

    \b
    Example: mqregistry broker restore broker-a
    """  # noqa: D301 (\\b is for click)
    await carry_out((previews.restore_all if every else previews.restore)(store, name), yes=yes, as_json=as_json)


@broker.command()
@_name
@yes_option
@target_command
async def forget(store: Store, name: str, yes: bool, as_json: bool) -> None:
    """Remove broker NAME with all its addresses and topics, as if each address had unregistered (104).

    For brokers that are gone for good: a live broker comes back with its next registration.
    """
    await carry_out(previews.forget(store, name), yes=yes, as_json=as_json)
