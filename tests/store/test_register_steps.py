"""A registration that is too large for one call of the script is written by several."""

from __future__ import annotations

import pytest

from mqregistry.errors import StoreUnavailable
from mqregistry.model import DataVersion, QueueData
from mqregistry.store import route_writes

from .bed import registration


@pytest.fixture(autouse=True)
def small_calls(monkeypatch):
    monkeypatch.setattr(route_writes, "ENTRIES_PER_CALL", 1000)


def topics(count, queues=8):
    return {f"topic-{i}": (queues, queues, 6) for i in range(count)}


def mapped(count):
    return {f"topic-{i}": ("broker-a", f'{{"i":{i}}}') for i in range(count)}


def calls(bed):
    times = bed.store.times.scripts.get("register_broker")
    return times.times if times else 0


async def test_all_of_it_is_stored_told_and_known_the_next_time(bed):
    r = registration(topics=topics(2700), mappings=mapped(1300), filter_servers=["f:1"], counter=5)
    result = await bed.fe1.register(r)
    assert (result.status, result.changed) == ("OK", True)
    assert calls(bed) == 3 + 3
    tables = await bed.tables()
    assert len(tables.topics) == 2700
    assert len(tables.mappings) == 1300
    assert await bed.replay() == tables.contents()
    assert [beat["kind"] for beat in await bed.beats()] == ["changed"]
    assert (await bed.live(r))["counter"] == "5"
    assert (await bed.fe1.prepare(r)).heartbeat.same
    fewer = registration(topics=topics(100, queues=4), counter=6)
    assert (await bed.fe1.register(fewer, delete_missing_topics=True)).status == "OK"
    tables = await bed.tables()
    assert {data["broker-a"] for data in tables.topics.values()} == {QueueData(4, 4, 6)}
    assert len(tables.topics) == 100
    assert await bed.replay() == tables.contents()


async def test_what_a_dead_front_end_left_half_written_is_completed_by_the_next_registration(bed, monkeypatch):
    first = registration(topics=topics(2700), counter=1)
    await bed.fe1.register(first)
    r = registration(topics=topics(2700, queues=4), counter=2)
    prepared = await bed.fe1.prepare(r)
    call = bed.fe1.routes._call
    left = [2]

    async def dies(name, *arguments, **options):
        if name == "register_broker":
            left[0] -= 1
            if left[0] < 0:
                raise StoreUnavailable("away")
        return await call(name, *arguments, **options)

    monkeypatch.setattr(bed.fe1.routes, "_call", dies)
    with pytest.raises(StoreUnavailable):
        await bed.fe1.send_once(prepared)
    tables = await bed.tables()
    assert sum(data["broker-a"].read_queue_nums == 4 for data in tables.topics.values()) == 2000
    assert await bed.replay() == tables.contents()
    again = await bed.fe2.prepare(r)
    assert not again.heartbeat.same
    assert again.heartbeat.data_version == DataVersion(1, 1000, 0)
    assert not (await bed.fe2.prepare(first)).heartbeat.same
    assert (await bed.fe2.send(again)).status == "OK"
    tables = await bed.tables()
    assert {data["broker-a"].read_queue_nums for data in tables.topics.values()} == {4}
    assert await bed.replay() == tables.contents()
    assert (await bed.fe2.prepare(r)).heartbeat.same


async def test_somebody_else_who_changes_the_row_in_between_has_it_compared_again(bed, monkeypatch):
    prepared = await bed.fe1.prepare(registration(topics=topics(2700)))
    call = bed.fe1.routes._call

    async def overtaken(name, *arguments, **options):
        if calls(bed) == 2:
            await bed.fe2.routes.delete_topic("topic-7")
        return await call(name, *arguments, **options)

    monkeypatch.setattr(bed.fe1.routes, "_call", overtaken)
    assert (await bed.fe1.send(prepared)).status == "OK"
    assert len((await bed.tables()).topics) == 2700
    assert await bed.replay() == await bed.contents()


async def test_a_topic_at_many_brokers_is_deleted_by_several_calls(bed, monkeypatch):
    monkeypatch.setattr(route_writes, "_BROKERS_PER_CALL", 300)
    await bed.redis("SADD", bed.key("brokers"), *(f"b{i}" for i in range(1500)))
    for i in range(1500):
        await bed.redis("HSET", bed.key(f"queues:b{i}"), "t", '{"r":8,"w":8,"p":6,"f":0}')
    await bed.routes.delete_topic("t")
    assert bed.store.times.scripts["delete_topic"].times > 2
    assert (await bed.tables()).topics == {}
    gone = [name for event in await bed.events() for name in event.broker_names]
    assert sorted(gone) == sorted(f"b{i}" for i in range(1500))


async def test_long_names_take_more_calls(bed):
    names = [f"{i}-{'x' * 190}" for i in range(600)]
    r = registration(topics=dict.fromkeys(names, (8, 8, 6)), counter=5)
    assert (await bed.fe1.register(r)).status == "OK"
    assert calls(bed) == 2, "as many short ones would fit into one"
    none = registration(topics={}, counter=6)
    assert (await bed.fe1.register(none, delete_missing_topics=True)).status == "OK"
    assert calls(bed) == 2 + 3
    assert not (await bed.tables()).topics
