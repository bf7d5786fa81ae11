"""set_write_perm: wipe and add write permission of a brokerName."""

from __future__ import annotations

import pytest

from mqregistry.events import changes as kinds
from mqregistry.model import QueueData

from .bed import WIPED


async def perms(bed):
    return {topic: datas["broker-a"].perm for topic, datas in (await bed.tables()).topics.items()}


async def test_wipe_takes_the_write_bit_and_add_gives_six(bed):
    await bed.register(topics={"t7": (1, 1, 7), "t6": (1, 1, 6), "t4": (1, 1, 4), "t2": (1, 1, 2), "t0": (1, 1, 0)})
    assert (await bed.routes.set_write_perm("broker-a", "wipe"))[1] == 5
    assert await perms(bed) == {"t7": 5, "t6": 4, "t4": 4, "t2": 0, "t0": 0}
    assert (await bed.routes.set_write_perm("broker-a", "add"))[1] == 5
    assert await perms(bed) == dict.fromkeys(("t7", "t6", "t4", "t2", "t0"), 6)
    assert await bed.replay() == await bed.contents()


async def test_give_gives_these_topics_the_write_bit_alone(bed):
    await bed.register(topics={"t7": (1, 1, 5), "t4": (1, 1, 4), "t0": (1, 1, 0), "t6": (1, 1, 6)})
    await bed.events()
    await bed.routes.set_write_perm("broker-a", "give", ["t7", "t0", "t6", "not there"])
    assert await perms(bed) == {"t7": 7, "t4": 4, "t0": 2, "t6": 6}
    (event,) = await bed.events()
    assert set(event.topics) == {"t7", "t0"}
    assert await bed.replay() == await bed.contents()


async def test_wipe_tells_the_topics_that_changed_and_moves_the_row(bed):
    await bed.register(topics={"t6": (3, 5, 6, 9), "t4": (1, 1, 4)})
    await bed.events()
    seq, count = await bed.routes.set_write_perm("broker-a", "wipe")
    (event,) = await bed.events()
    assert (event.type, event.broker_name, event.topics) == (
        kinds.WritePermSet.type, "broker-a", {"t6": QueueData(3, 5, 4, 9, (3, 5, 6, 9))},
    )  # fmt: skip
    assert (event.seq, event.rev, count) == (seq, seq, 2)
    assert (await bed.tables()).brokers["broker-a"].rev == seq


@pytest.mark.parametrize("mode", ["wipe", "add"])
async def test_repeated_counts_the_same_and_tells_nothing(bed, mode):
    await bed.register(topics={"t7": (1, 1, 7), "t4": (1, 1, 4)})
    first = await bed.routes.set_write_perm("broker-a", mode)
    await bed.events()
    assert await bed.routes.set_write_perm("broker-a", mode) == first
    assert await bed.events() == []


async def test_many_topics_are_told_in_parts(bed):
    await bed.register(topics=[f"t{i}" for i in range(1001)])
    await bed.events()
    seq, count = await bed.routes.set_write_perm("broker-a", "wipe")
    events = await bed.events()
    assert [(e.part, e.parts, e.rev, len(e.topics)) for e in events] == [
        (1, 3, seq, 500), (2, 3, seq, 500), (3, 3, seq, 1),
    ]  # fmt: skip
    assert count == 1001
    assert await bed.replay() == await bed.contents()


async def test_other_names_keep_theirs(bed):
    await bed.register()
    await bed.register("10.0.0.9:1", "broker-b")
    await bed.routes.set_write_perm("broker-b", "wipe")
    assert (await bed.contents())["topics"]["t1"] == {"broker-a": QueueData(8, 8, 6), "broker-b": WIPED}


@pytest.mark.parametrize("mode", ["wipe", "add"])
async def test_unknown_name_counts_nothing_and_leaves_no_row(bed, mode):
    before = await bed.dump()
    assert await bed.routes.set_write_perm("broker-z", mode) == (0, 0)
    assert await bed.dump() == before
    assert await bed.events() == []


async def test_negative_perm_is_a_number_too(bed):
    await bed.register(topics={"t1": (1, 1, -1), "t2": (1, 1, -3)})
    await bed.routes.set_write_perm("broker-a", "wipe")
    assert await perms(bed) == {"t1": -3, "t2": -3}
