"""Brokers with many topics: no script takes long, and at each moment between two scripts the tables are right."""

from __future__ import annotations

import pytest

from mqregistry.model import QueueData
from mqregistry.store import route_writes
from mqregistry.store.operator_reads import read_topic_tables, read_topics
from mqregistry.store.read_broker import read_broker
from mqregistry.store.route_writes import NO_CHANNEL
from mqregistry.store.scripts import load
from mqregistry.store.store import Store
from mqregistry.tables.registration import compare

from .bed import RW, Bed, in_small_parts, registration
from .consistent import Told, assert_consistent
from .test_budgets import calls

ADDR = "10.0.0.1:10911"
WHO = f"c1|{ADDR}"
AT_ONCE = 10
MANY = [f"t{number}" for number in range(35)]
SHARED = [*MANY[:5], "other"]


@pytest.fixture
def small(bed, runner, monkeypatch):
    """What takes thousands of topics otherwise takes ten."""
    in_small_parts(bed.store, AT_ONCE)
    monkeypatch.setattr(route_writes, "TOPICS_AT_ONCE", AT_ONCE)
    runner.run(bed.leases.renew("w1"))
    return bed


async def check(bed: Bed) -> None:
    await assert_consistent(bed.store)
    assert await bed.contents() == await bed.replay()


async def remove(bed: Bed, way: str) -> None:
    if way == "unregister":
        await bed.routes.unregister_broker("c1", ADDR, "broker-a")
    elif way == "unregister_id":
        await bed.store.call("unregister_broker_id", WHO, ADDR, "broker-a", 0, "c1", "")
    elif way == "close":
        assert await bed.fe1.close(registration(ADDR), connection=ADDR) == "REMOVED"
    elif way == "expire":
        await bed.let_pass(60_000)
        await bed.register("10.0.0.2:10911", "broker-b", topics=SHARED)
        await bed.let_pass(70_000)
        assert (await bed.leases.expire(10, AT_ONCE)).whos == [WHO]
    else:
        await bed.fe2.register(registration(ADDR, topics=MANY))
        await bed.fe2.close(registration(ADDR))
        await bed.redis("DEL", bed.key("lease:w1"))
        await bed.leases.renew("w3")
        await bed.let_pass(11_000)
        assert await bed.leases.reap(10, AT_ONCE) == ([WHO], False)


WAYS = ["unregister", "unregister_id", "close", "expire", "reap"]


@pytest.mark.parametrize("way", WAYS)
async def test_a_broker_goes_at_once_and_its_topics_in_parts(small, way):
    """A5: one event, and from then on nobody is sent to it, though ten scripts have still to clean up."""
    await small.register("10.0.0.2:10911", "broker-b", topics=SHARED)
    await small.register(topics=MANY)
    await small.events()
    await remove(small, way)
    (event,) = [e for e in await small.events() if e.type != "broker_registered"]
    assert (event.broker_name, event.row, event.topics) == ("broker-a", None, {})
    parts = 0
    while True:
        await check(small)
        found = await small.contents()
        assert set(found["brokers"]) == {"broker-b"}
        assert found["topics"] == {topic: {"broker-b": RW} for topic in SHARED}
        assert [info.topic for info in await read_topics(small.store)] == sorted(SHARED)
        assert (await read_topic_tables(small.store, "t0")).topics == {"t0": {"broker-b": RW}}
        assert (await read_topic_tables(small.store, "t30")).topics == {}
        if not (await small.leases.expire(10, AT_ONCE)).more:
            break
        parts += 1
    assert parts >= 2
    assert await small.events() == []
    assert set(await small.members("topics")) == set(SHARED)
    assert await small.redis("KEYS", small.key("leaving")) == []
    await check(small)


@pytest.mark.parametrize("parts", [0, 1, 2])
@pytest.mark.parametrize("topics", [MANY, MANY[20:], ["t1", "new"]])
async def test_it_registers_again_between_two_parts(small, parts, topics):
    """By a front end; what is left of it before does not come back, and the sweeper takes nothing of it away."""
    await small.register(topics=MANY)
    await remove(small, "unregister")
    for _ in range(parts):
        assert (await small.leases.expire(10, AT_ONCE)).more
    await small.register(topics=dict.fromkeys(topics, (4, 4, 4)))
    await check(small)
    assert (await small.contents())["topics"] == {topic: {"broker-a": QueueData(4, 4, 4)} for topic in topics}
    assert not (await small.leases.expire(10, AT_ONCE)).more
    assert (await small.contents())["topics"] == {topic: {"broker-a": QueueData(4, 4, 4)} for topic in topics}
    await check(small)


async def test_a_writer_without_a_view_compares_with_nothing_of_what_is_left(small):
    await small.register(topics=MANY)
    await remove(small, "unregister")
    again = registration(ADDR, topics=MANY)
    seen = await read_broker(small.store, "broker-a", MANY, all_topics=True)
    assert (seen.row, seen.tables.topics, seen.tables.broker_topics) == (None, {}, {})
    diff = compare(again, None, seen.tables, epoch=seen.epoch, n="0")
    assert (await small.routes.register_broker(again, diff, channel=NO_CHANNEL)).status == "OK"
    assert set((await small.contents())["topics"]) == set(MANY)
    await check(small)


async def test_another_sweeper_goes_on_also_while_no_broker_can_be_heard(small, redis_url, namespace):
    await small.register(topics=MANY)
    await remove(small, "unregister")
    assert (await small.leases.expire(10, AT_ONCE)).more
    await small.move_clock(60_000)
    async with Store(redis_url, namespace) as other:
        second = Bed(other)
        found = [await second.leases.expire(10, AT_ONCE) for _ in range(3)]
    assert [(batch.heard, batch.more) for batch in found] == [(False, True), (False, True), (False, False)]
    assert await small.members("topics") == set()
    await check(small)


async def test_operators_find_nothing_of_it(small):
    """216, 217 and 205 between two parts: what is left counts neither as a topic nor as a broker."""
    await small.register("10.0.0.2:10911", "broker-b", topics=["own", "t1"])
    await small.register(topics=MANY)
    await remove(small, "unregister")
    await small.events()
    before = await small.contents()
    assert await small.routes.set_write_perm("broker-a", "wipe") == ((await small.head()).seq, 0)
    await small.routes.delete_topic("t30")
    # a topic that nobody has is not made by half: broker-a is not there (semantics 37)
    await small.routes.register_topic("t31", [("broker-b", RW), ("broker-a", RW)])
    assert await small.events() == []
    assert await small.contents() == before
    await small.routes.delete_topic("t1")
    assert "t1" not in (await small.contents())["topics"]
    await check(small)
    while (await small.leases.expire(10, AT_ONCE)).more:
        await check(small)
    assert set((await small.contents())["topics"]) == {"own"}
    await check(small)


async def test_several_of_them_are_all_gone_with_the_first_call(small):
    """A3: many brokers with many topics fall silent at once."""
    for number in range(5):
        await small.register(f"10.0.1.{number}:1", f"broker-{number}", topics=MANY)
    await small.let_pass(121_000)
    assert len((await small.leases.expire(50, AT_ONCE)).whos) == 5
    assert (await small.contents())["brokers"] == {}
    await check(small)
    while (await small.leases.expire(50, AT_ONCE)).more:
        pass
    assert await small.members("topics") == set()


async def test_an_older_release_that_registers_it_keeps_its_topics(small):
    """It knows no names of which something is left; what it registers is not taken away."""
    await small.register(topics=MANY)
    await remove(small, "unregister")
    older = {
        name: script._replace(source=script.source.replace('return {"LEAVING"', 'local _ = {"LEAVING"'))
        for name, script in load().items()
    }
    older["register_broker"] = older["register_broker"]._replace(sha="0" * 40)
    current, small.store._scripts = small.store._scripts, older
    await small.register(topics=MANY)
    small.store._scripts = current
    while (await small.leases.expire(10, AT_ONCE)).more:
        pass
    assert set((await small.contents())["topics"]) == set(MANY)
    await check(small)


async def test_no_script_takes_many_topics(bed):
    """A5: however a broker of 7,000 topics goes, and however its write permission, some 3,000 at a time."""
    topics = [f"topic-{number}" for number in range(7000)]
    await bed.leases.renew("w1")
    most = route_writes.TOPICS_AT_ONCE * 1.2
    for way in ("unregister", "close", "expire"):
        await bed.register(topics=topics)
        for mode in ("wipe", "add"):
            told = [await calls(bed, lambda rest=rest, mode=mode: one_part(bed, mode, rest)) for rest in range(3)]
            assert all(counted["hset"] < most for counted in told), told
            assert sum(counted["hset"] for counted in told) > 7000
        counted = await calls(bed, lambda way=way: remove(bed, way))
        assert counted.get("hdel", 0) < most
        while True:
            more = [False]
            counted = await calls(bed, lambda more=more: sweep(bed, more))
            assert counted.get("hdel", 0) < most
            if not more[0]:
                break
        assert await bed.redis("EXISTS", bed.key("broker-topics:broker-a")) == 0


async def sweep(bed: Bed, more: list[bool]) -> None:
    more[0] = (await bed.leases.expire(50)).more


rests: dict[str, bytes] = {}


async def one_part(bed: Bed, mode: str, part: int) -> None:
    rest = rests.get(mode, b"") if part else b""
    _, _, count, rests[mode] = await bed.store.call(
        "set_write_perm", "broker-a", mode, route_writes.TOPICS_AT_ONCE, rest
    )
    assert count == 7000
    assert bool(rests[mode]) == (part < 2)


# write permission in parts

PERM_TOPICS = [f"topic-{number}" for number in range(1500)]
PERM_AT_ONCE = 260


@pytest.fixture
def group(bed, runner, monkeypatch):
    """A master and a slave that may stand in for it, with many topics."""
    in_small_parts(bed.store, PERM_AT_ONCE)
    monkeypatch.setattr(route_writes, "TOPICS_AT_ONCE", PERM_AT_ONCE)

    async def make() -> None:
        await bed.leases.renew("w1")
        await bed.register(topics=PERM_TOPICS, enable_acting_master=True)
        await bed.register("10.0.0.2:10911", broker_id=1, topics=[], enable_acting_master=True)
        await bed.events()

    runner.run(make())
    return bed


async def perms(bed: Bed) -> list[int]:
    found = (await bed.contents())["topics"]
    return sorted({datas["broker-a"].perm for datas in found.values()})


async def written(bed: Bed) -> int:
    """How many topics may be written to."""
    return sum(datas["broker-a"].perm == 6 for datas in (await bed.contents())["topics"].values())


async def test_permission_is_taken_in_parts_each_with_its_event(group):
    rest, seen, told = b"", [], Told(group.store)
    while True:
        _, seq, count, rest = await group.store.call("set_write_perm", "broker-a", "wipe", PERM_AT_ONCE, rest)
        assert (count, (await group.head()).seq) == (1500, seq)
        await check(group)
        await told.assert_true()
        seen.append(await written(group))
        if not rest:
            break
    assert len(seen) >= 3
    assert seen == sorted(seen, reverse=True)
    assert seen[-1] == 0
    events = await group.events()
    assert {event.type for event in events} == {"write_perm_set"}
    assert sorted(topic for event in events for topic in event.topics) == sorted(PERM_TOPICS)


async def test_a_wipe_that_meets_another_server_begins_anew(group):
    """After a failover its place in the set would be that of other topics."""
    _, _, _, rest = await group.store.call("set_write_perm", "broker-a", "wipe", PERM_AT_ONCE, "")
    cursor = rest.split()[1]
    await group.routes.set_write_perm("broker-a", "add")
    rest = b"0123456789abcdef " + cursor
    while rest:
        _, _, _, rest = await group.store.call("set_write_perm", "broker-a", "wipe", PERM_AT_ONCE, rest)
    assert await written(group) == 0


async def test_a_change_between_two_parts_of_a_wipe_counts(group):
    _, _, _, rest = await group.store.call("set_write_perm", "broker-a", "wipe", PERM_AT_ONCE, "")
    await group.routes.delete_topic("topic-7")
    await group.register("10.0.0.3:10911", "broker-b", topics=PERM_TOPICS[:5])
    while rest:
        _, _, _, rest = await group.store.call("set_write_perm", "broker-a", "wipe", PERM_AT_ONCE, rest)
        await check(group)
    assert await perms_of(group, "broker-a") == {4}
    assert await perms_of(group, "broker-b") == {6}


async def perms_of(bed: Bed, name: str) -> set[int]:
    return {datas[name].perm for datas in (await bed.contents())["topics"].values() if name in datas}


@pytest.mark.parametrize("way", ["unregister", "close", "expire", "not in it"])
async def test_a_group_that_loses_its_master_loses_its_write_permission_in_parts(group, way):
    if way == "not in it":  # as in Java, the goodbye of anybody to a name without a master
        await group.routes.unregister_broker("c1", ADDR, "broker-a")
        await group.routes.set_write_perm("broker-a", "add")
        await group.events()
        await group.routes.unregister_broker("c1", "10.9.9.9:1", "broker-a")
    elif way == "expire":
        await group.let_pass(60_000)
        await group.routes.touch_broker("c1", "10.0.0.2:10911", NO_CHANNEL)
        await group.let_pass(70_000)
        assert (await group.leases.expire(10, PERM_AT_ONCE)).whos == [WHO]
    else:
        await remove(group, way)
    first = await group.events()
    assert (first[0].type == "write_perm_set") == (way == "not in it")
    parts = 0
    while True:
        await check(group)
        row = (await group.contents())["brokers"]["broker-a"]
        assert row.broker_addrs == {1: "10.0.0.2:10911"}
        if not (await group.leases.expire(10, PERM_AT_ONCE)).more:
            break
        parts += 1
    assert parts >= 1
    assert await perms(group) == [4]
    assert {event.type for event in await group.events()} == {"write_perm_set"}
    assert await group.redis("KEYS", group.key("wiping")) == []
    await check(group)


async def test_a_master_that_comes_meanwhile_keeps_its_write_permission(group):
    await remove(group, "unregister")
    assert 0 < await written(group) < 1500
    await group.register("10.0.0.4:10911", topics=PERM_TOPICS[:500], enable_acting_master=True)
    # as if the wipe had been done before it came: what it does not name stays wiped
    found = (await group.contents())["topics"]
    assert {topic for topic, datas in found.items() if datas["broker-a"].perm == 6} == set(PERM_TOPICS[:500])
    assert not (await group.leases.expire(10, PERM_AT_ONCE)).more
    assert await written(group) == 500
    await check(group)


async def test_permission_that_is_given_back_meanwhile_stays(group):
    await remove(group, "unregister")
    assert (await group.routes.set_write_perm("broker-a", "add"))[1] == 1500
    assert await written(group) == 1500
    assert not (await group.leases.expire(10, PERM_AT_ONCE)).more
    assert await written(group) == 1500
    await check(group)


async def test_a_group_that_goes_meanwhile_is_gone(group):
    await remove(group, "unregister")
    await group.routes.unregister_broker("c1", "10.0.0.2:10911", "broker-a")
    await check(group)
    assert (await group.contents())["topics"] == {}
    while (await group.leases.expire(10, PERM_AT_ONCE)).more:
        await check(group)
    assert await group.members("topics") == set()
    await check(group)
