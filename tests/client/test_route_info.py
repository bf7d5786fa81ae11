"""Queues out of routes. What Java computes from the same is compared in tests/interop/test_route_info.py."""

import json
from itertools import permutations

import pytest

from mqregistry.client.routes.queues import (
    DEFAULT_TOPIC,
    MAX_QUEUES,
    NO_LOGICAL_BROKER,
    default_topic_route,
    logical_broker_name,
    publish_info,
    route_changed,
    static_endpoints,
    subscribe_info,
)
from mqregistry.errors import RemoteProtocolError
from mqregistry.model import BrokerRow, QueueData, TopicRoute
from mqregistry.protocol.bodies.route import decode_route
from mqregistry.protocol.codes import RequestCode
from mqregistry.protocol.command import decode_command
from tests.golden import exchanges, scenarios

A, B, C = "broker-a", "broker-b", "broker-c"


def row(*ids: int, cluster: str = "c1") -> BrokerRow:
    return BrokerRow(cluster, {broker_id: f"127.0.0.1:{10911 + broker_id}" for broker_id in ids})


def route(
    queues: dict[str, QueueData],
    rows: dict[str, BrokerRow] | None = None,
    order: str | None = None,
    mappings: dict[str, str] | None = None,
) -> TopicRoute:
    return TopicRoute(queues, {name: row(0) for name in queues} if rows is None else rows, {}, mappings, order)


def ids(queues) -> list[tuple[str, int]]:
    assert all(queue.topic == "t" for queue in queues)
    return [(queue.broker_name, queue.queue_id) for queue in queues]


def test_publish_info_sorts_brokers_and_needs_write_permission_row_and_master():
    queues = {B: QueueData(8, 1, 6), A: QueueData(8, 2, 2), C: QueueData(8, 2, 4), "d": QueueData(1, 1, 6)}
    rows = {A: row(0, 1), B: row(0), C: row(0)}
    info = publish_info("t", route(queues, rows))
    assert (info.order, ids(info.queues)) == (False, [(A, 0), (A, 1), (B, 0)])
    assert info.is_ok
    assert not publish_info("t", route(queues, {A: row(1), B: row(2)})).is_ok


def test_subscribe_info_needs_read_permission_only():
    queues = {B: QueueData(1, 8, 4), A: QueueData(2, 8, 6), C: QueueData(2, 2, 2)}
    assert ids(subscribe_info("t", route(queues, {}))) == [(A, 0), (A, 1), (B, 0)]


def test_names_beyond_the_basic_plane_sort_as_in_java():
    queues = {"\uff21": QueueData(1, 1, 6), "\U0001f600": QueueData(1, 1, 6)}
    assert [name for name, _ in ids(publish_info("t", route(queues)).queues)] == ["\U0001f600", "\uff21"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("broker-b:1;broker-a:2", [(B, 0), (A, 0), (A, 1)]),
        ("broker-a:1;", [(A, 0)]),
        ("broker-a:1:7", [(A, 0)]),
        ("broker-a:+1;broker-b:-1;broker-c:0", [(A, 0)]),
        (" broker-a:1", [(" broker-a", 0)]),
        (":1", [("", 0)]),
        (";", []),
    ],
)
def test_order_configuration_gives_queues_in_its_own_order_whoever_is_there(text, expected):
    info = publish_info("t", route({A: QueueData(8, 8, 4)}, {}, text))
    assert (info.order, ids(info.queues)) == (True, expected)


@pytest.mark.parametrize(
    "text", ["broker-a", "broker-a:", "broker-a: 4", "broker-a:4x", ";broker-a:4", ":", "a:1;;b:1"]
)
def test_bad_order_configuration_is_named(text):
    with pytest.raises(RemoteProtocolError, match="order configuration of t is not like"):
        publish_info("t", route({A: QueueData(8, 8, 6)}, order=text))


def test_empty_order_configuration_is_none():
    assert not publish_info("t", route({A: QueueData(1, 1, 6)}, order="")).order


def mapping(bname: str, total: int, epoch: int, *ids: int, scope: str = "__global__") -> str:
    held = dict.fromkeys(map(str, ids), 0)
    return json.dumps(
        {"bname": bname, "currIdMap": held, "epoch": epoch, "scope": scope, "topic": "t", "totalQueues": total}
    )


STATIC = {A: mapping(A, 3, 2, 0, 1), B: mapping(B, 2, 1, 1, 5)}


def test_static_topic_has_logical_queues():
    found = route({A: QueueData(9, 9, 6)}, mappings=STATIC)
    logical = [("__syslo__global__", queue_id) for queue_id in range(3)]
    assert ids(publish_info("t", found).queues) == logical
    assert ids(subscribe_info("t", found)) == logical
    assert list(static_endpoints("t", found).values()) == [A, A, NO_LOGICAL_BROKER]


def test_static_scopes_count_for_themselves():
    found = route({}, mappings={A: mapping(A, 2, 1, 0), B: mapping(B, 1, 1, 0, scope="unit")})
    assert ids(publish_info("t", found).queues) == [
        ("__syslo__global__", 0), ("__syslo__unit", 0), ("__syslo__global__", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("scope", "name"),
    [("__global__", "__syslo__global__"), ("unit", "__syslo__unit"), ("__global__2", "__syslo____global__2")],
)
def test_logical_broker_name(scope, name):
    assert logical_broker_name(scope) == name


def test_static_topic_with_an_empty_order_configuration_is_sent_to_as_an_ordinary_one():
    found = route({A: QueueData(1, 1, 6)}, order="", mappings=STATIC)
    assert ids(publish_info("t", found).queues) == [(A, 0)]
    assert len(subscribe_info("t", found)) == 3


@pytest.mark.parametrize(
    "found",
    [
        route({A: QueueData(2**31 - 1, 2**31 - 1, 6)}),
        route({}, mappings={A: mapping(A, 2**31 - 1, 1)}),
    ],
)
def test_absurd_numbers_of_queues_are_refused(found):
    for compute in (publish_info, subscribe_info):
        with pytest.raises(RemoteProtocolError, match=f"more than {MAX_QUEUES} queues"):
            compute("t", found)


def test_absurd_order_configuration_is_refused():
    with pytest.raises(RemoteProtocolError, match=f"more than {MAX_QUEUES} queues"):
        publish_info("t", route({}, order="broker-a:2147483647"))


def test_default_topic_route_takes_the_smaller_number():
    found = default_topic_route(route({A: QueueData(8, 16, 7), B: QueueData(2, 16, 7)}))
    assert found.queue_datas == {A: QueueData(4, 4, 7), B: QueueData(2, 2, 7)}


def test_route_changed_whatever_the_order():
    def text(*brokers: str) -> bytes:
        queues = ",".join(
            f'{{"brokerName":"{name}","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}}'
            for name in brokers
        )
        rows = ",".join(f'{{"brokerAddrs":{{0:"{name}:1"}},"brokerName":"{name}","cluster":"c"}}' for name in brokers)
        return f'{{"brokerDatas":[{rows}],"filterServerTable":{{}},"queueDatas":[{queues}]}}'.encode()

    routes = [decode_route(text(*names)) for names in permutations((A, B, C))]
    assert not any(route_changed(old, new) for old in routes for new in routes)
    assert route_changed(routes[0], decode_route(text(A, B)))
    assert route_changed(None, routes[0])


ONE = route({A: QueueData(4, 4, 6)}, {A: row(0)})


@pytest.mark.parametrize(
    ("other", "changed"),
    [
        (route({A: QueueData(4, 4, 6)}, {A: row(0, cluster="c2")}), False),
        (route({A: QueueData(4, 4, 6)}, {A: BrokerRow("c1", row(0).broker_addrs, "zone", True)}), False),
        (route({A: QueueData(4, 4, 4)}, {A: row(0)}), True),
        (route({A: QueueData(4, 4, 6, 1)}, {A: row(0)}), True),
        (route({A: QueueData(4, 4, 6)}, {A: row(0, 1)}), True),
        (route({A: QueueData(4, 4, 6)}, {A: row(0)}, "broker-a:4"), True),
        (route({A: QueueData(4, 4, 6)}, {A: row(0)}, mappings=STATIC), True),
        (TopicRoute(ONE.queue_datas, ONE.broker_rows, {"127.0.0.1:10911": ["127.0.0.1:30000"]}), True),
    ],
)
def test_route_changed_in_what_counts(other, changed):
    assert route_changed(ONE, other) is changed
    assert route_changed(other, ONE) is changed


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b'{"queueDatas":7}'])
def test_decode_route_refuses_what_is_none(body):
    with pytest.raises(RemoteProtocolError):
        decode_route(body)


def test_every_recorded_route_gives_queues():
    seen = set()
    for name in scenarios():
        for request, reply in exchanges(name):
            if request["code"] != RequestCode.GET_ROUTEINFO_BY_TOPIC or reply is None:
                continue
            asked, answered = decode_command(request["frame"][4:]), decode_command(reply["frame"][4:])
            if asked is None or answered is None or answered.code or not answered.body:
                continue
            topic = (asked.ext_fields or {}).get("topic", "")
            found = decode_route(answered.body)
            readable = subscribe_info(topic, found)
            assert bool(readable) == any(data.perm & 4 and data.read_queue_nums for data in found.queue_datas.values())
            assert not route_changed(found, decode_route(answered.body))
            seen.add((topic == DEFAULT_TOPIC, publish_info(topic, found).order, bool(static_endpoints(topic, found))))
    # The default topic and others, ordered ones, static ones: all were recorded.
    assert seen >= {(True, False, False), (False, False, False), (False, True, False), (False, False, True)}
