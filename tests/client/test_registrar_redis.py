"""BrokerRegistrar that writes to Redis itself, beside a front end that reads what it wrote."""

from __future__ import annotations

import asyncio
import secrets
import signal
import subprocess
import sys

import pytest

from mqregistry.client.broker.registrar import BrokerRegistrar, RedisWriter, TopicTable
from mqregistry.errors import ConfigError
from mqregistry.model import QueueData, TopicConfig, TopicQueueMapping
from mqregistry.protocol.codes import RequestCode
from mqregistry.store.leases import LeaseStore
from mqregistry.store.store import Store
from tests.server.harness import FrontEnd
from tests.store.bed import Bed, registration
from tests.store.bed import FrontEnd as DirectFrontEnd
from tests.waiting import until

from .registrar_bed import NEVER, SHORT, broker, brokers_at, queues_at, table

WHO = "c1|127.0.0.1:10911"


@pytest.fixture
def registrar_of(redis_url, namespace):
    def make(config=None, topics=None, **options):
        options = {"pace": NEVER, "redis": redis_url, "namespace": namespace} | options
        return BrokerRegistrar(config or broker(), topics or table(), transport="redis", **options)

    return make


async def test_registers_and_says_goodbye(bed, registrar_of):
    async with registrar_of() as registrar:
        (result,) = registrar.results.values()
        assert (result.status, result.error) == ("registered", "")
        tables = await bed.tables()
        assert tables.brokers["broker-a"].broker_addrs == {0: "127.0.0.1:10911"}
        assert tables.topics == {topic: {"broker-a": QueueData(8, 8, 6)} for topic in ("t1", "t2")}
        (lease,) = await bed.members("leases")
        assert (await bed.hash(f"channels:{WHO}")).keys() == {f"direct:{lease}"}
    assert set(registrar.unregistered.values()) == {""}
    assert (await bed.tables()).brokers == {}
    assert await bed.members("leases") == set()
    assert await bed.replay() == await bed.contents()


async def test_namespace_of_compat_48_gets_what_48_understands(redis_url, namespace):
    async with Store(redis_url, namespace, compat="4.8") as store:
        await store.connect()
        bed = Bed(store)
        topics = TopicTable([TopicConfig("t1", 8, 8, 6)])
        writer = RedisWriter(redis_url, namespace, compat="4.8")
        config = broker(zone_name="z1", enable_slave_acting_master=True, filter_servers=("127.0.0.1:1",))
        registrar = BrokerRegistrar(config, topics, transport="redis", redis=writer, pace=NEVER)
        async with writer, registrar:
            tables = await bed.tables()
            (row,) = tables.brokers.values()
            assert (row.zone_name, row.enable_acting_master) == (None, False)
            assert tables.topics == {"t1": {"broker-a": QueueData(8, 8, 6)}}
            assert tables.filter_servers == {"|127.0.0.1:10911": ["127.0.0.1:1"]}
            await bed.routes.delete_topic("t1", "c1")
            await registrar.register_now()
            assert (await bed.tables()).topics == {}
        assert (await bed.tables()).brokers == {}
        assert await bed.redis("ZCARD", bed.key("deadlines")) == 0


async def test_changes_and_periods_are_as_over_a_name_server(bed, registrar_of):
    mapping = TopicQueueMapping("t1", "broker-a", 8, 3, False, "__global__", {0: 0})
    topics = TopicTable([TopicConfig("t1", 8, 8, 6), TopicConfig("t2", 8, 8, 6)], [mapping])
    config = broker(filter_servers=("127.0.0.1:1",), zone_name="z1")
    async with registrar_of(config, topics, pace=SHORT) as registrar:
        topics.put_topic("t3", 1, 2, 4)
        await registrar.register_now()
        tables = await bed.tables()
        assert tables.topics["t3"] == {"broker-a": QueueData(1, 2, 4)}
        assert tables.filter_servers == {WHO: ["127.0.0.1:1"]}
        assert tables.brokers["broker-a"].zone_name == "z1"
        assert '"totalQueues":8' in tables.mappings["t1"]["broker-a"]
        before = len(await bed.events())
        beats = len(await bed.beats())

        async def has_beaten():
            return len(await bed.beats()) >= beats + 5

        await until(has_beaten, "five more heartbeats")
        assert before > 0
        assert await bed.events() == []  # periods that bring nothing new write nothing
        await bed.routes.delete_topic("t3")

        async def has_topic():
            return "t3" in (await bed.tables()).topics

        await until(has_topic, "the topic is back")
    assert await bed.replay() == await bed.contents()


async def test_many_topics_are_compared_page_by_page(bed, registrar_of):
    topics = table(*(f"t{number}" for number in range(2500)))
    async with registrar_of(broker(), topics) as registrar:
        assert len((await bed.tables()).topics) == 2500
        await bed.events()
        topics.put_topic("t2400", 1, 1)
        await registrar.register_now()
        (event,) = await bed.events()
        assert event.topics == {"t2400": QueueData(1, 1, 6)}


async def test_a_single_topic_a_slave_and_the_order_configuration(bed, registrar_of):
    await bed.kv.put("ORDER_TOPIC_CONFIG", "only", "broker-a:8")
    topics = table("only")
    async with registrar_of(broker(), topics) as registrar:
        assert [result.status for result in registrar.results.values()] == ["registered"]
        assert "only" in (await bed.tables()).topics
        assert topics.order_topics == {"only"}
        slave = broker(broker_id=1, broker_addr="127.0.0.1:10921")
        async with registrar_of(slave) as follower:
            assert (follower.master_addr, follower.ha_server_addr) == ("127.0.0.1:10911", "127.0.0.1:10912")


async def test_topics_that_are_missing_go_where_the_registry_is_set_so(bed, registrar_of):
    await bed.kv.set_config({"deleteTopicWithBrokerRegistration": "true"})
    topics = table("t1", "t2", "t3")
    async with registrar_of(broker(incremental_register=False), topics) as registrar:
        topics.remove("t2")
        await registrar.register_now()
        assert set((await bed.tables()).topics) == {"t1", "t3"}


async def test_a_higher_state_version_of_another_address_is_not_overruled(bed, registrar_of):
    await bed.register("127.0.0.1:9", state_version=5)
    async with registrar_of() as registrar:
        (result,) = registrar.results.values()
        assert result.status == "refused"
        assert "higher stateVersion" in result.error
        assert (await bed.tables()).brokers["broker-a"].broker_addrs == {0: "127.0.0.1:9"}


# overtaking: somebody else writes between the comparison and the write


def interrupted(registrar, before_write, times=1):
    """Let ``before_write`` run between the comparison and the write, the first ``times`` times."""
    (loop, _) = next(iter(registrar._loops.values()))
    routes = loop.target._writer.routes
    write, left = routes.register_broker, [times]

    async def register_broker(*arguments, **options):
        if left[0]:
            left[0] -= 1
            await before_write()
        return await write(*arguments, **options)

    routes.register_broker = register_broker


async def test_a_topic_deleted_between_comparison_and_write_is_written(bed, registrar_of):
    topics = table("t1", "t2")
    async with registrar_of(broker(), topics) as registrar:
        interrupted(registrar, lambda: bed.routes.delete_topic("t1"))
        topics.put_topic("t3")
        await registrar.register_now()
        assert set((await bed.tables()).topics) == {"t1", "t2", "t3"}
    assert await bed.replay() == await bed.contents()


async def test_a_wipe_between_comparison_and_write_is_seen(bed, registrar_of):
    topics = table("t1", "t2")
    async with registrar_of(broker(), topics) as registrar:
        interrupted(registrar, lambda: bed.routes.set_write_perm("broker-a", "wipe"))
        topics.put_topic("t3")
        await registrar.register_now()
        found = (await bed.tables()).topics
        # the version is a new one: all of the broker's topics are as it says, as over a name server
        assert {found[topic]["broker-a"].perm for topic in ("t1", "t2", "t3")} == {6}


async def test_the_broker_removed_between_comparison_and_write_is_there_again(bed, registrar_of):
    topics = table("t1", "t2")
    async with registrar_of(broker(), topics) as registrar:
        interrupted(registrar, lambda: bed.routes.unregister_broker("c1", "127.0.0.1:10911", "broker-a"))
        topics.put_topic("t3")
        await registrar.register_now()
        tables = await bed.tables()
        assert tables.brokers["broker-a"].broker_addrs == {0: "127.0.0.1:10911"}
        assert set(tables.topics) == {"t1", "t2", "t3"}


async def test_a_newer_registration_through_a_front_end_in_between_is_not_undone(bed, registrar_of):
    """Two ways to the same tables: what is older and slower is only a sign of life."""
    topics = table("t1", "t2")
    front_end = DirectFrontEnd(bed.store, "fe9", "w9")
    async with registrar_of(broker(), topics) as registrar:

        async def newer():
            version = topics.data_version
            r = registration(
                "127.0.0.1:10911", topics={"t1": (1, 1, 6), "t2": (1, 1, 6)}, counter=version.counter + 5,
                timestamp=version.timestamp + 5, ha_server_addr="127.0.0.1:10912",
            )  # fmt: skip
            await front_end.register(r)

        interrupted(registrar, newer)
        topics.put_topic("t1", 16, 16)
        await registrar.register_now()
        assert (await bed.tables()).topics["t1"] == {"broker-a": QueueData(1, 1, 6)}


async def test_somebody_who_changes_the_row_all_the_time_does_not_go_unseen(bed, registrar_of):
    topics = table("t1", "t2")
    async with registrar_of(broker(), topics) as registrar:
        turn = iter(range(1000))

        async def meddle():
            await bed.routes.set_write_perm("broker-a", "add" if next(turn) % 2 else "wipe")

        interrupted(registrar, meddle, times=10)
        topics.put_topic("t3")
        (result,) = (await registrar.register_now()).values()
        assert result.status == "failed"
        assert "others keep changing" in result.error
        (result,) = (await registrar.register_now()).values()
        assert result.status == "registered"
        assert "t3" in (await bed.tables()).topics


# the lease


async def test_a_writer_that_lost_its_lease_registers_again(bed, registrar_of, redis_url, namespace):
    async with RedisWriter(redis_url, namespace) as writer, registrar_of(redis=writer, pace=SHORT) as registrar:
        await LeaseStore(bed.store).renew("other")
        await bed.let_pass(20_000)
        generation = writer.generation
        await bed.redis("DEL", bed.key(f"lease:{writer.incarnation}"))
        await LeaseStore(bed.store).reap(10)
        await until(lambda: writer.generation > generation, "it noticed")
        await registrar.register_now()
        assert (await bed.tables()).brokers["broker-a"].broker_addrs == {0: "127.0.0.1:10911"}


async def test_registrars_that_share_a_writer_share_its_lease(bed, registrar_of, redis_url, namespace):
    async with RedisWriter(redis_url, namespace) as writer:
        async with registrar_of(redis=writer):
            other = broker(broker_name="broker-b", broker_addr="127.0.0.1:10931")
            async with registrar_of(other, redis=writer, unregister=False):
                assert await bed.members("leases") == {writer.incarnation}
                assert set((await bed.tables()).brokers) == {"broker-a", "broker-b"}

            async def is_gone():
                return "broker-b" not in (await bed.tables()).brokers

            await until(is_gone, "the broker of the closed registrar is gone")
        async with registrar_of(redis=writer, unregister=False):
            pass
    assert (await bed.tables()).brokers == {}
    assert await bed.members("leases") == set()


async def test_a_late_close_of_a_registrar_does_not_meet_the_next_one(bed, registrar_of, redis_url, namespace):
    async with RedisWriter(redis_url, namespace) as writer:
        async with registrar_of(redis=writer, unregister=False):
            pass
        async with registrar_of(redis=writer):
            await until(lambda: not writer._gone, "the first one's close was told")
            assert set((await bed.tables()).brokers) == {"broker-a"}


KILLED = """
import asyncio, sys
from mqregistry.client.broker.registrar import BrokerConfig, BrokerRegistrar, TopicTable
from mqregistry.model import TopicConfig

async def main(url, namespace):
    config = BrokerConfig(broker_name="broker-a", broker_addr="127.0.0.1:10911", cluster_name="c1")
    topics = TopicTable([TopicConfig("t1", 8, 8, 6), TopicConfig("t2", 8, 8, 6)])
    async with BrokerRegistrar(config, topics, transport="redis", redis=url, namespace=namespace) as registrar:
        print(next(iter(registrar.results.values())).status, flush=True)
        await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


def process(*arguments):
    return subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


async def test_a_killed_writer_is_gone_within_its_lease_and_a_paused_one_comes_back(redis_url):
    namespace = f"t{secrets.token_hex(5)}"
    front_end = FrontEnd(redis_url, namespace)
    sweeper = process("-m", "mqregistry", "sweep", "--redis", redis_url, "--namespace", namespace)
    writer = process("-c", KILLED, redis_url, namespace)
    try:
        assert await asyncio.to_thread(writer.stdout.readline) == b"registered\n"
        await until(lambda: queues_at(front_end.port, "t1"), "the front end knows it")
        # nothing is reaped in the first ten seconds of a registry
        writer.send_signal(signal.SIGSTOP)
        await until(lambda: brokers_at(front_end.port) == {}, "a writer that is paused is gone")
        writer.send_signal(signal.SIGCONT)
        await until(lambda: brokers_at(front_end.port), "it is back")
        began = asyncio.get_running_loop().time()
        writer.kill()
        await until(lambda: brokers_at(front_end.port) == {}, "a writer that was killed is gone", 100)
        # far from the 120 s of a broker that fell silent; bench/ has the numbers
        assert asyncio.get_running_loop().time() - began < 100
        with front_end.client() as client:
            assert client.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t1"}).code == 17
    finally:
        for each in (writer, sweeper):
            each.kill()
            each.wait()
            each.stdout.close()
        front_end.close()


async def test_a_namespace_that_nobody_serves_is_an_error_unless_it_is_to_be_made(registrar_of, redis_url):
    nobody = f"t{secrets.token_hex(5)}"
    registrar = registrar_of(namespace=nobody)
    with pytest.raises(ConfigError, match=f"namespace {nobody}: there is no such namespace.*create_namespace=True"):
        async with registrar:
            pass
    async with Store(redis_url, nobody) as store:
        assert not await store.exists()
        async with registrar_of(namespace=nobody, create_namespace=True) as registrar:
            assert [result.status for result in registrar.results.values()] == ["registered"]
        assert await store.exists()


async def test_a_redis_that_is_away_at_the_start_raises_nothing_and_is_tried_again(registrar_of):
    config = broker(register_broker_timeout_ms=300)
    async with registrar_of(config, redis="redis://127.0.0.1:1", pace=SHORT) as registrar:
        (result,) = registrar.results.values()
        assert result.status == "failed"
        await until(lambda: next(iter(registrar.results.values())).failures > 1, "it is tried again")


async def test_a_namespace_beside_a_writer_is_that_of_the_writer(registrar_of, redis_url, namespace):
    async with RedisWriter(redis_url, namespace) as writer:
        with pytest.raises(ConfigError, match="go with a URL"):
            registrar_of(redis=writer, namespace="other")
        with pytest.raises(ConfigError, match="go with a URL"):
            registrar_of(redis=writer, create_namespace=True)
