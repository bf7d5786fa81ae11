"""unregister_broker: a broker says goodbye."""

from __future__ import annotations

from mqregistry.events import changes as kinds
from mqregistry.model import QueueData

from .bed import registration

ADDR = "10.0.0.1:10911"
EMPTY = {
    "topics": {}, "brokers": {}, "clusters": {}, "broker_topics": {}, "filter_servers": {}, "mappings": {}, "kv": {},
    "config": {},
}  # fmt: skip


async def unregister(bed, cluster="c1", addr=ADDR, name="broker-a"):
    reply = await bed.store.call("unregister_broker", cluster, addr, name, "", 0, "", "")
    assert reply[0] == b"OK"
    return reply[2]


async def left_keys(bed):
    return {key.removeprefix(bed.prefix.encode()).decode() for key in await bed.store.client.keys(bed.prefix + "*")}


async def test_unregister_of_the_last_broker_leaves_nothing(bed):
    await bed.register(filter_servers=["f"])
    await bed.events()
    assert await unregister(bed) == 1
    assert await bed.contents() == EMPTY
    assert await bed.replay() == EMPTY
    assert await left_keys(bed) == {"meta", "changes", "heartbeats", "leases"}
    (event,) = await bed.events()
    assert (event.type, event.row, event.broker_name) == (kinds.BrokerUnregistered.type, None, "broker-a")
    assert (event.who, event.cluster, event.addr, event.broker_id) == (f"c1|{ADDR}", "c1", ADDR, 0)
    assert event.topics == {}


async def test_unregister_repeated_tells_nothing(bed):
    await bed.register()
    await unregister(bed)
    await bed.events()
    before = await bed.dump()
    assert await unregister(bed) == 0
    assert await bed.events() == []
    assert await bed.dump() == before


async def test_unregister_of_an_unknown_broker_tells_nothing(bed):
    await bed.register()
    await bed.events()
    before = await bed.dump()
    assert await unregister(bed, addr="10.0.0.9:1") == 0
    assert await unregister(bed, name="broker-z", addr="10.0.0.9:1") == 0
    assert await bed.events() == []
    assert await bed.dump() == before


async def test_unregister_of_one_of_two_addresses_keeps_the_name_and_its_topics(bed):
    await bed.register()
    await bed.register("10.0.0.2:1", broker_id=1)
    await bed.events()
    await unregister(bed)
    contents = await bed.contents()
    assert contents["brokers"]["broker-a"].broker_addrs == {1: "10.0.0.2:1"}
    assert set(contents["topics"]) == {"t1", "t2"}
    (event,) = await bed.events()
    assert event.row == kinds.Row("c1", {1: "10.0.0.2:1"})
    assert event.rev == event.seq
    assert await bed.replay() == contents


async def test_unregister_keeps_topics_that_other_names_have(bed):
    await bed.register(topics=["t1", "t2"])
    await bed.register("10.0.0.9:1", "broker-b", topics=["t2", "t3"])
    await unregister(bed)
    contents = await bed.contents()
    assert set(contents["topics"]) == {"t2", "t3"}
    assert contents["clusters"] == {"c1": {"broker-b"}}
    assert await bed.replay() == contents


async def test_unregister_of_many_topics_partly_shared(bed):
    await bed.register(topics=[f"t{i}" for i in range(1000)])
    await bed.register("10.0.0.9:1", "broker-b", topics=[f"t{i}" for i in range(0, 1000, 7)])
    await unregister(bed)
    contents = await bed.contents()
    assert set(contents["topics"]) == {f"t{i}" for i in range(0, 1000, 7)}
    assert await bed.replay() == contents


async def test_unregister_of_the_last_master_wipes_write_where_acting_masters_are_on(bed):
    await bed.register(enable_acting_master=True, topics=[f"t{i}" for i in range(700)])
    await bed.register("10.0.0.2:1", broker_id=1, enable_acting_master=True)
    await bed.events()
    await unregister(bed)
    contents = await bed.contents()
    assert {data["broker-a"] for data in contents["topics"].values()} == {QueueData(8, 8, 4)}
    events = await bed.events()
    assert [(e.part, e.parts, len(e.topics)) for e in events] == [(1, 2, 500), (2, 2, 200)]
    assert events[0].row == kinds.Row("c1", {1: "10.0.0.2:1"}, None, True)
    assert await bed.replay() == contents


async def test_unregister_of_the_last_master_leaves_perms_where_acting_masters_are_off(bed):
    await bed.register()
    await bed.register("10.0.0.2:1", broker_id=1)
    await unregister(bed)
    assert (await bed.contents())["topics"]["t1"] == {"broker-a": QueueData(8, 8, 6)}


async def test_unregister_of_a_slave_keeps_the_masters_write_bit(bed):
    await bed.register(enable_acting_master=True)
    await bed.register("10.0.0.2:1", broker_id=1, enable_acting_master=True)
    await unregister(bed, addr="10.0.0.2:1")
    assert (await bed.contents())["topics"]["t1"] == {"broker-a": QueueData(8, 8, 6)}


async def test_unregister_goes_by_address_whatever_its_id_is(bed):
    await bed.register(broker_id=3, enable_acting_master=False)
    assert await unregister(bed) == 1
    assert await bed.contents() == EMPTY


async def test_unregister_forgets_the_channel(bed):
    r = await bed.register()
    await unregister(bed)
    assert await bed.channels(r) == {}
    assert await bed.members("held:w1") == set()
    assert await bed.fe1.close(r, connection=ADDR) == "STALE"


async def test_unregister_with_a_wrong_cluster_leaves_nothing_dead_behind(bed):
    """D4."""
    await bed.register(filter_servers=["f"])
    assert await unregister(bed, cluster="wrong") == 1
    assert await bed.contents() == EMPTY
    assert await bed.replay() == EMPTY
    assert await left_keys(bed) == {"meta", "changes", "heartbeats", "leases"}


async def test_unregister_with_a_third_cluster_forgets_the_broker_under_its_own(bed):
    await bed.register("10.0.0.5:1")
    await bed.register(cluster="c2", broker_id=1, filter_servers=["f"])
    await unregister(bed, cluster="wrong")
    contents = await bed.contents()
    assert contents["brokers"]["broker-a"].broker_addrs == {0: "10.0.0.5:1"}
    assert contents["filter_servers"] == {}
    assert await bed.live(registration(cluster="c2")) == {}
    assert await bed.deadline(registration(cluster="c2")) is None
    assert await bed.replay() == contents


async def test_unregister_from_one_of_two_names_keeps_the_other_to_be_cleaned_at_its_deadline(bed):
    r = await bed.register(filter_servers=["f"])
    await bed.register(name="broker-b", filter_servers=["f"])
    await unregister(bed)
    contents = await bed.contents()
    assert set(contents["brokers"]) == {"broker-b"}
    assert contents["filter_servers"] == {}
    assert await bed.replay() == contents
    assert (await bed.routes.touch_broker("c1", ADDR)).data_version is None
    assert await bed.deadline(r) is not None
    assert set(await bed.live(r)) >= {"name:broker-b", "addr", "cluster"}


async def test_unregister_of_an_address_that_lost_its_id_forgets_only_it(bed):
    old = await bed.register(filter_servers=["f"])
    await bed.register("10.0.0.2:1")
    await bed.events()
    assert await unregister(bed) == 0
    assert (await bed.contents())["brokers"]["broker-a"].broker_addrs == {0: "10.0.0.2:1"}
    assert await bed.live(old) == {}
    (event,) = await bed.events()
    assert event.row.__class__.__name__ == "UnsetType"
    assert (await bed.contents())["filter_servers"] == {}
    assert await bed.replay() == await bed.contents()


async def test_unregister_from_a_name_that_it_does_not_stand_under_tells_once(bed):
    """Found by RouteTableMachine: each repetition told of it again."""
    await bed.register()
    await bed.events()
    assert await unregister(bed, name="broker-b") == 0
    assert len(await bed.events()) == 1
    assert (await bed.routes.touch_broker("c1", ADDR)).data_version is None
    before = await bed.dump()
    assert await unregister(bed, name="broker-b") == 0
    assert await bed.events() == []
    assert await bed.dump() == before


async def test_unregister_that_hits_nothing_wipes_write_of_a_name_without_master(bed):
    """As running servers do while acting masters are enabled."""
    await bed.register(broker_id=1, enable_acting_master=True)
    await bed.routes.set_write_perm("broker-a", "add")
    await bed.events()
    assert await unregister(bed, addr="10.0.0.9:1") == 0
    contents = await bed.contents()
    assert {data["broker-a"].perm for data in contents["topics"].values()} == {4}
    (event,) = await bed.events()
    assert (event.type, set(event.topics)) == (kinds.WritePermSet.type, {"t1", "t2"})
    assert await bed.replay() == contents
    assert await unregister(bed, addr="10.0.0.9:1") == 0
    assert await bed.events() == []


async def test_unregister_that_waited_for_redis_removes_no_broker_that_came_back(bed):
    """Redis stood still: the new registration of the broker may be executed ahead of its earlier unregistration."""
    r = await bed.register()
    for has_ended in (False, True):
        renewal = await bed.leases.renew("w1")
        await bed.move_clock(60_000)
        await bed.fe1.register(r)
        if has_ended:
            await bed.leases.renew("w1")
        waited = renewal.up_since_ms, renewal.now_ms
        done = await bed.routes.unregister_broker("c1", ADDR, "broker-a", 0, renewed=waited)
        assert not done.refreshed
        assert await bed.live(r) != {}
    await bed.move_clock(1_000)
    renewal = await bed.leases.renew("w1")
    waited = renewal.up_since_ms, renewal.now_ms
    await bed.move_clock(60_000)  # without a sign of life it has not come back
    assert (await bed.routes.unregister_broker("c1", ADDR, "broker-a", 0, renewed=waited)).refreshed
    await bed.fe1.register(r)
    renewal = await bed.leases.renew("w1")
    waited = renewal.up_since_ms, renewal.now_ms
    await bed.fe1.register(r)
    assert (await bed.routes.unregister_broker("c1", ADDR, "broker-a", 0, renewed=waited)).refreshed
    assert await bed.contents() == EMPTY
