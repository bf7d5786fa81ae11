"""register_topic: queues at brokers that are known."""

from __future__ import annotations

from mqregistry.events import changes as kinds
from mqregistry.model import QueueData

A, B = QueueData(1, 2, 6, 3), QueueData(4, 4, 4)


async def written(bed, topic, *pairs):
    flat = [part for name, data in pairs for part in (name, f'{{"r":{data.read_queue_nums},"w":{data.write_queue_nums},"p":{data.perm},"f":{data.topic_sys_flag}}}')]  # noqa: E501  # fmt: skip
    return (await bed.store.call("register_topic", topic, "", *flat))[2]


async def test_new_topic_is_stored_and_told(bed):
    await bed.register()
    await bed.register("10.0.0.2:1", "broker-b")
    await bed.events()
    assert await written(bed, "new", ("broker-a", A), ("broker-b", B)) == 2
    tables = await bed.tables()
    assert tables.topics["new"] == {"broker-a": A, "broker-b": B}
    (event,) = await bed.events()
    assert (event.type, event.topic, event.queue_datas) == (
        kinds.TopicRegistered.type, "new", {"broker-a": A, "broker-b": B},
    )  # fmt: skip
    assert {row.rev for row in tables.brokers.values()} == {event.rev} == {event.seq}
    assert "new" in tables.broker_topics["broker-a"]
    assert await bed.replay() == tables.contents()


async def test_typed_method_does_the_same(bed):
    await bed.register()
    seq = await bed.routes.register_topic("new", [("broker-a", A)])
    assert seq == (await bed.head()).seq
    assert (await bed.contents())["topics"]["new"] == {"broker-a": A}


async def test_repeated_tells_nothing(bed):
    await bed.register()
    await written(bed, "new", ("broker-a", A))
    await bed.events()
    assert await written(bed, "new", ("broker-a", A)) == 1
    assert await bed.events() == []


async def test_only_what_changed_is_told(bed):
    await bed.register()
    await bed.register("10.0.0.2:1", "broker-b")
    await written(bed, "new", ("broker-a", A), ("broker-b", A))
    await bed.events()
    await written(bed, "new", ("broker-a", A), ("broker-b", B))
    (event,) = await bed.events()
    assert event.queue_datas == {"broker-b": QueueData(4, 4, 4, 0, (1, 2, 6, 3))}


async def test_unknown_name_stores_nothing_of_a_new_topic(bed):
    await bed.register()
    await bed.events()
    before = await bed.dump()
    assert await written(bed, "new", ("broker-a", A), ("unknown", B)) == 0
    assert await bed.dump() == before
    assert await bed.events() == []


async def test_unknown_name_ends_it_for_an_existing_topic(bed):
    await bed.register()
    await bed.register("10.0.0.2:1", "broker-b")
    await bed.events()
    assert await written(bed, "t1", ("broker-a", A), ("unknown", B), ("broker-b", B)) == 1
    contents = await bed.contents()
    assert contents["topics"]["t1"] == {"broker-a": QueueData(1, 2, 6, 3, (8, 8, 6, 0)), "broker-b": QueueData(8, 8, 6)}
    assert await bed.replay() == contents


async def test_no_pairs_store_nothing(bed):
    assert await written(bed, "new") == 0
    assert await bed.events() == []


async def test_same_name_twice_takes_the_last(bed):
    await bed.register()
    await written(bed, "new", ("broker-a", A), ("broker-a", B))
    assert (await bed.contents())["topics"]["new"] == {"broker-a": B}
    assert await bed.replay() == await bed.contents()


async def test_same_name_twice_that_ends_as_it_was_tells_nothing(bed):
    """Found by RouteTableMachine."""
    await bed.register()
    await written(bed, "new", ("broker-a", A))
    await bed.events()
    await written(bed, "new", ("broker-a", B), ("broker-a", A))
    assert await bed.events() == []
