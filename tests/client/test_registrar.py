"""BrokerRegistrar against real front ends."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from mqregistry.client.broker.registrar import BrokerRegistrar, TopicTable
from mqregistry.errors import ConfigError
from mqregistry.model import TopicConfig, TopicQueueMapping
from mqregistry.protocol.bodies.route import decode_cluster_info, decode_route
from mqregistry.protocol.codes import VERSION_V4_8_0, Encoding, RequestCode
from mqregistry.store import keys
from mqregistry.store.store import Store
from tests.certificates import Authority
from tests.server.harness import FrontEnd
from tests.waiting import until

from .registrar_bed import NEVER, SHORT, broker, brokers_at, queues_at, table

CHANGED = 'registrations_total{path="changed"}'


@pytest.fixture
def front_end_with(redis_url, namespace):
    started = []

    def start(**settings):
        started.append(FrontEnd(redis_url, namespace, **settings))
        return started[-1]

    yield start
    for front_end in started:
        front_end.close()


@pytest.fixture
def front_end(shared_front_end):
    yield shared_front_end
    assert brokers_at(shared_front_end.port) == {}, "a registrar left its broker behind"


def address(front_end):
    return f"127.0.0.1:{front_end.port}"


@pytest.mark.parametrize("encoding", list(Encoding))
@pytest.mark.parametrize("compressed", [False, True])
async def test_registers_at_the_start_and_leaves_nothing_at_the_end(front_end, encoding, compressed):
    config = broker(encoding=encoding, compressed_register=compressed)
    async with BrokerRegistrar(config, table("t1", "t2"), address(front_end), pace=NEVER) as registrar:
        (result,) = registrar.results.values()
        assert (result.status, result.error, result.failures) == ("registered", "", 0)
        assert result.data_version == registrar.topics.data_version
        assert brokers_at(front_end.port) == {"broker-a": {0: "127.0.0.1:10911"}}
        assert queues_at(front_end.port, "t1") == {"broker-a": (8, 8, 6)}
    assert registrar.unregistered == {address(front_end): ""}
    assert brokers_at(front_end.port) == {}


async def test_a_change_is_registered_at_once_and_alone(front_end):
    topics = table("t1", "t2")
    async with BrokerRegistrar(broker(), topics, address(front_end), pace=NEVER):
        topics.put_topic("t3", 4, 4, 6)
        await until(lambda: queues_at(front_end.port, "t3"), "the new topic is there")
        topics.put(TopicConfig("t1", 2, 2, 4), TopicConfig("t4", 1, 1, 6))
        await until(lambda: queues_at(front_end.port, "t4"), "the next change is there")
        assert queues_at(front_end.port, "t1") == {"broker-a": (2, 2, 4)}
        assert queues_at(front_end.port, "t2") == {"broker-a": (8, 8, 6)}


async def test_each_period_brings_back_what_went_missing(front_end):
    async with BrokerRegistrar(broker(), table(), address(front_end), pace=SHORT):
        with front_end.client() as client:
            client.request(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "t1"})
        await until(lambda: queues_at(front_end.port, "t1"), "the deleted topic is back")


async def test_only_the_version_is_asked_for_while_nothing_changes(front_end_with):
    front_end = front_end_with()
    config, topics = broker(force_register=False), table()
    async with BrokerRegistrar(config, topics, address(front_end), pace=SHORT) as registrar:
        await until(lambda: registrar.results[address(front_end)].status == "unchanged", "322 says unchanged")
        await until(lambda: front_end.counter(CHANGED) == 1, "one registration was counted")
        topics.advance()
        await until(lambda: registrar.results[address(front_end)].status == "registered", "322 says changed")


@pytest.mark.parametrize(("version", "perm"), [(VERSION_V4_8_0, 4), (513, 0)])
async def test_the_brokers_permission_comes_before_the_topics(front_end, version, perm):
    """A 4.x broker puts its own in their place, a 5.x broker takes away what it lacks."""
    topics = TopicTable([TopicConfig("t1", 8, 8, 2), TopicConfig("t2", 8, 8, 6)])
    config = broker(broker_permission=4, version=version)
    async with BrokerRegistrar(config, topics, address(front_end), pace=NEVER) as registrar:
        assert queues_at(front_end.port, "t1") == {"broker-a": (8, 8, perm)}
        assert queues_at(front_end.port, "t2") == {"broker-a": (8, 8, 4)}
        registrar.change(broker_permission=6)
        await until(lambda: queues_at(front_end.port, "t1") == {"broker-a": (8, 8, 2)}, "their own are back")
        assert queues_at(front_end.port, "t2") == {"broker-a": (8, 8, 6)}


async def test_a_slave_learns_where_its_master_is_and_becomes_one(front_end):
    master, slave = broker(), broker(broker_id=1, broker_addr="127.0.0.1:10921", ha_server_addr="127.0.0.1:10922")
    async with BrokerRegistrar(slave, table(), address(front_end), pace=NEVER) as follower:
        assert follower.master_addr == ""
        async with BrokerRegistrar(master, table(), address(front_end), pace=NEVER):
            await follower.register_now()
            assert (follower.master_addr, follower.ha_server_addr) == ("127.0.0.1:10911", "127.0.0.1:10912")
        follower.change(broker_id=0)
        await until(lambda: brokers_at(front_end.port) == {"broker-a": {0: "127.0.0.1:10921"}}, "it is the master")
        await until(lambda: queues_at(front_end.port, "t1"), "its topics count now")


async def test_the_order_configuration_is_applied(front_end):
    with front_end.client() as client:
        kv = {"namespace": "ORDER_TOPIC_CONFIG", "key": "t1", "value": "broker-a:8"}
        client.request(RequestCode.PUT_KV_CONFIG, kv)
        client.request(RequestCode.PUT_KV_CONFIG, {**kv, "key": "elsewhere"})
    topics = table()
    before = topics.data_version
    async with BrokerRegistrar(broker(), topics, address(front_end), pace=NEVER) as registrar:
        assert topics.order_topics == {"t1"}
        assert topics.data_version.counter == before.counter + 1
        assert registrar.order_topic_config == {"t1": "broker-a:8", "elsewhere": "broker-a:8"}
        await registrar.register_now()
        assert topics.data_version.counter == before.counter + 1
    with front_end.client() as client:
        for key in ("t1", "elsewhere"):
            client.request(RequestCode.DELETE_KV_CONFIG, {**kv, "key": key})


async def test_static_topics_zone_and_filter_servers(front_end):
    mapping = TopicQueueMapping("t1", "broker-a", 8, 3, False, "__global__", {0: 0, 1: 1})
    topics = TopicTable([TopicConfig("t1", 8, 8, 6), TopicConfig("t2", 8, 8, 6)], [mapping])
    config = broker(zone_name="z1", filter_servers=("127.0.0.1:1", "127.0.0.1:2"))
    async with BrokerRegistrar(config, topics, address(front_end), pace=NEVER):
        with front_end.client() as client:
            route = decode_route(client.route("t1").body)
    assert route.broker_rows["broker-a"].zone_name == "z1"
    assert route.filter_servers == {"127.0.0.1:10911": ["127.0.0.1:1", "127.0.0.1:2"]}
    assert '"totalQueues":8' in route.mappings["broker-a"]


async def test_a_split_registration_brings_every_topic(front_end):
    topics = table(*(f"t{number}" for number in range(7)))
    config = broker(enable_split_registration=True, split_registration_size=3)
    async with BrokerRegistrar(config, topics, address(front_end), pace=NEVER):
        assert [bool(queues_at(front_end.port, f"t{number}")) for number in range(8)] == [True] * 7 + [False]
        topics.put(*(TopicConfig(f"t{number}", 1, 1, 4) for number in range(7)))
        await until(
            lambda: all(queues_at(front_end.port, f"t{n}") == {"broker-a": (1, 1, 4)} for n in range(7)), "all changed"
        )


async def test_a_broker_with_a_single_topic_is_registered_though_servers_refuse_it_first(front_end):
    async with BrokerRegistrar(broker(), table("only"), address(front_end), pace=NEVER) as registrar:
        assert registrar.results[address(front_end)].status == "registered"
        assert queues_at(front_end.port, "only") == {"broker-a": (8, 8, 6)}


async def test_oneway_registers_all_the_same(front_end):
    topics = table()
    async with BrokerRegistrar(broker(oneway=True), topics, address(front_end), pace=NEVER) as registrar:
        assert registrar.results[address(front_end)].status == "sent"
        await until(lambda: queues_at(front_end.port, "t1"), "it was taken")
        topics.put_topic("t3")
        await until(lambda: queues_at(front_end.port, "t3"), "the change was taken")


@pytest.mark.parametrize("compatible", [True, False], ids=["322", "904"])
async def test_heartbeats_put_off_the_end_of_a_broker_that_may_become_acting_master(front_end, redis_url, compatible):
    config = broker(
        enable_slave_acting_master=True, broker_not_active_timeout_ms=20_000, broker_heartbeat_interval_ms=20,
        compatible_with_old_name_srv=compatible,
    )  # fmt: skip
    async with Store(redis_url, front_end.settings.namespace) as store:
        deadlines = keys.prefix(store.namespace) + "deadlines"
        async with BrokerRegistrar(config, table(), address(front_end), pace=NEVER):
            with front_end.client() as client:
                rows, _ = decode_cluster_info(client.request(RequestCode.GET_BROKER_CLUSTER_INFO).body)
            assert rows["broker-a"].enable_acting_master
            seen = set()
            async with asyncio.timeout(60):
                while len(seen) < 4:
                    seen.add(await store.client.zscore(deadlines, "c1|127.0.0.1:10911"))


async def test_two_front_ends_of_one_registry(front_end_with):
    first, second = front_end_with(), front_end_with()
    topics = table()
    servers = f"{address(first)};{address(second)}"
    async with BrokerRegistrar(broker(), topics, servers, pace=NEVER) as registrar:
        assert {result.status for result in registrar.results.values()} == {"registered"}
        for number in range(20):
            topics.put_topic("t3", number + 1, number + 1)
            await registrar.register_now()
        assert queues_at(first.port, "t3") == queues_at(second.port, "t3") == {"broker-a": (20, 20, 6)}
        registrar.use_name_servers(address(second))
        await until(lambda: list(registrar.results) == [address(second)], "the first is forgotten")
        assert brokers_at(second.port) == {"broker-a": {0: "127.0.0.1:10911"}}
    await until(lambda: brokers_at(second.port) == {}, "it left")


async def test_hanging_up_without_a_goodbye_ends_the_broker_as_well(front_end):
    async with BrokerRegistrar(broker(), table(), address(front_end), pace=NEVER, unregister=False) as registrar:
        pass
    assert registrar.unregistered == {}
    await until(lambda: brokers_at(front_end.port) == {}, "the close of its connection removed it")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"broker_name": ""}, "broker_name is empty"),
        ({"cluster_name": ""}, "cluster_name is empty"),
        ({"broker_addr": "10.0.0.1"}, "not host:port"),
        ({"broker_addr": "10.0.0.1:70000"}, "not host:port"),
        ({"broker_id": 2**63}, "broker_id is 9223372036854775808: expected 0 to 9223372036854775807"),
        ({"split_registration_size": 0}, "split_registration_size is 0"),
        ({"register_broker_timeout_ms": 0}, "register_broker_timeout_ms is 0"),
    ],
)
def test_settings_that_no_name_server_takes(fields, message):
    with pytest.raises(ConfigError, match=message):
        BrokerRegistrar(broker(**fields), table(), "127.0.0.1:9876")


def test_what_makes_another_broker_cannot_be_changed():
    registrar = BrokerRegistrar(broker(), table(), "127.0.0.1:9876")
    with pytest.raises(ConfigError, match="cluster_name is what a broker is known by"):
        registrar.change(cluster_name="c2")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name_servers": "nowhere:port"}, "is no name server address"),
        ({"name_servers": None}, "NAMESRV_ADDR"),
        ({"name_servers": "127.0.0.1:9876", "redis": "redis://127.0.0.1"}, "transport='redis'"),
        ({"name_servers": "127.0.0.1:9876", "transport": "redis", "redis": "redis://127.0.0.1"}, "no name servers"),
        ({"transport": "redis"}, "redis=URL"),
    ],
)
def test_a_place_to_register_at_is_needed(monkeypatch, options, message):
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(ConfigError, match=message):
        BrokerRegistrar(broker(), table(), **options)


async def test_the_name_servers_of_the_environment(front_end, monkeypatch):
    monkeypatch.setenv("NAMESRV_ADDR", address(front_end))
    async with BrokerRegistrar(broker(), table(), pace=NEVER) as registrar:
        assert [result.status for result in registrar.results.values()] == ["registered"]


async def test_tls_and_name_servers_that_insist_on_it(front_end_with, tmp_path):
    authority = Authority(tmp_path, "authority")
    pair = authority.sign("server")
    front_end = front_end_with(
        tls_server_mode="enforcing", tls_server_cert_path=str(pair.cert), tls_server_key_path=str(pair.key)
    )
    trusting = ssl.create_default_context(cafile=str(authority.cert))
    config = broker(register_broker_timeout_ms=10_000)
    async with BrokerRegistrar(config, table(), address(front_end), tls=trusting, pace=NEVER) as registrar:
        assert registrar.results[address(front_end)].status == "registered"
    assert registrar.unregistered == {address(front_end): ""}
    async with BrokerRegistrar(config, table(), address(front_end), pace=NEVER) as registrar:
        assert registrar.results[address(front_end)].status == "failed"
    distrusting = ssl.create_default_context()
    async with BrokerRegistrar(config, table(), address(front_end), tls=distrusting, pace=NEVER) as registrar:
        assert "verify failed" in registrar.results[address(front_end)].error
