"""Every recorded body decodes, and what we write from it says the same in as many bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from msgspec import structs

from mqregistry.errors import RemoteProtocolError
from mqregistry.model import QueueData
from mqregistry.protocol.bodies.crc32 import check_crc32
from mqregistry.protocol.bodies.register import encode_register_body
from mqregistry.protocol.bodies.register_chunks import cut_body
from mqregistry.protocol.bodies.register_content import RegisterBody
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
from mqregistry.protocol.bodies.wire_json import encode_data_version
from mqregistry.protocol.codes import VERSION_V4_9_4, VERSION_V5_0_0, RequestCode
from mqregistry.protocol.command import Command, decode_command
from mqregistry.protocol.headers import RegisterBroker
from mqregistry.protocol.lenient_json import loads
from mqregistry.protocol.slices import finish
from tests.golden import exchanges, scenarios
from tests.protocol.at_once import decode_register_body, quote_integer_keys


def commands(name: str, *codes: RequestCode) -> Iterator[tuple[Command, Command | None, str]]:
    """Request, reply and label of every exchange with one of these codes."""
    for request, reply in exchanges(name):
        if request["code"] in codes and request.get("case") != "header-longer-than-frame":
            asked = decode_command(request["frame"][4:])
            answered = decode_command(reply["frame"][4:]) if reply else None
            assert asked is not None
            yield asked, answered, request.get("case", "")


def in_order(value: Any) -> Any:
    """Arrays whose order is Java's hash order, sorted; maps compare without order anyway."""
    if isinstance(value, dict):
        return {key: in_order(member) for key, member in value.items()}
    if isinstance(value, list):
        return sorted((in_order(member) for member in value), key=repr)
    return value


def assert_same(ours: bytes, java: bytes) -> None:
    assert in_order(loads(ours)) == in_order(loads(java))
    # The same value out of the same bytes in another order: as compact, and in the same dialect.
    assert Counter(ours) == Counter(java)


def server(name: str) -> str:
    return name.rpartition("-")[2]


REFUSED_FOR_OTHER_REASONS = (
    "crc32 not match",
    "register broker failed",
    "RegisterBrokerRequestHeader.getBrokerId",
)


@pytest.mark.parametrize("name", scenarios())
def test_register_bodies_are_judged_as_java_judged_them(name: str) -> None:
    for request, reply, case in commands(name, RequestCode.REGISTER_BROKER):
        header = RegisterBroker.from_ext_fields(request.ext_fields)
        remark = (reply and reply.remark) or ""
        refused = bool(reply and reply.code == 1) and not any(why in remark for why in REFUSED_FOR_OTHER_REASONS)
        if "-compressed--" in name:  # D1: 5.x brokers compress and say that they did not
            refused = False
        if case == "unquoted-keys-body":  # only the parser of 5.5.0 is too strict for it
            refused = False
        if case in ("compressed-without-mapping-part", "compressed-flag-false"):
            # Neither has the mapping part, which 4.x servers do not look for; the second is read because of D1.
            refused = request.version >= VERSION_V5_0_0
        with pytest.raises(RemoteProtocolError) if refused else nullcontext() as caught:
            decode_register_body(request.body, compressed=header.compressed, version=request.version)
        assert caught is None or not caught.value.closes, case


@pytest.mark.parametrize("name", scenarios())
def test_body_crcs_are_judged_as_java_judged_them(name: str) -> None:
    for request, reply, case in commands(name, RequestCode.REGISTER_BROKER):
        if reply:
            header = RegisterBroker.from_ext_fields(request.ext_fields)
            assert check_crc32(request.body, header.body_crc32) == (reply.remark != "crc32 not match"), case


def without_sys_flags(body: RegisterBody) -> dict[str, QueueData]:
    return {name: structs.replace(topic, topic_sys_flag=0) for name, topic in body.topics.items()}


@pytest.mark.parametrize("name", [name for name in scenarios() if not name.startswith("probe-")])
def test_register_bodies_of_real_brokers_come_out_equal(name: str) -> None:
    for request, _, _ in commands(name, RequestCode.REGISTER_BROKER):
        header = RegisterBroker.from_ext_fields(request.ext_fields)
        body = decode_register_body(request.body, compressed=header.compressed, version=request.version)
        assert body.data_version.timestamp > 0
        if request.body.startswith(b"{") and body.topics:
            chunked = cut_body(request.body, {}, chunk_bytes=300)
            assert chunked is not None
            assert finish(chunked.reading_all({})) == body
        again = encode_register_body(body)
        assert decode_register_body(again, compressed=False, version=513) == body
        again = encode_register_body(body, compressed=True)
        decoded = decode_register_body(again, compressed=True, version=513)
        assert decoded == structs.replace(body, topics=without_sys_flags(body))


def test_register_bodies_come_out_as_the_same_json() -> None:
    seen: Counter[str] = Counter()
    for name in scenarios():
        if not name.startswith(("broker-", "acting-master-", "static-topic")):
            continue
        for request, _, _ in commands(name, RequestCode.REGISTER_BROKER):
            if request.body.startswith(b"{"):
                body = decode_register_body(request.body, compressed=False, version=request.version)
                java = loads(request.body)
                # What a NameServer does not use is not kept: the second version, attributes, filter type, order.
                wrapper = java["topicConfigSerializeWrapper"]
                if request.version >= VERSION_V5_0_0:
                    wrapper["mappingDataVersion"]["timestamp"] = wrapper["dataVersion"]["timestamp"]
                    wrapper["topicQueueMappingDetailMap"] = {}
                kept = {"attributes": {}} if request.version >= VERSION_V5_0_0 else {}
                for topic in wrapper["topicConfigTable"].values():
                    topic |= kept | {"order": False, "topicFilterType": "SINGLE_TAG"}
                assert loads(encode_register_body(body, version=request.version)) == java
                seen[name.split("-")[1][0]] += 1
    assert min(seen["4"], seen["5"]) > 20, seen


@pytest.mark.parametrize("name", scenarios())
def test_routes_come_out_the_same(name: str) -> None:
    for request, reply, case in commands(name, RequestCode.GET_ROUTEINFO_BY_TOPIC):
        if not reply or not reply.body or has_nameless_brokers(reply.body):
            continue
        route = decode_route(reply.body)
        java = as_5x(reply.body) if server(name) == "4.9.7" else reply.body
        syn = server(name) == "4.8.0"
        bare = encode_route(route, quoted_keys=False, topic_syn_flag=syn)
        quoted = encode_route(route, quoted_keys=True, topic_syn_flag=syn)
        assert quote_integer_keys(bare) == quoted
        assert decode_route(bare) == decode_route(quoted) == route
        expect_bare = (
            syn
            or (request.version < VERSION_V4_9_4 and not accepts_standard(request))
            or (server(name)[0] == "5" and is_zone_filtered(request))
        )
        ours = bare if expect_bare else quoted
        assert_same(ours, java)
        if len(route.broker_rows) == len(route.queue_datas) == 1 and "Static" not in case:
            assert ours == java


def as_5x(body: bytes) -> bytes:
    """A route of 4.9.7 with the field that only 5.x has; that dialect is none of ours."""
    body = body.replace(b'"}],"filterServerTable"', b'","enableActingMaster":false}],"filterServerTable"')
    return body.replace(b'"},{"brokerAddrs"', b'","enableActingMaster":false},{"brokerAddrs"')


def has_nameless_brokers(body: bytes) -> bool:
    """Whether brokers without a name got into a Java server's tables (D9), so that its answer cannot be ours."""
    table = loads(body)
    brokers = table["brokerDatas"] if "brokerDatas" in table else table["brokerAddrTable"].values()
    return (
        b"null" in body
        or not all(broker.get("brokerName") and broker.get("cluster") for broker in brokers)
        or any(not all(broker["brokerAddrs"].values()) for broker in brokers)
    )


def accepts_standard(request: Command) -> bool:
    return (request.ext_fields or {}).get("acceptStandardJsonOnly") == "true"


def is_zone_filtered(request: Command) -> bool:
    ext = request.ext_fields or {}
    return bool(ext.get("__ZONE_NAME")) and ext.get("__ZONE_MODE") == "true"


@pytest.mark.parametrize("name", scenarios())
def test_cluster_tables_come_out_the_same(name: str) -> None:
    for _, reply, _ in commands(name, RequestCode.GET_BROKER_CLUSTER_INFO):
        if reply and reply.code == 0 and not has_nameless_brokers(reply.body):
            rows, clusters = decode_cluster_info(reply.body)
            ours = encode_cluster_info(rows, clusters, acting_master=server(name)[0] == "5")
            assert_same(ours, reply.body)
            if len(rows) <= 1:
                assert ours == reply.body
            assert decode_cluster_info(ours)[0] == rows


@pytest.mark.parametrize("name", scenarios())
def test_small_bodies_come_out_the_same(name: str) -> None:
    lists = (
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        RequestCode.GET_TOPICS_BY_CLUSTER,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        RequestCode.GET_UNIT_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    )
    for _, reply, _ in commands(name, *lists):
        if reply and reply.code == 0:
            topics = loads(reply.body)
            assert encode_topic_list(topics["topicList"], topics.get("brokerAddr")) == reply.body
    for _, reply, _ in commands(name, RequestCode.GET_KVLIST_BY_NAMESPACE, RequestCode.REGISTER_BROKER):
        if reply and reply.body:
            assert encode_kv_table(decode_kv_table(reply.body)) == reply.body
    for request, reply, case in commands(name, RequestCode.QUERY_DATA_VERSION):
        if reply and reply.body:
            version = decode_data_version(reply.body)
            assert encode_data_version(version, state_version=server(name)[0] == "5") == reply.body
        if case == "version-garbage-body":
            with pytest.raises(RemoteProtocolError, match="bad data version"):
                decode_data_version(request.body)
    for _, reply, _ in commands(name, RequestCode.GET_BROKER_MEMBER_GROUP):
        if reply and reply.code == 0:
            members = loads(reply.body)["brokerMemberGroup"]
            addrs = {int(broker_id): addr for broker_id, addr in members["brokerAddrs"].items()}
            assert encode_broker_member_group(members.get("cluster"), members.get("brokerName"), addrs) == reply.body


def test_register_topic_bodies_decode() -> None:
    seen = 0
    for name in scenarios():
        for request, _, case in commands(name, RequestCode.REGISTER_TOPIC_IN_NAMESRV):
            if case == "register-topic-garbage":
                with pytest.raises(RemoteProtocolError, match="bad route"):
                    decode_route(request.body)
            elif request.body:
                route = decode_route(request.body)
                assert len(route.queue_datas) == len(loads(request.body)["queueDatas"])
                seen += 1
    assert seen > 20
