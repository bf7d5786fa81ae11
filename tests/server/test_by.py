"""Every change over the wire says whose it was, in the event and in the log: which peer deleted the topic."""

from __future__ import annotations

import json
import socket
from contextlib import closing

import msgspec
import pytest
import redis

from mqregistry.events.by import By
from mqregistry.events.changes import decode_change
from mqregistry.protocol.codes import RequestCode
from mqregistry.server.requests.writes import WRITES

from .auth_bed import Caller, Rules, broker_user, in_force
from .harness import Broker, Client, FrontEnd, wait_until
from .test_proxy_protocol import v2_inet

QUEUE_DATAS = {"queueDatas": [{"brokerName": "broker-a", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}]}
GOODBYE = {"clusterName": "c1", "brokerName": "broker-a", "brokerAddr": "127.0.0.1:10911", "brokerId": "0"}
KEY = {"namespace": "ns", "key": "k"}
# what it sends, and the type of the event; in this order each of them changes something
SENT = {
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: ({"brokerName": "broker-a"}, b"", "write_perm_set"),
    RequestCode.ADD_WRITE_PERM_OF_BROKER: ({"brokerName": "broker-a"}, b"", "write_perm_set"),
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: ({"topic": "given"}, json.dumps(QUEUE_DATAS).encode(), "topic_registered"),
    RequestCode.DELETE_TOPIC_IN_NAMESRV: ({"topic": "given"}, b"", "topic_deleted"),
    RequestCode.PUT_KV_CONFIG: (KEY | {"value": "v"}, b"", "kv_put"),
    RequestCode.DELETE_KV_CONFIG: (KEY, b"", "kv_deleted"),
    RequestCode.UPDATE_NAMESRV_CONFIG: ({}, b"orderMessageEnable=true", "config_set"),
    RequestCode.UNREGISTER_BROKER: (GOODBYE, b"", "broker_unregistered"),
}
CHANGES_NOTHING = {
    RequestCode.QUERY_DATA_VERSION, RequestCode.BROKER_HEARTBEAT, RequestCode.GET_ROUTEINFO_BY_TOPIC,
}  # fmt: skip


def events(front_end: FrontEnd) -> list:
    client = redis.Redis.from_url(front_end.settings.redis, protocol=2)
    with closing(client):
        entries = client.xrange(f"mq:{{{front_end.settings.namespace}}}:changes")
    return [decode_change(fields[b"e"]) for _, fields in entries]


def address(client: Client) -> str:
    return "{}:{}".format(*client.socket.getsockname())


def by_of(client: Client, via: str | None = None, peer: str | None = None) -> By:
    return By("anonymous", peer=peer or address(client), via=via, front_end=f"{socket.gethostname()}:9876")


def test_every_write_that_there_is_is_among_those_that_are_sent_here():
    assert {*SENT, *CHANGES_NOTHING, RequestCode.REGISTER_BROKER} == set(WRITES)


@pytest.mark.parametrize("compat", ["5.x", "4.8"])
def test_every_write_says_which_peer_sent_it(front_end_with, compat):
    front_end = front_end_with(compat=compat)
    with front_end.client() as broker, front_end.client() as admin:
        assert broker.register(Broker()).code == 0
        (registered,) = events(front_end)
        assert (registered.type, registered.by) == ("broker_registered", by_of(broker))
        known = {code: sent for code, sent in SENT.items() if not (compat == "4.8" and code in (217, 327))}
        if compat == "4.8":
            known[RequestCode.DELETE_TOPIC_IN_NAMESRV] = ({"topic": "topic1"}, b"", "topic_deleted")
        before = registered
        for code, (ext, body, kind) in known.items():
            assert admin.request(code, ext, body).code == 0
            last = events(front_end)[-1]
            assert last.seq > before.seq, f"{code} changed nothing"
            assert (last.type, last.by) == (kind, by_of(admin)), code
            before = last
        front_end.wait_until(lambda: f"by anonymous from {address(broker)}" in front_end.log, "the registration")
        by_admin = f"by anonymous from {address(admin)} at "
        front_end.wait_until(lambda: front_end.log.count(by_admin) == len(known), f"{len(known)} lines {by_admin}")


def test_which_peer_deleted_the_topic_and_what_it_was(front_end):
    with front_end.client() as broker, front_end.client() as admin:
        assert broker.register(Broker(topics={"orders": (4, 8, 6), "other": (1, 1, 6)})).code == 0
        assert admin.request(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "orders"}).code == 0
        deleted = events(front_end)[-1]
        assert deleted.by == by_of(admin)
        assert deleted.before.keys() == {"broker-a"}
        line = f"delete topic orders in cluster (every), by anonymous from {address(admin)} at "
        front_end.wait_until(lambda: line in front_end.log, "it is logged")


def test_the_end_of_a_connection_is_its_peers(front_end):
    with front_end.client() as broker:
        assert broker.register(Broker()).code == 0
        whose = by_of(broker)
    wait_until(lambda: events(front_end)[-1].type == "broker_closed", "the broker is removed")
    assert events(front_end)[-1].by == whose


@pytest.mark.parametrize("mode", ["observe", "enforce"])
@pytest.mark.parametrize(
    ("key", "networks", "how"),
    [("alice", (), "signature"), (None, ("127.0.0.1/32",), "network")],
    ids=["signature", "network"],
)
def test_the_end_of_a_connection_is_the_users_that_it_last_proved_to_be(
    front_end_with, redis_url, namespace, mode, key, networks, how
):
    with closing(Rules(redis_url, namespace)) as rules:
        rules.begin(mode, broker_user("alice", "broker-a", networks=networks))
    front_end = front_end_with(namespace=namespace)
    with Caller(front_end.port, key) as broker:
        assert broker.register(Broker()).code == 0
        broker.access_key = None
        assert broker.route("topic1").code == 0  # not signed: it does not prove that he is somebody else
        broker.access_key, broker.secret_key = "alice", "a wrong secret"
        assert broker.request(RequestCode.PUT_KV_CONFIG, KEY | {"value": "v"}).code == (16 if mode == "enforce" else 0)
        whose = msgspec.structs.replace(by_of(broker), how=how, user="alice")
    wait_until(lambda: events(front_end)[-1].type == "broker_closed", "the broker is removed")
    assert events(front_end)[-1].by == whose


def test_while_the_mode_is_off_nobody_is_known_over_a_connection_that_signed_before(
    front_end_with, redis_url, namespace
):
    """Neither is a registration known by what was worked out of the one before."""
    with closing(Rules(redis_url, namespace)) as rules:
        rules.begin("enforce", broker_user("alice", "broker-a"))
        front_end = front_end_with(namespace=namespace)
        with Caller(front_end.port, "alice") as broker:
            assert broker.register(Broker()).code == 0
            assert events(front_end)[-1].by.user == "alice"
            in_force(front_end, rules.set_mode("off"))
            assert broker.register(Broker(topics=["new"], counter=2)).code == 0
            assert broker.route("new").code == 0
            assert (events(front_end)[-1].type, events(front_end)[-1].by) == ("broker_registered", by_of(broker))


def test_a_registration_that_is_refused_says_who_claimed_the_id(front_end):
    holder, other = Broker(), Broker(addr="127.0.0.1:10912")
    with front_end.client() as one, front_end.client() as two:
        ext, body = other.registration(broker_id=1)
        assert two.request(RequestCode.REGISTER_BROKER, ext, body).code == 0
        ext, body = holder.registration()
        body = body.replace(b'"stateVersion": 0', b'"stateVersion": 9')
        assert one.request(RequestCode.REGISTER_BROKER, ext | {"bodyCrc32": "0"}, body).code == 0
        ext, body = other.registration(broker_id=0, counter=2)
        assert two.request(RequestCode.REGISTER_BROKER, ext, body).code == 0
        refused = events(front_end)[-1]
        assert (refused.type, refused.by) == ("broker_refused", by_of(two))
        front_end.wait_until(lambda: f"not stored, by anonymous from {address(two)}" in front_end.log, "it is logged")


def test_behind_a_proxy_the_client_is_the_peer_and_the_proxy_is_named(front_end):
    with front_end.client() as client:
        client.socket.sendall(v2_inet(0x11, "10.1.2.3", 56324))
        assert client.request(RequestCode.PUT_KV_CONFIG, KEY | {"value": "v"}).code == 0
        assert events(front_end)[-1].by == by_of(client, via=address(client), peer="10.1.2.3:56324")
        line = f"namespace ns key k, by anonymous from 10.1.2.3:56324 via {address(client)} at "
        front_end.wait_until(lambda: line in front_end.log, "it is logged")


def test_a_proxy_that_names_no_client_is_the_peer(front_end):
    with front_end.client() as client:
        client.socket.sendall(b"PROXY UNKNOWN\r\n")
        assert client.request(RequestCode.PUT_KV_CONFIG, KEY | {"value": "v"}).code == 0
        assert events(front_end)[-1].by == by_of(client)


def test_an_unchanged_heartbeat_leaves_no_event(front_end):
    with front_end.client() as broker:
        for _ in range(3):
            assert broker.register(Broker()).code == 0
        assert len(events(front_end)) == 1
