"""What an application gets wrong is told by the call that was wrong, and holds up nothing else."""

from __future__ import annotations

import logging
import ssl

import pytest

from mqregistry.client import (
    BrokerConfig,
    BrokerRegistrar,
    BrokerRegistrarSync,
    ClientClosed,
    ConfigError,
    DataVersion,
    NameServers,
    Pace,
    RouteClient,
    RouteClientSync,
    TopicConfig,
    TopicQueueMapping,
    TopicTable,
)
from tests.waiting import until

from .fake_name_server import FakeNameServer, route_of
from .registrar_bed import NEVER, broker, name_servers, table

WRONG_NAMES = [
    (None, TypeError, "topic name is None"),
    (5, TypeError, r"topic name is 5 \(int\): expected a str"),
    (["t"], TypeError, "topic name is"),
    ("", ValueError, "topic name is empty"),
    ("a\nb", ValueError, "has a control character"),
    ("a\x7f", ValueError, "control character"),
    ("\ud800", ValueError, "surrogate"),
    ("bad topic!", ValueError, "has other characters than letters, digits and"),
    ("ä" * 128, ValueError, "has 256 bytes, at most 255"),
]


@pytest.mark.parametrize(("topic", "error", "message"), WRONG_NAMES)
async def test_a_wrong_topic_name_is_refused_where_it_comes_in_and_the_client_goes_on(topic, error, message):
    async with (
        FakeNameServer({"t": route_of("a")}) as server,
        RouteClient(server.address, push=False, poll_first_s=0.001, poll_every_s=0.01) as client,
    ):
        for call in (client.select_queue, client.publish_info, client.subscribe_info, client.lookup, client.update):
            with pytest.raises(error, match=message):
                await call(topic)
        for use in (client.publish, client.subscribe):
            with pytest.raises(error, match=message):
                use("other", topic)
        assert client.tables.topics == set()
        client.publish("t")
        await until(lambda: "t" in client.routes)


@pytest.mark.parametrize(("topic", "error", "message"), WRONG_NAMES)
def test_a_wrong_topic_name_is_refused_without_an_event_loop_too(topic, error, message):
    with RouteClientSync("127.0.0.1:1", push=False) as client:
        for call in (client.select_queue, client.publish_info, client.subscribe_info, client.lookup, client.publish):
            with pytest.raises(error, match=message):
                call(topic)


async def test_the_longest_topic_name_is_taken():
    topic = "a" * 255
    async with FakeNameServer({topic: route_of("a")}) as server, RouteClient(server.address, push=False) as client:
        assert (await client.publish_info(topic)).is_ok


async def test_a_wrong_broker_name_to_avoid_is_refused():
    async with FakeNameServer({"t": route_of("a")}) as server, RouteClient(server.address, push=False) as client:
        with pytest.raises(TypeError, match="last_broker_name is 5"):
            await client.select_queue("t", 5)
        assert (await client.select_queue("t")).broker_name == "a"


async def test_one_topic_that_meets_a_defect_does_not_hold_up_the_others(caplog):
    async with FakeNameServer({"a": route_of("a"), "b": route_of("b")}) as server:
        client = RouteClient(server.address, push=False, poll_first_s=0.001, poll_every_s=0.01)
        client.publish("a", "b")
        update = client.tables.update

        def broken(topic, route):
            if topic == "a":
                raise AssertionError("a defect")
            return update(topic, route)

        client.tables.update = broken
        async with client:
            await until(lambda: "b" in client.routes)
            await until(lambda: len(server.asked()) >= 6)
        assert [record.message for record in caplog.records if record.exc_info] == [
            "route of a; what is known is kept"  # once, not each round
        ]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"poll_every_s": "30"}, TypeError, "poll_every_s is '30'"),
        ({"poll_every_s": 0}, ValueError, "poll_every_s is 0: expected more than 0 seconds"),
        ({"call_timeout_s": None}, TypeError, "call_timeout_s is None"),
        ({"backoff_most_s": -1}, ValueError, "backoff_most_s is -1"),
        ({"tls": True}, TypeError, "tls is True"),
        ({"encoding": "JSON"}, TypeError, "encoding is 'JSON'"),
        ({"max_in_flight": 0}, ValueError, "max_in_flight is 0"),
        ({"on_request": 5}, TypeError, "on_request is 5"),
        ({"default_topic": None}, TypeError, "topic name is None"),
        ({"default_topic_queue_nums": 0}, ValueError, "default_topic_queue_nums is 0"),
        ({"name_servers": 5}, ConfigError, r"\(5,\) is no list of name server addresses"),
        ({"name_servers": ["a:1", None]}, ConfigError, "is no list of name server addresses"),
    ],
)
@pytest.mark.parametrize("client", [RouteClient, RouteClientSync])
def test_a_wrong_option_of_a_route_client_is_refused(client, options, error, message):
    with pytest.raises(error, match=message):
        client(**({"name_servers": "127.0.0.1:1"} | options))


def test_tls_with_name_servers_that_have_their_own_is_refused():
    with pytest.raises(ConfigError, match="tls is given with a NameServers"):
        RouteClient(NameServers("127.0.0.1:1"), tls=ssl.create_default_context())


async def test_a_listener_that_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match="listener is 5"):
        RouteClient("127.0.0.1:1").on_route_change(5)


WRONG_TOPICS = [
    ("t1", TypeError, "expected a TopicConfig"),
    (TopicConfig(5, 8, 8, 6), TypeError, r"topic name is 5 \(int\)"),
    (TopicConfig("a\x00b", 8, 8, 6), ValueError, "control character"),
    (TopicConfig("t" * 256, 8, 8, 6), ValueError, "has 256 bytes"),
    (TopicConfig("t", "8", 8, 6), TypeError, "read_queue_nums of topic 't' is '8': Expected `int`, got `str`"),
    (TopicConfig("t", 8, None, 6), TypeError, "write_queue_nums of topic 't' is None"),
    (TopicConfig("t", 8, True, 6), TypeError, "write_queue_nums of topic 't' is True"),
    (TopicConfig("t", 8.0, 8, 6), TypeError, "read_queue_nums of topic 't' is 8.0"),
    (TopicConfig("t", -1, 8, 6), ValueError, "read_queue_nums of topic 't' is -1: expected 0 to 1000000"),
    (TopicConfig("t", 8, 1_000_001, 6), ValueError, "write_queue_nums of topic 't' is 1000001"),
    (TopicConfig("t", 8, 8, 99), ValueError, "perm of topic 't' is 99: expected 0 to 7"),
    (TopicConfig("t", 8, 8, 6, "x"), TypeError, "topic_sys_flag of topic 't' is 'x'"),
]


@pytest.mark.parametrize(("topic", "error", "message"), WRONG_TOPICS)
def test_a_wrong_topic_never_gets_into_a_table(topic, error, message):
    topics = table("t1")
    before = topics.data_version
    with pytest.raises(error, match=message):
        topics.put(TopicConfig("t2", 8, 8, 6), topic)
    with pytest.raises(error, match=message):
        TopicTable([topic])
    with pytest.raises(error, match=message):
        BrokerRegistrar(broker(), [topic], "127.0.0.1:1")
    with pytest.raises(error, match=message):
        BrokerRegistrarSync(broker(), [topic], "127.0.0.1:1")
    assert (set(topics), topics.data_version) == ({"t1"}, before)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [((5,), TypeError, "topic name is 5"), (("t", "8"), TypeError, "is '8'"), (("t", 8, 8, 99), ValueError, "is 99")],
)
async def test_put_topic_refuses_what_no_name_server_could_serve(arguments, error, message):
    async with name_servers(1) as (server,):
        topics = table("t1")
        async with BrokerRegistrar(broker(), topics, server.address, pace=NEVER) as registrar:
            with pytest.raises(error, match=message):
                topics.put_topic(*arguments)
            topics.put_topic("t2")
            (result,) = (await registrar.register_now()).values()
            assert (result.status, set(server.registrations[-1][1].topics)) == ("registered", {"t1", "t2"})


@pytest.mark.parametrize(
    ("mapping", "error", "message"),
    [
        (5, TypeError, "expected a TopicQueueMapping"),
        (TopicQueueMapping(None, "b", 1), TypeError, "topic of a static topic mapping is None"),
        (TopicQueueMapping("t1", 5, 1), TypeError, "bname of the mapping of static topic 't1' is 5"),
        (TopicQueueMapping("t1", "b", -1), ValueError, "total_queues of the mapping of static topic 't1' is -1"),
        (TopicQueueMapping("t1", "b", 1, 1, False, None, {"x": 0}), TypeError, "curr_id_map of the mapping"),
    ],
)
def test_a_wrong_mapping_never_gets_into_a_table(mapping, error, message):
    topics = table("t1")
    with pytest.raises(error, match=message):
        topics.put_mapping(TopicQueueMapping("t1", "b", 1), mapping)
    assert topics.mappings == {}


def test_a_wrong_data_version_is_refused():
    for version, error in ((5, TypeError), (DataVersion("1", 0, 0), TypeError), (DataVersion(2**63, 0, 0), ValueError)):
        with pytest.raises(error, match="data"):
            TopicTable(data_version=version)
    topics = table()
    with pytest.raises(TypeError, match="state_version of the data version is 'x'"):
        topics.state_version = "x"
    assert topics.state_version == 0


async def test_a_mapping_that_is_broken_later_does_not_hold_up_the_topics(caplog):
    async with name_servers(1) as (server,):
        mapping = TopicQueueMapping("t1", "b", 1, 1, False, None, {0: 0})
        topics = TopicTable([TopicConfig("t1", 8, 8, 6), TopicConfig("t2", 8, 8, 6)], [mapping])
        async with BrokerRegistrar(broker(), topics, server.address, pace=NEVER) as registrar:
            mapping.curr_id_map["x"] = None
            for _ in range(2):
                topics.touch()
                (result,) = (await registrar.register_now()).values()
                assert result.status == "registered"
            _, body = server.registrations[-1]
            assert (set(body.topics), body.mappings) == ({"t1", "t2"}, {})
    left_out = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert len(left_out) == 1, left_out
    assert left_out[0].startswith("the mapping of static topic 't1' of broker broker-a is not registered: curr_id_map")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"broker_id": -1}, "broker_id is -1: expected 0 to"),
        ({"broker_id": "0"}, "broker_id of the broker's settings is '0': Expected `int`, got `str`"),
        ({"broker_name": 5}, "broker_name of the broker's settings is 5"),
        ({"broker_name": "b" * 256}, "broker_name .* has 256 bytes"),
        ({"cluster_name": "a\tb"}, "cluster_name 'a.*control character"),
        ({"broker_addr": "10.0.0.1:10911|x"}, "not host:port"),
        ({"broker_addr": "10.0.0.1:²"}, "not host:port"),
        ({"broker_permission": 99}, "broker_permission is 99"),
        ({"filter_servers": (5,)}, "filter_servers of the broker's settings"),
        ({"oneway": "no"}, "oneway of the broker's settings is 'no'"),
        ({"version": -1}, "version is -1"),
        ({"register_broker_timeout_ms": "6000"}, "register_broker_timeout_ms of the broker's settings"),
    ],
)
def test_a_wrong_setting_of_a_broker_is_refused_where_it_is_made_and_where_it_is_changed(fields, message):
    with pytest.raises(ConfigError, match=message):
        broker(**fields)
    registrar = BrokerRegistrar(broker(), table(), "127.0.0.1:1")
    if not fields.keys() & {"broker_name", "cluster_name", "broker_addr"}:
        with pytest.raises(ConfigError, match=message):
            registrar.change(**fields)
    assert registrar.config == broker()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"config": None}, TypeError, "config is None"),
        ({"topics": "t1"}, TypeError, "expected a TopicConfig"),
        ({"transport": "rdis"}, ConfigError, "transport is 'rdis': expected 'wire'"),
        ({"transport": "rdis", "redis": "redis://127.0.0.1"}, ConfigError, "transport is 'rdis'"),
        ({"transport": None}, ConfigError, "transport is None"),
        ({"namespace": "other"}, ConfigError, "namespace .* is given, but the transport is 'wire'"),
        ({"create_namespace": True}, ConfigError, "create_namespace is given, but the transport is 'wire'"),
        ({"tls": "yes"}, TypeError, "tls is 'yes'"),
        ({"pace": 30}, TypeError, "pace is 30"),
        ({"pace": Pace(10.0, "30")}, TypeError, "period_s is '30'"),
        ({"on_result": 5}, TypeError, "on_result is 5"),
        ({"transport": "redis", "redis": 5, "name_servers": None}, TypeError, "redis is 5"),
        (
            {"transport": "redis", "redis": "redis://127.0.0.1", "namespace": "", "name_servers": None},
            ValueError,
            "namespace is empty",
        ),
    ],
)
@pytest.mark.parametrize("registrar", [BrokerRegistrar, BrokerRegistrarSync])
def test_a_wrong_option_of_a_registrar_is_refused(registrar, options, error, message):
    with pytest.raises(error, match=message):
        registrar(**({"config": broker(), "topics": table(), "name_servers": "127.0.0.1:1"} | options))


def test_an_option_that_does_not_exist_is_refused():
    config = BrokerConfig(broker_name="b", broker_addr="127.0.0.1:1")
    for make in (
        lambda: BrokerRegistrarSync(config, [], "127.0.0.1:1", transprt="redis"),
        lambda: RouteClientSync("127.0.0.1:1", pol_every_s=1),
    ):
        with pytest.raises(TypeError, match="unexpected keyword"):
            make()


def test_a_table_outlives_its_registrar_and_may_still_be_changed():
    topics = table("t1")
    with BrokerRegistrarSync(broker(), topics, "127.0.0.1:1", pace=NEVER) as registrar:
        pass
    topics.put_topic("t2")
    assert set(topics) == {"t1", "t2"}
    with pytest.raises(ClientClosed):
        registrar.put_topic("t3")


def test_a_table_takes_the_names_that_clients_take_and_each_once():
    with pytest.raises(ValueError, match="topic name 't t!' has other characters than letters, digits and"):
        TopicTable([TopicConfig("t t!", 4, 4, 6)])
    with pytest.raises(ValueError, match="topic 't' is given twice, with different queues or permissions"):
        TopicTable([TopicConfig("t", 4, 4, 6), TopicConfig("t", 8, 8, 6)])
    assert len(TopicTable([TopicConfig("t", 4, 4, 6)] * 2)) == 1
    own = TopicConfig("TBW102", 2, 2, 6)
    config = BrokerConfig(broker_name="host.example.org", broker_addr="127.0.0.1:10911")
    table = TopicTable.with_system_topics(config, [own])
    assert (table["TBW102"], "host.example.org" in table) == (own, True)
