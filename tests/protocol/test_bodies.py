"""Routes, cluster tables and the small bodies: exact bytes, round trips, bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqregistry.errors import RemoteProtocolError
from mqregistry.model import BrokerRow, DataVersion, QueueData, TopicQueueMapping, TopicRoute
from mqregistry.protocol.bodies.route import (
    decode_cluster_info,
    decode_route,
    encode_broker_member_group,
    encode_cluster_info,
    encode_route,
)
from mqregistry.protocol.bodies.tables import (
    decode_data_version,
    decode_kv_table,
    encode_kv_table,
    encode_topic_list,
)
from mqregistry.protocol.bodies.wire_json import decode_mapping, encode_data_version, encode_mapping
from mqregistry.protocol.lenient_json import loads
from tests.protocol.at_once import quote_integer_keys

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(max_size=8)
ADDRS = st.dictionaries(INT64, NAMES, max_size=3)
ROWS = st.dictionaries(NAMES, st.builds(BrokerRow, NAMES, ADDRS, st.none() | NAMES, st.booleans()), max_size=3)
MAPPINGS = st.builds(
    TopicQueueMapping, NAMES, NAMES, INT32, INT64, st.booleans(), NAMES, st.dictionaries(INT32, INT32, max_size=3)
)
ROUTES = st.builds(
    TopicRoute,
    st.dictionaries(NAMES, st.builds(QueueData, INT32, INT32, INT32, INT32), max_size=3),
    ROWS,
    st.dictionaries(NAMES, st.lists(NAMES, max_size=2), max_size=2),
    st.none() | st.dictionaries(NAMES, MAPPINGS.map(lambda m: encode_mapping(m).decode()), min_size=1, max_size=2),
    st.none() | NAMES,
)

ROUTE = TopicRoute(
    queue_datas={"b": QueueData(4, 5, 6, 1), "a": QueueData(1, 2, 7)},
    broker_rows={
        "b": BrokerRow("C", {1: "10.0.0.2:10911", 0: "10.0.0.1:10911"}, zone_name="z1"),
        "a": BrokerRow("C", {0: "10.0.0.3:10911"}, enable_acting_master=True),
    },
    filter_servers={"10.0.0.1:10911": ["f:1", "f:2"]},
    mappings={"b": '{"bname":"b","currIdMap":{"0":1},"dirty":false,"epoch":5,"topic":"T","totalQueues":1}'},
    order_topic_conf="b:4;a:1",
)


def test_route_in_the_dialect_of_5x_clients() -> None:
    assert encode_route(ROUTE, quoted_keys=True).decode() == (
        '{"brokerDatas":['
        '{"brokerAddrs":{"0":"10.0.0.3:10911"},"brokerName":"a","cluster":"C","enableActingMaster":true},'
        '{"brokerAddrs":{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"},"brokerName":"b","cluster":"C",'
        '"enableActingMaster":false,"zoneName":"z1"}],'
        '"filterServerTable":{"10.0.0.1:10911":["f:1","f:2"]},'
        '"orderTopicConf":"b:4;a:1",'
        '"queueDatas":['
        '{"brokerName":"a","perm":7,"readQueueNums":1,"topicSysFlag":0,"writeQueueNums":2},'
        '{"brokerName":"b","perm":6,"readQueueNums":4,"topicSysFlag":1,"writeQueueNums":5}],'
        '"topicQueueMappingByBroker":{"b":{"bname":"b","currIdMap":{"0":1},"dirty":false,"epoch":5,'
        '"scope":"__global__","topic":"T","totalQueues":1}}}'
    )


def test_route_with_bare_ids_differs_in_nothing_else() -> None:
    bare = encode_route(ROUTE, quoted_keys=False)
    assert b'{0:"10.0.0.1:10911",1:"10.0.0.2:10911"}' in bare
    assert b'"currIdMap":{0:1}' in bare
    assert quote_integer_keys(bare) == encode_route(ROUTE, quoted_keys=True)


def test_route_as_4_8_writes_it() -> None:
    small = TopicRoute({"a": QueueData(1, 2, 7)}, {"a": BrokerRow("C", {0: "x"}, "z", True)}, {}, {"a": "{}"})
    assert encode_route(small, quoted_keys=False, topic_syn_flag=True) == (
        b'{"brokerDatas":[{"brokerAddrs":{0:"x"},"brokerName":"a","cluster":"C"}],"filterServerTable":{},'
        b'"queueDatas":[{"brokerName":"a","perm":7,"readQueueNums":1,"topicSynFlag":0,"writeQueueNums":2}]}'
    )


def test_an_empty_route() -> None:
    empty = TopicRoute({}, {}, {})
    assert encode_route(empty, quoted_keys=True) == b'{"brokerDatas":[],"filterServerTable":{},"queueDatas":[]}'
    assert decode_route(b"{}") == empty


def plainly(route: TopicRoute, flag: str) -> bytes:
    """What a 5.x route says, every topic on its own; strict JSON with standard keys."""
    five = flag == "topicSysFlag"
    brokers = [
        {"brokerAddrs": {str(key): addr for key, addr in sorted(row.broker_addrs.items())}, "brokerName": name,
         "cluster": row.cluster} | ({"enableActingMaster": row.enable_acting_master} if five else {})
        | ({"zoneName": row.zone_name} if five and row.zone_name is not None else {})
        for name, row in sorted(route.broker_rows.items())
    ]  # fmt: skip
    queues = [
        {"brokerName": name, "perm": data.perm, "readQueueNums": data.read_queue_nums, flag: data.topic_sys_flag,
         "writeQueueNums": data.write_queue_nums}
        for name, data in sorted(route.queue_datas.items())
    ]  # fmt: skip
    return msgspec.json.encode({"brokerDatas": brokers, "filterServerTable": {}, "queueDatas": queues})


FEW_NAMES = st.sampled_from(["a", "b", 'c"', "ü"])
FEW_ROWS = st.builds(BrokerRow, st.sampled_from("CD"), st.dictionaries(st.integers(0, 1), st.sampled_from("xy")))


@given(
    st.lists(
        st.tuples(
            st.dictionaries(FEW_NAMES, FEW_ROWS),
            st.dictionaries(FEW_NAMES, st.sampled_from([QueueData(1, 2, 6), QueueData(8, 8, 6, 1)])),
        )
    ),
    st.booleans(),
)
def test_routes_with_parts_in_common(
    routes: list[tuple[dict[str, BrokerRow], dict[str, QueueData]]], syn: bool
) -> None:
    for rows, queue_datas in routes:
        route = TopicRoute(queue_datas, rows, {})
        expected = plainly(route, "topicSynFlag" if syn else "topicSysFlag")
        assert encode_route(route, quoted_keys=True, topic_syn_flag=syn) == expected


def test_a_route_of_many_brokers() -> None:
    names = [f"broker-{number}" for number in range(300)]
    rows = {name: BrokerRow("C", {0: name}) for name in names}
    for queue_data in (QueueData(1, 1, 6), QueueData(2, 1, 6)):
        route = TopicRoute(dict.fromkeys(reversed(names), queue_data), rows, {})
        for _ in range(2):
            assert encode_route(route, quoted_keys=True) == plainly(route, "topicSysFlag")


def test_a_route_of_many_brokers_of_which_one_changes_comes_or_goes() -> None:
    names = [f"broker-{number * 7919 % 300}" for number in range(300)]
    rows = {name: BrokerRow("C", {0: name}) for name in names}
    queue_datas = dict.fromkeys(names, QueueData(1, 1, 6))

    def written() -> None:
        route = TopicRoute(queue_datas, rows, {})
        for syn in (False, True):
            expected = plainly(route, "topicSynFlag" if syn else "topicSysFlag")
            assert encode_route(route, quoted_keys=True, topic_syn_flag=syn) == expected

    written()
    queue_datas["broker-7"] = QueueData(1, 1, 4)
    written()
    rows["broker-8"] = BrokerRow("C", {0: "another"})
    written()
    rows["a"], queue_datas["a"] = BrokerRow("D", {0: "a"}), QueueData(1, 1, 6)  # before all others
    written()
    del rows["a"]  # its queue data stays
    written()
    del queue_datas["a"], rows["broker-7"], queue_datas["broker-7"]
    written()
    assert encode_route(TopicRoute(queue_datas, {}, {}), quoted_keys=True).startswith(b'{"brokerDatas":[],')


@given(ROUTES, st.booleans())
def test_routes_round_trip(route: TopicRoute, quoted_keys: bool) -> None:
    assert decode_route(encode_route(route, quoted_keys=quoted_keys)) == route


@given(ROWS, st.dictionaries(NAMES, st.lists(NAMES, max_size=3), max_size=3))
def test_cluster_tables_round_trip(rows: dict[str, BrokerRow], clusters: dict[str, list[str]]) -> None:
    body = encode_cluster_info(rows, clusters)
    assert decode_cluster_info(body) == (rows, {name: sorted(of) for name, of in clusters.items()})


def test_cluster_table_is_sorted_and_bare() -> None:
    rows = {"b": BrokerRow("C", {1: "y", 0: "x"}), "a": BrokerRow("C", {})}
    assert encode_cluster_info(rows, {"C": {"b", "a"}}) == (
        b'{"brokerAddrTable":{"a":{"brokerAddrs":{},"brokerName":"a","cluster":"C","enableActingMaster":false},'
        b'"b":{"brokerAddrs":{0:"x",1:"y"},"brokerName":"b","cluster":"C","enableActingMaster":false}},'
        b'"clusterAddrTable":{"C":["a","b"]}}'
    )


@given(st.dictionaries(NAMES, NAMES, max_size=4))
def test_kv_tables_round_trip(table: dict[str, str]) -> None:
    assert decode_kv_table(encode_kv_table(table)) == table


@given(st.lists(NAMES, max_size=4), st.none() | NAMES)
def test_topic_lists_as_json(topics: list[str], broker_addr: str | None) -> None:
    body = encode_topic_list(topics, broker_addr)
    expected = {"topicList": topics} if broker_addr is None else {"brokerAddr": broker_addr, "topicList": topics}
    assert json.loads(body) == expected


@given(st.none() | NAMES, st.none() | NAMES, ADDRS)
def test_member_groups_as_json(cluster: str | None, broker_name: str | None, addrs: dict[int, str]) -> None:
    members = loads(encode_broker_member_group(cluster, broker_name, addrs))["brokerMemberGroup"]
    assert members.get("cluster") == cluster
    assert members.get("brokerName") == broker_name
    assert {int(broker_id): addr for broker_id, addr in members["brokerAddrs"].items()} == addrs


@given(st.builds(DataVersion, INT64, INT64, INT64))
def test_data_versions_round_trip(version: DataVersion) -> None:
    assert decode_data_version(encode_data_version(version)) == version


def test_data_version_parts() -> None:
    version = DataVersion(1, 1700000000000, 2)
    assert encode_data_version(version) == b'{"counter":1,"stateVersion":2,"timestamp":1700000000000}'
    assert encode_data_version(version, state_version=False) == b'{"counter":1,"timestamp":1700000000000}'
    assert decode_data_version(b"{}", now_ms=9) == DataVersion(0, 9, 0)
    assert decode_data_version(b"{counter:'4'}") == DataVersion(4, 0, 0)


def test_what_decoders_make_of_odd_but_readable_bodies() -> None:
    route = decode_route(
        b'{"queueDatas":[{"brokerName":"a","topicSynFlag":3},{"perm":6}],"brokerDatas":[{"cluster":"C"},null]}'
    )
    assert route.queue_datas == {"a": QueueData(0, 0, 0, 3)}
    assert route.broker_rows == {}
    rows, clusters = decode_cluster_info(b'{"clusterAddrTable":{"C":["a",null]}}')
    assert (rows, clusters) == ({}, {"C": ["a"]})
    assert decode_kv_table(b'{"table":{"a":null,"b":"c"}}') == {"b": "c"}


DECODERS: list[Callable[[bytes], Any]] = [
    decode_route,
    decode_cluster_info,
    decode_kv_table,
    decode_data_version,
    decode_mapping,
]


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{{{", b"\xff\xfe", b"5", b"[" * 100_000])
def test_bad_bodies_are_refused_and_keep_the_connection(decode: Callable[[bytes], Any], body: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode(body)
    assert not caught.value.closes


@pytest.mark.parametrize("decode", DECODERS)
@given(data=st.binary(max_size=40) | st.text(alphabet="{}[]:,\"'0-1eE brokeDatsqunamcif", max_size=60).map(str.encode))
def test_any_bytes_decode_or_are_refused(decode: Callable[[bytes], Any], data: bytes) -> None:
    try:
        decode(data)
    except RemoteProtocolError as error:
        assert not error.closes  # noqa: PT017


@pytest.mark.parametrize("quoted_keys", [True, False])
def test_a_route_shows_the_broker_row_it_is_given_not_one_of_the_same_name_from_before(quoted_keys):
    def encoded(row: BrokerRow) -> bytes:
        return encode_route(TopicRoute({"b": QueueData(1, 1, 6)}, {"b": row}, {}), quoted_keys=quoted_keys)

    first, second = BrokerRow("c", {0: "10.0.0.1:1"}), BrokerRow("c", {0: "10.0.0.2:1"})
    before = encoded(first)
    assert encoded(first) == before
    assert b"10.0.0.2:1" in encoded(second)
    assert b"10.0.0.1:1" not in encoded(second)
    assert encoded(first) == before
    assert encoded(BrokerRow("c", {0: "10.0.0.1:1"}, "z1")) != before
