"""Brokers with many topics: no script takes long, and at each moment between two scripts the tables are right.

Only write permission goes in parts; a broker goes at once with all its topics, which are one key.
"""

from __future__ import annotations

import pytest

from mqregistry.store import route_writes
from mqregistry.store.operator_reads import read_topic_tables, read_topics
from mqregistry.store.route_writes import NO_CHANNEL

from .bed import RW, Bed, in_small_parts, registration
from .consistent import Told, assert_consistent
from .test_budgets import calls

ADDR = "10.0.0.1:10911"
WHO = f"c1|{ADDR}"
AT_ONCE = 10
MANY = [f"t{number}" for number in range(35)]
SHARED = [*MANY[:5], "other"]


async def check(bed: Bed) -> None:
    await assert_consistent(bed.store)
    assert await bed.contents() == await bed.replay()


async def remove(bed: Bed, way: str) -> None:
    if way == "unregister":
        await bed.routes.unregister_broker("c1", ADDR, "broker-a")
    elif way == "unregister_id":
        await bed.store.call("unregister_broker_id", WHO, ADDR, "broker-a", 0, "c1", "", 0, "", "")
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
        assert not (await bed.leases.reap(10))[1]
        await bed.let_pass(36_000)
        assert (await bed.leases.expire(10, AT_ONCE)).whos == [WHO]


WAYS = ["unregister", "unregister_id", "close", "expire", "reap"]


@pytest.mark.parametrize("way", WAYS)
async def test_a_broker_goes_at_once_with_all_its_topics(bed, runner, way):
    """A5: one event, one script, and nothing is left for a later one."""
    await bed.leases.renew("w1")
    await bed.register("10.0.0.2:10911", "broker-b", topics=SHARED)
    await bed.register(topics=MANY)
    await bed.events()
    await remove(bed, way)
    (event,) = [e for e in await bed.events() if e.type != "broker_registered"]
    assert (event.broker_name, event.row, event.topics) == ("broker-a", None, {})
    await check(bed)
    found = await bed.contents()
    assert set(found["brokers"]) == {"broker-b"}
    assert found["topics"] == {topic: {"broker-b": RW} for topic in SHARED}
    assert [info.topic for info in await read_topics(bed.store)] == sorted(SHARED)
    assert (await read_topic_tables(bed.store, "t0")).topics == {"t0": {"broker-b": RW}}
    assert (await read_topic_tables(bed.store, "t30")).topics == {}
    assert await bed.redis("EXISTS", bed.key("queues:broker-a")) == 0
    assert not (await bed.leases.expire(10, AT_ONCE)).more
    await bed.register(topics=dict.fromkeys(["t1", "new"], (4, 4, 4)))
    assert (await bed.contents())["broker_topics"]["broker-a"] == {"t1", "new"}
    await check(bed)


async def test_no_script_takes_many_topics(bed):
    """A5: however a broker of 7,000 topics goes it takes no time for each, and its write permission some at a time."""
    topics = [f"topic-{number}" for number in range(7000)]
    await bed.leases.renew("w1")
    looks = route_writes.TOPICS_AT_ONCE * 1.2 / 250
    for way in ("unregister", "close", "expire"):
        await bed.register(topics=topics)
        for mode in ("wipe", "add"):
            told = [await calls(bed, lambda rest=rest, mode=mode: one_part(bed, mode, rest)) for rest in range(3)]
            assert all(counted["hscan"] < looks for counted in told), told
            assert sum(counted["hscan"] for counted in told) >= 7000 // 300
        counted = await calls(bed, lambda way=way: remove(bed, way))
        # where it expires another broker registers meanwhile
        assert sum(counted.values()) < 500, counted
        assert not (await bed.leases.expire(50)).more
        assert await bed.redis("EXISTS", bed.key("queues:broker-a")) == 0


rests: dict[str, bytes] = {}
NO_TOPICS = b"\x90"


async def one_part(bed: Bed, mode: str, part: int) -> None:
    rest = rests.get(mode, b"") if part else b""
    _, _, count, rests[mode] = await bed.store.call(
        "set_write_perm", "broker-a", mode, route_writes.TOPICS_AT_ONCE, rest, "", NO_TOPICS
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
        _, seq, count, rest = await group.store.call(
            "set_write_perm", "broker-a", "wipe", PERM_AT_ONCE, rest, "", NO_TOPICS
        )
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
    _, _, _, rest = await group.store.call("set_write_perm", "broker-a", "wipe", PERM_AT_ONCE, "", "", NO_TOPICS)
    cursor = rest.split()[1]
    await group.routes.set_write_perm("broker-a", "add")
    rest = b"0123456789abcdef " + cursor
    while rest:
        _, _, _, rest = await group.store.call("set_write_perm", "broker-a", "wipe", PERM_AT_ONCE, rest, "", NO_TOPICS)
    assert await written(group) == 0


async def test_a_change_between_two_parts_of_a_wipe_counts(group):
    _, _, _, rest = await group.store.call("set_write_perm", "broker-a", "wipe", PERM_AT_ONCE, "", "", NO_TOPICS)
    await group.routes.delete_topic("topic-7")
    await group.register("10.0.0.3:10911", "broker-b", topics=PERM_TOPICS[:5])
    while rest:
        _, _, _, rest = await group.store.call("set_write_perm", "broker-a", "wipe", PERM_AT_ONCE, rest, "", NO_TOPICS)
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
    await check(group)
