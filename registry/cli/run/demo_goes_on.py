"""The second half of ``demo``: operators' mistakes, a client, and a key that kills the name server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import termios
import time
import tty
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import click

from ...client.addresses import NameServerAddress
from ...client.questions import ask_route
from ...client.reconnecting import ReconnectingConnection
from ...config.settings import Settings
from ...errors import PeerUnavailable
from ...events.by import CLI, By
from ...store.processes import read_fleet
from ...store.route_writes import RouteStore
from ...store.store import Store

CULPRIT: Final = By(CLI, "mallory", "laptop-17/4711")
KEY: Final = "k"
_ASKS_EVERY_S: Final = 0.05
_AGAIN_S: Final = 0.01
_TIMEOUT_S: Final = 1.0
_ANSWERS_AFTERWARDS: Final = 20


class LookingUp:
    """A client that asks for a topic's route all the time, and asks again when it got no answer."""

    def __init__(self, settings: Settings, topic: str) -> None:
        self.answers = self.without = 0  # how many it got, and how many of these without a route
        self.longest_s = 0.0  # the longest wait for an answer
        self._topic = topic
        address = NameServerAddress(settings.bind_address, settings.listen_port, "")
        self._server = ReconnectingConnection(address)

    async def run(self) -> None:
        """Ask for the topic's route again and again, until cancelled."""
        try:
            while True:
                began = time.monotonic()
                has_route = None
                while has_route is None:
                    try:
                        connection = await self._server.connected(now=True)
                        has_route = await ask_route(connection, self._topic, timeout_s=_TIMEOUT_S) is not None
                    except PeerUnavailable:
                        await asyncio.sleep(_AGAIN_S)
                self.answers += 1
                self.without += not has_route
                self.longest_s = max(self.longest_s, time.monotonic() - began)
                await asyncio.sleep(_ASKS_EVERY_S)
        finally:
            await self._server.close()


async def kill_name_server(store: Store, client: LookingUp) -> None:
    """Kill every worker of the name server, as a crash does, and print what its client noticed."""
    workers = [worker.facts.pid for one in (await read_fleet(store)).front_ends for worker in one.workers]
    client.longest_s, without = 0.0, client.without
    click.echo(f"\nThe name server is killed: SIGKILL to process {', '.join(map(str, workers))}. The client goes on.")
    for pid in workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wanted = client.answers + _ANSWERS_AFTERWARDS
    while client.answers < wanted:  # noqa: ASYNC110
        await asyncio.sleep(_AGAIN_S)
    lost = client.without - without
    click.echo(
        "It is back with all routes, which are in Redis: no broker had to register. The client waited for "
        f"{client.longest_s * 1000:.0f} ms at most; {lost} of its {client.answers:,} lookups found no route since then."
    )


async def play_minute(
    store: Store, topic: str, name: str, come_back: Callable[[], Awaitable[None]], at_s: float = 1.0
) -> None:
    """Play a minute in which somebody takes a broker's write permission and deletes a topic.

    Args:
        come_back: makes the dead master register again. at_s: how long a second of that minute takes.
    """
    routes = RouteStore(store)
    await asyncio.sleep(20 * at_s)
    await routes.set_write_perm(name, "wipe", by=CULPRIT)
    click.echo(f"\n0:20  somebody takes the write permission of {name}")
    await asyncio.sleep(15 * at_s)
    await routes.delete_topic(topic, by=CULPRIT)
    click.echo(f"0:35  somebody deletes {topic}: its brokers bring it back when they register next")
    await asyncio.sleep(15 * at_s)
    await come_back()
    click.echo("0:50  the master that died is back")
    await asyncio.sleep(10 * at_s)
    click.echo("1:00  The console can show each moment of this minute, and who did it. mqregistry audit shows it, too.")


@contextlib.contextmanager
def on_key(key: str, act: Callable[[], None]) -> Iterator[bool]:
    """Call ``act`` when this key is pressed; yields False if there is no terminal, and then does nothing."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield False
        return
    loop, terminal = asyncio.get_running_loop(), sys.stdin.fileno()
    before = termios.tcgetattr(terminal)

    def read() -> None:
        if key in os.read(terminal, 64).decode(errors="replace").lower():
            act()

    tty.setcbreak(terminal)  # Ctrl-C still interrupts
    loop.add_reader(terminal, read)
    try:
        yield True
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
