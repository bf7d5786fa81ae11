"""Answers in rare cases that no recorded traffic shows, as the Java NameServers 5.5.0 (default) and 4.8.0 gave them."""

from __future__ import annotations

import contextlib
import json
import signal
import struct
import time

import pytest

from mqregistry.config.sources import build
from mqregistry.errors import ConfigError
from mqregistry.protocol import lenient_json
from mqregistry.protocol.codes import Encoding

from .harness import Broker, wait_until

NULLS = [b"null", b" null ", b'""', b"[]"]


@pytest.fixture(params=["5.x", "4.8"])
def compat(request):
    return request.param


@pytest.fixture
def client(front_end_with, compat):
    with front_end_with(compat=compat).client() as client:
        yield client


def register(client, broker, encoding=Encoding.JSON, **changed):
    ext, body = broker.registration()
    return client.request(103, ext | changed, body, encoding=encoding)


@pytest.mark.parametrize("encoding", list(Encoding), ids=lambda encoding: encoding.name)
def test_an_empty_ha_server_addr_is_given_to_the_slave_where_java_can_read_it(client, compat, encoding):
    master, slave = Broker(), Broker(addr="127.0.0.1:10921", broker_id=1)
    known = {} if encoding is Encoding.ROCKETMQ and compat == "5.x" else {"haServerAddr": ""}
    for ha_server_addr, answered in (("", known), ("x:1", {"haServerAddr": "x:1"}), ("", known)):
        register(client, master, encoding, haServerAddr=ha_server_addr)
        for _ in range(2):  # as a change, and known by its digest
            assert register(client, slave).ext_fields == {"masterAddr": master.addr} | answered


def test_an_absent_ha_server_addr_is_not_given_to_the_slave(client):
    master, slave = Broker(), Broker(addr="127.0.0.1:10921", broker_id=1)
    ext, body = master.registration()
    del ext["haServerAddr"]
    client.request(103, ext, body)
    assert register(client, slave).ext_fields == {"masterAddr": master.addr}


def zones(client):
    """zoneName as 105 and 106 show it, "absent" where they do not."""
    (route,) = lenient_json.loads(client.route("topic1").body)["brokerDatas"]
    row = lenient_json.loads(client.request(106).body)["brokerAddrTable"]["broker-a"]
    return route.get("zoneName", "absent"), row.get("zoneName", "absent")


def test_an_empty_zone_name_is_shown_as_it_came(front_end):
    with front_end.client() as client:
        register(client, Broker(), __ZONE_NAME="")
        assert zones(client) == ("", "")
        register(client, Broker(), __ZONE_NAME="z")
        assert zones(client) == ("z", "z")
        register(client, Broker(), __ZONE_NAME="")
        assert zones(client) == ("", "")
        register(client, Broker())
        assert zones(client) == ("absent", "absent")
        register(client, Broker(), Encoding.ROCKETMQ, __ZONE_NAME="")  # where nothing cannot be told from null
        assert zones(client) == ("absent", "absent")


@pytest.mark.parametrize("body", NULLS)
def test_a_data_version_of_null_has_changed(client, body):
    broker = Broker()
    client.register(broker)
    asked = {"brokerAddr": broker.addr, "clusterName": broker.cluster, "brokerName": broker.name, "brokerId": "0"}
    reply = client.request(322, asked, body)
    assert (reply.code, reply.ext_fields) == (0, {"changed": "true"})
    assert json.loads(reply.body)["counter"] == 1
    assert client.request(322, asked | {"brokerAddr": "nobody:1"}, body).ext_fields == {"changed": "true"}
    assert client.request(322, asked, body + b"x").code == 1


@pytest.mark.parametrize("body", [*NULLS, b'{"topicConfigTable":null}'])
def test_null_from_a_broker_before_3_0_11_is_answered_0_and_changes_nothing(client, compat, body):
    """Java leaves an empty row of a broker that it did not know: docs/differences.md D16.2."""
    broker = Broker(bodyCrc32="0")
    ext, _ = broker.registration()
    client.version = 36
    reply = client.request(103, ext, body)
    assert (reply.code, reply.ext_fields) == (0, {})
    if compat == "5.x" or body in NULLS:
        assert json.loads(client.request(106).body)["brokerAddrTable"] == {}
    client.version = 479
    client.register(broker)
    client.version = 36
    assert client.request(103, ext, body).code == 0
    assert client.route("topic1").code == 0
    client.version = 479
    assert client.request(103, ext, body).code == (1 if body in NULLS else 0)


@pytest.mark.parametrize("ext", [None, {}, {"topic": ""}, {"topic": "t"}])
def test_217_reads_its_body_before_it_looks_at_the_topic(front_end, ext):
    with front_end.client() as client:
        for body in (b"xx", b"1", b"{"):
            assert client.request(217, ext, body).code == 1
        for body in (b"", b"{}", *NULLS):
            assert client.request(217, ext, body).code == 0
        assert client.route("t").code == 17


@pytest.mark.parametrize("body", [b"", b"xxxx"])
def test_a_frame_with_an_empty_json_header_closes_the_connection(client, body):
    assert client.request(106).code == 0
    client.socket.sendall(struct.pack(">II", 4 + len(body), 0) + body)
    assert client.closed()


def shown(client):
    return dict(line.split("=", 1) for line in client.request(319).body.decode().splitlines())


def test_319_shows_keys_of_the_file_that_have_no_effect(front_end_with, compat, tmp_path):
    file = tmp_path / "namesrv.properties"
    file.write_text(
        "serverWorkerThreads=16\nserverSelectorThreads=many\nkvConfigPath=/there/kv.json\n"
        "serverPooledByteBufAllocatorEnable=maybe\nuseEpollNativeSelector=TRUE\nnoSuchKey=a password\n"
    )
    warnings = []
    settings = build(config_file=file, environ={}, warn=warnings.append)
    assert len(warnings) == 1
    with front_end_with(compat=compat, without_effect=settings.without_effect).client() as client:
        found = shown(client)
        assert {key: found[key] for key in settings.without_effect} == {
            "serverWorkerThreads": "16", "serverSelectorThreads": "3", "kvConfigPath": "/there/kv.json",
            "serverPooledByteBufAllocatorEnable": "false", "useEpollNativeSelector": "true",
        }  # fmt: skip
        assert "noSuchKey" not in found
        assert client.request(318, None, b"serverWorkerThreads=17").code == 0
        assert shown(client)["serverWorkerThreads"] == "17"


@pytest.mark.parametrize("text", ["", "configStorePath=/ignored\nkvConfigPath=/there/kv.json\n"])
def test_319_shows_the_paths_that_java_would_have(front_end_with, compat, tmp_path, text):
    file = tmp_path / "namesrv.properties"
    file.write_text(text)
    paths = ("rocketmqHome", "kvConfigPath", "configStorePath")
    environ = {"HOME": "/home/mq", "ROCKETMQ_HOME": "/opt/rocketmq"}
    settings = build(config_file=file, environ=environ)
    with front_end_with(compat=compat, java_paths=settings.java_paths).client() as client:
        kv_path = "/there/kv.json" if text else "/home/mq/namesrv/kvConfig.json"
        assert [shown(client)[key] for key in paths] == ["/opt/rocketmq", kv_path, str(file)]
    without_file = build(environ=environ).java_paths
    assert [without_file[key] for key in paths] == [
        "/opt/rocketmq", "/home/mq/namesrv/kvConfig.json", "/home/mq/namesrv/namesrv.properties",
    ]  # fmt: skip


def test_319_shows_0_for_the_default_water_mark(front_end_with):
    with front_end_with().client() as client, front_end_with(write_buffer_high_water_mark_bytes=2048).client() as other:
        assert shown(client)["writeBufferHighWaterMark"] == "0"
        assert client.request(318, None, b"writeBufferHighWaterMark=0").code == 0
        assert shown(other)["writeBufferHighWaterMark"] == "2048"


def test_the_variable_of_java_chooses_the_serializer():
    assert build(environ={"ROCKETMQ_SERIALIZE_TYPE": "ROCKETMQ"}).serialize_type == "ROCKETMQ"
    assert build(environ={"ROCKETMQ_SERIALIZE_TYPE": " "}).serialize_type == "JSON"
    both = {"ROCKETMQ_SERIALIZE_TYPE": "ROCKETMQ", "MQREGISTRY_SERIALIZE_TYPE": "JSON"}
    assert build(environ=both).serialize_type == "JSON"
    with pytest.raises(ConfigError, match="ROCKETMQ_SERIALIZE_TYPE='rocketmq'"):
        build(environ={"ROCKETMQ_SERIALIZE_TYPE": "rocketmq"})


def test_a_drain_answers_clients_that_do_not_know_go_away_to_the_end(front_end_with):
    front_end = front_end_with(shutdown_wait_time_seconds=5)
    with front_end.client() as new, front_end.client(version=475) as old:
        began_s = time.monotonic()
        front_end.process.send_signal(signal.SIGTERM)
        wait_until(lambda: new.request(106).code == 1500, "it drains")
        with contextlib.suppress(ConnectionError):
            while old.send(106) and (reply := old.receive()) is not None:
                assert reply.code == 0
        assert time.monotonic() - began_s > 4, "it was hung up on before the end"
        assert front_end.process.wait(60) == 0
