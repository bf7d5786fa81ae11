"""NameServers: sticky, in turn when one fails, and addresses that change."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from mqregistry.client.addresses import NameServerAddress
from mqregistry.client.name_servers import NameServers
from mqregistry.client.reconnecting import Backoff, ReconnectingConnection
from mqregistry.errors import ClientClosed, ConfigError, PeerUnavailable, RemoteProtocolError
from mqregistry.protocol.command import Command
from tests.waiting import until

from .fake_name_server import FakeNameServer, never


@contextlib.asynccontextmanager
async def fakes(count):
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(FakeNameServer()) for _ in range(count)]


def listed(servers):
    return ";".join(server.address for server in servers)


def address_of(server):
    return NameServerAddress("127.0.0.1", server.port, "127.0.0.1")


async def test_one_is_asked_as_long_as_it_answers():
    async with fakes(3) as servers, NameServers(listed(servers)) as name_servers:
        assert name_servers.chosen is None
        for _ in range(10):
            assert (await name_servers.request(105, {"topic": "t"})).code == 17
        assert sorted(len(server.requests) for server in servers) == [0, 0, 10]
        assert sorted(server.accepted for server in servers) == [0, 0, 1]


async def test_clients_begin_anywhere():
    async with fakes(3) as servers:
        for _ in range(40):
            async with NameServers(listed(servers)) as name_servers:
                await name_servers.request(105)
        assert all(server.requests for server in servers)


async def test_the_next_in_turn_is_asked_when_one_is_away_silent_hangs_up_or_talks_nonsense():
    async with fakes(4) as servers, NameServers(listed(servers)) as name_servers:
        await name_servers.request(105)
        order = [servers[(servers.index(first) + n) % 4] for n in range(4) for first in servers if first.requests]
        await order[0].stop()
        assert (await name_servers.request(105)).code == 17
        assert name_servers.chosen == address_of(order[1])
        order[1].answer = never
        assert (await name_servers.request(105, timeout_s=1)).code == 17
        assert name_servers.chosen == address_of(order[2])

        async def nonsense(_):
            for writer in order[2].connections:
                writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        order[2].answer = nonsense
        assert (await name_servers.request(105)).code == 17
        assert name_servers.chosen == address_of(order[3])


async def test_a_server_that_goes_away_is_left_and_the_request_goes_to_the_next():
    async with fakes(2) as servers, NameServers(listed(servers)) as name_servers:
        await name_servers.request(105)
        first, second = sorted(servers, key=lambda server: not server.requests)
        slow = asyncio.Event()

        async def going_away(request):
            if request.code == 106:
                await slow.wait()
                return Command(code=0)
            return Command(code=1500, remark="please go away")

        first.answer = going_away
        under_way = asyncio.create_task(name_servers.request(106))
        await until(lambda: len(first.requests) == 2)
        assert (await name_servers.request(105)).code == 17
        assert name_servers.chosen == address_of(second)
        assert first.connections, "something is under way there"
        slow.set()
        assert (await under_way).code == 0
        await until(lambda: not first.connections, "it is left")


async def test_none_answers_says_why_of_each_and_then_at_once():
    async with fakes(2) as servers, NameServers(listed(servers), backoff_first_s=30, backoff_most_s=30) as name_servers:
        for server in servers:
            await server.stop()
        for _ in range(2):
            with pytest.raises(PeerUnavailable, match="no name server answers: ") as caught:
                await name_servers.request(105)
            assert all(server.address in str(caught.value) for server in servers)
        assert "tried again in" in str(caught.value)
        for server in servers:
            await server.start()
        with pytest.raises(PeerUnavailable, match="tried again in"):
            await name_servers.request(105)
        assert (await name_servers.request(105, now=True)).code == 17
        assert (await name_servers.request(105)).code == 17


async def test_nonsense_from_the_only_server():
    async with fakes(1) as servers, NameServers(listed(servers)) as name_servers:

        async def nonsense(_):
            for writer in servers[0].connections:
                writer.write(b"\xff" * 64)

        servers[0].answer = nonsense
        with pytest.raises(RemoteProtocolError):
            await name_servers.request(105)


async def test_addresses_that_change_while_it_runs():
    async with fakes(3) as (one, two, three), NameServers(one.address) as name_servers:
        await name_servers.request(105)
        name_servers.addresses.replace(f"{two.address};{three.address}")
        await until(lambda: not one.connections, "the old one is left")
        for _ in range(3):
            await name_servers.request(105)
        assert len(one.requests) == 1
        assert len(two.requests) + len(three.requests) == 3
        chosen = name_servers.chosen
        name_servers.addresses.replace(f"{one.address};{chosen}")
        await until(lambda: len(name_servers.addresses.current) == 2)
        await name_servers.request(105)
        assert name_servers.chosen == chosen, "who is still listed is still asked"


async def test_requests_at_the_same_time_share_a_connection():
    async with fakes(1) as servers, NameServers(listed(servers)) as name_servers:
        await asyncio.gather(*(name_servers.request(105) for _ in range(20)))
        assert servers[0].accepted == 1


async def test_not_open_closed_and_no_address(monkeypatch):
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(ConfigError, match="NAMESRV_ADDR"):
        NameServers()
    async with fakes(1) as servers:
        name_servers = NameServers(listed(servers))
        with pytest.raises(ClientClosed):
            await name_servers.request(105)
        async with name_servers:
            servers[0].answer = never
            asked = asyncio.create_task(name_servers.request(105))
            await until(lambda: servers[0].requests)
        with pytest.raises((PeerUnavailable, ClientClosed)):
            await asked
        with pytest.raises(ClientClosed):
            await name_servers.connection()
        await until(lambda: not servers[0].connections)


async def test_a_connection_that_was_lost_is_made_again():
    async with fakes(1) as servers:
        connection = ReconnectingConnection(address_of(servers[0]))
        lost = await connection.connected()
        assert (await lost.request(105)).code == 17
        assert lost.is_usable
        for writer in list(servers[0].connections):
            writer.transport.abort()
        await until(lambda: not lost.is_usable)
        assert (await (await connection.connected()).request(105)).code == 17
        assert servers[0].accepted == 2
        await connection.close()
        with pytest.raises(ClientClosed):
            await connection.connected()
        await until(lambda: not servers[0].connections)


def test_pauses_grow_to_the_most_and_begin_again():
    backoff = Backoff(first_s=1, most_s=10)
    pauses = [backoff.failed() for _ in range(100)]
    for pause_s, whole_s in zip(pauses, [1, 2, 4, 8, *([10] * 96)], strict=True):
        assert whole_s / 2 <= pause_s <= whole_s
    assert len(set(pauses[4:])) > 50, "not all at the same moment"
    backoff.succeeded()
    assert backoff.failed() <= 1
