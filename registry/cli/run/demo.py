"""``mqregistry demo``: a registry of its own with four made-up brokers, to look at and play with. Needs no Java."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import tempfile
import time
from importlib.util import find_spec
from typing import Final, NamedTuple

import click

from ...client.connection import PeerConnection
from ...config.settings import Settings
from ...config.sources import build
from ...errors import ConfigError, PeerUnavailable, RegistryError, StartError
from ...model import DataVersion, TopicConfig
from ...operators.routes import read_route
from ...protocol.bodies.crc32 import body_crc32
from ...protocol.bodies.register import encode_register_body
from ...protocol.bodies.register_content import RegisterBody
from ...protocol.codes import RequestCode, ResponseCode
from ...protocol.headers import RegisterBroker
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
_BEAT_EVERY_S: Final = 10.0
_SEEN_WITHIN_S: Final = 10.0


class _Broker(NamedTuple):
    name: str
    broker_id: int
    addr: str


# The worked example of the specification.
BROKERS: Final = (
    _Broker("broker-a", 0, "192.168.56.1:10000"),
    _Broker("broker-a", 1, "192.168.56.2:10000"),
    _Broker("broker-b", 0, "192.168.56.3:10000"),
    _Broker("broker-b", 1, "192.168.56.4:10000"),
)


@click.command()
@click.option("--once", is_flag=True, help="End after the demonstration instead of leaving it running.")
@click.option("--no-console", is_flag=True, help="Start no console beside it.")
def demo(once: bool, no_console: bool) -> None:
    """Show a registry at work: four brokers register, one dies, and its route is removed.

    Then it goes on: a console starts beside it (with the extra "console"), somebody takes a write permission and
    deletes a topic, and a client looks up a route all the time. On a terminal the key k kills the name server: the
    client goes on, and nothing is lost.

    It runs on a free port, with its data in a temporary folder that is removed at the end (Ctrl-C).
    """
    with tempfile.TemporaryDirectory(prefix="mqregistry-demo-") as folder:
        try:
            # No environment: what the user's sets is meant for other front ends.
            settings = build(
                environ={},
                defaults={**DEFAULTS, "log_level": "warning"},
                flags={"listen_port": _free_port(), "http_port": 0, "data_dir": folder},
            )
        except ConfigError as error:
            raise StartError(str(error)) from error
        write_private_files()
        configure_logging(settings)
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
    connections: dict[_Broker, PeerConnection] = {}
    try:
        async with open_target(settings) as store:
            click.echo(f"Four brokers register, over a connection each: cluster {CLUSTER}, {TOPIC} at both masters.")
            for broker in BROKERS:
                connections[broker] = await PeerConnection.connect(host, port)
                await _register(connections[broker], broker)
            _command(settings, "clusters")
            click.echo(
                output.table(output.CLUSTER_HEADINGS, output.cluster_rows(*await read_clusters(store)), right=("ID",))
                + "\n"
            )
            await _print_route(settings, store)

            dead = BROKERS[0]
            click.echo(f"The master of {dead.name} ({dead.addr}) dies: its connection closes.")
            started = time.perf_counter()
            await connections.pop(dead).close()
            await _until_gone(store, dead)
            click.echo(f"Its address left the route after {(time.perf_counter() - started) * 1000:.0f} ms.\n")
            await _print_route(settings, store)
            if not once:
                _print_ideas(settings)
                await _go_on(settings, store, connections, has_console=has_console)
    finally:
        await asyncio.gather(*(connection.close() for connection in connections.values()))


async def _register(connection: PeerConnection, broker: _Broker) -> None:
    """Register as a broker does: first without topics (a first registration with exactly one is refused), then with."""
    topics = {TOPIC: TopicConfig(TOPIC, _QUEUES, _QUEUES, _PERM)} if broker.broker_id == 0 else {}
    for counter, table in enumerate(({}, topics), 1):
        body = encode_register_body(RegisterBody(DataVersion(counter, int(time.time() * 1000)), table))
        host, _, port = broker.addr.partition(":")
        header = RegisterBroker(
            broker_name=broker.name,
            broker_addr=broker.addr,
            cluster_name=CLUSTER,
            ha_server_addr=f"{host}:{int(port) + 1}",
            broker_id=broker.broker_id,
            body_crc32=body_crc32(body),
        )
        answer = await connection.request(RequestCode.REGISTER_BROKER, header.to_ext_fields(), body)
        if answer.code != ResponseCode.SUCCESS:
            raise RegistryError(f"{broker.name} {broker.broker_id} was refused: {answer.remark}")


async def _until_gone(store: Store, broker: _Broker) -> None:
    deadline = time.monotonic() + _SEEN_WITHIN_S
    while time.monotonic() < deadline:
        _, rows = await read_clusters(store)
        if broker.broker_id not in rows[broker.name].broker_addrs:
            return
        await asyncio.sleep(0.005)
    raise RegistryError(f"{broker.addr} is still in the route {_SEEN_WITHIN_S:.0f} s after its connection closed")


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
  {redis_cli} TTL '{prefix}beat:{CLUSTER}|{BROKERS[2].addr}'
  {redis_cli} XREVRANGE '{prefix}changes' + - COUNT 3

  and with RocketMQ's own tools: mqadmin clusterList -n {settings.bind_address}:{settings.listen_port}

Ctrl-C ends it, and everything that belongs to it is gone."""
    )


async def _go_on(
    settings: Settings, store: Store, connections: dict[_Broker, PeerConnection], *, has_console: bool
) -> None:
    """Brokers, a client, a minute of incidents, the console and the key, until cancelled."""
    client = LookingUp(settings, TOPIC)
    tasks = list[asyncio.Task[None]]()

    async def come_back() -> None:
        connections[BROKERS[0]] = await PeerConnection.connect(settings.bind_address, settings.listen_port)
        await _register(connections[BROKERS[0]], BROKERS[0])

    def kill() -> None:
        tasks.append(asyncio.create_task(kill_name_server(store, client)))

    with on_key(KEY, kill) as has_keys:
        if has_keys:
            click.echo(f"\nPress {KEY} to kill the name server while a client looks up {TOPIC} all the time.")
        beside = [_beat(settings, connections), client.run(), play_minute(store, TOPIC, BROKERS[2].name, come_back)]
        if has_console and find_spec("starlette") is None:
            click.echo("\nIn a browser: pip install 'mqregistry[console]', then start the demo again.")
        elif has_console:
            beside.append(run_console(settings))
        await asyncio.gather(*beside)


async def _beat(settings: Settings, connections: dict[_Broker, PeerConnection]) -> None:
    """Brokers register every ten seconds, and connect again when they lost their connection; runs until cancelled."""
    while True:
        await asyncio.sleep(_BEAT_EVERY_S)
        for broker in list(connections):
            with contextlib.suppress(PeerUnavailable):
                if connections[broker].is_closed:
                    connections[broker] = await PeerConnection.connect(settings.bind_address, settings.listen_port)
                await _register(connections[broker], broker)
