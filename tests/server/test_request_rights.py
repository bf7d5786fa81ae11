"""Which right each request needs, and on what."""

from __future__ import annotations

import pytest

from mqregistry.auth.rights import KINDS, READING, WRITING, Kind, Need, Resource, Right
from mqregistry.behaviour import FIVE, FOUR_EIGHT
from mqregistry.protocol.bodies.route import decode_queue_datas
from mqregistry.protocol.codes import RequestCode
from mqregistry.protocol.command import Command
from mqregistry.protocol.watch import ROUTE_WATCH
from mqregistry.request_rights import FOR_A_BROKER, REQUESTS, broker_addr_of, needs_of, rows_of
from mqregistry.server.requests.reads import reads
from mqregistry.server.requests.writes import WRITES, writes

SENT_BY_US = {RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE}
READS_SOMETHING = {RequestCode.GET_ROUTEINFO_BY_TOPIC}  # among the writes: it asks another environment

TOPIC, CLUSTER, BROKER, KV = (
    Resource(kind, name)
    for kind, name in ((Kind.TOPIC, "T"), (Kind.CLUSTER, "c1"), (Kind.BROKER, "broker-a"), (Kind.KV, "N"))
)
EVERY_FIELD = {
    "topic": "T", "clusterName": "c1", "cluster": "c1", "brokerName": "broker-a", "namespace": "N", "key": "k",
    "value": "v", "brokerAddr": "10.0.0.1:10911", "brokerId": "0",
}  # fmt: skip
BROKERS_BODY = b'{"queueDatas":[{"brokerName":"broker-a","readQueueNums":4},{"brokerName":"broker-b"}]}'


def needs(code, ext=None, body=b"", rows=()):
    return needs_of(Command(code=code, ext_fields=ext, body=body), rows)


def test_every_code_has_a_row():
    assert set(REQUESTS) == (set(RequestCode) - SENT_BY_US) | {ROUTE_WATCH}
    for behaviour in (FIVE, FOUR_EIGHT):
        assert {*reads(behaviour), *writes(behaviour)} <= set(REQUESTS)


@pytest.mark.parametrize("code", sorted(REQUESTS))
def test_a_request_that_names_all_it_may_name_is_on_resources_of_its_right(code):
    for need in needs(code, EVERY_FIELD, BROKERS_BODY):
        assert {resource.kind for resource in need.resources} <= KINDS[need.right]


@pytest.mark.parametrize("code", sorted(REQUESTS))
def test_what_changes_anything_needs_a_right_that_nobody_has_without_a_rule(code):
    changes = code in WRITES and code not in READS_SOMETHING
    for ext, body in ((None, b""), ({}, b""), (EVERY_FIELD, b""), (EVERY_FIELD, BROKERS_BODY)):
        found = needs(code, ext, body)
        assert found
        assert {need.right for need in found} <= (WRITING if changes else READING)


ROWS = [
    (100, Right.KV_WRITE, [KV]), (101, Right.KV_READ, [KV]), (102, Right.KV_WRITE, [KV]), (219, Right.KV_READ, [KV]),
    (103, Right.REGISTER, [CLUSTER, BROKER]), (104, Right.REGISTER, [CLUSTER, BROKER]),
    (322, Right.REGISTER, [CLUSTER, BROKER]), (904, Right.REGISTER, [CLUSTER, BROKER]),
    (105, Right.ROUTE, [TOPIC]), (106, Right.LIST, []), (206, Right.LIST, []), (224, Right.LIST, [CLUSTER]),
    (304, Right.LIST, []), (311, Right.LIST, []), (312, Right.LIST, []), (313, Right.LIST, []),
    (901, Right.LIST, [CLUSTER]), (205, Right.PERM, [BROKER]), (327, Right.PERM, [BROKER]),
    (318, Right.CONFIG_WRITE, []), (319, Right.CONFIG_READ, []),
]  # fmt: skip


@pytest.mark.parametrize(("code", "right", "resources"), ROWS, ids=[str(row[0]) for row in ROWS])
def test_rows(code, right, resources):
    assert needs(code, EVERY_FIELD) == (Need(right, tuple(resources)),)


@pytest.mark.parametrize("code", [100, 103, 104, 105, 205, 224, 322, 904])
def test_a_name_that_is_missing_or_empty_counts_as_everything(code):
    (need,) = needs(code, EVERY_FIELD)
    for field in ("topic", "clusterName", "cluster", "brokerName", "namespace"):
        without = {name: value for name, value in EVERY_FIELD.items() if name != field}
        for ext in (without, without | {field: ""}):
            expected = needs(code, ext)[0]
            assert expected == need or expected == Need(need.right)
    assert needs(code, None) == needs(code, {}) == (Need(need.right),)


def test_a_topic_is_deleted_by_right_on_it_or_on_the_cluster():
    topic, cluster = Need(Right.TOPIC_WRITE, (TOPIC,)), Need(Right.TOPIC_WRITE, (CLUSTER,))
    assert needs(216, {"topic": "T"}) == needs(216, {"topic": "T", "clusterName": ""}) == (topic,)
    assert needs(216, {"topic": "T", "clusterName": "c1"}) == (topic, cluster)
    assert needs(216, {"clusterName": "c1"}) == (Need(Right.TOPIC_WRITE),)


def test_a_topic_is_registered_by_right_on_it_or_by_brokers_for_themselves():
    topic = Need(Right.TOPIC_WRITE, (TOPIC,))
    assert needs(217, {"topic": "T"}, BROKERS_BODY) == (
        topic,
        Need(Right.REGISTER, (BROKER, Resource(Kind.BROKER, "broker-b"), TOPIC)),
    )
    for body in (b"", b"null", b"{}", b'{"queueDatas":[]}', b"[1]", b"{", b"\xff"):
        assert needs(217, {"topic": "T"}, body) == (topic,)
    assert needs(217, {}, BROKERS_BODY) == (Need(Right.TOPIC_WRITE),)


def test_a_watch_needs_the_route_of_each_topic():
    topics = Resource(Kind.TOPIC, "A"), Resource(Kind.TOPIC, "B")
    assert needs(ROUTE_WATCH, {"holdMillis": "1000"}, rows=topics) == (Need(Right.ROUTE, topics),)
    assert needs(ROUTE_WATCH, {"holdMillis": "1000"}) == (Need(Right.ROUTE),)


OTHER = Resource(Kind.CLUSTER, "c2")


def test_the_cluster_of_the_row_that_would_change_is_decided_on_besides_what_is_named():
    for code in (103, 104, 322, 904):
        assert needs(code, EVERY_FIELD, rows=(OTHER,)) == (Need(Right.REGISTER, (CLUSTER, BROKER, OTHER)),)
        assert needs(code, EVERY_FIELD, rows=(CLUSTER,)) == (Need(Right.REGISTER, (CLUSTER, BROKER)),)
    for code in (205, 327):
        assert needs(code, EVERY_FIELD, rows=(OTHER,)) == (Need(Right.PERM, (BROKER,)), Need(Right.PERM, (OTHER,)))
    of_topic = Need(Right.TOPIC_WRITE, (TOPIC,))
    assert needs(216, {"topic": "T"}, rows=(OTHER,)) == (of_topic, Need(Right.TOPIC_WRITE, (OTHER,)))
    assert needs(216, EVERY_FIELD, rows=(OTHER,)) == (of_topic, Need(Right.TOPIC_WRITE, (CLUSTER, OTHER)))
    brokers = BROKER, Resource(Kind.BROKER, "broker-b")
    assert needs(217, {"topic": "T"}, BROKERS_BODY, rows=(OTHER,)) == (
        of_topic,
        Need(Right.TOPIC_WRITE, (OTHER,)),
        Need(Right.REGISTER, (*brokers, TOPIC, OTHER)),
    )
    assert needs(901, EVERY_FIELD, rows=(OTHER,)) == (Need(Right.LIST, (CLUSTER, OTHER)),)


class Known:
    """Tables with one broker of another cluster."""

    def cluster_of(self, broker_name):
        return "c2" if broker_name == "broker-a" else None

    def clusters_with(self, topic, cluster):
        return {"c2", "c1"} if topic == "T" else ()


@pytest.mark.parametrize("code", sorted(REQUESTS))
def test_which_rows_a_request_would_change_or_show(code):
    """Every code that changes rows of brokers, but 217: the script asks for those, as for all that the view missed."""
    found = rows_of(Command(code=code, ext_fields=EVERY_FIELD), Known())
    if code == 216:
        assert found == (CLUSTER, OTHER)
    elif code in (901, 205, 327) or code in FOR_A_BROKER:
        assert found == (OTHER,)
    else:
        assert found == ()
    assert rows_of(Command(code=code), Known()) == ()


@pytest.mark.parametrize("code", sorted(REQUESTS))
def test_which_requests_speak_for_a_broker(code):
    right = needs(code, EVERY_FIELD, BROKERS_BODY)[0].right
    assert (code in FOR_A_BROKER) == (right is Right.REGISTER)


def test_unknown_codes_need_nothing():
    assert needs(9999, EVERY_FIELD) == needs(905, EVERY_FIELD) == ()


def test_whose_address_a_request_is_about():
    for code in sorted(REQUESTS):
        found = broker_addr_of(Command(code=code, ext_fields=EVERY_FIELD))
        assert found == ("10.0.0.1:10911" if code in {103, 104, 322, 904} else None)
    for code in FOR_A_BROKER:
        assert broker_addr_of(Command(code=code)) is None


def test_who_decides_on_a_217_and_who_does_it_read_its_body_once():
    decode_queue_datas.cache_clear()
    body = bytes(BROKERS_BODY)
    for rows in ((), (OTHER,)):
        needs(217, {"topic": "T"}, body, rows=rows)
    assert decode_queue_datas(body).keys() == {"broker-a", "broker-b"}
    assert decode_queue_datas.cache_info().misses == 1
