"""heartbeat: the one round trip that most registrations are."""

from __future__ import annotations

import pytest

from mqregistry.model import DataVersion

from .bed import digest_of, registration


async def beat(bed, r, *, front_end=None, connection="c", digest=None):
    front_end = front_end or bed.fe1
    return await front_end.routes.heartbeat(
        r.cluster, r.broker_name, r.broker_id, r.broker_addr, digest or digest_of(r),
        front_end.channel(connection), 123,
    )  # fmt: skip


async def test_heartbeat_of_an_unknown_broker_is_declined_without_a_version(bed):
    answer = await beat(bed, registration())
    assert (answer.same, answer.n, answer.data_version) == (False, "0", None)
    dump = await bed.dump()
    assert [key for key in dump if key.startswith(b"mq:")] == [bed.key("meta").encode()]


async def test_heartbeat_with_the_same_registration_refreshes_and_tells_nobody(bed):
    r = await bed.register()
    await bed.events()
    seq = (await bed.head()).seq
    await bed.let_pass(10_000)
    before = await bed.now_ms()
    answer = await beat(bed, r)
    assert (answer.same, answer.seq) == (True, seq)
    assert before + 120_000 <= await bed.deadline(r) <= await bed.now_ms() + 120_000
    assert int((await bed.live(r))["update_ms"]) >= before
    assert 0 < await bed.redis("PTTL", bed.key("beat:c1|10.0.0.1:10911")) <= 120_000
    assert await bed.events() == []
    last = (await bed.beats())[-1]
    assert (last["kind"], last["who"], last["front_end"], last["bytes"]) == ("same", "c1|10.0.0.1:10911", "fe1", 123)
    assert 10_000 <= last["interval_ms"] <= 15_000


async def test_heartbeat_repeated_answers_the_same(bed):
    r = await bed.register()
    assert await beat(bed, r) == await beat(bed, r)
    assert len(await bed.events()) == 1


async def test_heartbeat_takes_the_channel_and_clears_closed_at(bed):
    r = await bed.register()
    await bed.redis("HSET", bed.key("live:c1|10.0.0.1:10911"), "closed_at", "5")
    await beat(bed, r, front_end=bed.fe2, connection="other")
    assert await bed.channels(r) == {"fe1": "w1/10.0.0.1:10911", "fe2": "w2/other"}
    assert "closed_at" not in await bed.live(r)
    assert await bed.members("held:w2") == {"c1|10.0.0.1:10911"}


async def test_heartbeat_without_a_channel_leaves_the_channels(bed):
    r = await bed.register()
    answer = await bed.routes.heartbeat(r.cluster, r.broker_name, r.broker_id, r.broker_addr, digest_of(r))
    assert answer.same
    assert await bed.channels(r) == {"fe1": "w1/10.0.0.1:10911"}


async def test_heartbeat_with_another_digest_is_declined_with_what_is_known(bed):
    r = await bed.register(counter=7, timestamp=9, state_version=3)
    answer = await beat(bed, r, digest="other")
    assert (answer.same, answer.n, answer.data_version) == (False, "1", DataVersion(7, 9, 3))


@pytest.mark.parametrize(
    "change",
    [
        lambda bed: bed.routes.delete_topic("t1"),
        lambda bed: bed.routes.set_write_perm("broker-a", "wipe"),
        lambda bed: bed.register("10.0.0.2:10911", broker_id=1),
        lambda bed: bed.kv.set_config({"deleteTopicWithBrokerRegistration": "true"}),
        lambda bed: bed.routes.unregister_broker("c1", "10.0.0.1:10911", "broker-a"),
    ],
    ids=["topic deleted", "perm wiped", "a slave came", "settings changed", "it left"],
)
async def test_heartbeat_after_the_tables_moved_is_declined(bed, change):
    r = await bed.register()
    assert (await beat(bed, r)).same
    await change(bed)
    assert not (await beat(bed, r)).same
    assert isinstance(await bed.register(), type(r))
    assert (await beat(bed, r)).same


async def test_heartbeat_after_another_brokers_change_still_counts(bed):
    r = await bed.register()
    await bed.register("10.0.0.9:10911", "broker-b", topics=["t1", "t9"])
    await bed.routes.set_write_perm("broker-b", "wipe")
    await bed.kv.put("ns", "key", "value")
    assert (await beat(bed, r)).same


async def test_heartbeat_of_a_slave_names_its_living_master(bed):
    await bed.register()
    slave = await bed.register("10.0.0.2:10911", broker_id=1)
    answer = await beat(bed, slave)
    assert (answer.same, answer.master_addr, answer.ha_server_addr) == (True, "10.0.0.1:10911", "ha-10.0.0.1:10911")


async def test_heartbeat_of_a_slave_in_another_cluster_names_no_master(bed):
    await bed.register()
    slave = await bed.register("10.0.0.2:10911", broker_id=1, cluster="c2")
    answer = await beat(bed, slave)
    assert (answer.same, answer.master_addr, answer.ha_server_addr) == (True, "", None)


async def test_heartbeat_of_a_master_names_none(bed):
    r = await bed.register()
    assert (await beat(bed, r)).master_addr == ""
