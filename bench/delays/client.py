"""Measures how long a changed route takes to reach an application's RouteClient, announced and polled.

    python -m bench client [--changes 1000] [--clients 8] [--poll-every 30 --polled 3]

Two front ends run on one Redis. A broker registers a changed topic at the first one; clients of both record when their
listener is called. The time counts from the sending of the registration, so it includes the registration, the change
stream, the announcement and the lookup. All clients are in one Python process. Clients that poll see a change at a
random moment of their period.

Bars: announced p99 <= 50 ms; polled at most a period and the timeout of a call (3 s).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import tempfile
import time
import zlib
from contextlib import AsyncExitStack
from pathlib import Path

from bench.delays.lag import FrontEndProcess
from mqregistry.client.connection import PeerConnection
from mqregistry.client.routes.client import CALL_TIMEOUT_S, RouteChange, RouteClient
from mqregistry.embedded import EmbeddedRedis
from mqregistry.model import DataVersion, QueueData
from mqregistry.protocol.bodies.register import encode_register_body
from mqregistry.protocol.bodies.register_content import RegisterBody
from mqregistry.protocol.headers import RegisterBroker

TOPICS = [f"topic-{number}" for number in range(20)]
GIVE_UP_S = 60.0


class ChangingBroker:
    """A broker that registers its topics; each change gives one topic a new number of queues."""

    def __init__(self, connection: PeerConnection) -> None:
        self._connection = connection
        self._counter = 0
        self._queues = dict.fromkeys(TOPICS, 4)

    async def change(self, topic: str) -> None:
        self._counter += 1
        self._queues[topic] = self._queues[topic] % 8 + 1
        topics = {name: QueueData(queues, queues, 6) for name, queues in self._queues.items()}
        body = encode_register_body(RegisterBody(data_version=DataVersion(self._counter, 1, 0), topics=topics))
        header = RegisterBroker(
            broker_name="broker-a", broker_addr="127.0.0.1:10911", cluster_name="bench",
            ha_server_addr="127.0.0.1:10912", broker_id=0, body_crc32=zlib.crc32(body) & 0x7FFFFFFF,
        )  # fmt: skip
        answer = await self._connection.request(103, header.to_ext_fields(), body)
        if answer.code != 0:
            raise SystemExit(f"a registration was refused: {answer.remark}")


class ToldClients:
    """Clients that record how long after a change their listeners were called."""

    def __init__(self, clients: list[RouteClient]) -> None:
        self.lags_s: list[float] = []
        self.registered_s: list[float] = []
        self.after_s: list[float] = []
        self._clients = clients
        self._told: asyncio.Queue[float] = asyncio.Queue()
        for client in clients:
            client.on_route_change(self._note)

    def _note(self, change: RouteChange) -> None:
        self._told.put_nowait(time.perf_counter())

    async def change(self, broker: ChangingBroker, topic: str) -> None:
        """Make one change and wait until every client's listener was called."""
        began = time.perf_counter()
        await broker.change(topic)
        registered = time.perf_counter()
        self.registered_s.append(registered - began)
        async with asyncio.timeout(GIVE_UP_S):
            for _ in self._clients:
                told = await self._told.get()
                self.lags_s.append(told - began)
                self.after_s.append(told - registered)


async def clients(
    stack: AsyncExitStack, ports: list[int], count: int, *, push: bool, poll_every_s: float
) -> ToldClients:
    """Start clients, at both front ends in turn, and wait until they have every topic's route."""
    found = []
    for number in range(count):
        client = RouteClient(f"127.0.0.1:{ports[number % len(ports)]}", push=push, poll_every_s=poll_every_s)
        found.append(await stack.enter_async_context(client))
        client.publish(*TOPICS)
    async with asyncio.timeout(GIVE_UP_S):
        for client in found:
            while len(client.routes) < len(TOPICS) or push != client.push_is_active:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    return ToldClients(found)


async def measure(ports: list[int], options: argparse.Namespace) -> tuple[ToldClients, list[float]]:
    """Measure both kinds: the clients that get announcements, and the seconds until polling clients saw a change."""
    async with AsyncExitStack() as stack:
        connection = await PeerConnection.connect("127.0.0.1", ports[0])
        stack.push_async_callback(connection.close)
        broker = ChangingBroker(connection)
        await broker.change(TOPICS[0])
        async with AsyncExitStack() as pushed:
            watch = await clients(pushed, ports, options.clients, push=True, poll_every_s=3600.0)
            for _ in range(options.changes):
                await watch.change(broker, random.choice(TOPICS))
                await asyncio.sleep(random.uniform(0, 0.004))
        polled = await clients(stack, ports, options.clients, push=False, poll_every_s=options.poll_every)
        for _ in range(options.polled):
            await polled.change(broker, random.choice(TOPICS))
            await asyncio.sleep(random.uniform(0, options.poll_every))
        return watch, polled.lags_s


def quantile_ms(values_s: list[float], per_mille: int) -> float:
    return statistics.quantiles(values_s, n=1000, method="inclusive")[per_mille - 1] * 1000


def quantiles(values_s: list[float]) -> str:
    return ", ".join(
        f"{name} {quantile_ms(values_s, per_mille):.1f} ms"
        for name, per_mille in (("p50", 500), ("p99", 990), ("p99.9", 999))
    )


def main() -> int:
    """Print the table; 0 when every bar held."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--changes", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--poll-every", type=float, default=2.0, metavar="S")
    parser.add_argument("--polled", type=int, default=10, metavar="CHANGES")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mqb") as folder, EmbeddedRedis(Path(folder)) as server:
        front_ends = [FrontEndProcess(server.url, 1) for _ in range(2)]
        try:
            watch, polled = asyncio.run(measure([one.port for one in front_ends], options))
        finally:
            for one in front_ends:
                one.stop()
    p99 = quantile_ms(watch.lags_s, 990)
    most_s = options.poll_every + CALL_TIMEOUT_S
    rows = [
        (f"announced to {options.clients} clients, {options.changes} changes", "p99 ≤ 50 ms",
         quantiles(watch.lags_s), p99 <= 50),
        ("of which: until the registration is answered", "", quantiles(watch.registered_s), None),
        ("and from then on (less than 0: announced before)", "", quantiles(watch.after_s), None),
        (f"polled every {options.poll_every:g} s, {options.polled} changes", f"≤ {most_s:g} s",
         f"median {statistics.median(polled):.2f} s, most {max(polled):.2f} s", max(polled) <= most_s),
    ]  # fmt: skip
    print(f"Load of the machine: {', '.join(f'{one:.1f}' for one in os.getloadavg())} on {os.cpu_count()} cores\n")
    print("| a changed route reaches the application | bar | measured | held |\n| --- | --- | --- | --- |")
    for what, bar, measured, held in rows:
        print(f"| {what} | {bar} | {measured} | {'' if held is None else 'yes' if held else 'NO'} |")
    if options.json:
        options.json.write_text(
            json.dumps({"announced_s": watch.lags_s, "registered_s": watch.registered_s, "polled_s": polled})
        )
    return 1 if any(held is False for *_, held in rows) else 0
