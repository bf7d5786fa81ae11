"""318 and 319: what is applied, what is refused, and that every front end follows."""

from __future__ import annotations

import json
import signal
import tempfile
from pathlib import Path

import pytest

from mqregistry.behaviour import FIVE
from mqregistry.config.settings import Settings, options
from mqregistry.config.sources import build
from mqregistry.embedded import EmbeddedRedis
from mqregistry.errors import ConfigError
from mqregistry.protocol.command import decode_command
from mqregistry.request_rights import MAX_PROPERTIES_BYTES
from mqregistry.server.requests.configuration import SHOWN_BY_JAVA, _Refused, accepted
from tests import golden

from .harness import Broker

ORDER = {"namespace": "ORDER_TOPIC_CONFIG", "key": "topic1", "value": "broker-a:4"}


def set_config(client, text):
    return client.request(318, body=text.encode())


def get_config(client):
    reply = client.request(319)
    assert (reply.code, reply.remark, reply.ext_fields) == (0, None, None)
    lines = reply.body.decode().splitlines()
    assert lines == sorted(lines)
    return dict(line.split("=", 1) for line in lines)


# the table of settings


def test_every_shared_setting_says_whether_318_may_change_it_and_why():
    for option in options().values():
        assert (option.about.run_time is not None) == option.about.shared, option.key
        assert option.run_time.why


def test_what_could_harm_is_not_in_the_allow_list():
    allowed = {option.key for option in options().values() if option.run_time.allowed}
    assert allowed == {
        "orderMessageEnable", "returnOrderTopicConfigToBroker", "supportActingMaster", "enableAllTopicList",
        "enableTopicList", "notifyMinBrokerIdChanged", "scanNotActiveBrokerInterval", "needWaitForService",
        "waitSecondsForService", "productEnvName",
    }  # fmt: skip


def test_319_shows_the_keys_that_java_shows():
    recorded = set()
    for name in golden.scenarios():
        if name.startswith("probe-config") and name.endswith(("5.3.3", "5.5.0")):
            for row, reply in golden.exchanges(name):
                if row["code"] == 319:
                    body = decode_command(reply["frame"][4:]).body.decode()
                    recorded |= {line.partition("=")[0] for line in body.splitlines()}
    assert recorded == SHOWN_BY_JAVA


def test_an_allow_list_that_names_what_no_request_can_change_is_warned_about():
    said: list[str] = []
    build(environ={"MQREGISTRY_CONFIG_ALLOW_LIST": "clusterTest;listenPort;clusterTets"}, warn=said.append)
    assert said == [
        "configAllowList: no request can change 'listenPort'",
        "configAllowList: no request can change 'clusterTets'; did you mean clusterTest?",
    ]


@pytest.mark.parametrize("value", ["a", "a:0", "a:65536", "a:b", ":1", "a:1,b:2", "a b:1"])
def test_product_addresses_that_are_none_are_refused(value):
    with pytest.raises(ConfigError, match="addresses host:port"):
        build(environ={"MQREGISTRY_PRODUCT_ENV_NAMESRV_ADDR": value})


@pytest.mark.parametrize("value", ["", "a:1", "a.b:9876;10.0.0.1:65535;", "[::1]:9876"])
def test_product_addresses(value):
    assert build(environ={"MQREGISTRY_PRODUCT_ENV_NAMESRV_ADDR": value}).product_env_namesrv_addr == value


# what a request does


@pytest.mark.parametrize(
    ("asked", "stored"),
    [
        ({"orderMessageEnable": "TRUE"}, {"orderMessageEnable": "true"}),
        ({"orderMessageEnable": "yes"}, {"orderMessageEnable": "false"}),  # as Java reads it
        ({"orderMessageEnable": "true "}, {"orderMessageEnable": "false"}),
        ({"scanNotActiveBrokerInterval": "+0700"}, {"scanNotActiveBrokerInterval": "700"}),
        ({"scanNotActiveBrokerInterval": "abc"}, {}),
        ({"scanNotActiveBrokerInterval": ""}, {}),
        ({"noSuchKey": "1"}, {}),
        ({"serverWorkerThreads": "16", "useEpollNativeSelector": "x"},
         {"serverWorkerThreads": "16", "useEpollNativeSelector": "false"}),
        ({"serverWorkerThreads": "many"}, {}),
        ({"listenPort": "9876", "bindAddress": "0.0.0.0", "clusterTest": "false"}, {}),  # in effect already
        ({"listenPort": "x"}, {}),
    ],
)  # fmt: skip
def test_what_is_stored(asked, stored):
    assert accepted(asked, Settings(), FIVE) == stored


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("listenPort", "1", "belongs to one process: set it in its environment (MQREGISTRY_PORT)"),
        ("redis", "redis://evil:6379", "belongs to one process"),
        ("configAllowList", "clusterTest", "belongs to one process"),
        ("productEnvNamesrvAddr", "evil:9876", "belongs to one process"),
        ("logFile", "/etc/passwd", "belongs to one process"),
        ("clusterTest", "true", "not in the allow-list (it sends clients to the brokers of another environment)"),
        ("brokerChannelExpiredTimeMs", "1000", "configAllowList=brokerChannelExpiredTimeMs accepts it"),
        ("deleteTopicWithBrokerRegistration", "true", "not in the allow-list"),
        ("scanNotActiveBrokerInterval", "99", "expected a whole number from 100 to 600000"),
        ("waitSecondsForService", "99999999999", "expected a whole number"),
        ("productEnvName", "a\nlistenPort=1", "expected one line"),
    ],
)
def test_what_is_refused_and_why(key, value, said):
    with pytest.raises(_Refused) as refused:
        accepted({"orderMessageEnable": "true", key: value}, Settings(), FIVE)
    assert str(refused.value).startswith(key)
    assert said in str(refused.value)
    assert str(refused.value).endswith("Nothing was changed.")


def test_nobody_learns_that_a_guess_was_right():
    settings = Settings(redis="redis://:secret@10.0.0.1")
    for guess in ("redis://:secret@10.0.0.1", "redis://:wrong@10.0.0.1"):
        with pytest.raises(_Refused, match="redis belongs to one process") as refused:
            accepted({"redis": guess}, settings, FIVE)
        assert "secret" not in str(refused.value)


def test_the_operator_can_extend_the_allow_list():
    settings = Settings(config_allow_list="clusterTest;listenPort")
    assert accepted({"clusterTest": "true"}, settings, FIVE) == {"clusterTest": "true"}
    with pytest.raises(_Refused, match="belongs to one process"):
        accepted({"listenPort": "1"}, settings, FIVE)


def test_a_value_fixed_by_this_process_is_not_said_to_be_changed():
    settings = build(environ={"MQREGISTRY_ORDER_MESSAGE_ENABLE": "false"})
    with pytest.raises(_Refused, match="fixed at this name server by environment MQREGISTRY_ORDER_MESSAGE_ENABLE"):
        accepted({"orderMessageEnable": "true"}, settings, FIVE)
    assert accepted({"orderMessageEnable": "false"}, settings, FIVE) == {"orderMessageEnable": "false"}


# over the wire


def test_318_takes_effect_before_the_answer(front_end):
    with front_end.client() as client:
        client.register(Broker())
        client.request(100, ORDER)
        assert b"orderTopicConf" not in client.route("topic1").body
        for value, there in (("true", True), ("false", False), ("true", True)):
            reply = set_config(client, f"orderMessageEnable={value}\n")
            assert (reply.code, reply.remark, reply.ext_fields, reply.body) == (0, None, None, b"")
            assert get_config(client)["orderMessageEnable"] == value
            assert (b"orderTopicConf" in client.route("topic1").body) == there


def test_318_changes_every_front_end_and_every_later_one(front_end_with):
    one, other = front_end_with(), front_end_with()
    with one.client() as a, other.client() as b:
        a.register(Broker())
        assert set_config(a, "enableTopicList=false\nserverWorkerThreads=99\n").code == 0
        other.wait_until(lambda: get_config(b)["enableTopicList"] == "false", "the other front end follows")
        assert get_config(a) | {"listenPort": ""} == get_config(b) | {"listenPort": ""}
        assert b.request(224, {"cluster": "c1"}).remark == "disable"
    later = front_end_with()
    with later.client() as c:
        assert get_config(c)["serverWorkerThreads"] == "99"
        assert c.request(304).code == 0
        assert c.request(311).remark == "disable"


@pytest.mark.parametrize("key", sorted(FIVE.black_list))
def test_a_blacklisted_key_refuses_the_whole_request(front_end, key):
    with front_end.client() as client:
        before = get_config(client)
        reply = set_config(client, f"orderMessageEnable=true\n{key}=/tmp/x\n")
        assert (reply.code, reply.remark) == (16, "Can not update config in black list.")
        assert get_config(client) == before


def test_a_key_outside_the_allow_list_refuses_the_whole_request(front_end):
    with front_end.client() as client:
        before = get_config(client)
        reply = set_config(client, "orderMessageEnable=true\nclusterTest=true\n")
        assert reply.code == 16
        assert reply.remark.startswith("Can not update config: clusterTest is not in the allow-list")
        assert get_config(client) == before
    front_end.wait_until(lambda: "refused: clusterTest is not in the allow-list" in front_end.log, "it is logged")


def test_what_319_shows_may_be_sent_back(front_end):
    with front_end.client() as client:
        text = "".join(f"{key}={value}\n" for key, value in get_config(client).items() if key not in FIVE.black_list)
        assert set_config(client, text).code == 0


def test_a_key_that_the_operator_allowed_is_applied_and_shown(front_end_with):
    front_end = front_end_with(config_allow_list="brokerChannelExpiredTimeMs")
    with front_end.client() as client:
        assert "brokerChannelExpiredTimeMs" not in get_config(client)
        assert set_config(client, "brokerChannelExpiredTimeMs=30000").code == 0
        assert get_config(client)["brokerChannelExpiredTimeMs"] == "30000"


@pytest.mark.parametrize("body", [b"", b"# a comment\n\n! another\n", b"\x00\x01 no equals", b"noSuchKey=1\n"])
def test_bodies_that_change_nothing(front_end, body):
    with front_end.client() as client:
        before = get_config(client)
        assert client.request(318, body=body).code == 0
        assert get_config(client) == before


def test_a_body_that_is_no_properties_text(front_end):
    with front_end.client() as client:
        reply = set_config(client, "orderMessageEnable=true\na=\\u12\n")
        assert (reply.code, reply.remark) == (1, "string2Properties error")
        assert get_config(client)["orderMessageEnable"] == "false"


def test_a_huge_body_is_refused_unread(front_end):
    with front_end.client() as client:
        reply = set_config(client, "orderMessageEnable=true\n" + "#" * MAX_PROPERTIES_BYTES)
        assert (reply.code, "at most 65536 are taken" in reply.remark) == (1, True)
        assert get_config(client)["orderMessageEnable"] == "false"


def test_a_registration_made_under_older_settings_is_looked_at_again(front_end_with):
    """The same bytes mean something else now: what heartbeats are compared with is void (config_rev)."""
    front_end = front_end_with(config_allow_list="deleteTopicWithBrokerRegistration")
    with front_end.client() as client:
        client.register(Broker(topics=["topic1", "topic2", "gone"]))
        fewer = Broker(topics=["topic1", "topic2"], counter=2)
        assert client.register(fewer).code == 0
        assert client.register(fewer).code == 0
        assert client.route("gone").code == 0
        assert set_config(client, "deleteTopicWithBrokerRegistration=true").code == 0
        assert client.register(fewer).code == 0
        assert client.route("gone").code == 17


def test_settings_toggled_again_and_again_keep_heartbeats_short(front_end):
    """Nobody on the port makes every broker's next heartbeat be decoded and compared."""
    with front_end.client() as client:
        client.register(Broker())
        for value in ("false", "true", "false"):
            assert set_config(client, f"enableTopicList={value}\nsupportActingMaster={value}").code == 0
            assert client.register(Broker()).code == 0
    front_end.wait_until(lambda: front_end.counter('registrations_total{path="unchanged"}') == 3, "all were known")


def test_registrations_are_answered_with_the_order_configuration_or_not(front_end):
    with front_end.client() as client:
        client.request(100, ORDER)
        assert json.loads(client.register(Broker()).body) == {"table": {"topic1": "broker-a:4"}}
        set_config(client, "returnOrderTopicConfigToBroker=false")
        assert client.register(Broker()).body == b""


def test_a_front_end_killed_and_started_again_still_has_it(front_end):
    with front_end.client() as client:
        set_config(client, "enableAllTopicList=false\nlistenPort=" + str(front_end.settings.listen_port))
    front_end.kill(signal.SIGKILL)
    front_end.start()
    with front_end.client() as client:
        assert client.request(206).remark == "disable"


def test_redis_away_is_an_error_and_319_still_answers(front_end_with):
    with tempfile.TemporaryDirectory(prefix="mq") as folder:
        with EmbeddedRedis(Path(folder)) as own:
            front_end = front_end_with(url=own.url, redis_timeout_ms=300)
            with front_end.client() as client:
                assert set_config(client, "enableTopicList=false").code == 0
        front_end.wait_until(lambda: front_end.status.get("redis_away"), "it notices")
        with front_end.client() as client:
            reply = set_config(client, "enableTopicList=true")
            assert (reply.code, "nothing was changed" in reply.remark) == (1, True)
            assert set_config(client, "kvConfigPath=/tmp/x").code == 16
            assert get_config(client)["enableTopicList"] == "false"
