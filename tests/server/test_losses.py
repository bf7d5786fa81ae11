"""A Redis that lost changes gets back what a front end knows, and writes meanwhile act on what is served."""

from __future__ import annotations

import asyncio

import pytest

from mqregistry.protocol.command import Command, decode_command
from mqregistry.server.net.run_write import run_write
from mqregistry.server.requests.writes import WRITES
from mqregistry.server.view.freshness import Freshness
from mqregistry.store import keys
from mqregistry.store.change_reader import ChangeReader
from mqregistry.store.config_writes import KvStore
from mqregistry.store.snapshot import read_tables
from mqregistry.store.store import Store
from mqregistry.tables.tables import Tables
from tests.waiting import until

from .harness import Broker
from .here import Here, Peer


async def everything(here):
    client = here.store.client
    return {key: await client.dump(key) for key in await client.keys(f"{keys.prefix(here.store.namespace)}*")}


async def back_to(here, saved):
    """Redis is started with an older state; {}: with none."""
    client = here.store.client
    present = await client.keys(f"{keys.prefix(here.store.namespace)}*")
    pipeline = client.pipeline(transaction=True)
    if present:
        pipeline.delete(*present)
    for key, value in saved.items():
        pipeline.restore(key, 0, value)
    await pipeline.execute()


async def send(here, code, body=b"", **fields):
    command = Command(code=code, opaque=1, version=479, ext_fields=fields, body=body)
    reply = await run_write(here.front_end, WRITES[code], command, 1, Peer())
    return decode_command(reply[4:])


async def noticed(here, load_id):
    await here.lease_loop.renew()
    await until(lambda: here.view.load_id > load_id, "the tables are read again")


async def replayed(here):
    tables = Tables()
    for change in await ChangeReader(here.store, "0-0").read(block_ms=0):
        tables.apply(change)
    return tables.contents()


async def agree(here):
    _, tables = await read_tables(here.store)
    assert here.view.tables.contents() == tables.contents()


@pytest.fixture
def here(redis_url, runner):
    one = Here(redis_url)
    runner.run(one.__aenter__())
    yield one
    runner.run(one.__aexit__())


@pytest.fixture
def other(redis_url, here, runner):
    one = Here(redis_url, here.store.namespace)
    runner.run(one.__aenter__())
    yield one
    runner.run(one.__aexit__())


BROKER = Broker(topics=["topic1", "topic2"], counter=3)
QUEUES = b'{"queueDatas":[{"brokerName":"broker-a","readQueueNums":2,"writeQueueNums":2,"perm":6,"topicSysFlag":0}]}'
READ_ONLY = QUEUES.replace(b'"perm":6', b'"perm":4')


async def test_an_emptied_redis_gets_everything_back(here):
    assert (await here.register(BROKER)).code == 0
    await send(here, 100, namespace="ns", key="k", value="v")
    await send(here, 318, b"orderMessageEnable=true")
    known = here.view.tables.contents()
    info = dict(here.view.lives.by_who)
    load_id = here.view.load_id
    await back_to(here, {})
    await noticed(here, load_id)
    after = here.view.tables.contents()
    for name in ("topics", "clusters", "kv", "config", "broker_topics"):
        assert after[name] == known[name]
    assert after["brokers"]["broker-a"].broker_addrs == known["brokers"]["broker-a"].broker_addrs
    assert here.view.lives.by_who == info
    await agree(here)
    assert (await replayed(here))["topics"] == known["topics"]
    await here.lease_loop.renew()
    assert here.view.freshness is Freshness.AWAITING
    assert here.view.awaited
    assert (await here.register(BROKER)).code == 0
    await until(lambda: not here.view.awaited, "it has registered again")


async def unregister(here):
    return await send(
        here, 104, brokerAddr=BROKER.addr, brokerId="0", brokerName="broker-a", clusterName=BROKER.cluster
    )


async def wiped(here):
    return await send(here, 205, brokerName="broker-a")


async def writable(here):
    return await send(here, 327, brokerName="broker-a")


async def deleted(here):
    return await send(here, 216, topic="topic1")


async def registered_topic(here):
    return await send(here, 217, QUEUES, topic="by-hand")


async def set_value(here):
    return await send(here, 318, b"orderMessageEnable=true")


async def put(here):
    return await send(here, 100, namespace="ns", key="k", value="new")


async def forgotten(here):
    return await send(here, 102, namespace="ns", key="k")


def perms(tables):
    return {topic: {name: data.perm for name, data in of.items()} for topic, of in tables.topics.items()}


EFFECTS = {
    unregister: lambda tables: not tables.brokers and not tables.topics,
    wiped: lambda tables: set(perms(tables)["topic1"].values()) == {4},
    writable: lambda tables: perms(tables)["read-only"] == {"broker-a": 6},
    deleted: lambda tables: "topic1" not in tables.topics and "topic2" in tables.topics,
    registered_topic: lambda tables: "by-hand" in tables.topics,
    set_value: lambda tables: tables.config.get("orderMessageEnable") == "true",
    put: lambda tables: tables.kv["ns"]["k"] == "new",
    forgotten: lambda tables: "k" not in tables.kv["ns"],
}
WRITE = pytest.mark.parametrize("write", list(EFFECTS), ids=lambda write: write.__name__)


async def prepared(here, other):
    assert (await here.register(BROKER)).code == 0
    assert (await send(here, 100, namespace="ns", key="k", value="old")).code == 0
    assert (await send(here, 217, READ_ONLY, topic="read-only")).code == 0
    await until(lambda: other.view.seq == here.view.seq, "both know it")


@WRITE
@pytest.mark.parametrize("made_anew", [False, True], ids=["emptied", "made anew by another process"])
async def test_a_write_while_redis_lacks_what_is_served_acts_on_that(redis_url, here, other, write, made_anew):
    """C: nobody has noticed that Redis is empty; the write is answered 0, and then has its effect everywhere."""
    await prepared(here, other)
    await back_to(here, {})
    if made_anew:
        async with Store(redis_url, here.store.namespace) as third:
            await third.init_namespace()
    assert (await write(here)).code == 0
    assert EFFECTS[write](here.view.tables)
    await other.lease_loop.renew()
    await until(lambda: other.view.epoch == here.view.epoch and other.view.seq >= here.view.seq, "the other one, too")
    for one in (here, other):
        assert EFFECTS[write](one.view.tables)
        await agree(one)


@WRITE
@pytest.mark.parametrize("who", ["the writer", "the other one", "both"])
async def test_a_write_that_redis_lost_is_given_back(here, other, write, who):
    """D: acknowledged and seen; then Redis starts with the saved state."""
    await prepared(here, other)
    saved = await everything(here)
    assert (await write(here)).code == 0
    await until(lambda: other.view.seq == here.view.seq, "both have seen it")
    await back_to(here, saved)
    loads = here.view.load_id, other.view.load_id
    if who != "the other one":
        await noticed(here, loads[0])
    if who != "the writer":
        await noticed(other, loads[1])
    await until(lambda: here.view.seq == other.view.seq, "both follow it")
    for one in (here, other):
        assert EFFECTS[write](one.view.tables)
        await agree(one)


@WRITE
async def test_a_write_is_not_lost_by_two_losses_in_a_row(here, other, write):
    await prepared(here, other)
    saved = await everything(here)
    assert (await write(here)).code == 0
    for _ in range(2):
        await until(lambda: other.view.seq == here.view.seq and other.view.epoch == here.view.epoch, "both know it")
        await back_to(here, saved)
        load_id = here.view.load_id
        await noticed(here, load_id)
        assert EFFECTS[write](here.view.tables)
        await other.lease_loop.renew()
    await until(lambda: other.view.seq == here.view.seq, "the other one, too")
    assert EFFECTS[write](other.view.tables)
    await agree(other)


async def test_what_was_changed_after_the_loss_stays(here, other):
    """The new history touched these cells; every other one is as it was known."""
    await prepared(here, other)
    saved = await everything(here)
    await set_value(here)
    await put(here)
    await deleted(here)
    await back_to(here, saved)
    async with Store(here.store.url, here.store.namespace) as direct:
        await KvStore(direct).put("ns", "k", "after")
    await noticed(here, here.view.load_id)
    assert here.view.tables.kv["ns"]["k"] == "after"
    assert EFFECTS[set_value](here.view.tables)
    assert EFFECTS[deleted](here.view.tables)
    await agree(here)


@pytest.mark.parametrize("clock", [-60_000, 60_000], ids=["behind", "ahead"])
async def test_the_clock_of_redis_after_a_loss_does_not_matter(here, other, clock):
    """Its entries have ids below, or far above, those of the lost ones; numbers are taken again."""
    await prepared(here, other)
    saved = await everything(here)
    for write in (set_value, put, deleted):
        await write(here)
    lost_seq = here.view.seq
    await back_to(here, saved)
    stream, client = keys.changes(here.store.namespace), here.store.client
    await client.hset(keys.meta(here.store.namespace), "clock_offset_ms", clock)
    if clock > 0:
        last = int((await client.xrevrange(stream, count=1))[0][0].partition(b"-")[0])
        await client.execute_command("XSETID", stream, f"{last + clock}-0")
    async with Store(here.store.url, here.store.namespace) as direct:
        for number in range(4):
            seq = await KvStore(direct).put("ns", f"other{number}", "after")
    assert seq > lost_seq, "every lost number was taken again"
    await noticed(here, here.view.load_id)
    for write in (set_value, put, deleted):
        assert EFFECTS[write](here.view.tables)
    assert here.view.tables.kv["ns"]["other3"] == "after"
    await agree(here)


async def test_a_waiter_is_not_woken_when_another_change_takes_the_lost_number(here):
    await send(here, 100, namespace="ns", key="k", value="1")
    saved = await everything(here)
    waiting = asyncio.ensure_future(here.front_end.effects.wait_for(here.view.seq + 1, 60))
    await asyncio.sleep(0)
    here._tail.cancel()
    await asyncio.gather(here._tail, return_exceptions=True)
    await here.front_end.kv.put("ns", "lost", "1")
    await back_to(here, saved)
    async with Store(here.store.url, here.store.namespace) as direct:
        await KvStore(direct).put("ns", "another", "1")
        await KvStore(direct).put("ns", "another", "2")
    here.follower.look_again(has_lost=True)
    here._tail = asyncio.create_task(here.follower.tail())
    with pytest.raises(Exception, match="without this change"):
        await waiting


@pytest.mark.parametrize("clock", [0, -60_000, -3_600_000])
async def test_a_broker_that_comes_back_after_its_goodbye_was_lost_stays(here, other, clock):
    """Redis lost the 104; the broker is heard again before that is given back."""
    await prepared(here, other)
    saved = await everything(here)
    await unregister(here)
    await back_to(here, saved)
    await here.store.client.hset(keys.meta(here.store.namespace), "clock_offset_ms", clock)
    async with Here(here.store.url, here.store.namespace) as third:
        assert (await third.register(BROKER)).code == 0  # the same registration as in the saved state
    await noticed(here, here.view.load_id)
    assert here.view.tables.brokers


@pytest.mark.parametrize("clock", [-60_000, -3_600_000])
async def test_a_broker_that_left_and_did_not_come_back_is_gone_whatever_the_clock_is(here, other, clock):
    await prepared(here, other)
    await here.store.client.hincrby(f"{keys.prefix(here.store.namespace)}live:{BROKER.who}", "update_ms", -20_000)
    saved = await everything(here)
    await unregister(here)
    await back_to(here, saved)
    await here.store.client.hset(keys.meta(here.store.namespace), "clock_offset_ms", clock)
    await noticed(here, here.view.load_id)
    assert not here.view.tables.brokers
    await agree(here)


async def test_an_id_that_a_broker_took_and_redis_lost_is_its_own_again(here, other):
    """A slave became the master: until it registers again, it is not the slave that it was."""
    slave, master = (Broker(topics=["topic1", "topic2"], counter=3, broker_id=number) for number in (1, 0))
    assert (await here.register(Broker(addr="127.0.0.1:1", topics=["topic1", "topic2"]))).code == 0
    assert (await here.register(slave)).code == 0
    saved = await everything(here)
    assert (await here.register(master)).code == 0
    addrs = {0: master.addr}
    assert here.view.tables.brokers["broker-a"].broker_addrs == addrs
    await back_to(here, saved)
    await noticed(here, here.view.load_id)
    assert here.view.tables.brokers["broker-a"].broker_addrs == addrs
    await agree(here)
    assert (await here.register(master)).code == 0
    assert here.view.tables.brokers["broker-a"].broker_addrs == addrs


async def test_one_of_two_names_of_a_process_that_redis_lost_is_given_back(here, other):
    first, second = (Broker(name, topics=["topic1", f"only-{name}"]) for name in ("broker-a", "broker-b"))
    assert (await here.register(first)).code == 0
    saved = await everything(here)
    assert (await here.register(second)).code == 0
    await back_to(here, saved)
    await noticed(here, here.view.load_id)
    assert set(here.view.tables.brokers) == {"broker-a", "broker-b"}
    assert "only-broker-b" in here.view.tables.topics
    await agree(here)


@pytest.mark.parametrize("losses", [1, 2])
async def test_of_an_address_under_two_clusters_the_one_that_lives_is_given_back(here, losses):
    """It moved to another cluster over its connection; then Redis loses everything, once or twice."""
    first, now = (Broker(topics=["topic1", "topic2"], cluster=cluster) for cluster in ("c1", "c2"))
    assert (await here.register(first)).code == 0
    assert (await here.register(now)).code == 0
    for _ in range(losses):
        await back_to(here, {})
        await noticed(here, here.view.load_id)
        assert now.who in here.view.lives.by_who
        assert (await here.register(now)).code == 0
        # nobody says anything as the first one, for longer than its timeout
        here.view.awaited = {who: since - 1000 for who, since in (here.view.awaited or {}).items()}
    assert here.view.tables.brokers["broker-a"].broker_addrs == {0: now.addr}
    assert set(here.view.lives.by_who) == ({first.who, now.who} if losses == 1 else {now.who})
    await agree(here)


async def test_an_address_that_redis_has_again_under_two_clusters_leaves_both(here):
    first, now = (Broker(topics=["topic1", "topic2"], cluster=cluster) for cluster in ("c1", "c2"))
    for broker in (first, now):
        assert (await here.register(broker)).code == 0
        await here.store.client.hincrby(f"{keys.prefix(here.store.namespace)}live:{broker.who}", "update_ms", -20_000)
    saved = await everything(here)
    for broker in (first, now):
        await send(here, 104, clusterName=broker.cluster, brokerAddr=broker.addr, brokerName=broker.name, brokerId="0")
    assert not here.view.tables.brokers
    await back_to(here, saved)
    await noticed(here, here.view.load_id)
    assert not here.view.tables.brokers
    assert not here.view.lives.by_who
    await agree(here)


@pytest.mark.parametrize("first_knows_less", [True, False])
async def test_of_several_front_ends_the_one_that_knew_most_decides(here, other, first_knows_less):
    """One was cut off. Gives it back first, it is corrected; after the other one it gives back nothing that is gone."""
    await prepared(here, other)
    saved = await everything(here)
    await send(here, 100, namespace="ns", key="gone", value="1")
    await send(here, 100, namespace="ns", key="old", value="1")
    await until(lambda: other.view.seq == here.view.seq, "both know it")
    other._tail.cancel()
    await asyncio.gather(other._tail, return_exceptions=True)
    await send(here, 102, namespace="ns", key="gone")
    await send(here, 100, namespace="ns", key="old", value="2")
    here._tail.cancel()
    await asyncio.gather(here._tail, return_exceptions=True)
    await back_to(here, saved)
    for one in (other, here) if first_knows_less else (here, other):
        load_id = one.view.load_id
        one._tail = asyncio.create_task(one.follower.tail())
        await one.lease_loop.renew()
        await until(lambda one=one, load_id=load_id: one.view.load_id > load_id, "it has given back")
    await until(lambda: here.view.seq == other.view.seq, "both follow it")
    assert here.view.tables.kv["ns"] == other.view.tables.kv["ns"] == {"k": "old", "old": "2"}
