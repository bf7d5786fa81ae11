"""Brokers that register together, or again: what is kept of one body never shows in another broker's routes."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from mqregistry.model import QueueData
from mqregistry.protocol.bodies import register_chunks
from mqregistry.protocol.bodies.register_chunks import TopicChunk
from mqregistry.server.requests import chunk_cache
from mqregistry.server.requests.chunk_cache import ChunkCache, LastBody
from mqregistry.server.requests.decoding_turns import OBJECT_BYTES
from mqregistry.store.change_reader import ChangeReader
from mqregistry.store.route_writes import TOPICS_PER_EVENT, RouteStore
from mqregistry.store.snapshot import read_tables
from tests.waiting import until

from .harness import Broker
from .here import Here

SHARED = [f"topic-{number:04}" for number in range(3_000)]


def java_broker(number: int, topics: dict[str, tuple[int, int, int]], cluster: str = "c1", **more) -> Broker:
    more = {"name": f"broker-{number}", "addr": f"127.0.0.1:{11000 + number}", **more}
    broker = Broker(cluster=cluster, topics=topics, **more)
    broker.separators = (",", ":")
    return broker


def of_all(brokers):
    """What the tables must say: topic -> brokerName -> queue data."""
    tables = {}
    for broker in brokers:
        for topic, (read, write, perm) in broker.topics.items():
            tables.setdefault(topic, {})[broker.name] = QueueData(read, write, perm)
    return tables


@pytest.fixture
def decoded(monkeypatch):
    """How many topics each chunk had that was decoded."""
    sizes = []
    decoder = register_chunks._table

    class Seen:
        def decode(self, text):
            topics = decoder.decode(text)
            sizes.append(len(topics))
            return topics

    monkeypatch.setattr(register_chunks, "_table", Seen())
    return sizes


async def check(here, brokers):
    expected = of_all(brokers)
    assert here.view.tables.topics == expected
    _, stored = await read_tables(here.store)
    assert stored.topics == expected
    names = {broker.name: set(broker.topics) for broker in brokers}
    assert here.view.tables.broker_topics == names
    assert stored.broker_topics == names


@pytest.mark.parametrize("together", [True, False])
def test_each_broker_gets_its_own_topics_and_numbers(redis_url, decoded, together):
    random = Random(7)

    def topics(number):
        """Those of the cluster, one of its own, some that are missing, some with other numbers."""
        table = dict.fromkeys(SHARED, (8, 8, 6))
        for topic in random.sample(SHARED, number):
            del table[topic]
        for topic in random.sample(sorted(table), number):
            table[topic] = (number, 1, 6)
        items = list(table.items())
        items.insert(random.randrange(len(items)), (f"broker-{number}", (1, 1, 7)))
        return dict(items)

    brokers = [
        *(java_broker(number, topics(number % 5)) for number in range(8)),
        *(java_broker(number, topics(1), "c2") for number in range(8, 12)),
        java_broker(12, {f"other-{topic}": (4, 4, 6) for topic in SHARED}),
    ]

    async def run():
        async with Here(redis_url) as here:
            if together:
                answers = await asyncio.gather(*map(here.register, brokers))
            else:
                answers = [await here.register(broker) for broker in brokers]
            assert [answer.code for answer in answers] == [0] * len(brokers)
            await check(here, brokers)
            assert sum(decoded) < 0.6 * sum(len(broker.topics) for broker in brokers)
            # and what follows is compared with each one's own last body
            for broker in brokers:
                broker.topics[SHARED[1500]] = (5, 5, 6)
                await here.register(broker, counter=2)
            await check(here, brokers)

    asyncio.run(run())


def test_a_storm_of_alike_brokers_decodes_and_encodes_their_topics_once(redis_url, decoded):
    random = Random(3)

    def topics(number):
        items = [(topic, (8, 8, 6)) for topic in SHARED]
        items.insert(random.randrange(len(items)), (f"broker-{number}", (1, 1, 7)))
        return dict(items)

    brokers = [java_broker(number, topics(number), f"c{number % 2}") for number in range(32)]

    async def run():
        async with Here(redis_url) as here:
            encoded = []
            encode = here.front_end.routes.encode

            def seen(topics):
                encoded.append(len(topics))
                return encode(topics)

            here.front_end.routes.encode = seen
            answers = await asyncio.gather(*map(here.register, brokers))
            assert [answer.code for answer in answers] == [0] * len(brokers)
            await check(here, brokers)
            for sizes in (decoded, encoded):
                assert len(SHARED) < sum(sizes) < 0.3 * len(brokers) * len(SHARED)
            # the chunks of two bodies are the same objects: what is kept of all of them is little more than of one
            assert len(here.front_end.chunks.known) < 10 * len(SHARED) / 90

    asyncio.run(run())


def test_a_slave_without_master_gets_no_write_permission_by_another_brokers_body(redis_url):
    async def run():
        async with Here(redis_url) as here:
            await here.register(java_broker(1, dict.fromkeys(SHARED, (8, 8, 6))))
            slave = java_broker(2, dict.fromkeys(SHARED, (8, 8, 6)), broker_id=1, enableActingMaster="true")
            await here.register(slave)
            assert {cells["broker-1"].perm for cells in here.view.tables.topics.values()} == {6}
            assert {cells["broker-2"].perm for cells in here.view.tables.topics.values()} == {4}

    asyncio.run(run())


def test_topics_are_forgotten_when_the_storm_is_over_and_last_bodies_are_not(redis_url, decoded, monkeypatch):
    monkeypatch.setattr(chunk_cache, "KEPT_S", 0.2)

    async def run():
        async with Here(redis_url) as here:
            chunks = here.front_end.chunks
            brokers = [java_broker(number, dict.fromkeys(SHARED, (8, 8, 6))) for number in range(3)]
            for broker in brokers:
                await here.register(broker)
            most = len(brokers[0].registration()[1]) + OBJECT_BYTES * len(SHARED)
            assert 0 < chunks.decoded_bytes <= most
            await until(lambda: not chunks.decoded_bytes, "a timer has dropped them")
            assert not chunks._encoded
            decoded.clear()
            brokers[0].topics[SHARED[7]] = (1, 1, 6)
            await here.register(brokers[0], counter=2)
            assert len(decoded) == 1
            brokers.append(java_broker(4, dict.fromkeys(SHARED, (8, 8, 6))))
            await here.register(brokers[3])
            assert sum(decoded[1:]) == len(SHARED)
            await check(here, brokers)

    asyncio.run(run())


def test_events_hold_no_more_topics_than_they_may_and_all_of_them_in_order(redis_url):
    async def run():
        async with Here(redis_url) as here:
            table = dict.fromkeys(SHARED, (8, 8, 6))
            own = dict([*table.items()][:1500]) | {"own": (1, 1, 7)} | table
            brokers = [java_broker(number, topics) for number, topics in ((1, table), (2, table), (3, own))]
            for broker in brokers:
                await here.register(broker)
            events = {}
            for change in await ChangeReader(here.store, "0-0").read(block_ms=0):
                events.setdefault(change.broker_name, []).append(list(change.topics))
            for broker in brokers:
                parts = events[broker.name]
                assert all(0 < len(part) <= TOPICS_PER_EVENT for part in parts)
                assert len(parts) <= 9  # of six, if they were full
                assert [topic for part in parts for topic in part] == list(broker.topics)

    asyncio.run(run())


def test_what_a_broker_said_last_does_not_count_for_tables_that_were_read_again(redis_url):
    """Redis comes back with less, and another change takes the rev that the broker's row had: the row looks as if
    nothing had happened, but the tables do not hold what the broker said last.
    """

    async def run():
        async with Here(redis_url) as here:
            client = here.store.client
            broker = java_broker(1, dict.fromkeys(SHARED, (8, 8, 6)))
            await here.register(broker)
            kept = {key: await client.dump(key) for key in await client.keys(f"mq:{{{here.store.namespace}}}:*")}
            broker.topics["new"] = (4, 4, 6)
            await here.register(broker, counter=2)
            rebuilds = here.view.load_id
            assert "new" in here.view.tables.topics

            await client.delete(*await client.keys(f"mq:{{{here.store.namespace}}}:*"))
            for key, value in kept.items():
                await client.restore(key, 0, value)
            await RouteStore(here.store.knowing("")).delete_topic(SHARED[7])
            await until(lambda: here.view.load_id != rebuilds, "the tables are read again")
            assert "new" in here.view.tables.topics, "it is given back"
            assert SHARED[7] not in here.view.tables.topics, "and what came after the loss stays"

            assert (await here.register(broker)).code == 0
            await check(here, [broker])

    asyncio.run(run())


def chunk(name: str, length: int = 100) -> TopicChunk:
    return TopicChunk(name.encode(), length, {name: QueueData(1, 1, 6)})


async def test_topics_that_were_used_longest_ago_make_room(monkeypatch):
    each = 100 + OBJECT_BYTES
    monkeypatch.setattr(chunk_cache, "MAX_DECODED_BYTES", 3 * each)
    cache = ChunkCache(lambda topics: topics)  # type: ignore[arg-type, return-value]
    a, b, c, d = (chunk(name) for name in "abcd")
    cache.used([a, b, c])
    assert cache.encoded([a, b, c]) is not None
    cache.used([a])
    cache.used([d])
    assert (cache.decoded_bytes, [one.topics is None for one in (a, b, c, d)]) == (
        3 * each,
        [False, True, False, False],
    )
    assert cache.encoded([a, b]) is None
    assert cache.encoded([a, c, d]) == [{name: QueueData(1, 1, 6)} for name in "acd"]
    assert (b.size, b.names) == (1, hash("b"))


async def test_a_chunk_with_more_topics_than_an_event_holds_is_not_encoded_as_one():
    cache = ChunkCache(lambda topics: topics)  # type: ignore[arg-type, return-value]
    for size in (TOPICS_PER_EVENT, TOPICS_PER_EVENT + 1):
        topics = {f"t{number}": QueueData(1, 1, 6) for number in range(size)}
        large = TopicChunk(b"%d" % size, 100, topics)
        cache.used([large])
        assert (cache.encoded([large]) is None) == (size > TOPICS_PER_EVENT)


async def test_chunks_that_nobody_uses_are_gone(monkeypatch):
    monkeypatch.setattr(chunk_cache, "MAX_DECODED_BYTES", 0)
    monkeypatch.setattr(chunk_cache, "MAX_CHUNKS", 3)
    cache = ChunkCache(lambda topics: topics)  # type: ignore[arg-type, return-value]
    for number in range(10):
        one = cache.known[b"%d" % number] = chunk(f"{number}")
        cache.used([one])
        cache.keep_body(f"who-{number}", LastBody("a", 1, 1, False, (one,)))
        del one
    assert sorted(cache.known) == [b"7", b"8", b"9"]
    assert [cache.last_body(f"who-{number}", 1) is not None for number in range(10)] == [False] * 7 + [True] * 3
    assert cache.last_body("who-9", 2) is None
    cache.forget_body("who-9")
    cache.forget_body("who-9")
    assert sorted(cache.known) == [b"7", b"8"]
