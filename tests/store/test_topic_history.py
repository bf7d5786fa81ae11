"""What a topic's route was before and after each change, against a replay; and from a stream that was trimmed."""

from __future__ import annotations

import msgspec
import pytest

pytest.importorskip("pyarrow", reason="no pyarrow: pip install -e '.[spark]'")

from mqregistry.events.changes import Parts
from mqregistry.model import QueueData
from mqregistry.store.change_reader import ChangeReader, find_change, read_back, read_first
from mqregistry.store.operator_reads import read_rows, read_topic_tables
from mqregistry.store.store import Store
from mqregistry.tables.tables import Tables
from mqregistry.tables.topic_history import Place, TopicHistory
from tests.pipeline.world import TOPICS, World

from .bed import WIPED, Bed, registration


async def whole_changes(store):
    """Every change of the stream, each as its parts."""
    reader, parts, found = ChangeReader(store, "0-0"), Parts(), []
    while changes := await reader.read(block_ms=0):
        found += [whole for change in changes if (whole := list(parts.add(change)))]
    return found


def route(tables, topic):
    found = {}
    for name, data in sorted(tables.topics.get(topic, {}).items()):
        row = tables.brokers.get(name)
        found[name] = Place(data, row.cluster, row.broker_addrs) if row is not None else Place(data)
    return found


def truth(changes, topic):
    """seq of the first part -> route before, route after: of each change after which the route is another."""
    tables, found = Tables(), {}
    for parts in changes:
        before = route(tables, topic)
        for change in parts:
            tables.apply(change)
        if before != (after := route(tables, topic)):
            found[parts[0].seq] = before, after
    return found


async def steps_of(store, topic, changes, *, complete):
    history = TopicHistory(topic)
    for parts in changes:
        history.add(parts)
    now = (await read_topic_tables(store, topic)).topics.get(topic, {})
    rows = await read_rows(store, {*now, *history.broker_names})
    return {step.change.seq: (step.before, step.after) for step in history.steps(now, rows, complete=complete)}, history


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_a_whole_stream_gives_each_change_of_a_route_as_a_replay_does(store, seed):
    world = World(store, seed)
    await world.run(300)
    changes = await whole_changes(store)
    seen = 0
    for topic in TOPICS:
        found, history = await steps_of(store, topic, changes, complete=True)
        assert found == truth(changes, topic), topic
        assert not history.uncertain
        seen += len(found)
    assert seen > 200


@pytest.mark.parametrize("seed", [4, 5, 6])
async def test_the_end_of_a_stream_says_nothing_wrong_and_says_what_it_does_not_know(store, seed):
    world = World(store, seed)
    await world.run(300)
    changes = await whole_changes(store)
    late = changes[len(changes) // 2 :]
    known = 0
    for topic in TOPICS:
        true = {seq: routes for seq, routes in truth(changes, topic).items() if seq >= late[0][0].seq}
        found, history = await steps_of(store, topic, late, complete=False)
        for seq, (before, after) in found.items():
            for mine, theirs in zip((before, after), true.get(seq, (None, None)), strict=True):
                if theirs is None:
                    continue  # a change of which it is not known whether it changed anything
                for name in mine.keys() | theirs.keys():
                    if name in history.uncertain and name not in mine:
                        continue
                    place, actual = mine.get(name), theirs.get(name)
                    if place is None or place.queue_data is not None:
                        assert (place and place.queue_data) == (actual and actual.queue_data), (topic, seq, name)
                        known += place is not None
                    if place is not None and place.addrs is not None and actual is not None:
                        assert place.addrs == actual.addrs, (topic, seq, name)
        missed = {seq for seq in true if seq not in found}
        for seq in missed:  # only removals of names of which nothing is known
            (removed,) = [parts[0] for parts in late if parts[0].seq == seq]
            assert removed.broker_name in history.uncertain
    assert known > 100


async def test_a_deleted_topic_is_known_although_its_registration_is_gone_from_the_stream(bed: Bed):
    await bed.register(topics={"t1": (4, 8, 6), "t2": (1, 1, 6)})
    await bed.events()
    await bed.routes.delete_topic("t1")
    changes = await whole_changes(bed.store)
    found, _ = await steps_of(bed.store, "t1", changes[1:], complete=False)
    ((before, after),) = found.values()
    assert before == {"broker-a": Place(QueueData(4, 8, 6), "c1", {0: "10.0.0.1:10911"})}
    assert after == {}


async def test_a_broker_that_went_leaves_its_address_and_what_is_not_known(bed: Bed):
    await bed.register(topics=["t1", "t2"])
    await bed.register("10.0.0.2:10911", broker_id=1, topics=["t1", "t2"])
    begin = len(await whole_changes(bed.store))
    await bed.routes.set_write_perm("broker-a", "wipe")
    await bed.routes.unregister_broker("c1", "10.0.0.1:10911", "broker-a")
    await bed.routes.unregister_broker("c1", "10.0.0.2:10911", "broker-a")
    late = (await whole_changes(bed.store))[begin:]
    found, history = await steps_of(bed.store, "t1", late, complete=False)
    wiped, both = WIPED, {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}
    assert list(found.values()) == [
        ({"broker-a": Place(None)}, {"broker-a": Place(wiped)}),
        ({"broker-a": Place(wiped, "c1", both)}, {"broker-a": Place(wiped, "c1", {1: "10.0.0.2:10911"})}),
        ({"broker-a": Place(wiped, "c1", {1: "10.0.0.2:10911"})}, {}),
    ]
    assert history.uncertain == []
    found, history = await steps_of(bed.store, "t1", late[1:], complete=False)
    assert (found, history.uncertain) == ({}, ["broker-a"])


async def test_a_step_shows_the_change_with_its_topic_alone(bed: Bed):
    await bed.register(topics=[f"t{n}" for n in range(1200)])
    await bed.fe1.register(
        registration(topics=[f"t{n}" for n in range(1199)], counter=2), connection="c", delete_missing_topics=True
    )
    for topic, topics, dropped in (("t7", ["t7"], []), ("t1199", ["t1199"], ["t1199"])):
        history = TopicHistory(topic)
        for parts in await whole_changes(bed.store):
            history.add(parts)
        steps = list(history.steps({}, {}, complete=True))
        assert (list(steps[0].change.topics), steps[0].change.parts) == (topics, 1)
        assert [step.change.dropped for step in steps[1:]] == ([dropped] if dropped else [])


async def test_changes_are_read_back_from_the_newest_each_with_its_parts(store: Store):
    bed = Bed(store)  # whose clock goes on with that of Redis, which gives entries their ids
    assert await read_first(bed.store) is None
    await bed.register(topics=[f"t{n}" for n in range(1200)])
    for number in range(600):
        await bed.kv.put("ns", "k", str(number))
    await bed.register("10.0.0.2:10911", "broker-b", topics=[f"t{n}" for n in range(700)])
    back = [parts async for parts in read_back(bed.store)]
    assert back[::-1] == await whole_changes(bed.store)
    assert [len(parts) for parts in back if len(parts) > 1] == [2, 3]
    assert (await read_first(bed.store)).seq == 1
    later = [parts async for parts in read_back(bed.store, since_ms=back[100][0].ms)]
    assert later == back[: len(later)]
    assert 100 < len(later) < len(back)


async def test_a_change_is_found_whole_though_its_parts_were_written_in_two_milliseconds(bed: Bed):
    kv = {"type": "kv_put", "kv_namespace": "n", "key": "k"}
    for seq, entry_id, part, parts in [
        (1, "1000-0", 1, 1), (2, "1000-1", 1, 3), (3, "1000-2", 2, 3), (4, "1001-0", 3, 3), (5, "1001-1", 1, 1),
    ]:  # fmt: skip
        change = {"seq": seq, "ms": 1000, "part": part, "parts": parts, **kv}
        await bed.redis("XADD", bed.key("changes"), entry_id, "e", msgspec.json.encode(change))
    for seq in (2, 3, 4):
        entry_id, found = await find_change(bed.store, seq)
        assert (entry_id, [one.seq for one in found]) == ("1000-1", [2, 3, 4])
    assert (await find_change(bed.store, 5))[0] == "1001-1"
    # the first part was trimmed: the others are still shown
    await bed.redis("XTRIM", bed.key("changes"), "MINID", "1000-2")
    assert [one.seq for one in (await find_change(bed.store, 4))[1]] == [3, 4]
    await bed.redis("XTRIM", bed.key("changes"), "MINID", "1001-0")
    assert [one.seq for one in (await find_change(bed.store, 4))[1]] == [4]
