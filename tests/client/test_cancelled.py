"""Cancelled at each await, nothing leaks: no task, no socket."""

from __future__ import annotations

import asyncio

import pytest

from mqregistry.client.addresses import AddressServer, NameServerAddresses
from mqregistry.client.connection import PeerConnection
from mqregistry.client.name_servers import NameServers
from mqregistry.client.routes.client import RouteClient
from mqregistry.client.routes.push import RoutePush
from mqregistry.protocol.command import Command
from mqregistry.protocol.watch import ROUTE_WATCH, TablesVersion, WatchAnswer
from tests.waiting import until

from .address_servers import FakeAddressServer
from .cancelling import cancel_at_each_await
from .fake_name_server import FakeNameServer, route_of


class Announcing(FakeNameServer):
    """Announces a change of ``t`` with each request that is held, at once."""

    async def usual_answer(self, request: Command) -> Command | None:
        if request.code != ROUTE_WATCH:
            return await super().usual_answer(request)
        topics = ("t",) if "seq" in request.ext_fields else ()
        ext_fields, body = WatchAnswer(TablesVersion("e", len(self.requests)), topics).encode()
        return Command(code=0, ext_fields=ext_fields, body=body)


ROUTES = {"t": route_of("a"), "TBW102": route_of("a")}


def settled(*servers):
    async def wait() -> None:
        for server in servers:
            await until(lambda server=server: not server.connections, "the server's side is closed")

    return wait


async def test_connection():
    async with FakeNameServer(ROUTES) as server:

        async def scenario():
            connection = await PeerConnection.connect("127.0.0.1", server.port)
            try:
                await connection.request(105, {"topic": "t"})
                await connection.oneway(904)
            except asyncio.CancelledError:
                connection.abort()
                raise
            await connection.close()

        assert await cancel_at_each_await(scenario, settled=settled(server)) >= 3


async def test_name_servers_of_which_the_first_is_away():
    async with FakeNameServer(ROUTES) as good, FakeNameServer() as dead:
        await dead.stop()

        async def scenario():
            async with NameServers(f"{dead.address};{good.address}") as name_servers:
                name_servers._index = 1  # the next is the first
                await name_servers.request(105, {"topic": "t"})
                await name_servers.connection()

        assert await cancel_at_each_await(scenario, settled=settled(good)) >= 5


@pytest.mark.parametrize("push", [False, True])
async def test_route_client(push):
    async with Announcing(ROUTES) as server:

        async def scenario():
            async with RouteClient(server.address, push=push, poll_first_s=0) as client:
                client.publish("u")
                await client.publish_info("t")
                await client.publish_info("new")
                await client.subscribe_info("t")
                await client.poll()
                await client.lookup("t")
                await client.select_queue("t")

        assert await cancel_at_each_await(scenario, settled=settled(server)) >= 6


async def test_route_client_whose_name_server_is_away():
    async with FakeNameServer() as dead:
        await dead.stop()

        async def scenario():
            async with RouteClient(dead.address, poll_first_s=0) as client:
                await client.publish_info("t")

        assert await cancel_at_each_await(scenario) >= 3


@pytest.mark.parametrize("background", ["poll", "push"])
async def test_the_background_of_a_route_client(background):
    async with Announcing(ROUTES) as server:

        async def scenario():
            client = RouteClient(server.address, push=False, poll_first_s=0, poll_every_s=0.001)
            client._poll_first_s = 60 if background == "push" else 0
            push = RoutePush(client._updater, client._in_use_changed, answer_s=3)
            client.publish("t")
            await client.__aenter__()
            client._tasks.pop().cancel()  # it runs here instead
            try:
                await (client._poll_for_ever() if background == "poll" else push.run())
            finally:
                await client.close()

        assert await cancel_at_each_await(scenario, most=40, settled=settled(server)) == 40


async def test_looking_addresses_up():
    with FakeAddressServer("127.0.0.1:1;localhost:2") as server:

        async def scenario():
            addresses = NameServerAddresses([AddressServer.at(server.domain).url, "localhost:3"], every_s=0.001)
            await addresses.refresh()
            await addresses.follow(least_s=0.001)

        assert await cancel_at_each_await(scenario, most=30) == 30
