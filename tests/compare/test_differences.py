"""Contents that are equal, and every cell in which they may differ."""

from __future__ import annotations

import msgspec
import pytest

from mqregistry.compare.content import normal_kv, normal_route, normal_row
from mqregistry.compare.differences import Cell, differences
from mqregistry.compare.report import alike
from mqregistry.model import BrokerRow, QueueData, TopicRoute

from .told import content

ODD = "päy\nments | ,:\"';#=\t"


def found(**sides):
    return {one.cell: dict(one.told) for one in differences(sides)}


def with_route(told, topic, **changes):
    route = msgspec.structs.replace(told.routes[topic], **changes)
    return msgspec.structs.replace(told, routes={**told.routes, topic: route})


def test_equal_contents_have_no_difference_whatever_their_order():
    turned = content(["b", "a"], ["broker-b", "broker-a"])
    rows = {name: turned.brokers[name] for name in turned.brokers}
    plain = msgspec.structs.replace(
        content(["a", "b"], ["broker-b", "broker-a"]), brokers=dict(sorted(rows.items())), kv=normal_kv({"ns": {}})
    )
    assert found(one=turned, other=plain) == {}
    assert differences({"one": turned}) == []


def test_normal_form_leaves_out_what_says_nothing():
    assert normal_row(BrokerRow("c1", {0: "a"}, "", False, rev=7)) == normal_row(BrokerRow("c1", {0: "a"}))
    route = TopicRoute({}, {}, {"a": ["y", "x"], "b": []}, {"n": '{"b":1, "a":2}'})
    assert normal_route(route) == normal_route(TopicRoute({}, {}, {"a": ["x", "y"]}, {"n": '{"a":2,"b":1}'}))
    assert normal_route(TopicRoute({}, {}, {}, {})) == normal_route(TopicRoute({}, {}, {}))


def test_a_broker_that_one_side_lacks():
    assert found(one=content(names=["broker-a", "broker-b"]), other=content()) == {
        Cell("cluster", "c1", "member", "broker-b"): {"one": "in it", "other": None},
        Cell("broker", "broker-b"): {
            "one": "addresses 0 10.0.0.2:10911; cluster c1; enableActingMaster false", "other": None,
        },
        Cell("topic", "orders", "broker", "broker-b"): {"one": "0 10.0.0.2:10911", "other": None},
    }  # fmt: skip


def test_a_topic_that_one_side_lacks_is_one_difference():
    route = "broker-a: 8 read, 8 write, perm 6 RW"
    assert found(one=content(), other=content(topics=[]), third=content()) == {
        Cell("topic", "orders"): {"one": route, "other": None, "third": route}
    }


@pytest.mark.parametrize(("change", "cell", "told"), [
    ({"queue_datas": {"broker-a": QueueData(8, 4, 6)}}, ("queues", "broker-a"), ("8 read, 8 write", "8 read, 4 write")),
    ({"queue_datas": {"broker-a": QueueData(8, 8, 4)}}, ("perm", "broker-a"), ("6 RW", "4 R")),
    ({"queue_datas": {"broker-a": QueueData(8, 8, 6, 1)}}, ("topicSysFlag", "broker-a"), ("0", "1")),
    ({"broker_rows": {"broker-a": BrokerRow("c1", {0: "10.0.0.1:10911", 1: "b"})}}, ("addresses", "broker-a"),
     ("0 10.0.0.1:10911", "0 10.0.0.1:10911, 1 b")),
    ({"broker_rows": {"broker-a": BrokerRow("c1", {0: "10.0.0.1:10911"}, "z")}}, ("zoneName", "broker-a"), (None, "z")),
    ({"filter_servers": {"10.0.0.1:10911": ["f"]}}, ("filter servers", "10.0.0.1:10911"), (None, "f")),
    ({"mappings": {"broker-a": "{}"}}, ("static queues", "broker-a"), (None, "{}")),
    ({"order_topic_conf": "broker-a:8"}, ("orderTopicConf", ""), (None, "broker-a:8")),
])  # fmt: skip
def test_each_part_of_a_route(change, cell, told):
    other = with_route(content(), "orders", **change)
    part, at = cell
    assert found(one=content(), other=other) == {Cell("topic", "orders", part, at): {"one": told[0], "other": told[1]}}


def test_parts_that_only_5x_has_are_not_asked_of_4x():
    zoned = {"broker-a": BrokerRow("c1", {0: "10.0.0.1:10911"}, "z", True)}
    five = msgspec.structs.replace(with_route(content(), "orders", broker_rows=zoned), brokers=zoned)
    four = msgspec.structs.replace(content(), is_five=False)
    assert found(five=five, four=four) == {}
    assert {cell.part for cell in found(five=five, four=four, plain=content())} == {"zoneName", "enableActingMaster"}


def test_kv_and_configuration():
    one = content(
        kv={"ns": {"k": "v", "same": "1"}}, config={"listenPort": "1", "orderMessageEnable": "true", "a": "1"}
    )
    other = content(
        kv={"ns": {"same": "1"}, "more": {"k": ""}}, config={"listenPort": "2", "orderMessageEnable": "false"}
    )
    assert found(one=one, other=other) == {
        Cell("kv", "more", "value", "k"): {"one": None, "other": ""},
        Cell("kv", "ns", "value", "k"): {"one": "v", "other": None},
        Cell("config", "orderMessageEnable"): {"one": "true", "other": "false"},
    }


def test_what_a_side_does_not_tell_is_compared_between_the_others():
    silent = content(topics=[], untold={"topic": "206 is off", "config": "code 16"})
    one, other = content(["orders"], config={"a": "1"}), content([], config={"a": "2"})
    assert found(one=one, other=other, silent=silent) == {
        Cell("topic", "orders"): {"one": "broker-a: 8 read, 8 write, perm 6 RW", "other": None},
        Cell("config", "a"): {"one": "1", "other": "2"},
    }
    assert found(one=one, silent=silent) == {}


def test_odd_names_are_names():
    one = content([ODD], [ODD], kv={ODD: {ODD: ODD}})
    assert found(one=one, other=one) == {}
    assert Cell("kv", ODD, "value", ODD) in found(one=one, other=content([ODD], [ODD]))
    assert Cell("broker", ODD) in found(one=one, other=content([ODD]))


def test_differences_that_say_the_same_of_many_names_are_put_together():
    from mqregistry.compare.judged_differences import Lasting

    lasting, many = Lasting(0), [f"t{number}" for number in range(100)]
    sides = {"one": content(many, ["broker-a", "broker-b"]), "other": content(many)}
    lasting.look(0, differences(sides), sides)
    groups = alike(lasting.standing(1))
    assert sorted(len(group.names) for group in groups) == [1, 1, 100]
