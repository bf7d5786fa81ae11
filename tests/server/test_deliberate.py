"""Where ours is meant to differ from the Java NameServer: a test for each row of docs/differences.md, over the wire."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest
import redis

from mqregistry.protocol import lenient_json
from mqregistry.protocol.bodies.crc32 import body_crc32
from mqregistry.protocol.bodies.register import encode_register_body
from tests.protocol.at_once import decode_register_body

from .fleet import beating
from .harness import Broker, Client, wait_until

ROOT = Path(__file__).parents[2]
DIFFERENCES = ROOT / "docs" / "differences.md"


def tables(client: Client) -> dict:
    return lenient_json.loads(client.request(106).body)


def brokers(client: Client) -> dict[str, dict[str, str]]:
    """Address table: brokerName -> id -> address."""
    return {
        name: {str(number): addr for number, addr in row["brokerAddrs"].items()}
        for name, row in tables(client)["brokerAddrTable"].items()
    }


def unregister(client: Client, broker: Broker, **changed: str) -> int:
    ext = {
        "brokerId": str(broker.broker_id), "clusterName": broker.cluster, "brokerAddr": broker.addr,
        "brokerName": broker.name,
    }  # fmt: skip
    return client.request(104, ext | changed).code


def gone(client: Client, topic: str):
    return lambda: client.route(topic).code == 17


def test_d1_a_zlib_body_is_read_whatever_the_flag_says(front_end):
    with front_end.client() as client:
        ext, body = Broker().registration()
        body = encode_register_body(decode_register_body(body, compressed=False, version=479), compressed=True)
        assert ext["compressed"] == "false"  # what a 5.x broker says of its compressed body
        assert client.request(103, ext | {"bodyCrc32": str(body_crc32(body))}, body).code == 0
        assert client.route("topic1").code == 0


def test_d2_two_brokers_on_one_connection_both_go_with_it(front_end):
    with front_end.client() as client:
        with front_end.client() as shared:
            shared.register(Broker("broker-a", "127.0.0.1:10911", topics=["a1", "a2"]))
            shared.register(Broker("broker-b", "127.0.0.1:10921", topics=["b1", "b2"]))
            assert set(brokers(client)) == {"broker-a", "broker-b"}
        wait_until(lambda: brokers(client) == {}, "both are gone")


def test_d3_one_name_in_two_clusters_both_go_with_their_connections(front_end):
    with front_end.client() as client:
        with front_end.client() as first:
            first.register(Broker(cluster="c1", addr="127.0.0.1:10911"))
            with front_end.client() as second:
                second.register(Broker(cluster="c2", addr="127.0.0.1:10921", broker_id=1))
                assert brokers(client) == {"broker-a": {"0": "127.0.0.1:10911", "1": "127.0.0.1:10921"}}
            # in Java it stays: its cluster is not that of the row
            wait_until(lambda: brokers(client) == {"broker-a": {"0": "127.0.0.1:10911"}}, "the second is gone")
        wait_until(lambda: tables(client)["clusterAddrTable"] == {}, "and the first")


def test_d3_an_address_under_two_names_leaves_both(front_end):
    with front_end.client() as client:
        with front_end.client() as connection:
            connection.register(Broker("broker-a"))
            connection.register(Broker("broker-b"))
            assert set(brokers(client)) == {"broker-a", "broker-b"}
        wait_until(lambda: brokers(client) == {}, "it has left both names")


def test_d3_a_displaced_address_is_forgotten_with_its_connection(front_end):
    with front_end.client() as client:
        with front_end.client() as first:
            first.register(Broker(addr="127.0.0.1:10911"))
            client.register(Broker(addr="127.0.0.1:10921", counter=2))
            ask = {"brokerAddr": "127.0.0.1:10911", "clusterName": "c1", "brokerName": "broker-a", "brokerId": "0"}
            same = b'{"counter":1,"stateVersion":0,"timestamp":1700000000000}'
            assert client.request(322, ask, same).ext_fields == {"changed": "false"}
        # in Java it is known for another 120 s
        wait_until(lambda: client.request(322, ask, same).ext_fields == {"changed": "true"}, "it is forgotten")
        assert brokers(client) == {"broker-a": {"0": "127.0.0.1:10921"}}


def test_d4_unregistering_with_a_wrong_cluster_leaves_nothing_dead(front_end):
    broker = Broker()
    with front_end.client() as client:
        client.register(broker)
        assert unregister(client, broker, clusterName="c9") == 0
        assert tables(client) == {"brokerAddrTable": {}, "clusterAddrTable": {}}


def test_d5_unregistering_is_done_before_the_answer_and_a_bad_one_harms_no_other(front_end):
    kept, left = Broker("broker-a", "127.0.0.1:10911"), Broker("broker-b", "127.0.0.1:10921")
    with front_end.client() as client:
        client.register(kept)
        client.register(left)
        # all three in one write: what Java would take as one batch
        bad = {"clusterName": "c1", "brokerAddr": kept.addr, "brokerName": kept.name, "brokerId": "no number"}
        client.send(104, bad)
        good = client.send(
            104, {"clusterName": "c1", "brokerAddr": left.addr, "brokerName": left.name, "brokerId": "0"}
        )
        asked = client.send(106)
        answers = {reply.opaque: reply for reply in (client.receive() for _ in range(3))}
        assert answers[good].code == 0
        assert asked in answers
        assert set(brokers(client)) == {"broker-a"}


@pytest.mark.parametrize("missing", ["brokerName", "brokerId"])
def test_d5_unregistering_without_a_name_or_an_id_changes_nothing(front_end, missing):
    with front_end.client() as client:
        client.register(Broker())
        ask = {"brokerAddr": "127.0.0.1:10911", "clusterName": "c1", "brokerName": "broker-a", "brokerId": "0"}
        same = b'{"counter":1,"stateVersion":0,"timestamp":1700000000000}'
        assert client.request(104, {field: value for field, value in ask.items() if field != missing}).code == 0
        assert brokers(client) == {"broker-a": {"0": "127.0.0.1:10911"}}
        # Java ends the live info, so that the row could never expire
        assert client.request(322, ask, same).ext_fields == {"changed": "false"}


def test_d6_a_killed_front_end_comes_back_with_everything(front_end):
    with front_end.client() as broker, front_end.client() as client:
        broker.register(Broker())
        assert client.request(100, {"namespace": "n", "key": "k", "value": "v"}).code == 0
        front_end.kill(signal.SIGKILL)
        front_end.start()
        with front_end.client() as again:
            assert again.route("topic1").code == 0  # no broker has said anything since
            assert again.request(101, {"namespace": "n", "key": "k"}).ext_fields == {"value": "v"}


def test_d7_304_names_the_smallest_master_and_any_brokers_flag_lists_a_topic(front_end):
    with front_end.client() as client:
        flagged = Broker("broker-a", "127.0.0.1:10931")
        ext, body = flagged.registration()
        body = body.replace(b'"topicSysFlag": 0', b'"topicSysFlag": 1', 1)
        ext["bodyCrc32"] = "0"
        for number in range(2):  # whichever comes first
            client.register(Broker("broker-b", "127.0.0.1:10921", counter=number))
            client.register(Broker("broker-c", "127.0.0.1:10911", broker_id=1, counter=number))
            assert client.request(103, ext, body).code == 0
        system = lenient_json.loads(client.request(304).body)
        assert system["brokerAddr"] == "127.0.0.1:10921"
        assert lenient_json.loads(client.request(311).body)["topicList"] == ["topic1"]


@pytest.mark.parametrize("compat", ["5.x", "4.8"])
def test_d8_an_unknown_code_is_answered_also_in_4_8_mode(front_end_with, compat):
    with front_end_with(compat=compat).client() as client:
        reply = client.request(4711)
        assert (reply.code, reply.remark) == (3, " request type 4711 not supported")


@pytest.mark.parametrize("field", ["clusterName", "brokerName", "brokerAddr"])
@pytest.mark.parametrize("value", [None, ""])
def test_d9_a_missing_or_empty_name_is_refused_and_nothing_is_stored(front_end, field, value):
    with front_end.client() as client:
        ext, body = Broker().registration()
        ext.pop(field) if value is None else ext.update({field: value})
        reply = client.request(103, ext, body)
        assert reply.code == 1
        assert field in reply.remark
        assert tables(client) == {"brokerAddrTable": {}, "clusterAddrTable": {}}


@pytest.mark.parametrize("ext", [{}, {"topic": ""}])
def test_d9_registering_no_topic_stores_nothing(front_end, ext):
    with front_end.client() as client:
        client.register(Broker())
        queue_datas = b'{"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"writeQueueNums":4}]}'
        before = client.request(206).body
        assert client.request(217, ext, queue_datas).code == 0  # as recorded
        assert client.request(206).body == before


def test_d10_ready_as_soon_as_the_tables_are_readable(front_end_with):
    with front_end_with(need_wait_for_service=True, wait_seconds_for_service=45).client() as client:
        client.register(Broker())
    with front_end_with(need_wait_for_service=True, wait_seconds_for_service=45).client() as client:
        assert client.route("nobody-has-it").code == 17  # Java: code 1, the name server is not ready


def test_d11_a_close_at_one_front_end_keeps_the_broker_that_is_connected_to_another(front_end_with):
    one, other = front_end_with(), front_end_with()
    broker = Broker()
    with one.client() as client, other.client() as second:
        with one.client() as first:
            first.register(broker)
            second.register(broker)
        one.wait_until(lambda: one.poll().get("connections") == 1 and one.status["closes_pending"] == 0, "closed")
        assert client.route("topic1").code == 0
        second.close()
        wait_until(gone(client, "topic1"), "its last connection took it along")


def test_d12_after_an_outage_of_the_registry_nobody_expires_before_it_could_beat(front_end_with):
    front_end = front_end_with(broker_channel_expired_time_ms=6000)
    broker = Broker()
    with beating([broker], [front_end]), front_end.client() as client:
        wait_until(lambda: client.route("topic1").code == 0, "registered")
        # paused as a whole (a suspended machine): longer than the broker's life, and nobody could beat
        front_end.process.send_signal(signal.SIGSTOP)
        try:
            # until its beat and the front end's lease have run out: more than three renewals
            wait_until(lambda: not redis_keys(front_end, "beat:*") + redis_keys(front_end, "lease:*"), "time is up")
        finally:
            front_end.process.send_signal(signal.SIGCONT)
        expire_now(front_end)
        assert client.route("topic1").code == 0


def redis_keys(front_end, pattern: str) -> list[bytes]:
    with redis.Redis.from_url(front_end.settings.redis, protocol=2) as client:
        return client.keys(f"mq:{{{front_end.settings.namespace}}}:{pattern}")


def expire_now(front_end) -> None:
    """What a sweeper does."""
    import asyncio

    from mqregistry.store.leases import LeaseStore
    from mqregistry.store.store import Store

    async def sweep() -> None:
        async with Store(front_end.settings.redis, front_end.settings.namespace) as store:
            await LeaseStore(store).expire(100)

    asyncio.run(sweep())


def test_d13_a_draining_front_end_sends_clients_away(front_end):
    with front_end.client(version=479) as client:
        assert client.route("nobody-has-it").code == 17
        front_end.process.send_signal(signal.SIGTERM)
        reply = wait_until(lambda: answer_or_none(client, 1500), "go-away")
        assert reply.code == 1500


def answer_or_none(client: Client, code: int):
    reply = client.request(106)
    return reply if reply.code == code else None


@pytest.mark.parametrize("key", ["clusterTest", "brokerChannelExpiredTimeMs", "deleteTopicWithBrokerRegistration"])
def test_d14_318_changes_only_what_cannot_harm(front_end, key):
    with front_end.client() as client:
        before = client.request(319).body
        value = b"5000" if key.endswith("Ms") else b"true"
        reply = client.request(318, {}, key.encode() + b"=" + value)
        assert reply.code == 16
        assert key in reply.remark
        assert client.request(319).body == before


def test_d14_318_changes_every_front_end(front_end_with):
    one, other = front_end_with(), front_end_with()
    with one.client() as client, other.client() as second:
        assert client.request(318, {}, b"enableTopicList=false").code == 0
        wait_until(lambda: b"enableTopicList=false" in second.request(319).body, "the other one has it too")
        assert second.request(311).remark == "disable"


def test_d15_in_cluster_test_mode_brokers_can_register(front_end_with):
    with front_end_with(cluster_test=True, product_env_namesrv_addr="127.0.0.1:1").client() as client:
        assert client.register(Broker()).code == 0
        assert client.route("topic1").code == 0
        assert "broker-a" in brokers(client)


def test_d16_a_refused_one_topic_registration_leaves_nothing(front_end):
    with front_end.client() as client:
        reply = client.register(Broker(topics=["only"]))
        assert (reply.code, reply.remark) == (1, "register broker failed")
        assert tables(client) == {"brokerAddrTable": {}, "clusterAddrTable": {}}


@pytest.mark.parametrize(
    "body",
    [
        b'{"topicConfigSerializeWrapper":null}',
        b'{"topicConfigSerializeWrapper":{"dataVersion":{"counter":1,"timestamp":1},"topicConfigTable":null}}',
    ],
    ids=["wrapper", "table"],
)
def test_d16_null_instead_of_topics_of_an_unknown_broker_leaves_nothing(front_end, body):
    with front_end.client() as client:
        ext, _ = Broker().registration()
        assert client.request(103, ext | {"bodyCrc32": "0"}, body).code == 0
        assert tables(client) == {"brokerAddrTable": {}, "clusterAddrTable": {}}


def test_d16_a_lower_state_version_changes_nothing_at_all(front_end):
    with front_end.client() as client:
        holder, late = Broker(addr="127.0.0.1:10911"), Broker(addr="127.0.0.1:10921", enableActingMaster="true")
        ext, body = holder.registration()
        newer = body.replace(b'"stateVersion": 0', b'"stateVersion": 2')
        assert client.request(103, ext | {"bodyCrc32": "0"}, newer).code == 0
        before = client.request(106).body
        assert client.register(late).code == 0
        assert client.request(106).body == before


def rows() -> list[tuple[str, str]]:
    """(id, text of the last column) of the tests' table in docs/differences.md, which has a line for each row."""
    described, _, shown = DIFFERENCES.read_text().partition("## The tests")
    found = re.findall(r"^\| (D\d+[^|]*?) \|([^|]*)\|$", shown, re.MULTILINE)
    assert found, "the table has another form now: mend this test"
    assert [row for row, _ in found] == re.findall(r"^\| (D\d+[^|]*?) \|", described, re.MULTILINE)
    return [(row.split()[0], tests) for row, tests in found]


def test_every_row_of_the_document_names_a_test_that_exists():
    for row, named in rows():
        tests = re.findall(r"`([\w/]+\.py)::(\w+)`", named)
        assert tests, f"{row} names no test"
        for path, name in tests:
            assert f"def {name}(" in (ROOT / "tests" / path).read_text(), f"{row}: no {name} in tests/{path}"


def test_every_test_here_is_in_the_document():
    text = DIFFERENCES.read_text()
    for name in re.findall(r"^def (test_d\d+\w*)\(", Path(__file__).read_text(), re.MULTILINE):
        assert f"`server/test_deliberate.py::{name}`" in text, f"{name}: no row names it"


def test_every_reason_of_the_random_sequences_has_a_row():
    from tests.differential.deliberate import DELIBERATE

    known = {row for row, _ in rows()}
    for reason in DELIBERATE:
        assert reason in ("null wrapper", "null version", "clock") or reason.split()[0] in known, reason


def test_d30_the_expiry_of_one_broker_keeps_the_connection_of_the_others(front_end):
    brief = {"heartbeatTimeoutMillis": "1000"}
    with front_end.client() as client, front_end.client() as shared:
        living = Broker("broker-b", "127.0.0.1:10921")
        shared.register(Broker("broker-a", "127.0.0.1:10911", **brief))
        shared.register(living)

        def expires(name):
            expire_now(front_end)
            return name not in brokers(client)

        wait_until(lambda: expires("broker-a"), "the silent one is removed")
        assert set(brokers(client)) == {"broker-b"}
        assert shared.register(living).code == 0, "in Java the connection is closed"
        living.ext |= brief
        shared.register(living)
        wait_until(lambda: expires("broker-b"), "the last one is removed")
        assert shared.closed()


def test_d35_a_broker_with_a_new_role_is_asked_to_register(front_end_with):
    with front_end_with().client() as client:
        client.register(Broker())
        slave = Broker(broker_id=1, addr="127.0.0.1:10921")
        client.register(slave)
        ask = {"clusterName": "c1", "brokerName": "broker-a", "brokerAddr": slave.addr}
        same = json.dumps({"counter": 1, "stateVersion": 0, "timestamp": 1700000000000}).encode()
        for broker_id, changed in (("1", "false"), ("0", "true"), ("x", "false")):
            assert client.request(322, {**ask, "brokerId": broker_id}, same).ext_fields == {"changed": changed}
        slave.broker_id = 0
        client.register(slave)
        for broker_id, changed in (("1", "true"), ("0", "false")):
            assert client.request(322, {**ask, "brokerId": broker_id}, same).ext_fields == {"changed": changed}
