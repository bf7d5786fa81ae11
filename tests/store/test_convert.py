"""A namespace of schema 1 is converted in steps, with all it holds, while nobody works on it."""

from __future__ import annotations

import pytest

from mqregistry.errors import OlderSchema, StoreError
from mqregistry.store.connection import schema
from mqregistry.store.connection.schema import ENFORCING
from mqregistry.store.store import open_existing

from .consistent import assert_consistent, dump


async def back_to_schema_1(bed):
    """Give the queue data the form that schema 1 had, with a name that left, and was not taken away yet."""
    rows = {name: await bed.hash(f"queues:{name}") for name in await bed.members("brokers")}
    for name, row in {**rows, "gone": {"t1": "{}", "of-gone": "{}"}}.items():
        await bed.redis("DEL", bed.key(f"queues:{name}"))
        for topic, data in row.items():
            await bed.redis("HSET", bed.key(f"topic:{topic}"), name, data)
            await bed.redis("SADD", bed.key("topics"), topic)
            await bed.redis("SADD", bed.key(f"broker-topics:{name}"), topic)
    await bed.redis("HSET", bed.key("leaving"), "gone", "1")
    auth = (await bed.hash("meta"))["schema"].removeprefix("2")
    await bed.redis("HSET", bed.key("meta"), "schema", "1" + auth)


async def convert(bed):
    return await schema.convert(bed.store.call, bed.store.namespace)


async def everything(bed):
    found = await dump(bed.store, events=True)
    return found.alone, found.of


async def begin(bed):
    """Make it one of schema 1 whose workers ended; gives what it held."""
    topics = [f"t{number}" for number in range(130)]
    for number, name in enumerate(("broker-a", "broker-b", "broker-c")):
        await bed.register(
            f"10.0.0.{number}:1", name, topics=topics[number:], filter_servers=["f"], mappings={"t9": (name, "{}")}
        )
    await bed.kv.put("ns", "k", "v")
    await bed.kv.set_config({"orderMessageEnable": "true"})
    await bed.redis("HSET", bed.key("meta"), "schema", "2" + ENFORCING)
    before = await everything(bed)
    await back_to_schema_1(bed)
    return before


async def test_all_but_the_form_of_queue_data_stays(bed):
    old = await begin(bed)
    tables_told = await bed.replay()
    with pytest.raises(OlderSchema, match=r"has schema version 1\+auth, this is version 2: .*mqregistry convert"):
        await bed.store.init_namespace()
    assert await convert(bed) == 131
    assert await everything(bed) == old
    await assert_consistent(bed.store, events=True)
    assert await bed.contents() == tables_told
    await bed.store.connect()
    assert await convert(bed) == 0, "it has this form already"
    assert await everything(bed) == old


async def test_a_conversion_that_ends_half_way_is_gone_on_with_and_nobody_starts_meanwhile(bed, redis_url, monkeypatch):
    old = await begin(bed)
    status, moved, more = await bed.store.call("convert_1_to_2", 100)
    assert (status, more) == (b"OK", 1)
    assert 25 < moved < 60, "a step has its bound"
    assert (await bed.hash("meta"))["schema"] == "1>2" + ENFORCING, "which a release of schema 1 refuses, too"
    with pytest.raises(OlderSchema, match="mqregistry convert"):
        async with open_existing(redis_url, bed.store.namespace):
            pass
    monkeypatch.setattr(schema, "_CELLS_AT_ONCE", 7)
    assert await convert(bed) == 131 - moved
    assert await everything(bed) == old


async def test_it_is_refused_while_the_older_release_runs(bed, monkeypatch):
    await begin(bed)
    monkeypatch.setattr(schema, "_PATIENCE_S", 0.0)
    await bed.leases.renew("w1")
    with pytest.raises(StoreError, match=r"1 worker\(s\) or sweeper\(s\) of the older release run"):
        await convert(bed)
    await bed.redis("DEL", bed.key("lease:w1"))
    now_ms = int((await bed.redis("TIME"))[0]) * 1000
    await bed.redis("HSET", bed.key("processes"), "s1", f'{now_ms} {{"kind":"sweeper"}}')
    with pytest.raises(StoreError, match="stop them all, then repeat this"):
        await convert(bed)
    assert (await bed.hash("meta"))["schema"] == "1" + ENFORCING, "nothing was written"
    monkeypatch.setattr(schema, "_PATIENCE_S", 15.0)
    await bed.redis("HSET", bed.key("processes"), "s1", f'{now_ms - 20_000} {{"kind":"sweeper"}}')
    await bed.leases.renew("w1", 300)
    assert await convert(bed) == 131, "it waits for a worker that was killed"


async def test_a_wipe_that_was_going_on_begins_anew(bed):
    topics = [f"t{number}" for number in range(700)]
    await bed.register(topics=topics, enable_acting_master=True)
    await bed.register("10.0.0.2:1", broker_id=1, topics=topics, enable_acting_master=True)
    await bed.redis("HDEL", bed.key("broker:broker-a"), "0")
    server = (await bed.store.info("server"))["run_id"]
    await bed.redis("HSET", bed.key("wiping"), "broker-a", f"{server} 1")  # a cursor that would pass over topics here
    await back_to_schema_1(bed)
    await convert(bed)
    await bed.leases.renew("w1")
    while await bed.hash("wiping"):
        await bed.leases.expire(10, topics=300)
    assert {data["broker-a"].perm for data in (await bed.tables()).topics.values()} == {4}


async def test_another_schema_is_no_matter_of_it(bed):
    await bed.redis("HSET", bed.key("meta"), "schema", "9")
    with pytest.raises(StoreError, match="has schema version 9, not 1"):
        await convert(bed)
