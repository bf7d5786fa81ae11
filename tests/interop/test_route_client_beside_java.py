"""RouteClient beside the Java client of each release: after each change at a name server both know the same.

Two clients of ours a name server: one asks when it is told to, as the Java one here; the other is left to itself.
"""

import asyncio
import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

import pytest

from bench.servers.processes import Processes
from mqregistry.client.broker.registrar import BrokerConfig, BrokerRegistrar, Pace, TopicTable
from mqregistry.client.routes.client import RouteClient
from mqregistry.client.routes.queues import DEFAULT_TOPIC
from mqregistry.model import TopicConfig

from .conftest import ALL, VERSIONS, release_or_skip
from .name_servers import JavaNameServers, NameServer, OurNameServers
from .rocketmq import START_TIMEOUT_S, Console, Release
from .wire import SUCCESS, WireClient

# The first test may have to fetch a release; every wait has a deadline of its own.
pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

PUT_KV_CONFIG = 100
WIPE_WRITE_PERM = 205
DELETE_TOPIC = 216
AGREE_S = 60
# A 5.x client may take seconds for the first connection to each name server of a loaded machine.
JAVA_S = 90
HIGHEST_ID = 3

# Nobody registers twice in a test, unless he is asked to.
ONCE = Pace(1_000, 1_000)

Known = dict[str, Any]


def known(client: RouteClient) -> Known:
    """What RouteInfoClient.java tells, of a client of ours."""
    infos = client.tables.publish_infos
    publish = {}
    for topic in client.tables.published:
        info = infos.get(topic)
        queues = [[queue.broker_name, queue.queue_id] for queue in info.queues] if info else []
        publish[topic] = {"order": bool(info and info.order), "queues": queues}
    addrs = {name: {str(id_): addr for id_, addr in row.items()} for name, row in client.tables.broker_addrs.items()}
    return {"publish": publish, "addrs": addrs, "found": {name: found(client, name) for name in addrs}}


def found(client: RouteClient, name: str) -> Known:
    told: Known = {"publish": client.find_broker_addr_in_publish(name)}
    for broker_id in range(HIGHEST_ID + 1):
        for only in (True, False):
            result = client.find_broker_addr_in_subscribe(name, broker_id, only_this_broker=only)
            told[f"{broker_id} {'only' if only else 'any'}"] = list(result) if result else None
    return {key: value for key, value in told.items() if value is not None}


class Clients:
    """A Java client and ours of every name server."""

    def __init__(self, console: Console, ours: list[tuple[str, RouteClient]]) -> None:
        self._console = console
        self._ours = ours

    async def tell_java(self, command: str) -> list[Known]:
        self._console.tell(command)
        answer, _ = await asyncio.to_thread(self._console.hear, JAVA_S)
        return list(json.loads(answer))

    async def publish(self, topic: str) -> None:
        """As before a first message."""
        await self.tell_java(f"publish {topic}")
        await asyncio.gather(*(client.publish_info(topic) for _, client in self._ours))

    async def agree(self, publish: Mapping[str, list[str]], addrs: set[str]) -> None:
        """Everybody knows the same: queues of these brokers, in this order, and these addresses."""
        difference = "not asked in time"
        try:
            async with asyncio.timeout(AGREE_S):
                while True:
                    difference = await self._difference(publish, addrs)
                    if not difference:
                        return
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(difference) from None

    async def _difference(self, publish: Mapping[str, list[str]], addrs: set[str]) -> str:
        theirs = await self.tell_java("update")
        for number, (name, client) in enumerate(self._ours):
            if not name.endswith("by itself"):
                await client.poll()
            java, ours = theirs[number // 2], known(client)
            if ours != java:
                return f"{name}: {ours}\nJava: {java}"
            queues = {topic: [broker for broker, _ in info["queues"]] for topic, info in ours["publish"].items()}
            queues.pop(DEFAULT_TOPIC, None)
            all_addrs = {addr for row in ours["addrs"].values() for addr in row.values()}
            if queues != publish or all_addrs != addrs:
                return f"{name}: {ours}\nexpected: {publish} {addrs}"
        return ""


def registrar(
    servers: list[NameServer], name: str, broker_id: int, port: int, *topics: TopicConfig, cluster: str = "c1"
) -> BrokerRegistrar:
    config = BrokerConfig(broker_name=name, broker_addr=f"127.0.0.1:{port}", cluster_name=cluster, broker_id=broker_id)
    return BrokerRegistrar(config, TopicTable(topics), ";".join(server.addr for server in servers), pace=ONCE)


def ask(servers: list[NameServer], code: int, **fields: str) -> None:
    for server in servers:
        with WireClient(server.port) as client:
            answer, _ = client.request(code, fields)
            assert answer["code"] == SUCCESS, answer


def test_route_client_knows_what_the_java_client_knows(release: Release, processes: Processes) -> None:
    others = [version for version in VERSIONS if version != release.version] if ALL else []
    properties = {"orderMessageEnable": True}
    kinds = [JavaNameServers(lambda v=version: release_or_skip(v), version) for version in (release.version, *others)]
    servers = {kind.name: kind.start(processes, properties) for kind in (*kinds, OurNameServers())}
    home = processes.home("route-client")
    command = release.java("RouteInfoClient", home, *(server.addr for server in servers.values()))
    console = Console(processes.start(f"RouteInfoClient {release.version}", command, home=home, steered=True))
    assert console.hear(START_TIMEOUT_S)[0] == "ready"
    asyncio.run(tell_the_story(console, servers, of_4x=release.version.startswith("4.")))


async def tell_the_story(console: Console, servers: Mapping[str, NameServer], *, of_4x: bool) -> None:
    async with AsyncExitStack() as stack:
        ours = []
        for name, server in servers.items():
            told = RouteClient(server.addr, push=False, poll_every_s=1_000)
            ours.append((name, await stack.enter_async_context(told)))
            alone = RouteClient(server.addr, poll_every_s=0.2)
            ours.append((f"{name} by itself", await stack.enter_async_context(alone)))
        if of_4x:  # whose producers have it in use from their start
            for _, client in ours:
                client.publish(DEFAULT_TOPIC)
        await story(Clients(console, ours), list(servers.values()))


async def story(clients: Clients, servers: list[NameServer]) -> None:
    default, orders = TopicConfig(DEFAULT_TOPIC, 8, 8, 7), TopicConfig("orders", 3, 2, 6)
    a0, a1, b0 = "127.0.0.1:10911", "127.0.0.1:10921", "127.0.0.1:10931"

    await clients.publish("orders")
    await clients.agree({"orders": []}, set())  # nobody knows it, nor the default topic

    async with registrar(servers, "broker-a", 1, 10921, default):
        async with registrar(servers, "broker-a", 0, 10911, default) as broker_a:
            await clients.publish("orders")
            await clients.agree({"orders": ["broker-a"] * 4}, {a0, a1})  # as the default topic

            broker_a.topics.put(orders)
            await clients.agree({"orders": ["broker-a"] * 2}, {a0, a1})

            async with registrar(servers, "broker-b", 0, 10931, default, orders, cluster="c2"):
                await clients.agree({"orders": ["broker-a"] * 2 + ["broker-b"] * 2}, {a0, a1, b0})

                fields = {"namespace": "ORDER_TOPIC_CONFIG", "key": "orders", "value": "broker-b:1;broker-a:2"}
                ask(servers, PUT_KV_CONFIG, **fields)
                await clients.agree({"orders": ["broker-b"] + ["broker-a"] * 2}, {a0, a1, b0})

                ask(servers, PUT_KV_CONFIG, **fields | {"value": "broker-b:one"})
                broker_a.topics.put(TopicConfig("orders", 4, 4, 6))
                # No queues can be made of that: the last ones stay.
                await clients.agree({"orders": ["broker-b"] + ["broker-a"] * 2}, {a0, a1, b0})

                ask(servers, PUT_KV_CONFIG, **fields | {"value": ""})
                await clients.agree({"orders": ["broker-a"] * 4 + ["broker-b"] * 2}, {a0, a1, b0})
                ask(servers, WIPE_WRITE_PERM, brokerName="broker-a")
                await clients.agree({"orders": ["broker-b"] * 2}, {a0, a1, b0})

            # A broker that is in no route is forgotten.
            await clients.agree({"orders": []}, {a0, a1})
        # Without a master there is only reading.
        await clients.agree({"orders": []}, {a1})

    async with registrar(servers, "broker-a", 0, 10911, default, orders):
        await clients.agree({"orders": ["broker-a"] * 2}, {a0})
        ask(servers, DELETE_TOPIC, topic="orders")
        # The name servers know the topic no more; what was known stays.
        await clients.agree({"orders": ["broker-a"] * 2}, {a0})

    # Nobody is left at the name servers, and then no name server either.
    await clients.agree({"orders": ["broker-a"] * 2}, {a0})
    for server in servers:
        await asyncio.to_thread(server.process.kill)
    await clients.agree({"orders": ["broker-a"] * 2}, {a0})
