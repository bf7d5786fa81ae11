"""delete_topic: take a topic out of the tables."""

from __future__ import annotations

import pytest

from mqregistry.events import changes as kinds
from mqregistry.model import QueueData

RW = QueueData(8, 8, 6)


async def delete(bed, topic, cluster=""):
    return (await bed.store.call("delete_topic", topic, cluster, 2000, "", ""))[2]


@pytest.fixture
def two_clusters(bed, run):
    run(bed.register("10.0.0.1:1", "broker-a", cluster="c1"))
    run(bed.register("10.0.0.2:1", "broker-b", cluster="c2"))
    run(bed.events())


async def test_delete_everywhere_takes_the_topic_and_moves_each_row(bed, two_clusters):
    assert await delete(bed, "t1") == 2
    tables = await bed.tables()
    assert set(tables.topics) == {"t2"}
    (event,) = await bed.events()
    assert (event.type, event.topic, set(event.broker_names)) == (
        kinds.TopicDeleted.type,
        "t1",
        {"broker-a", "broker-b"},
    )
    assert {row.rev for row in tables.brokers.values()} == {event.rev} == {event.seq}
    assert await bed.replay() == tables.contents()


async def test_delete_repeated_tells_nothing(bed, two_clusters):
    await delete(bed, "t1")
    await bed.events()
    before = await bed.dump()
    assert await delete(bed, "t1") == 0
    assert await bed.events() == []
    assert await bed.dump() == before


async def test_delete_of_an_unknown_topic_tells_nothing(bed):
    assert await delete(bed, "none") == 0
    assert await bed.events() == []


async def test_delete_from_one_cluster_leaves_the_other(bed, two_clusters):
    assert await delete(bed, "t1", "c1") == 1
    assert (await bed.contents())["topics"]["t1"] == {"broker-b": RW}
    (event,) = await bed.events()
    assert event.broker_names == ["broker-a"]
    assert await bed.replay() == await bed.contents()


async def test_delete_from_each_cluster_takes_the_topic(bed, two_clusters):
    await delete(bed, "t1", "c1")
    await delete(bed, "t1", "c2")
    assert set((await bed.contents())["topics"]) == {"t2"}


async def test_delete_from_an_unknown_cluster_tells_nothing(bed, two_clusters):
    assert await delete(bed, "t1", "c9") == 0
    assert await bed.events() == []
