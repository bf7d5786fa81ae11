"""``mqregistry demo``: starts a registry with four simulated brokers, to try commands on. Needs no Java."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.util import find_spec
from typing import Final

import click

from ...client.broker.registrar import BrokerConfig, BrokerRegistrar, Pace
from ...config.settings import Settings
from ...config.sources import build
from ...errors import ConfigError, RegistryError, StartError
from ...model import MASTER_ID
from ...operators.routes import read_route
from ...store.operator_reads import read_clusters
from ...store.store import Store
from .. import output
from ..target import open_target
from .demo_goes_on import KEY, LookingUp, kill_name_server, on_key, play_minute
from .logging_setup import configure_logging
from .private_folder import write_private_files
from .up import DEFAULTS, run_console, run_up

CLUSTER: Final = "c1"
TOPIC: Final = "topic1"
_QUEUES: Final = 4
_PERM: Final = 6
_PACE: Final = Pace(first_s=10.0, period_s=10.0)
_SEEN_WITHIN_S: Final = 10.0


# Two broker names, each with a master and a slave.
BROKERS: Final = [
    BrokerConfig(
        broker_name=f"broker-{letter}", broker_id=broker_id, cluster_name=CLUSTER, broker_addr=f"{host}:10000",
        ha_server_addr=f"{host}:10001",
    )
    for letter, broker_id, host in (
        ("a", 0, "192.168.56.1"), ("a", 1, "192.168.56.2"), ("b", 0, "192.168.56.3"), ("b", 1, "192.168.56.4"),
    )
]  # fmt: skip


@click.command()
@click.option("--once", is_flag=True, help="End after the demonstration instead of leaving it running.")
@click.option("--no-console", is_flag=True, help="Start no console beside it.")
def demo(once: bool, no_console: bool) -> None:
    """Show a registry at work: four brokers register, one dies, and its route is removed.

    Then a console starts (with the extra "console"), somebody takes a write permission and deletes a topic, and a
    client looks up a route all the time. On a terminal the key k kills the name server: the client goes on, and nothing
    is lost.

    It runs on a free port, with its data in a temporary folder that is removed at the end (Ctrl-C).
    """
    with tempfile.TemporaryDirectory(prefix="mqregistry-demo-") as folder:
        try:
            # Without the environment: the user's variables are meant for other front ends.
            settings = build(
                environ={},
                defaults={**DEFAULTS, "log_level": "warning"},
                flags={"listen_port": _free_port(), "http_port": 0, "data_dir": folder},
            )
        except ConfigError as error:
            raise StartError(str(error)) from error
        write_private_files()
        configure_logging(settings)
        # otherwise the brokers of the demo log that their name server was killed
        logging.getLogger("mqregistry.client").setLevel(logging.ERROR)
        shows = not (once or no_console)
        run_up(
            settings, kind="demo", beside=[lambda effective: _show(effective, once, has_console=shows)], quiet=True
        )  # fmt: skip


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _show(settings: Settings, once: bool, *, has_console: bool) -> None:
    host, port = settings.bind_address, settings.listen_port
    click.echo(f"A name server of this project answers on {host}:{port}.\n")
    async with open_target(settings) as store, contextlib.AsyncExitStack() as alive:
        click.echo(f"Four brokers register, over a connection each: cluster {CLUSTER}, {TOPIC} at both masters.")
        dead, *others = BROKERS
        for broker in others:
            await alive.enter_async_context(_registered(settings, broker))
        async with _registered(settings, dead):
            _command(settings, "clusters")
            rows = output.cluster_rows(*await read_clusters(store))
            click.echo(output.table(output.CLUSTER_HEADINGS, rows, right=("ID",)) + "\n")
            await _print_route(settings, store)
            click.echo(f"The master of {dead.broker_name} ({dead.broker_addr}) dies: its connection closes.")
            started = time.perf_counter()
        await _until_gone(store, dead)
        click.echo(f"Its address left the route after {(time.perf_counter() - started) * 1000:.0f} ms.\n")
        await _print_route(settings, store)
        if not once:
            _print_ideas(settings)

            async def come_back() -> None:
                await alive.enter_async_context(_registered(settings, dead))

            await _go_on(settings, store, come_back, has_console=has_console)


@contextlib.asynccontextmanager
async def _registered(settings: Settings, broker: BrokerConfig) -> AsyncIterator[None]:
    """A broker that is registered while in the context; then its connection closes, as when a broker crashes.

    It registers without topics first: a first registration with exactly one topic is refused.
    """
    async with BrokerRegistrar(
        broker, (), f"{settings.bind_address}:{settings.listen_port}", pace=_PACE, unregister=False
    ) as registrar:
        if broker.broker_id == MASTER_ID:
            registrar.topics.put_topic(TOPIC, _QUEUES, _QUEUES, _PERM)
            await registrar.register_now()
        for result in registrar.results.values():
            if not result.ok:
                raise RegistryError(f"{broker.broker_name} {broker.broker_id} was refused: {result.error}")
        yield


async def _until_gone(store: Store, broker: BrokerConfig) -> None:
    deadline = time.monotonic() + _SEEN_WITHIN_S
    while time.monotonic() < deadline:
        _, rows = await read_clusters(store)
        if broker.broker_id not in rows[broker.broker_name].broker_addrs:
            return
        await asyncio.sleep(0.005)
    raise RegistryError(
        f"{broker.broker_addr} is still in the route {_SEEN_WITHIN_S:.0f} s after its connection closed"
    )


async def _print_route(settings: Settings, store: Store) -> None:
    _command(settings, f"route {TOPIC}")
    route = await read_route(store, settings, TOPIC)
    assert route is not None
    click.echo(output.route_text(TOPIC, route) + "\n")


def _command(settings: Settings, command: str) -> None:
    click.echo(f"\n$ mqregistry {command} --redis {settings.redis}")


def _print_ideas(settings: Settings) -> None:
    redis_cli = f"mqregistry redis-cli --redis {settings.redis}"
    prefix = f"mq:{{{settings.namespace}}}:"
    click.echo(
        f"""\
It keeps running, and the three brokers keep registering. In another shell, try:

  mqregistry brokers --redis {settings.redis}
  mqregistry watch --from-start --redis {settings.redis}
  {redis_cli} HGETALL '{prefix}queues:broker-b'
  {redis_cli} HGETALL '{prefix}broker:broker-b'
  {redis_cli} TTL '{prefix}beat:{CLUSTER}|{BROKERS[2].broker_addr}'
  {redis_cli} XREVRANGE '{prefix}changes' + - COUNT 3

  and with RocketMQ's own tools: mqadmin clusterList -n {settings.bind_address}:{settings.listen_port}

Ctrl-C ends it and deletes its data."""
    )


async def _go_on(
    settings: Settings, store: Store, come_back: Callable[[], Awaitable[None]], *, has_console: bool
) -> None:
    """Run a client, a minute of incidents and the console, and wait for the key, until cancelled."""
    client = LookingUp(settings, TOPIC)
    tasks = list[asyncio.Task[None]]()

    def kill() -> None:
        tasks.append(asyncio.create_task(kill_name_server(store, client)))

    with on_key(KEY, kill) as has_keys:
        if has_keys:
            click.echo(f"\nPress {KEY} to kill the name server while a client looks up {TOPIC} all the time.")
        beside = [client.run(), play_minute(store, TOPIC, BROKERS[2].broker_name, come_back)]
        if has_console and find_spec("starlette") is None:
            click.echo("\nIn a browser: pip install 'mqregistry[console]', then start the demo again.")
        elif has_console:
            beside.append(run_console(settings, _free_port()))
        await asyncio.gather(*beside)
