"""What the hot paths may cost, counted in calls."""

from __future__ import annotations

import asyncio

import pytest

from mqregistry.behaviour import FIVE
from mqregistry.errors import ChangesLost
from mqregistry.model import QueueData
from mqregistry.protocol import registration as protocol_registration
from mqregistry.protocol.codes import RequestCode
from mqregistry.protocol.command import Command, decode_command
from mqregistry.protocol.registration import LARGE_BYTES
from mqregistry.server.requests import registration as register
from mqregistry.server.requests.decoding_turns import LARGE_AT_ONCE
from mqregistry.server.requests.reads import reads
from mqregistry.store.keys import changes
from mqregistry.store.snapshot import read_tables
from tests.waiting import until

from .harness import Broker
from .here import Here


def test_an_unchanged_registration_is_one_round_trip_and_its_body_is_not_decoded(redis_url, monkeypatch):
    async def run():
        async with Here(redis_url) as here:
            broker = Broker(topics=[f"topic-{i}" for i in range(10_000)])
            assert (await here.register(broker)).code == 0
            calls = []
            execute = here.store.client.execute_command

            async def counted(*args, **options):
                calls.append(args[0])
                return await execute(*args, **options)

            def not_decoded(*args, **options):
                raise AssertionError("the body was decoded")

            monkeypatch.setattr(here.store.client, "execute_command", counted)
            monkeypatch.setattr(protocol_registration, "cut_body", not_decoded)
            monkeypatch.setattr(protocol_registration.register, "decoding", not_decoded)
            monkeypatch.setattr(register, "check_crc32", not_decoded)
            assert (await here.register(broker)).code == 0
            assert [call for call in calls if call != "XREAD"] == ["EVALSHA"]

    asyncio.run(run())


def test_one_changed_topic_among_many_is_decoded_with_its_neighbours_alone(redis_url, monkeypatch):
    async def run():
        async with Here(redis_url) as here:
            topics = dict.fromkeys([f"topic-{i}" for i in range(10_000)], (4, 4, 6))
            broker = Broker(topics=topics)
            broker.separators = (",", ":")
            await here.register(broker)
            compared = []
            compare = register.compare

            def seen(registration, *args, **options):
                compared.append(len(registration.topics))
                return compare(registration, *args, **options)

            monkeypatch.setattr(register, "compare", seen)
            for counter, topic in enumerate(["topic-0", "topic-77", "topic-9999", "topic-5000"], 2):
                topics[topic] = (8, 8, 6)
                await here.register(broker, counter=counter)
                assert here.view.tables.topics[topic]["broker-a"] == QueueData(8, 8, 6)
            assert 0 < max(compared) < 300
            # what another has changed meanwhile is no longer as this broker's last body says: read all of it
            await here.front_end.effect(await here.front_end.routes.delete_topic("topic-1"))
            await here.register(broker, counter=9)
            assert compared[-1] == 10_000
            assert here.view.tables.topics["topic-1"]["broker-a"] == QueueData(4, 4, 6)
            await here.register(broker, counter=10)
            assert compared[-1] < 300

    asyncio.run(run())


def test_one_changed_topic_among_many_sends_that_topic_alone(redis_url, monkeypatch):
    async def run():
        async with Here(redis_url) as here:
            topics = dict.fromkeys([f"topic-{i}" for i in range(10_000)], (4, 4, 6))
            broker = Broker(topics=topics)
            await here.register(broker)
            sent = []
            register_broker = here.front_end.routes.register_broker

            async def seen(registration, diff, **options):
                sent.append(diff.topics)
                return await register_broker(registration, diff, **options)

            monkeypatch.setattr(here.front_end.routes, "register_broker", seen)
            topics["topic-77"] = (8, 8, 6)
            await here.register(broker, counter=2)
            assert [list(diff) for diff in sent] == [["topic-77"]]

    asyncio.run(run())


def test_a_registration_in_which_all_topics_changed_is_in_every_view_whatever_comes_between(redis_url, monkeypatch):
    async def run():
        async with Here(redis_url) as one, Here(redis_url, one.store.namespace) as two:
            topics = {f"topic-{i}": (4, 4, 6) for i in range(2_100)}
            broker, other = Broker(topics=topics), Broker("broker-b", "127.0.0.1:10912", topics=dict(topics))
            for each in (broker, other):
                await one.register(each)
            await two.front_end.effect(one.view.seq)
            kept = one.front_end.answers.kept_route("topic-2099", quoted_keys=True)
            register_broker = one.front_end.routes.register_broker

            async def after_the_other(registration, diff, **options):
                await register_broker(registration, diff, **options)  # its answer is lost
                monkeypatch.setattr(one.front_end.routes, "register_broker", register_broker)
                return await register_broker(registration, diff, **options)

            async def after_a_deletion(registration, diff, **options):
                await one.front_end.routes.delete_topic("topic-7")
                monkeypatch.setattr(one.front_end.routes, "register_broker", register_broker)
                return await register_broker(registration, diff, **options)

            for counter, between in enumerate((register_broker, after_the_other, after_a_deletion), 2):
                monkeypatch.setattr(one.front_end.routes, "register_broker", between)
                topics.update(dict.fromkeys(topics, (counter, 7, 6)))
                assert (await one.register(broker, counter=counter)).code == 0
                assert kept.body is None
                kept = one.front_end.answers.kept_route("topic-2099", quoted_keys=True)
                assert b'"readQueueNums":%d,' % counter in kept.body
                await two.front_end.effect(one.view.seq)
                assert one.view.tables.contents() == two.view.tables.contents()
                assert one.view.tables.contents() == (await read_tables(one.store))[1].contents()

    asyncio.run(run())


@pytest.mark.parametrize("topic", ["topic1", "no-such-topic"])
def test_a_lookup_needs_no_redis_no_task_and_no_future(redis_url, topic):
    async def prepare():
        async with Here(redis_url) as here:
            await here.register(Broker())
            return here

    here = asyncio.run(prepare())
    # No event loop runs here, and the store is closed: whatever the handler did with either would fail.
    command = Command(code=105, opaque=3, version=479, ext_fields={"topic": topic})
    reply = decode_command(reads(FIVE)[RequestCode.GET_ROUTEINFO_BY_TOPIC](here.front_end, command, 3)[4:])
    assert reply.code == (0 if topic == "topic1" else 17)


def test_a_route_is_encoded_once_and_again_only_after_a_change(redis_url, monkeypatch):
    from mqregistry.server.view import route_answers

    async def run():
        async with Here(redis_url) as here:
            broker = Broker()
            await here.register(broker)
            encoded = []
            encode = route_answers.encode_route

            def counted(route, **options):
                encoded.append(sorted(route.queue_datas))
                return encode(route, **options)

            monkeypatch.setattr(route_answers, "encode_route", counted)
            for _ in range(5):
                here.front_end.answers.kept_route("topic1", quoted_keys=True)
                here.front_end.answers.kept_route("topic2", quoted_keys=True)
            assert len(encoded) == 2
            await here.register(broker, counter=2, topics={"topic1": (8, 8, 6), "topic2": (4, 4, 6)})
            for _ in range(5):
                here.front_end.answers.kept_route("topic1", quoted_keys=True)
                here.front_end.answers.kept_route("topic2", quoted_keys=True)
            assert len(encoded) == 3

    asyncio.run(run())


def test_a_registration_that_finds_another_redis_says_so_at_once_and_has_the_tables_read_again(redis_url):
    async def run():
        async with Here(redis_url) as here:
            broker = Broker()
            assert (await here.register(broker)).code == 0
            here._tail.cancel()  # as long as nobody looks
            await asyncio.gather(here._tail, return_exceptions=True)
            prefix = f"mq:{{{here.store.namespace}}}:*"
            await here.store.client.delete(*await here.store.client.keys(prefix))
            with pytest.raises(ChangesLost):
                await here.register(broker)
            here.follower.look_again(has_lost=True)
            here._tail = asyncio.create_task(here.follower.tail())
            await until(lambda: here.follower.losses == 1, "the loss is seen")
            assert (await here.register(broker)).code == 0
            assert here.front_end.answers.kept_route("topic1", quoted_keys=True) is not None

    asyncio.run(run())


def test_front_ends_that_get_the_same_registration_at_once_let_redis_work_once(redis_url):
    """Brokers register at every front end side by side."""

    async def run():
        async with Here(redis_url) as one, Here(redis_url, one.store.namespace) as two:
            client, topics = one.store.client, dict.fromkeys([f"topic-{i}" for i in range(10_000)], (4, 4, 6))

            async def spent():
                stats = await client.info("commandstats")
                return stats["cmdstat_hset"]["calls"], await client.xlen(changes(one.store.namespace))

            broker = Broker(topics=topics)
            for counter, numbers in ((1, (4, 4, 6)), (2, (8, 8, 6))):
                calls, entries = await spent()
                copies = [Broker(topics=dict.fromkeys(topics, numbers), counter=counter) for _ in range(2)]
                answers = await asyncio.gather(one.register(copies[0]), two.register(copies[1]))
                assert [answer.code for answer in answers] == [0, 0]
                after, entries_after = await spent()
                assert entries_after - entries == 20
                assert 40 <= after - calls < 80, "one for 500 topics, one for each event, a handful for the broker"
                for here in (one, two):
                    assert here.view.tables.topics["topic-9999"][broker.name] == QueueData(*numbers)

    asyncio.run(run())


def test_large_changed_registrations_take_turns_and_small_ones_pass_them(redis_url, monkeypatch):
    async def run():
        async with Here(redis_url) as here:
            large = [
                Broker(f"broker-{n}", f"127.0.0.1:{11000 + n}", topics=[f"topic-{i}" for i in range(500)])
                for n in range(6)
            ]
            assert len(large[0].registration()[1]) >= LARGE_BYTES
            register_broker = here.front_end.routes.register_broker
            inside, most, full, may_go = 0, 0, asyncio.Event(), asyncio.Event()

            async def held(registration, diff, **options):
                nonlocal inside, most
                if registration.broker_name == "small":
                    return await register_broker(registration, diff, **options)
                inside, most = inside + 1, max(most, inside + 1)
                if inside == LARGE_AT_ONCE:
                    full.set()
                await may_go.wait()
                try:
                    return await register_broker(registration, diff, **options)
                finally:
                    inside -= 1

            monkeypatch.setattr(here.front_end.routes, "register_broker", held)
            storm = [asyncio.create_task(here.register(broker)) for broker in large]
            await full.wait()
            assert (await here.register(Broker("small", "127.0.0.1:10911"))).code == 0
            may_go.set()
            assert [answer.code for answer in await asyncio.gather(*storm)] == [0] * len(large)
            assert most == LARGE_AT_ONCE

    asyncio.run(run())
