"""Parts of a registration that have one DataVersion: each of them counts (docs/differences.md D33)."""

from __future__ import annotations

import json

import pytest

from mqregistry.protocol import lenient_json

from .harness import Broker, wait_until

OLD, NEW = (4, 4, 4), (8, 8, 6)
PARTS = [["t0", "t1", "t2"], ["t3", "t4", "t5"], ["t6", "t7", "t8"]]
TOPICS = [topic for part in PARTS for topic in part]


def register(client, broker, queue_data, counter, parts=PARTS):
    for part in parts:
        assert client.register(broker, topics=dict.fromkeys(part, queue_data), counter=counter).code == 0


def perms(client, name="broker-a"):
    found = {}
    for topic in TOPICS:
        reply = client.route(topic)
        if reply.code == 0:
            (data,) = [data for data in lenient_json.loads(reply.body)["queueDatas"] if data["brokerName"] == name]
            found[topic] = data["perm"]
    return found


@pytest.mark.parametrize("compat", ["5.x", "4.8"])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 1, 0, 2, 0)], ids=["in order", "out of order", "repeated"])
def test_every_part_of_one_data_version_counts(front_end_with, compat, order):
    with front_end_with(compat=compat).client() as client:
        broker = Broker()
        register(client, broker, OLD, 1)
        assert perms(client) == dict.fromkeys(TOPICS, 4)
        register(client, broker, NEW, 2, [PARTS[number] for number in order])
        assert perms(client) == dict.fromkeys(TOPICS, 6)


def test_parts_that_come_again_bring_back_no_permission_that_an_operator_took(front_end_with):
    with front_end_with().client() as client:
        broker = Broker()
        register(client, broker, NEW, 1)
        assert client.request(205, {"brokerName": "broker-a"}).ext_fields == {"wipeTopicCount": "9"}
        for _ in range(2):
            register(client, broker, NEW, 1)
            assert perms(client) == dict.fromkeys(TOPICS, 4)
        register(client, broker, NEW, 2)  # what has come with another part is no longer new: as in Java
        assert perms(client) == dict.fromkeys(PARTS[0], 6) | dict.fromkeys(PARTS[1] + PARTS[2], 4)
        register(client, broker, (16, 16, 6), 3)  # the broker itself has changed them all
        assert perms(client) == dict.fromkeys(TOPICS, 6)


@pytest.mark.parametrize(("code", "perm"), [(205, 4), (327, 6)], ids=["wipe", "add"])
def test_a_new_topic_does_not_undo_what_an_operator_set(front_end_with, code, perm):
    # A broker of 5.x registers the new topic alone, and then, with the same DataVersion, all of its topics.
    with front_end_with().client() as client:
        broker = Broker()
        register(client, broker, (4, 4, 7), 1, [TOPICS[1:]])
        client.request(205, {"brokerName": "broker-a"})
        if code == 327:
            client.request(327, {"brokerName": "broker-a"})
        expected = dict.fromkeys(TOPICS[1:], 5 if code == 205 else perm)
        assert perms(client) == expected
        register(client, broker, (4, 4, 7), 2, [TOPICS[:1], TOPICS, TOPICS])
        assert perms(client) == {"t0": 7} | expected


def test_a_new_topic_does_not_undo_what_somebody_registered(front_end_with):
    with front_end_with().client() as client:
        broker = Broker()
        register(client, broker, NEW, 1, [TOPICS[1:]])
        route = {"queueDatas": [{"brokerName": "broker-a", "readQueueNums": 2, "writeQueueNums": 2, "perm": 2}]}
        assert client.request(217, {"topic": "t5"}, json.dumps(route).encode()).code == 0
        register(client, broker, NEW, 2, [TOPICS[:1], TOPICS])
        assert perms(client) == dict.fromkeys(TOPICS, 6) | {"t5": 2}


def test_a_slave_that_becomes_the_master_registers_every_part_with_write_permission(front_end_with):
    with front_end_with().client() as client, front_end_with().client() as of_master:
        acting = {"enableActingMaster": "true"}
        slave = Broker(broker_id=1, addr="127.0.0.1:10921", **acting)
        register(client, slave, NEW, 1)
        assert perms(client) == dict.fromkeys(TOPICS, 4)  # the prime slave's, without write permission
        register(of_master, Broker(**acting), NEW, 1)
        of_master.close()
        wait_until(lambda: perms(client) == dict.fromkeys(TOPICS, 4), "the master has gone")
        slave.broker_id = 0
        register(client, slave, NEW, 1)
        assert perms(client) == dict.fromkeys(TOPICS, 6)


def test_in_48_parts_that_come_again_bring_back_no_topic_that_was_deleted(front_end_with):
    with front_end_with(compat="4.8").client() as client:
        register(client, Broker(), NEW, 1)
        client.request(216, {"topic": "t4"})
        register(client, Broker(), NEW, 1)
        assert perms(client).keys() == set(TOPICS) - {"t4"}


def test_a_slave_that_registers_between_two_parts_changes_nothing(front_end_with):
    with front_end_with().client() as client:
        register(client, Broker(), OLD, 1)
        register(client, Broker(), NEW, 2, PARTS[:1])
        client.register(Broker(broker_id=1, addr="127.0.0.1:10921", topics=["t5"]))
        register(client, Broker(), NEW, 2, PARTS[1:])
        assert perms(client) == dict.fromkeys(TOPICS, 6)


def test_a_broker_that_takes_its_id_back_has_its_own_queue_data(front_end_with):
    with front_end_with().client() as client:
        displaced = Broker()
        register(client, displaced, NEW, 1)
        register(client, Broker(addr="127.0.0.1:10912"), OLD, 7)
        register(client, displaced, NEW, 1)
        assert perms(client) == dict.fromkeys(TOPICS, 6)


def test_with_topics_that_go_a_part_takes_away_none_of_the_other_parts(front_end_with):
    with front_end_with(delete_topic_with_broker_registration=True).client() as client:
        broker = Broker()
        register(client, broker, OLD, 1)
        assert perms(client) == dict.fromkeys(TOPICS, 4)
        register(client, broker, NEW, 2, PARTS[:2])
        assert perms(client) == dict.fromkeys(TOPICS[:6], 6)
        register(client, broker, NEW, 2, PARTS[:2])  # the next period
        assert perms(client) == dict.fromkeys(TOPICS[:6], 6)


def test_parts_that_go_to_two_front_ends_in_turn_all_count(front_end_with):
    with front_end_with().client() as one, front_end_with().client() as other:
        for counter, queue_data in ((1, OLD), (2, NEW), (3, OLD)):
            for part in PARTS:
                for client in (one, other):
                    register(client, Broker(), queue_data, counter, [part])
            assert perms(one) == perms(other) == dict.fromkeys(TOPICS, queue_data[2])
