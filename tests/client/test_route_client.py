"""RouteClient against a name server of the test's own that answers what the test says."""

from __future__ import annotations

import asyncio
import contextlib
import logging

import msgspec
import pytest

from bench.servers.processes import free_port
from mqregistry.client.routes.client import RouteClient
from mqregistry.client.routes.queues import MessageQueue
from mqregistry.client.routes.tables import FoundBroker
from mqregistry.errors import ClientClosed, NoRoute, PeerUnavailable, RemoteProtocolError
from mqregistry.protocol.command import Command
from mqregistry.server.process.http import HttpServer
from mqregistry.server.process.metrics import FrontEndWorkers as Workers
from tests.waiting import until

from .fake_name_server import FakeNameServer, never, route_of


@contextlib.asynccontextmanager
async def following(server, **options):
    """A client of one fake name server, with short periods."""
    options = {"push": False, "poll_first_s": 0.001, "poll_every_s": 0.01, **options}
    async with RouteClient(server.address, **options) as client:
        yield client


def names(info):
    return sorted({queue.broker_name for queue in info.queues})


async def test_the_union_of_topics_in_use_is_polled_first_soon_then_periodically():
    async with FakeNameServer({"p": route_of("a"), "s": route_of("a"), "both": route_of("a")}) as server:
        client = RouteClient(server.address, push=False, poll_first_s=0.001, poll_every_s=0.01)
        client.publish("p", "both")
        client.subscribe("s", "both")
        async with client:
            await until(lambda: len(server.asked()) >= 9)
            assert server.asked()[:9] == ["both", "p", "s"] * 3
            assert set(client.routes) == {"both", "p", "s"}
            assert set(client.tables.publish_infos) == {"p", "both"}
            assert set(client.tables.subscribe_infos) == {"s", "both"}
            client.forget("both", "p")
            await until(lambda: server.asked()[-3:] == ["s"] * 3)
            assert set(client.routes) == {"s"}


async def test_a_changed_route_is_seen_and_told_and_the_same_in_another_order_is_not():
    async with FakeNameServer({"t": route_of("a", "b")}) as server, following(server) as client:
        told = []
        end = client.on_route_change(told.append)
        assert names(await client.publish_info("t")) == ["a", "b"]
        assert [(change.topic, change.before) for change in told] == [("t", None)]
        route = server.routes["t"]
        server.routes["t"] = msgspec.structs.replace(
            route,
            queue_datas=dict(reversed(route.queue_datas.items())),
            broker_rows=dict(reversed(route.broker_rows.items())),
        )
        count = len(server.requests)
        await until(lambda: len(server.requests) > count + 3)
        assert len(told) == 1
        server.routes["t"] = route_of("a", "b", "c")
        await until(lambda: len(told) == 2)
        assert told[1].before == route
        assert told[1].route == server.routes["t"] == client.routes["t"]
        assert names(await client.publish_info("t")) == ["a", "b", "c"]
        end()
        end()
        server.routes["t"] = route_of("a")
        await until(lambda: len(client.routes["t"].broker_rows) == 1)
        assert len(told) == 2


async def test_a_listener_that_fails_disturbs_nobody(caplog):
    async with FakeNameServer({"t": route_of("a")}) as server, following(server) as client:
        told = []
        client.on_route_change(lambda change: 1 / 0)
        client.on_route_change(told.append)
        await client.publish_info("t")
        server.routes["t"] = route_of("b")
        await until(lambda: len(told) == 2)
    assert caplog.text.count("ZeroDivisionError") == 2


async def test_an_entry_that_still_lacks_its_queues_is_made_although_the_route_is_the_same():
    async with FakeNameServer({"t": route_of("a")}) as server, following(server) as client:
        assert await client.subscribe_info("t")
        assert "t" not in client.tables.publish_infos
        told = []
        client.on_route_change(told.append)
        client.publish("t")
        await until(lambda: "t" in client.tables.publish_infos)
        assert not told, "nothing changed"


async def test_what_is_known_is_not_asked_again():
    async with FakeNameServer({"t": route_of("a")}) as server, following(server, poll_first_s=60) as client:
        for _ in range(3):
            await client.publish_info("t")
        assert server.asked() == ["t"]
        for _ in range(3):
            await client.subscribe_info("t")
        assert server.asked() == ["t", "t"]


async def test_a_topic_in_use_is_asked_for_before_the_next_poll():
    routes = {"t": route_of("a"), "u": route_of("a")}
    async with FakeNameServer(routes) as server, following(server, poll_every_s=60) as client:
        client.publish("t")
        await until(lambda: "t" in client.routes)
        client.subscribe("u")
        await until(lambda: "u" in client.routes)
        assert server.asked() == ["t", "u"], "and the others are not, before their time"


@pytest.mark.parametrize(("queues", "expected"), [(16, 4), (3, 3)])
async def test_a_topic_that_does_not_exist_yet_gets_the_default_topics_queues(queues, expected):
    async with FakeNameServer({"TBW102": route_of("a", "b", queues=queues)}) as server, following(server) as client:
        info = await client.publish_info("new")
        assert len(info.queues) == 2 * expected
        assert client.unknown_topics == {"new"}
        assert "TBW102" in server.asked()
        server.routes["new"] = route_of("a", queues=queues)  # a broker made it with the first message
        await until(lambda: len(client.tables.publish_infos["new"].queues) == queues)
        assert client.unknown_topics == set()
        assert await client.subscribe_info("other") == (), "there is nothing to read from"
        assert client.tables.subscribe_infos == {}


async def test_neither_the_topic_nor_the_default_topic():
    async with FakeNameServer() as server, following(server) as client:
        assert not (await client.publish_info("t")).is_ok
        with pytest.raises(NoRoute, match="no name server knows topic 't', nor 'TBW102'"):
            await client.select_queue("t")
        server.routes["t"] = route_of("a", perm=4)
        await until(lambda: "t" in client.routes)
        with pytest.raises(NoRoute, match="no broker that has it is writable and has a master"):
            await client.select_queue("t")
        await server.stop()
        with pytest.raises(NoRoute, match="no route of topic 'u': no name server answers"):
            await client.select_queue("u")


async def test_a_topic_that_the_name_server_no_longer_knows_keeps_its_route():
    """As in Java: a name server that was just restarted knows nothing yet."""
    async with FakeNameServer({"t": route_of("a")}) as server, following(server) as client:
        await client.publish_info("t")
        del server.routes["t"]
        await until(lambda: client.unknown_topics == {"t"})
        assert names(await client.publish_info("t")) == ["a"]
        assert client.find_broker_addr_in_publish("a")


@pytest.mark.parametrize(
    "reply",
    [
        Command(code=1, remark="cannot tell now"),
        Command(code=0, body=b"[1"),
        Command(code=0, body=b'{"orderTopicConf":"a:x","queueDatas":[],"brokerDatas":[]}'),
    ],
    ids=["error", "no-json", "bad-order"],
)
async def test_an_answer_that_is_no_route_changes_nothing_and_is_said_once(reply, caplog):
    async with FakeNameServer({"t": route_of("a")}) as server, following(server) as client:
        before = await client.publish_info("t")

        async def nonsense(_):
            return reply

        server.answer = nonsense
        count = len(server.requests)
        await until(lambda: len(server.requests) > count + 4)
        assert await client.publish_info("t") == before
        with pytest.raises(RemoteProtocolError):
            (await client.lookup("t")) and client.tables.update("t", await client.lookup("t"))
        server.answer = server.usual_answer
        server.routes["t"] = route_of("b")
        await until(lambda: client.routes["t"] == server.routes["t"])
    assert caplog.text.count("what is known is kept") == 1


@pytest.mark.parametrize("default", [{}, {"TBW102": route_of("d")}], ids=["alone", "beside TBW102"])
async def test_a_route_that_cannot_be_read_is_never_no_such_topic(default):
    """Else its messages went to a broker that may not have the topic."""
    unreadable = route_of("a", order_topic_conf="a:x")
    async with FakeNameServer({"t": unreadable, **default}) as server, following(server) as client:
        for ask in (client.publish_info, client.select_queue):
            with pytest.raises(RemoteProtocolError, match=r"the route of topic 't' cannot be read: .*'a:x'"):
                await ask("t")
        assert "TBW102" not in server.asked()
        server.routes["t"] = route_of("a", order_topic_conf="a:2")
        assert names(await client.publish_info("t")) == ["a"]


async def test_a_topic_is_kept_while_a_group_uses_it():
    async with FakeNameServer({"t": route_of("a"), "u": route_of("b")}) as server, following(server) as client:
        client.publish("t", "u", group="orders")
        client.subscribe("t", group="bills")
        await until(lambda: set(client.routes) == {"t", "u"})
        assert names(await client.publish_info("t")) == ["a"]  # whoever asks is in none of them
        client.forget("t", "u", group="orders")
        client.forget("t", group="nobody")
        assert set(client.routes) == {"t"}
        client.forget("t", group="bills")
        assert set(client.routes) == set() == client.tables.topics
        await client.publish_info("t")
        client.forget("t")
        assert client.tables.topics == set()


async def test_retry_topics_and_the_default_topic_that_are_not_there_are_no_warning(caplog):
    caplog.set_level(logging.INFO)
    async with FakeNameServer({}) as server, following(server) as client:
        client.subscribe("%RETRY%group", "TBW102", "orders")
        await until(lambda: client.unknown_topics == {"%RETRY%group", "TBW102", "orders"})
    told = {record.args[0]: record.levelname for record in caplog.records if "does not know" in record.getMessage()}
    assert told == {"%RETRY%group": "INFO", "TBW102": "INFO", "orders": "WARNING"}


async def test_nobody_there_is_told_with_the_address_and_the_reason():
    address = f"127.0.0.1:{free_port()}"
    async with RouteClient(address, push=False) as client:
        with pytest.raises(NoRoute, match=rf"no name server answers: {address}: connection refused"):
            await client.select_queue("t")


async def test_an_http_port_is_told_as_what_it_is():
    port = free_port()
    http = HttpServer("127.0.0.1", port, Workers(1))
    try:
        async with RouteClient(f"127.0.0.1:{port}", push=False) as client:
            with pytest.raises(RemoteProtocolError, match=rf"127.0.0.1:{port}: it answers like an HTTP server: .*9876"):
                await client.select_queue("t")
    finally:
        http.close()


async def test_brokers_in_no_route_go_from_the_address_table():
    async with FakeNameServer() as server, following(server) as client:
        server.routes["t"] = route_of("a", addrs={0: "10.0.0.1:1", 1: "10.0.0.1:2", 3: "10.0.0.1:3"})
        server.routes["u"] = route_of("b", addrs={2: "10.0.0.2:2"})
        await client.publish_info("t")
        await client.subscribe_info("u")
        assert client.find_broker_addr_in_publish("a") == "10.0.0.1:1"
        assert client.find_broker_addr_in_publish("b") is None, "no master"
        assert client.find_broker_addr_in_publish("c") is None
        found = client.find_broker_addr_in_subscribe
        assert found("a") == FoundBroker("10.0.0.1:1", False)
        assert found("a", 1) == FoundBroker("10.0.0.1:2", True)
        assert found("a", 2) == FoundBroker("10.0.0.1:3", True), "the next id"
        assert found("a", 5) == FoundBroker("10.0.0.1:1", False), "any"
        assert found("a", 5, only_this_broker=True) is None
        assert found("b") == FoundBroker("10.0.0.2:2", True)
        assert found("b", 0, only_this_broker=True) is None
        assert found("c") is None
        server.routes["t"] = route_of("a", addrs={0: "10.0.0.1:1"})
        await until(lambda: client.tables.broker_addrs["a"] == {0: "10.0.0.1:1"})
        server.routes["t"] = route_of("c", addrs={0: "10.0.0.3:1"})
        await until(lambda: set(client.tables.broker_addrs) == {"b", "c"})
        client.forget("u")
        assert set(client.tables.broker_addrs) == {"c"}


async def test_queues_are_taken_in_turn_around_the_broker_that_failed_last():
    routes = {"t": route_of("a", "b", queues=2), "one": route_of("a", queues=2)}
    async with FakeNameServer(routes) as server, following(server) as client:
        taken = [await client.select_queue("t") for _ in range(8)]
        assert taken[:4] == taken[4:]
        assert len(set(taken)) == 4
        assert {(await client.select_queue("t", "a")).broker_name for _ in range(8)} == {"b"}
        assert (await client.select_queue("one", "a")).broker_name == "a", "better than nothing"
        assert client.tables.broker_name_of(MessageQueue("t", "a", 0)) == "a"


async def test_one_update_at_a_time_and_no_longer_than_the_lock_timeout(caplog):
    async with FakeNameServer({"t": route_of("a"), "u": route_of("a")}) as server:
        free, at_once, most = asyncio.Event(), 0, 0

        async def slow(request):
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            await free.wait()
            at_once -= 1
            return await server.usual_answer(request)

        server.answer = slow
        async with following(server, poll_every_s=60, lock_timeout_s=0.05) as client:
            first = asyncio.create_task(client.publish_info("t"))
            await until(lambda: server.asked() == ["t"])
            assert not await client.update("t"), "gave up"
            assert "others are being updated" in caplog.text
            free.set()
            assert (await first).is_ok
            await asyncio.gather(*(client.update("t") for _ in range(10)))
            assert most == 1


async def test_all_name_servers_away_then_back_on_other_addresses(caplog):
    """Background tasks stay alive, what is known is kept, and the next poll follows again, whatever the backoff."""
    caplog.set_level(logging.WARNING)
    async with contextlib.AsyncExitStack() as stack:
        old = [await stack.enter_async_context(FakeNameServer({"t": route_of("a")})) for _ in range(2)]
        new = [await stack.enter_async_context(FakeNameServer({"t": route_of("b")})) for _ in range(2)]
        client = RouteClient(
            [server.address for server in old], poll_first_s=0.001, poll_every_s=0.05, call_timeout_s=0.5,
            backoff_first_s=600, backoff_most_s=600,
        )  # fmt: skip
        await stack.enter_async_context(client)
        assert names(await client.publish_info("t")) == ["a"]
        client.publish("never-seen")
        old[0].answer = never  # one is silent, the other gone
        await old[1].stop()
        await until(lambda: client._updater.away is not None)
        for _ in range(5):
            count = len(old[0].requests)
            await until(lambda count=count: len(old[0].requests) > count, "it goes on asking")
            assert names(await client.publish_info("t")) == ["a"]
            assert client.find_broker_addr_in_publish("a")
            assert not (await client.publish_info("never-seen")).is_ok
        with pytest.raises(PeerUnavailable):
            await client.lookup("t")
        assert all(not task.done() for task in client._tasks)
        assert caplog.text.count("what is known is kept") == 1, "said once, not at every try"
        client.name_servers.addresses.replace([server.address for server in new])
        await until(lambda: names(client.tables.publish_infos["t"]) == ["b"])
        assert caplog.text.count("a name server answers again") == 1
        assert all(not task.done() for task in client._tasks)


async def test_back_on_the_same_address_the_next_poll_finds_it_whatever_the_backoff():
    options = {"backoff_first_s": 600, "backoff_most_s": 600}
    async with FakeNameServer({"t": route_of("a")}) as server, following(server, **options) as client:
        await client.publish_info("t")
        await server.stop()
        await until(lambda: client._updater.away is not None)
        await server.start()
        server.routes["t"] = route_of("b")
        await until(lambda: names(client.tables.publish_infos["t"]) == ["b"])


async def test_not_open_and_closed():
    async with FakeNameServer({"t": route_of("a")}) as server:
        client = RouteClient(server.address, push=False)
        with pytest.raises(ClientClosed):
            await client.publish_info("t")
        async with client:
            await client.publish_info("t")
        assert (await client.publish_info("t")).is_ok, "what is known stays readable"
        with pytest.raises(ClientClosed):
            await client.update("t")
        await client.close()
        await until(lambda: not server.connections)


@pytest.mark.parametrize("quoted_keys", [False, True])
async def test_both_json_dialects(quoted_keys):
    async with FakeNameServer({"t": route_of("a")}, quoted_keys=quoted_keys) as server, following(server) as client:
        assert await client.lookup("t") == server.routes["t"]
        assert await client.lookup("u") is None
        assert not client.routes, "a look-up keeps nothing"
