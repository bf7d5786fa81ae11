"""Input made to harm: names, addresses, sizes. It is refused over the wire, and other clients see nothing of it."""

from __future__ import annotations

import json
import zlib

import pytest

from mqregistry.protocol.codes import Encoding, RequestCode
from mqregistry.protocol.command import Command, encode_command
from mqregistry.request_rights import REQUESTS

from .harness import Broker

LONG = "n" * 256
CONTROL = "orders\n2026 ERROR forged\x1b[2J"
BAD_NAMES = pytest.mark.parametrize(
    ("name", "fault"),
    [(LONG, "has 256 bytes, at most 255"), ("\u00e4" * 128, "has 256 bytes"), (CONTROL, "has a control character")],
    ids=["long", "long-utf8", "control"],
)

_OF_A_BROKER = {"brokerName": "broker-a", "brokerAddr": "127.0.0.1:10911", "clusterName": "c1", "brokerId": "0"}
WRITES = [
    (RequestCode.UNREGISTER_BROKER, _OF_A_BROKER, ("brokerName", "brokerAddr", "clusterName")),
    (RequestCode.QUERY_DATA_VERSION, _OF_A_BROKER, ("brokerName", "brokerAddr", "clusterName")),
    (RequestCode.BROKER_HEARTBEAT, _OF_A_BROKER, ("brokerName", "brokerAddr", "clusterName")),
    (RequestCode.PUT_KV_CONFIG, {"namespace": "ns", "key": "k", "value": "v"}, ("namespace", "key")),
    (RequestCode.DELETE_KV_CONFIG, {"namespace": "ns", "key": "k"}, ("namespace", "key")),
    (RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"}, ("brokerName",)),
    (RequestCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"}, ("brokerName",)),
    (RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "topic1", "clusterName": "c1"}, ("topic", "clusterName")),
    (RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "topic1"}, ("topic",)),
]  # fmt: skip


@BAD_NAMES
def test_a_name_that_is_not_bounded_is_refused_by_every_write(front_end, name, fault):
    with front_end.client() as client:
        for code, fields, names in WRITES:
            for field in names:
                reply = client.request(code, fields | {field: name}, b'{"queueDatas":[]}')
                assert reply.code == 1, (code, field)
                assert f"{field} {fault}" in reply.remark
        for field in ("brokerName", "brokerAddr", "clusterName", "haServerAddr", "__ZONE_NAME"):
            ext, body = Broker().registration()
            reply = client.request(RequestCode.REGISTER_BROKER, ext | {field: name}, body)
            assert reply.code == 1
            assert f"{field} {fault}" in reply.remark
        assert json.loads(client.request(RequestCode.GET_BROKER_CLUSTER_INFO).body)["clusterAddrTable"] == {}


@BAD_NAMES
@pytest.mark.parametrize("others", [0, 2000], ids=["small", "in chunks"])
def test_a_registration_with_a_topic_whose_name_is_not_bounded_stores_nothing(front_end, name, fault, others):
    broker = Broker(topics=[f"topic-{i}" for i in range(others)] + [name])
    broker.separators = (",", ":")
    with front_end.client() as client:
        reply = client.register(broker)
        assert reply.code == 1
        assert f"topic {name[:100]!r} {fault}" in reply.remark
        assert json.loads(client.request(RequestCode.GET_BROKER_CLUSTER_INFO).body)["clusterAddrTable"] == {}
        assert client.register(Broker()).code == 0


@BAD_NAMES
def test_the_bodys_other_names_are_bounded_too(front_end, name, fault):
    with front_end.client() as client:
        client.register(Broker())
        for change in (
            {"filterServerList": [name]},
            {"mappings": {name: {"topic": "t", "bname": "broker-a"}}},
            {"mappings": {"t": {"topic": "t", "bname": name}}},
        ):
            ext, body = Broker(counter=2).registration()
            content = json.loads(body)
            content |= {key: value for key, value in change.items() if key != "mappings"}
            content["topicConfigSerializeWrapper"]["topicQueueMappingInfoMap"] = change.get("mappings", {})
            reply = client.request(RequestCode.REGISTER_BROKER, ext | {"bodyCrc32": "0"}, json.dumps(content).encode())
            assert reply.code == 1
            assert fault in reply.remark
        queues = {"queueDatas": [{"brokerName": name, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}]}
        reply = client.request(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "t"}, json.dumps(queues).encode())
        assert reply.code == 1
        assert f"brokerName {name[:100]!r} {fault}" in reply.remark


@BAD_NAMES
def test_a_lookup_of_a_name_that_no_topic_has_is_17_and_asks_nobody(front_end_with, name, fault):
    """In cluster-test mode, where an unknown topic is asked for elsewhere; here nobody would answer for 2 s."""
    front_end = front_end_with(cluster_test=True, product_env_namesrv_addr="127.0.0.1:9")
    with front_end.client() as client:
        reply = client.route(name)
        assert reply.code == 17
        assert f"the topic: {name}" in reply.remark
        front_end.poll()
        assert "is away" not in front_end.log
        client.route("another")  # which is asked for there
    front_end.wait_until(lambda: "is away" in front_end.log, "the product environment was asked for the other topic")


@BAD_NAMES
def test_a_watch_of_such_a_name_is_refused(front_end, name, fault):
    with front_end.client() as client:
        reply = client.request(29105, {"holdMillis": "1000"}, json.dumps([name]).encode())
        assert reply.code == 1
        assert fault in reply.remark


def test_a_data_version_has_at_most_4_kib(front_end):
    with front_end.client() as client:
        client.register(Broker())
        version = b'{"counter":1,"stateVersion":0,"timestamp":1700000000000}'
        for size, code in ((4096, 0), (4097, 1), (4 << 20, 1)):
            reply = client.request(RequestCode.QUERY_DATA_VERSION, _OF_A_BROKER, version.ljust(size))
            assert reply.code == code, reply.remark
        assert "with a body of 4194304 bytes: at most 4096 are taken" in reply.remark


def test_kv_is_bounded(front_end):
    """B3, over the wire; its other bounds: tests/store/test_put_kv.py."""
    with front_end.client() as client:
        for size, code in ((65_536, 0), (65_537, 1), (1 << 17, 1)):
            fields = {"namespace": "ns", "key": f"k{size}", "value": "v" * size}
            reply = client.request(RequestCode.PUT_KV_CONFIG, fields)
            assert reply.code == code, reply.remark
        assert "a value has at most 65536 bytes, this one has 131072" in reply.remark
        assert list(json.loads(client.request(219, {"namespace": "ns"}).body)["table"]) == ["k65536"]
        # in UTF-8, whatever the length in characters
        reply = client.request(RequestCode.PUT_KV_CONFIG, {"namespace": "ns", "key": "k", "value": "\u00e4" * 32_769})
        assert (reply.code, "65538" in reply.remark) == (1, True)


def test_more_filter_servers_than_a_route_should_show_are_refused(front_end):
    with front_end.client() as client:
        for servers, code in (([f"10.0.0.1:{n}" for n in range(1000)], 0), ([f"10.0.0.1:{n}" for n in range(1001)], 1)):
            ext, body = Broker().registration()
            content = json.loads(body) | {"filterServerList": servers}
            reply = client.request(RequestCode.REGISTER_BROKER, ext | {"bodyCrc32": "0"}, json.dumps(content).encode())
            assert reply.code == code
        assert "1001 filter servers, at most 1000 are taken" in reply.remark
        route = json.loads(client.route("topic1").body)
        assert len(route["filterServerTable"]["127.0.0.1:10911"]) == 1000


def test_a_topic_is_given_queues_at_1000_brokers_at_most(front_end):
    with front_end.client() as client:
        client.register(Broker())
        for count, fault in ((1001, "queues at 1001 brokers: at most 1000"), (40_000, "at most 524288 are taken")):
            datas = [{"brokerName": f"b{n}", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6} for n in range(count)]
            body = json.dumps({"queueDatas": [*datas[1:], datas[0] | {"brokerName": "broker-a"}]}).encode()
            reply = client.request(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "t"}, body)
            assert (reply.code, fault in reply.remark) == (1, True), reply.remark
        assert client.route("t").code == 17


@pytest.mark.parametrize(
    "code", [RequestCode.UNREGISTER_BROKER, RequestCode.QUERY_DATA_VERSION, RequestCode.BROKER_HEARTBEAT]
)
def test_an_address_with_a_bar_reaches_no_other_cluster(front_end, code):
    """``c|x`` + ``y`` and ``c`` + ``x|y`` would be one identity."""
    with front_end.client() as client:
        client.register(Broker(cluster="c|x", addr="127.0.0.1:10911"))
        fields = _OF_A_BROKER | {"clusterName": "c", "brokerAddr": "x|127.0.0.1:10911"}
        reply = client.request(code, fields, b'{"counter":1,"stateVersion":0,"timestamp":1700000000000}')
        assert reply.code == 1
        assert "brokerAddr has a |" in reply.remark
        assert client.route("topic1").code == 0
    front_end.wait_until(lambda: f"request {code:d} ({code.name}) of 127.0.0.1:" in front_end.log, "it is logged")


def test_foreign_text_forges_no_log_line_and_no_display(front_end):
    with front_end.client() as client:
        assert client.request(RequestCode.PUT_KV_CONFIG, {"namespace": "ns", "key": "k\u202e", "value": "v"}).code == 0
    front_end.wait_until(lambda: r"key k\u202e" in front_end.log, "it was logged")
    assert "\u202e" not in front_end.log


def signed(broker: Broker, beat: int) -> tuple[dict[str, str], bytes]:
    """A registration as a 5.x broker with RocketMQ's ACL sends it: the signature covers the body, which has a time."""
    ext, body = broker.registration()
    body = body.replace(
        b'"topicConfigTable"',
        b'"mappingDataVersion":{"counter":0,"stateVersion":0,"timestamp":%d},"topicConfigTable"' % beat,
    )
    more = {"AccessKey": "rocketmq2", "Signature": f"signature-{beat}=", "SecurityToken": f"token-{beat}"}
    return ext | more | {"bodyCrc32": str(zlib.crc32(body) & 0x7FFFFFFF)}, body


def test_signed_registrations_are_known_by_their_digest(front_end):
    broker = Broker()
    broker.separators = (",", ":")
    with front_end.client() as client:
        for beat in range(4):
            assert client.request(RequestCode.REGISTER_BROKER, *signed(broker, 1700000000000 + beat)).code == 0
        known = 'registrations_total{path="unchanged"}'
        front_end.wait_until(lambda: front_end.counter(known) == 3, "all but the first one were known")
        other, body = signed(broker, 1700000000009)
        client.request(RequestCode.REGISTER_BROKER, other | {"haServerAddr": "127.0.0.1:1"}, body)
        assert json.loads(client.route("topic1").body)["brokerDatas"][0]["brokerName"] == "broker-a"
    front_end.wait_until(
        lambda: front_end.counter('registrations_total{path="changed"}') == 2, "the address is covered"
    )


@pytest.mark.parametrize("encoding", list(Encoding), ids=str)
@pytest.mark.parametrize("code", [code for code, row in REQUESTS.items() if row.body_bytes < 15 << 20] + [9999])
def test_a_body_that_no_code_can_use_is_passed_over(front_end, code, encoding):
    """It is answered before it has come, none of it is kept, and the next request on the connection is understood."""
    size = 15 << 20
    command = Command(code=code, opaque=7, version=479, ext_fields={"topic": "t", "brokerName": "b"}, encoding=encoding)
    head = encode_command(command)[4:]
    with front_end.client() as client:
        client.socket.sendall((len(head) + size).to_bytes(4, "big") + head + b"x" * 40_000)
        reply = client.receive()
        assert reply.code == (3 if code == 9999 else 1)
        assert code == 9999 or f"with a body of {size} bytes" in reply.remark
        assert front_end.poll().get("held_bytes", 0) < 1 << 20
        client.socket.sendall(b"x" * (size - 40_000))
        assert client.route("none").code == 17
