"""The first true path: a broker registers, its tables stand in Redis, a client finds it, it goes."""

from __future__ import annotations

import json

from mqregistry.protocol import lenient_json
from mqregistry.protocol.bodies.crc32 import body_crc32
from mqregistry.protocol.bodies.route import decode_route
from mqregistry.protocol.codes import RequestCode
from mqregistry.protocol.command import decode_command
from tests.golden import exchanges

from .harness import Broker


def test_a_broker_that_registers_is_found_and_gone_when_its_connection_closes(front_end):
    with front_end.client() as client, front_end.client() as broker_connection:
        assert client.route("topic1").code == 17
        master = Broker()
        reply = broker_connection.register(master)
        assert (reply.code, reply.ext_fields) == (0, {})
        route = decode_route(client.route("topic1").body)
        assert route.broker_rows["broker-a"].broker_addrs == {0: master.addr}
        assert route.queue_datas["broker-a"].write_queue_nums == 4
        assert lenient_json.loads(client.request(106).body)["clusterAddrTable"] == {"c1": ["broker-a"]}
        broker_connection.close()
        front_end.wait_until(lambda: client.route("topic1").code == 17, "the route is gone")


def test_an_unchanged_registration_is_only_a_sign_of_life(front_end):
    with front_end.client() as broker_connection:
        master = Broker()
        for _ in range(3):
            assert broker_connection.register(master).code == 0
        front_end.wait_until(
            lambda: front_end.counter('registrations_total{path="unchanged"}') == 2, "two were unchanged"
        )
        assert front_end.counter('registrations_total{path="changed"}') == 1


def test_a_5x_brokers_registration_is_unchanged_though_it_bears_the_time(front_end):
    """Recorded ones: their bodies differ in a version that no name server reads, and so do their checksums."""
    recorded = [
        decode_command(request["frame"][4:])
        for request, _ in exchanges("static-topic-5.3.3--ns-5.3.3")
        if request["code"] == RequestCode.REGISTER_BROKER and request["conn"] == 1
    ]
    first, second = recorded[:2]
    assert first.body != second.body
    with front_end.client() as connection:
        connection.version = first.version
        for command in (first, second):
            reply = connection.request(command.code, command.ext_fields, command.body)
            assert reply.code == 0
        front_end.wait_until(
            lambda: front_end.counter('registrations_total{path="unchanged"}') == 1, "the second was unchanged"
        )

        # The body of the one with the checksum of the other.
        reply = connection.request(first.code, second.ext_fields, first.body)
        assert (reply.code, reply.remark) == (1, "crc32 not match")

        # Any other difference counts.
        changed = first.body.replace(b'"perm":6', b'"perm":4', 1)
        fields = first.ext_fields | {"bodyCrc32": str(body_crc32(changed))}
        assert connection.request(first.code, fields, changed).code == 0
        front_end.wait_until(lambda: front_end.counter('registrations_total{path="changed"}') == 2, "this was changed")


def test_a_slave_is_told_its_master(front_end):
    with front_end.client() as connection:
        connection.register(Broker())
        reply = connection.register(Broker(addr="127.0.0.1:10921", broker_id=1))
        assert reply.ext_fields == {"masterAddr": "127.0.0.1:10911", "haServerAddr": "127.0.0.1:20911"}


def test_two_front_ends_answer_alike(front_end_with):
    one, other = front_end_with(), front_end_with()
    with one.client() as a, other.client() as b:
        a.register(Broker())
        other.wait_until(lambda: b.route("topic1").code == 0, "the other front end sees it")
        assert json.loads(a.route("topic1").body) == json.loads(b.route("topic1").body)
