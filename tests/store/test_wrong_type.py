"""A key of the wrong type is an error that names it, and leaves nothing half written."""

from __future__ import annotations

import itertools

import pytest

from mqregistry.errors import StoreError
from mqregistry.model import QueueData

from .bed import registration

ADDR, SLAVE = "10.0.0.1:10911", "10.0.0.2:10911"
WHO = f"c1|{ADDR}"


async def break_key(bed, name):
    key = bed.key(name)
    await bed.redis("DEL", key)
    await bed.redis("SET", key, "no type of ours")
    return key


async def refused(bed, key, action):
    """The action fails, naming the key, and every other key stays as it was."""
    await bed.redis("DEL", bed.key("heartbeats"))
    before = await bed.dump()
    with pytest.raises(StoreError, match="WRONGTYPE") as caught:
        await action()
    after = await bed.dump()
    after.pop(bed.key("meta").encode())
    before.pop(bed.key("meta").encode())
    assert after == before
    return str(caught.value)


NEW = registration(
    SLAVE, "broker-n", topics=["t1", "t9"], filter_servers=["f"], mappings={"t1": ("broker-n", "{}")}, cluster="c9"
)
TABLES = [
    "clusters", "brokers", "cluster:c9", "broker:broker-n", "queues:broker-n", "mappings", "mapping:t1",
    f"filter:c9|{SLAVE}", "deadlines", f"live:c9|{SLAVE}",
    f"channels:c9|{SLAVE}", "held:w1", "leases", "changes",
]  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
async def test_register_broker_writes_nothing(bed, name):
    await bed.register()
    prepared = await bed.fe1.prepare(NEW)
    key = await break_key(bed, name)
    text = await refused(bed, key, lambda: bed.fe1.send_once(prepared))
    if name in ("queues:broker-n", "deadlines", "changes", "held:w1"):
        assert key in text
        assert "string" in text


async def test_register_broker_that_drops_topics_writes_nothing(bed):
    await bed.register(topics=["t1", "t2", "t3"])
    prepared = await bed.fe1.prepare(registration(topics=["t1", "t2"], counter=2), delete_missing_topics=True)
    key = await break_key(bed, "queues:broker-a")
    await refused(bed, key, lambda: bed.fe1.send_once(prepared))


async def test_register_broker_mends_itself_when_the_key_is_gone(bed):
    await break_key(bed, "queues:broker-a")
    r = registration()
    prepared = await bed.fe1.prepare(r)
    with pytest.raises(StoreError):
        await bed.fe1.send_once(prepared)
    await bed.redis("DEL", bed.key("queues:broker-a"))
    assert (await bed.fe1.send_once(prepared)).status == "OK"
    assert await bed.replay() == await bed.contents()


REMOVAL = ["brokers", "clusters", "cluster:c1", "broker:broker-a", "deadlines",
           f"channels:{WHO}", "held:w1", "changes", f"live:{WHO}"]  # fmt: skip


@pytest.mark.parametrize("name", REMOVAL)
async def test_unregister_broker_writes_nothing(bed, name):
    await bed.register()
    key = await break_key(bed, name)
    await refused(bed, key, lambda: bed.routes.unregister_broker("c1", ADDR, "broker-a"))


@pytest.mark.parametrize("name", [name for name in REMOVAL if name not in (f"channels:{WHO}",)])
async def test_channel_destroyed_writes_nothing(bed, name):
    r = await bed.register()
    key = await break_key(bed, name)
    await refused(bed, key, lambda: bed.fe1.close(r, connection=ADDR))


@pytest.mark.parametrize("name", REMOVAL)
async def test_expire_brokers_writes_nothing(bed, name):
    await bed.leases.expire(10)
    await bed.let_pass(300_000)
    await bed.register()
    await bed.let_pass(121_000)
    key = await break_key(bed, name)
    await refused(bed, key, lambda: bed.leases.expire(10))


async def test_wipe_at_a_removal_writes_nothing(bed):
    await bed.register(enable_acting_master=True, topics=[f"t{i}" for i in range(20)])
    await bed.register(SLAVE, broker_id=1, enable_acting_master=True)
    key = await break_key(bed, "queues:broker-a")
    await refused(bed, key, lambda: bed.routes.unregister_broker("c1", ADDR, "broker-a"))


async def test_removal_takes_queue_data_away_that_is_no_hash(bed):
    """It must not keep a dead broker in the tables."""
    await bed.register()
    await break_key(bed, "queues:broker-a")
    await bed.routes.unregister_broker("c1", ADDR, "broker-a")
    assert await bed.members("brokers") == set()
    assert await bed.redis("EXISTS", bed.key("queues:broker-a")) == 0
    assert await bed.replay() == await bed.contents()


@pytest.mark.parametrize("name", ["queues:broker-a", "broker:broker-a", "wiping", "changes"])
async def test_set_write_perm_writes_nothing(bed, name):
    await bed.register(topics=[f"t{i}" for i in range(20)])
    key = await break_key(bed, name)
    await refused(bed, key, lambda: bed.routes.set_write_perm("broker-a", "wipe"))


@pytest.mark.parametrize("name", ["brokers", "broker:broker-b", "queues:broker-a", "queues:broker-b", "changes"])
async def test_delete_topic_writes_nothing(bed, name):
    await bed.register()
    await bed.register(SLAVE, "broker-b")
    key = await break_key(bed, name)
    await refused(bed, key, lambda: bed.routes.delete_topic("t1"))


async def test_delete_topic_of_a_cluster_that_is_no_set_writes_nothing(bed):
    await bed.register()
    key = await break_key(bed, "cluster:c1")
    await refused(bed, key, lambda: bed.routes.delete_topic("t1", "c1"))


@pytest.mark.parametrize("name", ["brokers", "broker:broker-b", "queues:broker-b", "changes"])
async def test_register_topic_writes_nothing(bed, name):
    await bed.register()
    await bed.register(SLAVE, "broker-b")
    key = await break_key(bed, name)
    pairs = [("broker-a", QueueData(1, 1, 6)), ("broker-b", QueueData(1, 1, 6))]
    await refused(bed, key, lambda: bed.routes.register_topic("t1", pairs))


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        *itertools.product(("put", "restore"), ("kv", "kv:ns", "changes")),
        *itertools.product(("delete",), ("kv:ns", "changes")),
    ],
)
async def test_kv_writes_nothing(bed, name, operation):
    await bed.kv.put("ns", "a", "1")
    key = await break_key(bed, name)
    action = {
        "put": lambda: bed.kv.put("ns", "b", "2"),
        "delete": lambda: bed.kv.delete("ns", "a"),
        "restore": lambda: bed.give_back("kv", "ns", [("b", "2")]),
    }[operation]
    await refused(bed, key, action)


@pytest.mark.parametrize("name", ["config", "changes"])
async def test_set_config_writes_nothing(bed, name):
    key = await break_key(bed, name)
    await refused(bed, key, lambda: bed.kv.set_config({"a": "1"}))
    assert (await bed.hash("meta"))["config_rev"] == "0"


@pytest.mark.parametrize("name", ["deadlines", f"channels:{WHO}", "held:w2", "leases", "heartbeats"])
@pytest.mark.parametrize("operation", ["heartbeat", "touch"])
async def test_sign_of_life_writes_nothing(bed, name, operation):
    r = await bed.register()
    key = await break_key(bed, name)
    before = await bed.dump()
    action = {
        "heartbeat": lambda: bed.fe2.register(r),
        "touch": lambda: bed.routes.touch_broker("c1", ADDR, bed.fe2.channel()),
    }[operation]
    with pytest.raises(StoreError, match="WRONGTYPE") as caught:
        await action()
    assert key in str(caught.value)
    assert await bed.dump() == before


@pytest.mark.parametrize(
    ("name", "reading"), [("mapping:t1", "snapshot in"), ("queues:broker-a", r"reading namespace.*queues:broker-a")]
)
async def test_snapshot_fails_and_the_error_names_the_script_or_the_key(bed, name, reading):
    await bed.register(mappings={"t1": ("broker-a", "{}")})
    await break_key(bed, name)
    with pytest.raises(StoreError, match=f"{reading}.*WRONGTYPE") as caught:
        await bed.tables()
    assert bed.store.namespace in str(caught.value)


async def test_queue_data_that_cannot_be_read_is_named(bed):
    await bed.register()
    await bed.redis("HSET", bed.key("queues:broker-a"), "t1", "rubbish")
    with pytest.raises(StoreError, match="topic 't1' holds queue data that cannot be read"):
        await bed.tables()


async def test_change_that_cannot_be_read_is_named(bed):
    await bed.redis("XADD", bed.key("changes"), "7-7", "e", '{"seq":"x"}')
    with pytest.raises(StoreError, match=r"entry 7-7 of .*changes is no event of this release"):
        await bed.events()
    assert bed.reader.last_id == "0-0"
