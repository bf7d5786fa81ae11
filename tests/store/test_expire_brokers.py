"""expire_brokers: remove brokers whose heartbeat is overdue."""

from __future__ import annotations

import pytest

from mqregistry.events import changes as kinds

ADDR = "10.0.0.1:10911"
WHO = f"c1|{ADDR}"


@pytest.fixture
def watched(bed, run):
    """Somebody watches, and has for as long as anybody's timeout."""
    run(bed.leases.renew("w1"))
    run(bed.let_pass(300_000))


async def test_expire_before_the_deadline_removes_nobody_and_tells_when_to_come_back(bed, watched):
    r = await bed.register()
    await bed.let_pass(119_000 - 5000)
    expired = await bed.leases.expire(10)
    assert expired.whos == []
    assert expired.next_deadline_ms == await bed.deadline(r)
    assert expired.now_ms < expired.next_deadline_ms


async def test_expire_after_the_deadline_removes_and_tells(bed, watched):
    r = await bed.register(filter_servers=["f"])
    await bed.events()
    await bed.let_pass(120_001)
    expired = await bed.leases.expire(10)
    assert (expired.whos, expired.next_deadline_ms) == ([WHO], None)
    assert (await bed.contents())["brokers"] == {}
    assert await bed.live(r) == {}
    (event,) = await bed.events()
    assert (event.type, event.row, event.who) == (kinds.BrokerExpired.type, None, WHO)
    assert await bed.replay() == await bed.contents()


async def test_expire_repeated_emits_nothing(bed, watched):
    await bed.register()
    await bed.let_pass(120_001)
    await bed.leases.expire(10)
    await bed.events()
    before = await bed.dump()
    assert (await bed.leases.expire(10)).whos == []
    assert await bed.events() == []
    assert set(await bed.dump()) == set(before)


async def test_expire_removes_whoever_holds_channels_too(bed, watched):
    r = await bed.register()
    await bed.let_pass(120_001)
    await bed.leases.expire(10)
    assert await bed.channels(r) == {}
    assert await bed.members("held:w1") == set()


async def test_expire_takes_the_limit_earliest_first(bed, watched):
    for i in range(5):
        await bed.register(f"10.0.0.{i}:1", f"broker-{i}", heartbeat_timeout_ms=10_000 * (5 - i))
    await bed.let_pass(60_000)
    assert (await bed.leases.expire(2)).whos == ["c1|10.0.0.4:1", "c1|10.0.0.3:1"]
    assert len((await bed.leases.expire(10)).whos) == 3


async def test_expire_goes_by_each_brokers_own_timeout(bed, watched):
    await bed.register(heartbeat_timeout_ms=20_000)
    await bed.register("10.0.0.2:1", "broker-b", heartbeat_timeout_ms=60_000)
    await bed.let_pass(30_000)
    assert (await bed.leases.expire(10)).whos == [WHO]
    await bed.let_pass(40_000)
    assert (await bed.leases.expire(10)).whos == ["c1|10.0.0.2:1"]


async def test_expire_spares_those_that_beat_since(bed, watched):
    r = await bed.register()
    await bed.let_pass(100_000)
    await bed.routes.touch_broker("c1", ADDR)
    await bed.let_pass(100_000)
    assert (await bed.leases.expire(10)).whos == []
    await bed.fe1.register(r)
    await bed.let_pass(100_000)
    assert (await bed.leases.expire(10)).whos == []


async def test_expire_of_an_address_under_two_names_tells_of_both(bed, watched):
    await bed.register()
    await bed.register(name="broker-b")
    await bed.events()
    await bed.let_pass(120_001)
    await bed.leases.expire(10)
    assert {e.broker_name for e in await bed.events()} == {"broker-a", "broker-b"}
    assert (await bed.contents())["brokers"] == {}


async def test_expire_of_a_whole_batch_in_one_call(bed, watched):
    for i in range(40):
        await bed.register(f"10.0.0.{i}:1", f"broker-{i}")
    await bed.let_pass(120_001)
    assert len((await bed.leases.expire(1000)).whos) == 40
    assert (await bed.contents())["topics"] == {}
    assert await bed.replay() == await bed.contents()


async def test_expire_is_bounded_by_the_topics_that_lose_write_permission(bed, watched):
    """A3: masters of several groups fall silent: a script takes few of them, and says that there are more."""
    for i, count in enumerate((3, 4, 2, 5)):
        group = {"name": f"broker-{i}", "topics": [f"t{i}-{at}" for at in range(count)], "enable_acting_master": True}
        await bed.register(f"10.0.0.{i}:1", heartbeat_timeout_ms=10_000 * (i + 1), **group)
        await bed.register(f"10.0.1.{i}:1", broker_id=1, heartbeat_timeout_ms=100_000, **group)
    await bed.let_pass(60_000)
    found = [await bed.leases.expire(50, topics=7) for _ in range(3)]
    assert [len(batch.whos) for batch in found] == [2, 2, 0]
    assert [batch.more for batch in found] == [True, False, False]
    assert {data.perm for datas in (await bed.tables()).topics.values() for data in datas.values()} == {4}
    assert await bed.replay() == await bed.contents()


async def test_expire_takes_brokers_with_their_topics_at_once_however_many_these_are(bed, watched):
    await bed.register(topics=[f"t{number}" for number in range(2000)], heartbeat_timeout_ms=10_000)
    await bed.register("10.0.0.2:1", "broker-b", heartbeat_timeout_ms=20_000)
    await bed.let_pass(60_000)
    found = [await bed.leases.expire(50, topics=7) for _ in range(2)]
    assert [batch.whos for batch in found] == [[WHO, "c1|10.0.0.2:1"], []]
    assert [batch.more for batch in found] == [False, False]
    assert (await bed.contents())["topics"] == {}
    assert await bed.redis("KEYS", bed.key("queues:*")) == []


async def test_expire_of_a_broker_with_long_numbered_names_leaves_nothing(bed, watched):
    """A5: several lists of names of one length that differ in their last characters; shared with another broker."""
    topics = [f"{'x' * 94}{number:06}" for number in range(3100)]
    await bed.register(topics=topics, heartbeat_timeout_ms=10_000)
    await bed.register("10.0.0.2:1", "broker-b", topics=topics[:700])
    await bed.let_pass(30_000)
    assert (await bed.leases.expire(10)).whos == [WHO]
    assert not (await bed.leases.expire(10)).more
    assert set((await bed.tables()).topics) == set(topics[:700])
    assert await bed.redis("EXISTS", bed.key("queues:broker-a")) == 0
    assert await bed.replay() == await bed.contents()


async def test_a_broker_that_came_back_under_another_cluster_stays_while_it_beats_there(bed, watched):
    """A10: it registers under c1, then, without a close, under c2, and beats there; c1's deadline comes, then c2's."""
    await bed.register(topics=["t1", "t2"])
    await bed.let_pass(100_000)
    moved = await bed.register(cluster="c2", topics=["t1", "t2"])
    await bed.let_pass(30_000)
    before = await bed.contents()
    await bed.events()
    assert (await bed.leases.expire(10)).whos == [WHO]
    (event,) = await bed.events()
    assert (event.type, event.who, event.broker_id, event.row.addrs) == ("broker_expired", WHO, None, {0: ADDR})
    before["brokers"]["broker-a"] = event.row.broker_row(event.rev)
    assert await bed.contents() == await bed.replay() == before
    assert await bed.live(moved) != {}
    await bed.let_pass(100_000)
    assert (await bed.leases.expire(10)).whos == [f"c2|{ADDR}"]
    after = await bed.contents()
    assert (after["brokers"], after["clusters"], after["topics"]) == ({}, {}, {})
    assert await bed.replay() == after


async def test_a_name_that_is_gone_stays_gone_while_its_old_address_expires_under_two_clusters(bed, watched):
    """Both entries of one address still name it, so the first is no reason to keep it: no row without an address."""
    await bed.register("10.0.0.2:1", "broker-b")
    await bed.register("10.0.0.2:1", "broker-b", cluster="c2")
    await bed.register("10.0.0.3:1", "broker-b")  # takes the id from both
    await bed.routes.unregister_broker("c1", "10.0.0.3:1", "broker-b", 0)
    assert await bed.redis("EXISTS", bed.key("broker:broker-b")) == 0
    await bed.let_pass(100_000)
    await bed.register("10.0.0.4:1", "broker-c")  # keeps the cluster, where the other entry is looked for
    await bed.register("10.0.0.5:1", "broker-d", cluster="c2")
    await bed.let_pass(30_000)
    assert sorted((await bed.leases.expire(10)).whos) == ["c1|10.0.0.2:1", "c2|10.0.0.2:1"]
    assert await bed.redis("EXISTS", bed.key("broker:broker-b")) == 0
    assert await bed.contents() == await bed.replay()
    await bed.register("10.0.0.2:1", "broker-b")  # it can come back
