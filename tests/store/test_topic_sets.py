"""``topics`` and ``topic:<topic>``: where redis-cli finds a topic, entered at once or some topics at a time."""

from __future__ import annotations

import pytest

from mqregistry.model import QueueData
from mqregistry.store import keys
from mqregistry.store.operator_reads import count_unsettled, wrong_entries

from .bed import registration
from .consistent import assert_consistent

MANY = [f"t{number:04d}" for number in range(1500)]


async def members(bed, topic):
    return {name.decode() for name in await bed.redis("SMEMBERS", keys.topic(bed.store.namespace, topic))}


async def topics(bed):
    return {name.decode() for name in await bed.redis("SMEMBERS", keys.topics(bed.store.namespace))}


async def settle(bed, at_once=400):
    """As a sweeper does; gives the number of calls."""
    calls = 1
    while (await bed.leases.tidy_topics(at_once, 0))[0]:
        calls += 1
        await assert_consistent(bed.store)
    return calls


async def test_few_topics_are_in_the_sets_at_once(bed):
    await bed.register(topics=["t1", "t2"])
    await bed.register("10.0.0.2:10911", "broker-b", topics=["t1", "t3"])
    assert (await members(bed, "t1"), await members(bed, "t2")) == ({"broker-a", "broker-b"}, {"broker-a"})
    await bed.routes.register_topic("t2", [("broker-b", QueueData(4, 4, 6))])
    assert await members(bed, "t2") == {"broker-a", "broker-b"}
    await bed.routes.delete_topic("t1")
    assert await topics(bed) == {"t2", "t3"}
    await bed.routes.unregister_broker("c1", "10.0.0.2:10911", "broker-b", 0)
    assert await members(bed, "t2") == {"broker-a"}
    assert await topics(bed) == {"t2"}
    changed = registration(topics=["t4", "t5"], counter=2)
    await bed.fe1.send_once(await bed.fe1.prepare(changed, delete_missing_topics=True))
    assert await topics(bed) == {"t4", "t5"}
    assert await count_unsettled(bed.store) == 0


async def test_numbers_that_change_write_no_set(bed, monkeypatch):
    await bed.register(topics=["t1", "t2"])
    await bed.redis("DEL", bed.key("topics"))
    await bed.register(topics={"t1": (1, 1, 6), "t2": (8, 8, 4)}, counter=2)
    assert await topics(bed) == set(), "else it would have come back"


async def test_many_topics_are_entered_some_at_a_time(bed):
    await bed.register(topics=MANY)
    assert await topics(bed) == set()
    assert await count_unsettled(bed.store) == 1
    assert await settle(bed) > 2
    assert await topics(bed) == set(MANY)
    assert await members(bed, "t1499") == {"broker-a"}
    assert await wrong_entries(bed.store) == []


async def test_a_broker_with_many_topics_is_taken_out_some_at_a_time(bed):
    first = await bed.register(topics=MANY)
    await bed.register("10.0.0.2:10911", "broker-b", topics=["t0001", "t0002"])
    await settle(bed)
    before = await bed.head()
    assert await bed.fe1.close(first, connection=first.broker_addr) == "REMOVED"
    assert await bed.redis("EXISTS", bed.key("queues:broker-a")) == 0
    assert "broker-a" in await members(bed, "t0001"), "not yet"
    assert await settle(bed) > 2
    assert await topics(bed) == {"t0001", "t0002"}
    assert await members(bed, "t0001") == {"broker-b"}
    assert await bed.redis("KEYS", bed.key("leaving*")) == []
    assert (await bed.head()).seq == before.seq + 1, "one event, of the removal"


@pytest.mark.parametrize("number", [1000, 40])
async def test_a_broker_that_comes_back_meanwhile_stays(bed, number):
    first = await bed.register(topics=MANY)
    await settle(bed)
    await bed.fe1.close(first, connection=first.broker_addr)
    await bed.leases.tidy_topics(300, 0)
    await bed.register(topics=MANY[:number], counter=2)
    await settle(bed)
    assert await topics(bed) == set(MANY[:number])
    assert await members(bed, "t0000") == {"broker-a"}


async def test_a_broker_that_leaves_while_it_is_entered_leaves_nothing(bed):
    first = await bed.register(topics=MANY)
    await bed.leases.tidy_topics(300, 0)
    await bed.fe1.close(first, connection=first.broker_addr)
    await bed.register("10.0.0.2:10911", "broker-b", topics=["t1", "t2"])
    await settle(bed)
    assert await topics(bed) == {"t1", "t2"}


async def test_sweepers_share_the_pause_between_two_calls(bed):
    await bed.register(topics=MANY)
    assert await bed.leases.tidy_topics(100, 60_000) == (True, 0)
    entered = len(await topics(bed))
    assert await bed.leases.tidy_topics(100, 60_000) == (True, 0)
    assert len(await topics(bed)) == entered, "another sweeper came within the pause"


@pytest.mark.parametrize("broken", ["lacks", "has", "topics"])
async def test_what_somebody_broke_by_hand_is_told_and_mended(bed, broken):
    await bed.register(topics=["t1", "t2"])
    key = bed.key("topic:t1")
    await bed.redis("DEL", bed.key("topics") if broken == "topics" else key)
    if broken == "has":
        await bed.redis("SADD", key, "broker-a", "broker-z")
    wrong = await wrong_entries(bed.store)
    assert wrong == {
        "has": ["topic:t1 has broker-z"], "topics": ["topics lacks t1", "topics lacks t2"],
    }.get(broken, ["topic:t1 lacks broker-a", "topics has t1, which is nowhere"])  # fmt: skip
    assert (await bed.leases.tidy_topics())[1] > 0
    assert await wrong_entries(bed.store) == []
    await assert_consistent(bed.store)


async def test_a_key_of_another_type_in_the_place_of_a_set_keeps_nobody_from_registering(bed):
    for name in ("topic:t1", "topics"):
        await bed.redis("SET", bed.key(name), "no set")
    await bed.register(topics=["t1", "t2"])
    assert await members(bed, "t2") == {"broker-a"}
