"""Every event says who caused it: what the script is told, and without that this process."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec
import pytest
from redis import exceptions

from mqregistry.errors import StoreError
from mqregistry.events.by import ANONYMOUS, By, this_process
from mqregistry.events.changes import BrokerRegistered, TopicDeleted, decode_change
from mqregistry.model import QueueData
from mqregistry.store import keys, scripts
from mqregistry.store.store import Store

from .bed import Bed, registration

LUA = Path(__file__).resolve().parents[2] / "lua"
SCRIPTS = scripts.load()
ALICE = By("signature", "alice", "10.0.0.9:50123", "10.0.0.2:443", "ns1:9876")
OLD_BROKER = By(ANONYMOUS, peer="10.0.0.1:10911", front_end="ns1:9876")


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_told_who_calls_if_its_header_has_events(name):
    header = (LUA / f"{name}.lua").read_text().split("]]\n")[0]
    events = re.search(r"EVENTS +(.*)", header)[1]
    assert SCRIPTS[name].emits == (not events.startswith("none"))


async def write_everything(bed: Bed, by: By) -> None:
    """Every write that a request causes."""
    routes, kv = bed.routes, bed.kv
    r = registration()
    prepared = await bed.fe1.prepare(r)
    assert (await routes.register_broker(r, prepared.diff, channel=prepared.channel, by=by)).status == "OK"
    await routes.set_write_perm("broker-a", "wipe", by=by)
    await routes.register_topic("given", [("broker-a", QueueData(4, 4, 6))], by=by)
    await routes.delete_topic("t1", by=by)
    await kv.put("ns", "key", "value", by=by)
    await kv.delete("ns", "key", by=by)
    await kv.set_config({"orderMessageEnable": "true"}, by=by)
    await routes.channel_destroyed("c1|10.0.0.1:10911", prepared.channel, by=by)
    await bed.register()
    await bed.events()
    await routes.unregister_broker("c1", "10.0.0.1:10911", "broker-a", by=by)


async def test_what_a_request_changes_says_who_sent_it(bed):
    r = registration()
    await write_everything(bed, ALICE)
    (left,) = await bed.events()
    assert (left.type, left.by) == ("broker_unregistered", ALICE)
    entries = await bed.store.client.xrange(keys.changes(bed.store.namespace))
    told = [decode_change(fields[b"e"]) for _, fields in entries]
    assert [change.type for change in told if change.by == ALICE] == [
        "broker_registered", "write_perm_set", "topic_registered", "topic_deleted", "kv_put", "kv_deleted",
        "config_set", "broker_closed", "broker_unregistered",
    ]  # fmt: skip
    assert [change.by for change in told if change.by != ALICE] == [bed.store.by], r


async def test_what_nobody_asked_for_says_which_process_did_it(bed):
    await bed.leases.renew("w1")
    silent = await bed.register("10.0.0.7:10911", "broker-silent")
    await bed.let_pass(bed.fe1.default_timeout_ms + 1)
    assert (await bed.leases.expire(50)).whos == [f"c1|{silent.broker_addr}"]
    bed.fe1.front_end = "direct:w1"
    await bed.register("10.0.0.8:10911", "broker-of-a-dead-process")
    await bed.leases.release("w1")
    await bed.leases.expire(50)
    assert [(change.type, change.by) for change in await bed.events()] == [
        ("broker_registered", bed.store.by), ("broker_expired", bed.store.by),
        ("broker_registered", bed.store.by), ("broker_reaped", bed.store.by),
    ]  # fmt: skip
    assert bed.store.by.peer.endswith(f"/{os.getpid()}")


async def test_each_part_of_a_large_change_says_who_caused_it(bed):
    r = registration(topics=[f"t{i}" for i in range(1100)])
    prepared = await bed.fe1.prepare(r)
    await bed.routes.register_broker(r, prepared.diff, by=ALICE)
    changes = await bed.events()
    assert [(change.parts, change.by) for change in changes] == [(3, ALICE)] * 3
    assert await bed.replay() == await bed.contents()


async def test_a_heartbeat_that_changes_nothing_is_told_nothing_more(bed):
    r = registration()
    await bed.register()
    sent = []

    async def call(name, *arguments, **by):
        sent.append((name, len(arguments), by))
        return await Store.call(bed.store, name, *arguments, **by)

    bed.routes._call = call
    assert (await bed.fe1.prepare(r, connection=r.broker_addr)).heartbeat.same
    assert sent == [("heartbeat", 9, {})]
    assert not SCRIPTS["heartbeat"].emits


async def test_a_changed_registration_grows_by_less_than_150_bytes(bed):
    longest = By("signature", "broker-a", "192.168.100.100:54321", "192.168.100.101:54321", "mq-namesrv-0:9876")
    r = registration()
    prepared = await bed.fe1.prepare(r)
    await bed.routes.register_broker(r, prepared.diff, by=longest)
    ((_, fields),) = await bed.store.client.xrange(keys.changes(bed.store.namespace))
    event = msgspec.json.decode(fields[b"e"])
    without = len(msgspec.json.encode({name: value for name, value in event.items() if name != "by"}))
    assert len(msgspec.json.encode(event)) - without < 150
    assert len(b',"by":' + OLD_BROKER.encoded()) < 90


async def test_an_event_without_it_is_read_as_before(bed):
    head = b'{"seq":1,"ms":1,"type":"broker_registered","broker_name":"a"'
    assert decode_change(head + b"}") == BrokerRegistered(1, 1, broker_name="a")
    later = decode_change(head + b',"by":{"how":"telepathy","mood":"calm","user":"u"}}')
    assert later.by == By("telepathy", "u")


async def test_foreign_text_reaches_the_event_as_it_is(bed):
    by = By("certificate", 'CN="a"\\\n\x1b[2J \u4e2d\u6587 ]]', "unix:/run/x")
    await bed.kv.put("ns", "key", "value", by=by)
    (change,) = await bed.events()
    assert change.by == by


async def test_a_call_that_does_not_say_who_changes_nothing(bed):
    """As a caller of another kind would make it: the last argument must not be lost as an author."""
    script = SCRIPTS["put_kv"]
    with pytest.raises(exceptions.ResponseError, match="MQBY the last argument is not the author"):
        await bed.store.client.eval(script.source, 1, keys.meta(bed.store.namespace), "ns", "key", "1", "value")
    assert await bed.events() == []
    assert (await bed.contents())["kv"] == {}


async def test_who_is_no_argument_of_a_scripts_own(bed):
    """Scripts that take any number of arguments do not take it for one of these."""
    await bed.register()
    await bed.kv.set_config({"a": "1"}, by=ALICE)
    await bed.routes.register_topic("given", [("broker-a", QueueData(1, 1, 6))], by=ALICE)
    await bed.give_back("kv", "ns", [("k", "v")])
    contents = await bed.contents()
    assert contents["config"] == {"a": "1"}
    assert contents["topics"]["given"].keys() == {"broker-a"}
    assert contents["kv"] == {"ns": {"k": "v"}}


async def test_redis_user_of_a_program_is_told(redis_url, namespace):
    for url, user in (
        (redis_url, None), ("redis://h1", None), ("redis://:secret@h1", None), ("redis://ops:secret@h1", "ops"),
        ("redis+sentinel://%C3%A4:secret@h1,h2/m", "\u00e4"), ("rediss+cluster://ops:secret@h1,h2", "ops"),
    ):  # fmt: skip
        store = Store(url, namespace)
        assert store.by == this_process("direct", login=user)
        await store.close()


async def test_a_deleted_topic_says_what_it_was(bed):
    await bed.register(topics={"t1": (4, 8, 6), "t2": (1, 1, 6)})
    await bed.register("10.0.0.2:10911", "broker-b", topics={"t1": (2, 2, 4), "t3": (1, 1, 6)})
    await bed.events()
    await bed.routes.delete_topic("t1", by=ALICE)
    (change,) = await bed.events()
    assert isinstance(change, TopicDeleted)
    assert change.before == {"broker-a": QueueData(4, 8, 6), "broker-b": QueueData(2, 2, 4)}
    await bed.routes.delete_topic("t1", by=ALICE)
    assert await bed.events() == []


async def test_a_topic_of_very_many_brokers_is_deleted_without_what_it_was(bed):
    for number in range(501):
        await bed.redis("SADD", bed.key("brokers"), f"b{number}")
        await bed.redis("HSET", bed.key(f"queues:b{number}"), "everywhere", '{"r":1,"w":1,"p":6,"f":0}')
    await bed.routes.delete_topic("everywhere")
    (change,) = await bed.events()
    assert (len(change.broker_names), change.before) == (501, {})


def test_too_few_arguments_are_counted_without_it():
    with pytest.raises(StoreError, match="takes 2 arguments, called with 1"):
        SCRIPTS["delete_kv"].check(["only one"])
