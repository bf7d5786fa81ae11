"""A front end of compat 4.8 on the wire, where the recorded traffic does not show it (tests/server/test_golden_replay
replays all of that). Rows are those of the table 4.8.0 -> 5.3.3."""

from __future__ import annotations

import json
import struct

import pytest

from mqregistry.protocol.codes import Encoding

from .harness import Broker


@pytest.fixture(scope="module")
def namespace_settings():
    """What a 5.x front end would heed."""
    return {
        "compat": "4.8", "support_acting_master": True, "enable_topic_list": False, "enable_all_topic_list": False,
        "return_order_topic_config_to_broker": False, "delete_topic_with_broker_registration": True,
        "sources": {"support_acting_master": "flag --support-acting-master"},
    }  # fmt: skip


@pytest.fixture
def client(front_end_with, namespace_settings):
    front_end = front_end_with(**namespace_settings)
    with front_end.client() as client:
        client.front_end = front_end
        yield client


def test_what_5x_broker_says_leaves_no_trace_rows_8_to_17_and_26(client):
    broker = Broker(enableActingMaster="true", heartbeatTimeoutMillis="1000", **{"__ZONE_NAME": "z1"})
    client.register(broker)
    zoned = {"topic": "topic1", "__ZONE_MODE": "true", "__ZONE_NAME": "elsewhere", "acceptStandardJsonOnly": "true"}
    route = client.request(105, zoned)
    assert route.version == 373
    assert route.body == (
        b'{"brokerDatas":[{"brokerAddrs":{0:"127.0.0.1:10911"},"brokerName":"broker-a","cluster":"c1"}],'
        b'"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSynFlag":0,'
        b'"writeQueueNums":4}]}'
    )
    assert client.request(106).body == (
        b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"127.0.0.1:10911"},"brokerName":"broker-a","cluster":"c1"}},'
        b'"clusterAddrTable":{"c1":["broker-a"]}}'
    )


def test_settings_of_5x_have_no_effect_and_a_warning_row_22(client):
    client.request(100, {"namespace": "ORDER_TOPIC_CONFIG", "key": "topic1", "value": "broker-a:4"})
    broker = Broker()
    assert json.loads(client.register(broker).body) == {"table": {"topic1": "broker-a:4"}}
    client.register(broker, topics=["topic2", "topic3"], counter=2)
    assert set(json.loads(client.request(206).body)["topicList"]) == {"topic1", "topic2", "topic3"}
    assert client.request(224, {"cluster": "c1"}).code == 0
    assert client.request(318, None, b"enableTopicList=false\nconfigBlackList=x\nkvConfigPath=/y\n").code == 0
    shown = dict(line.split("=", 1) for line in client.request(319).body.decode().splitlines())
    assert len(shown) == 17
    assert shown["kvConfigPath"] == "/y"
    client.front_end.wait_until(lambda: "supportActingMaster (flag" in client.front_end.log, "the warning")
    assert "has no effect: NameServer 4.8 does not know it" in client.front_end.log


@pytest.mark.parametrize("code", [217, 327, 901, 904, 905, 9999])
def test_unknown_codes_are_answered_row_6_d8(client, code):
    reply = client.request(code, {"brokerName": "broker-a", "topic": "t", "clusterName": "c1", "brokerAddr": "a:1"})
    assert (reply.code, reply.remark, reply.version) == (3, f" request type {code} not supported", 373)


def test_query_without_a_version_is_refused_and_any_cluster_will_do_rows_4_and_14(client):
    broker = Broker()
    client.register(broker)
    asked = {"brokerAddr": broker.addr, "clusterName": "nowhere", "brokerName": "x", "brokerId": "0"}
    assert client.request(322, asked).code == 1
    same = client.request(322, asked, b'{"counter":1,"stateVersion":77,"timestamp":1700000000000}')
    assert same.ext_fields == {"changed": "false"}
    assert same.body == b'{"counter":1,"timestamp":1700000000000}'
    assert client.request(322, None, b"{}").ext_fields == {"changed": "true"}


def test_unknown_topic_has_the_remark_of_its_time_row_16(client):
    reply = client.route("none")
    assert reply.code == 17
    assert reply.remark.endswith("topic: none\nSee http://rocketmq.apache.org/docs/faq/ for further details.")


def test_empty_value_in_a_binary_header_is_an_empty_text(client):
    put = {"namespace": "n", "key": "k", "value": ""}
    assert client.request(100, put, encoding=Encoding.ROCKETMQ).code == 0
    assert client.request(101, {"namespace": "n", "key": "k"}).ext_fields == {"value": ""}


def test_frame_with_an_empty_header_is_hung_up_on(client):
    client.socket.sendall(struct.pack(">II", 4, 0))
    assert client.closed()


def test_goodbye_goes_by_the_id_row_2(client):
    broker = Broker()
    client.register(broker)
    goodbye = {"brokerName": broker.name, "brokerAddr": "wrong:1", "clusterName": "wrong", "brokerId": "0"}
    assert client.request(104, {key: goodbye[key] for key in goodbye if key != "brokerId"}).code == 1
    assert client.route("topic1").code == 0
    assert client.request(104, goodbye).code == 0
    assert client.route("topic1").code == 17
    assert json.loads(client.request(106).body) == {"brokerAddrTable": {}, "clusterAddrTable": {}}
    # it did not go itself, and is heard of again
    client.register(broker)
    assert client.route("topic1").code == 0
