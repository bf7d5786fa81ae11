"""A front end that still reads the tables: lookups are answered from Redis itself, all other requests wait."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket

import pytest

from mqregistry.config.settings import Settings
from mqregistry.protocol.command import Command, encode_command
from mqregistry.server.process import worker as worker_module
from mqregistry.server.process.worker import Spec, Worker
from mqregistry.server.requests import early_lookups
from mqregistry.server.view.follower import Follower
from mqregistry.tasks import pause

from ..waiting import PATIENT_MS
from .harness import Broker, Client

REGISTER, UNREGISTER, CLUSTER_INFO, LOOKUP = 103, 104, 106, 105


class Reading:
    """A worker in this process that reads the tables for as long as the test wants."""

    def __init__(self, redis_url, namespace, monkeypatch, **settings):
        self.may_end, self.fails = asyncio.Event(), None
        start = Follower.start

        async def held(follower):
            await self.may_end.wait()
            if self.fails is not None:
                error, self.fails = self.fails, None
                raise error
            await start(follower)

        monkeypatch.setattr(Follower, "start", held)
        monkeypatch.setattr(early_lookups, "_AFTER_S", 0.0)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.status = os.pipe()
        settings = Settings(
            redis=redis_url, namespace=namespace, bind_address="127.0.0.1", http_port=0,
            **{"redis_timeout_ms": PATIENT_MS, **settings},
        )  # fmt: skip
        spec = Spec(settings, "early", 0, os.dup(self.listener.fileno()), self.status[1], wait=True)
        self.worker = Worker(spec)

    async def __aenter__(self):
        self.task = asyncio.create_task(self.worker.run(owns_process=False))
        return self

    async def __aexit__(self, *_):
        self.may_end.set()
        self.worker.stop()
        await self.task
        self.listener.close()
        for file in self.status:
            os.close(file)

    def ask(self, client, code, ext=None, body=b""):
        """A request that is under way."""
        return asyncio.create_task(asyncio.to_thread(client.request, code, ext, body))

    def client(self):
        return Client(self.port, timeout_s=60.0)

    @property
    def connections(self):
        return self.worker._connections.all if self.worker._connections else ()

    async def until(self, condition, what):
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110 (the worker tells nobody)
                await asyncio.sleep(0.005)


@pytest.fixture
def namespace(front_end):
    """Of another front end, at which a broker with topic1 is registered; it goes on."""
    with front_end.client() as client:
        assert client.register(Broker()).code == 0
        yield front_end.settings.namespace


async def answer(client):
    return await asyncio.to_thread(client.receive)


FORMS = [
    {"version": 479},
    {"version": 300},
    {"version": 300, "ext": {"acceptStandardJsonOnly": "true"}},
    {"ext": {"zoneMode": "true", "zoneName": "zone-a"}},
]


@pytest.mark.parametrize("form", FORMS)
async def test_a_route_that_redis_has_is_answered_at_once_and_looks_the_same_afterwards(
    redis_url, namespace, monkeypatch, form
):
    ext, fields = {"topic": "topic1", **form.get("ext", {})}, {"version": form.get("version", 479)}
    async with Reading(redis_url, namespace, monkeypatch) as reading:
        with Client(reading.port, timeout_s=60.0, **fields) as client:
            early = await asyncio.to_thread(client.request, LOOKUP, ext)
            assert not reading.may_end.is_set()
            reading.may_end.set()
            await reading.until(lambda: reading.worker._answers, "it serves")
            assert early.code == 0
            assert b"127.0.0.1:10911" in early.body or "zoneName" in ext
            assert early.body == (await asyncio.to_thread(client.request, LOOKUP, ext)).body


async def test_lookups_of_one_topic_are_read_once(redis_url, namespace, monkeypatch):
    read, asked = early_lookups.read_topic_tables, []

    async def counted(store, topic):
        asked.append(topic)
        await pause(0.05)
        return await read(store, topic)

    monkeypatch.setattr(early_lookups, "read_topic_tables", counted)
    async with Reading(redis_url, namespace, monkeypatch) as reading:
        with contextlib.ExitStack() as clients:
            asking = [
                reading.ask(clients.enter_context(reading.client()), LOOKUP, {"topic": "topic1"}) for _ in range(10)
            ]
            assert [reply.code for reply in await asyncio.gather(*asking)] == [0] * 10
        assert len(asked) < 10


async def test_other_requests_wait_and_are_answered_in_their_order(redis_url, namespace, monkeypatch):
    async with Reading(redis_url, namespace, monkeypatch) as reading:
        with reading.client() as client, reading.client() as other:
            ext, body = Broker("broker-b", "127.0.0.1:10921", topics=["topic8", "topic9"]).registration()
            sent = [
                client.send(REGISTER, ext, body),
                client.send(CLUSTER_INFO),
                client.send(LOOKUP, {"topic": "topic9"}),
                client.send(UNREGISTER, {"brokerName": "broker-b", "brokerAddr": "127.0.0.1:10921", "clusterName": "c1",
                                         "brokerId": "0"}),
            ]  # fmt: skip
            await reading.until(lambda: any(one._is_waiting for one in reading.connections), "they wait")
            assert (await reading.ask(other, LOOKUP, {"topic": "topic1"})).code == 0
            assert reading.worker._view.seq < 0
            reading.may_end.set()
            replies = [await answer(client) for _ in sent]
            assert {reply.opaque for reply in replies} == set(sent)
            assert {reply.code for reply in replies} <= {0, 17}  # the lookup may come before the registration, as ever
            writes = [reply.opaque for reply in replies if reply.opaque in (sent[0], sent[3])]
            assert writes == [sent[0], sent[3]]
            assert (await reading.ask(other, LOOKUP, {"topic": "topic9"})).code == 17


@pytest.mark.parametrize("topic", ["nowhere", "", "a b"])
async def test_that_there_is_no_route_is_said_when_the_tables_are_there(redis_url, namespace, monkeypatch, topic):
    async with Reading(redis_url, namespace, monkeypatch) as reading:
        with reading.client() as client, reading.client() as other:
            asking = reading.ask(client, LOOKUP, {"topic": topic})
            assert (await reading.ask(other, LOOKUP, {"topic": "topic1"})).code == 0
            await reading.until(lambda: reading.worker._context.in_flight == 1, "it waits")
            assert not asking.done()
            reading.may_end.set()
            assert (await asking).code == 17


async def test_a_large_request_stays_in_its_socket(redis_url, namespace, monkeypatch):
    ext, body = Broker(
        "broker-b", "127.0.0.1:10921", topics=[f"topic-{number}" for number in range(9000)]
    ).registration()
    frame = encode_command(Command(code=REGISTER, opaque=7, ext_fields=ext, body=body))
    assert len(frame) > 1 << 20
    async with Reading(redis_url, namespace, monkeypatch) as reading:
        with reading.client() as client:
            sending = asyncio.create_task(asyncio.to_thread(client.socket.sendall, frame))
            await reading.until(lambda: any(one._is_waiting for one in reading.connections), "it waits")
            await asyncio.sleep(0.1)  # in which it would be read
            (connection,) = reading.connections
            assert connection._reader.pending_bytes <= 256 << 10
            reading.may_end.set()
            await sending
            assert (await answer(client)).code == 0


async def test_with_rules_in_force_lookups_wait_for_the_tables(redis_url, namespace, monkeypatch):
    async with Reading(redis_url, namespace, monkeypatch) as reading:
        await reading.until(
            lambda: reading.worker._connections and reading.worker._connections.answering.early, "early"
        )
        refused = []

        class Rules:
            keeps, enforces = False, True

            def of_read(self, command, peer, topics=None):
                refused.append(reading.worker._view.seq)

            def may_ask_open(self, peer):
                return False

        reading.worker._context.authorization = Rules()
        with reading.client() as client:
            asking = reading.ask(client, LOOKUP, {"topic": "topic1"})
            await reading.until(lambda: any(one._is_waiting for one in reading.connections), "it waits")
            assert not refused
            reading.may_end.set()
            assert (await asking).code == 0
        assert refused
        assert min(refused) > 0, "the rules were asked before the tables were there"
        reading.worker._context.authorization = None


async def test_when_reading_fails_everybody_is_answered_with_an_error(redis_url, namespace, monkeypatch):
    async with Reading(redis_url, namespace, monkeypatch) as reading:
        with reading.client() as client, reading.client() as broker:
            asking = [reading.ask(client, LOOKUP, {"topic": "nowhere"}), reading.ask(broker, CLUSTER_INFO)]
            await reading.until(lambda: any(one._is_waiting for one in reading.connections), "it waits")
            await reading.until(lambda: reading.worker._context.in_flight == 1, "the lookup waits, too")
            reading.fails = worker_module.StoreUnavailable("Redis is away")
            reading.may_end.set()
            assert [reply.code for reply in await asyncio.gather(*asking)] == [1, 1]
            await reading.until(lambda: reading.worker._answers, "it serves after all")
            assert (await reading.ask(broker, CLUSTER_INFO)).code == 0


async def test_small_tables_are_read_before_anybody_is_let_in(redis_url, namespace, monkeypatch):
    async with Reading(redis_url, namespace, monkeypatch) as reading:
        monkeypatch.setattr(early_lookups, "_AFTER_S", 60.0)
        reading.may_end.set()
        with reading.client() as client:
            assert (await reading.ask(client, LOOKUP, {"topic": "nowhere"})).code == 17
            assert reading.worker._connections.answering.early is None
