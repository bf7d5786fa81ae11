"""Brokers of a cluster that come together: what is kept of the first one's body never shows in another's routes."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from registry.model import QueueData
from registry.protocol.register_pieces import Piece
from registry.server import alike, register_changed
from registry.store.routes import TOPICS_PER_EVENT
from registry.store.snapshot import read_tables

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
    """How many bodies were read from beginning to end."""
    bodies = []
    read_whole = register_changed.read_whole

    def seen(body, **options):
        bodies.append(body)
        return read_whole(body, **options)

    monkeypatch.setattr(register_changed, "read_whole", seen)
    return bodies


async def check(here, brokers):
    expected = of_all(brokers)
    assert here.view.exact.topics == expected
    _, stored = await read_tables(here.store)
    assert stored.topics == expected
    names = {broker.name: set(broker.topics) for broker in brokers}
    assert here.view.exact.broker_topics == names
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
            assert 2 <= len(decoded) <= (4 if together else 2)  # of two that begin at once, neither can use the other
            # and what follows is compared with each one's own last body
            for broker in brokers:
                broker.topics[SHARED[1500]] = (5, 5, 6)
                await here.register(broker, counter=2)
            await check(here, brokers)

    asyncio.run(run())


def test_a_slave_without_master_gets_no_write_permission_by_another_brokers_body(redis_url):
    async def run():
        async with Here(redis_url) as here:
            await here.register(java_broker(1, dict.fromkeys(SHARED, (8, 8, 6))))
            slave = java_broker(2, dict.fromkeys(SHARED, (8, 8, 6)), broker_id=1, enableActingMaster="true")
            await here.register(slave)
            assert {cells["broker-1"].perm for cells in here.view.exact.topics.values()} == {6}
            assert {cells["broker-2"].perm for cells in here.view.exact.topics.values()} == {4}

    asyncio.run(run())


def test_it_is_forgotten_when_the_storm_is_over(redis_url, decoded):
    async def run():
        async with Here(redis_url) as here:
            bodies = here.front_end.alike_bodies
            bodies._kept_s = 0.2
            for number in range(3):
                await here.register(java_broker(number, dict.fromkeys(SHARED, (8, 8, 6))))
            async with asyncio.timeout(10):
                while len(bodies):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            decoded.clear()
            await here.register(java_broker(4, dict.fromkeys(SHARED, (8, 8, 6))))
            assert len(decoded) == 1

    asyncio.run(run())


def test_groups_are_no_larger_than_an_event_and_the_same_round_a_difference(redis_url):
    async def run():
        async with Here(redis_url) as here:
            table = dict.fromkeys(SHARED, (8, 8, 6))
            await here.register(java_broker(1, table))
            own = dict([*table.items()][:1500]) | {"own": (1, 1, 7)} | table
            sent = []
            register_broker = here.front_end.routes.register_broker

            async def seen(registration, diff, **options):
                sent.append(diff.encoded)
                return await register_broker(registration, diff, **options)

            here.front_end.routes.register_broker = seen
            for number, topics in ((2, table), (3, own)):
                await here.register(java_broker(number, topics))
            same, other = sent
            for encoded in sent:
                assert all(0 < len(part.topics) <= TOPICS_PER_EVENT for part in encoded)
            assert [topic for part in same for topic in part.topics] == list(table)
            assert [topic for part in other for topic in part.topics] == list(own)
            before = sum(len(part.topics) for part in same[:3])
            assert before < 1500
            assert other[:3] == same[:3]

    asyncio.run(run())


def test_groups_are_the_same_behind_a_difference():
    random = Random(3)
    pieces = [Piece(random.randbytes(16), 16_384, 100, 0, b"") for _ in range(100)]
    own = Piece(random.randbytes(16), 16_500, 101, 0, b"")
    before = list(alike._grouped(pieces))
    after = list(alike._grouped([*pieces[:50], own, *pieces[50:]]))
    assert [piece for group in before for piece in group] == pieces
    assert all(sum(piece.topics for piece in group) <= TOPICS_PER_EVENT for group in (*before, *after))
    assert len([group for group in after if group not in before]) < 8
    assert len(before) < 32
