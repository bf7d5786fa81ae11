"""Answers of the wire in the normal form of a comparison."""

from __future__ import annotations

import pytest

from mqregistry.compare.answers import asked_of, content_of_answer
from mqregistry.compare.differences import differences
from mqregistry.model import BrokerRow
from mqregistry.protocol.bodies.route import encode_cluster_info, encode_route
from mqregistry.protocol.bodies.tables import encode_kv_table, encode_topic_list
from mqregistry.protocol.command import Command
from tests.client.fake_name_server import route_of

ROUTE = encode_route(route_of("broker-a"), quoted_keys=True)
BARE = encode_route(route_of("broker-a"), quoted_keys=False)
OTHER = encode_route(route_of("broker-a", perm=4), quoted_keys=True)
CLUSTERS = encode_cluster_info({"b": BrokerRow("c", {0: "a:1"})}, {"c": ["b"]})
GROUP = b'{"brokerMemberGroup":{"brokerAddrs":{%s:"a:1"},"brokerName":"b"}}'


def ok(body=b"", **fields):
    return Command(code=0, body=body, version=513, **fields)


def cells(code, java, ours, **ext):
    asked = asked_of(Command(code=code, ext_fields=ext))
    found = differences({
        "java": content_of_answer(asked, java, is_java=True), "ours": content_of_answer(asked, ours, is_java=False),
    })  # fmt: skip
    return [(one.cell.kind, one.cell.name, one.cell.part, one.cell.at) for one in found]


NONE = Command(code=17, remark="No topic", version=513)


@pytest.mark.parametrize(("code", "ext", "java", "ours"), [
    (105, {"topic": "t"}, ok(ROUTE), ok(BARE)),
    (105, {"topic": "t"}, NONE, Command(code=17, remark="other words", version=373)),
    (106, {}, ok(CLUSTERS), ok(CLUSTERS)),
    (101, {"namespace": "n", "key": "k"}, ok(ext_fields={"value": "v"}), ok(ext_fields={"value": "v"})),
    (219, {"namespace": "n"}, ok(encode_kv_table({"a": "1", "b": "2"})), ok(encode_kv_table({"b": "2", "a": "1"}))),
    (219, {"namespace": "n"}, ok(encode_kv_table({})), Command(code=22, version=513)),
    (206, {}, ok(encode_topic_list(["a", "b"])), ok(encode_topic_list(["b", "a"]))),
    (319, {}, ok(b"a=1\nlistenPort=1\n"), ok(b"listenPort=2\na=1\nmore=1\n")),
    (901, {"brokerName": "b"}, ok(GROUP % b"0"), ok(GROUP % b'"0"')),
    (206, {}, Command(code=1, remark="disable", version=513), Command(code=1, remark="x", version=513)),
])  # fmt: skip
def test_answers_that_say_the_same(code, ext, java, ours):
    assert cells(code, java, ours, **ext) == []


@pytest.mark.parametrize(("code", "ext", "java", "ours", "expected"), [
    (105, {"topic": "t"}, ok(ROUTE), NONE, ("topic", "t", "", "")),
    (105, {"topic": "t"}, ok(ROUTE), ok(OTHER), ("topic", "t", "perm", "broker-a")),
    (105, {"topic": "t", "__ZONE_MODE": "true", "__ZONE_NAME": "z"}, ok(ROUTE), NONE, ("topic", "t (zone z)", "", "")),
    (105, {"topic": "t"}, ok(ROUTE), Command(code=1, version=513), ("answer", "105 topic=t", "answer", "")),
    (105, {"topic": "t"}, ok(ROUTE), ok(b"nonsense"), ("answer", "105 topic=t", "answer", "")),
    (101, {"namespace": "n", "key": "k"}, ok(ext_fields={"value": "v"}), Command(code=22, version=513),
     ("kv", "n", "value", "k")),
    (219, {"namespace": "n"}, ok(encode_kv_table({"a": "1"})), ok(encode_kv_table({"a": "2"})),
     ("kv", "n", "value", "a")),
    (206, {}, ok(encode_topic_list(["a"])), ok(encode_topic_list(["a", "b"])), ("answer", "206", "listed", "b")),
    (304, {}, ok(encode_topic_list(["a"], "x:1")), ok(encode_topic_list(["a"], "y:1")),
     ("answer", "304", "brokerAddr", "")),
    (319, {}, ok(b"a=1\n"), ok(b"a=2\n"), ("config", "a", "", "")),
    (901, {"brokerName": "b"}, ok(GROUP % b"0"), ok(GROUP % b"1"), ("answer", "901 brokerName=b", "address", "0")),
])  # fmt: skip
def test_answers_that_differ(code, ext, java, ours, expected):
    assert expected in cells(code, java, ours, **ext)


@pytest.mark.parametrize("request_", [
    Command(code=103), Command(code=322), Command(code=100), Command(code=29105), Command(code=105, flag=2),
    Command(code=105, flag=1),
])  # fmt: skip
def test_what_changes_something_or_waits_for_nothing_is_no_read(request_):
    assert asked_of(request_) is None


def test_a_signature_is_no_part_of_what_is_asked():
    asked = asked_of(Command(code=105, ext_fields={"topic": "t", "AccessKey": "me", "Signature": "secret"}))
    assert str(asked) == "105 topic=t"
