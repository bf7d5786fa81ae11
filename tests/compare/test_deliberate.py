"""Each row of docs/differences.md that ``compare`` names: what it is named for, and what looks like it and is not."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from mqregistry.compare.deliberate import ROWS, row_of
from mqregistry.compare.differences import differences
from mqregistry.model import BrokerRow, QueueData, TopicRoute

from .told import content

PAGE = Path(__file__).resolve().parents[2] / "docs" / "differences.md"
LONG = "x" * 256
JAVA, OURS = content(java=True), content()


def changed(told, **changes):
    return msgspec.structs.replace(told, **changes)


def rows_of(java, ours):
    """Each cell that differs, and the row that it is named by."""
    return {(one.cell.kind, one.cell.name, one.cell.at): row_of(one.cell, java, ours)
            for one in differences({"java": java, "ours": ours})}  # fmt: skip


def with_rows(told, clusters=None, **rows):
    names = {cluster: frozenset(each) for cluster, each in (clusters or {"c1": {"broker-a", *rows}}).items()}
    return changed(told, brokers={**told.brokers, **rows}, clusters=names)


def route_at(rows, filters=None, mappings=None):
    return TopicRoute({name: QueueData(8, 8, 6) for name in rows}, dict(rows), filters or {}, mappings)


def test_every_row_is_in_the_document():
    assert set(ROWS) <= set(re.findall(r"^\| (D[^|]*?) \|", PAGE.read_text(encoding="utf-8"), re.M))


def test_d4_a_name_that_only_a_cluster_still_has():
    java = changed(JAVA, clusters={"c1": frozenset({"broker-a", "gone"})})
    assert rows_of(java, OURS) == {("cluster", "c1", "gone"): "D4"}
    assert rows_of(JAVA, changed(OURS, clusters={"c1": frozenset({"broker-a", "gone"})})) == {
        ("cluster", "c1", "gone"): ""
    }


def test_d16_a_row_without_addresses():
    java = with_rows(JAVA, empty=BrokerRow("c1", {}))
    assert rows_of(java, OURS) == {("broker", "empty", ""): "D16", ("cluster", "c1", "empty"): "D16"}
    assert set(rows_of(with_rows(JAVA, there=BrokerRow("c1", {0: "a:1"})), OURS).values()) == {""}
    here = with_rows(OURS, empty=BrokerRow("c1", {0: "a:1"}))
    assert rows_of(java, here) == {("broker", "empty", ""): ""}


def test_d9_names_that_are_refused_here():
    java = with_rows(
        changed(JAVA, kv={"": {"k": "v"}, "ns": {"a\x1b": "v"}}, routes={**JAVA.routes, LONG: JAVA.routes["orders"]}),
        **{LONG: BrokerRow("c1", {0: "a:1"})},
    )
    assert set(rows_of(java, OURS).values()) == {"D9"}
    there = with_rows(JAVA, **{"broker-a": BrokerRow("c1", {0: "10.0.0.1:10911", 1: "a|b:1"})})
    assert rows_of(there, OURS) == {("broker", "broker-a", ""): "D9"}
    odd = with_rows(changed(JAVA, kv={"ü": {"k": "v"}}), **{"a,b": BrokerRow("c1", {0: "a:1"})})
    assert set(rows_of(odd, OURS).values()) == {""}  # odd, but a name


def test_d3_one_name_in_two_clusters():
    two = {"c1": {"broker-a"}, "c2": {"broker-a"}}
    both = BrokerRow("c1", {0: "10.0.0.1:10911", 1: "b:1"})
    java = with_rows(JAVA, two, **{"broker-a": both})
    assert rows_of(java, with_rows(OURS, two)) == {("broker", "broker-a", ""): "D3"}
    assert rows_of(with_rows(JAVA, **{"broker-a": both}), OURS) == {("broker", "broker-a", ""): ""}
    moved = with_rows(OURS, two, **{"broker-a": BrokerRow("c1", {0: "c:1"})})
    assert rows_of(java, moved) == {("broker", "broker-a", ""): ""}


def test_a_route_is_meant_as_its_broker_is():
    two, both = {"c1": {"broker-a"}, "c2": {"broker-a"}}, BrokerRow("c1", {0: "10.0.0.1:10911", 1: "b:1"})
    java = changed(with_rows(JAVA, two, **{"broker-a": both}), routes={"orders": route_at({"broker-a": both})})
    assert rows_of(java, with_rows(OURS, two))["topic", "orders", "broker-a"] == "D3"
    wiped = changed(OURS, routes={"orders": msgspec.structs.replace(
        OURS.routes["orders"], queue_datas={"broker-a": QueueData(8, 8, 4)})})  # fmt: skip
    assert rows_of(JAVA, wiped) == {("topic", "orders", "broker-a"): ""}


def test_d7_filter_servers_of_an_address_in_two_clusters():
    rows = {"broker-a": BrokerRow("c1", {0: "10.0.0.1:10911"}), "broker-b": BrokerRow("c2", {0: "10.0.0.1:10911"})}
    java, ours = with_rows(JAVA, {"c1": {"broker-a"}, "c2": {"broker-b"}}, **rows), with_rows(OURS, **rows)
    ours = changed(ours, clusters=java.clusters)
    ours, java = (
        changed(told, routes={"orders": route_at(rows, {"10.0.0.1:10911": [name]})})
        for told, name in ((ours, "x"), (java, "y"))
    )
    assert rows_of(java, ours) == {("topic", "orders", "10.0.0.1:10911"): "D7"}
    one = {"broker-a": rows["broker-a"]}
    java = changed(JAVA, routes={"orders": route_at(one, {"10.0.0.1:10911": ["y"]})})
    assert rows_of(java, OURS) == {("topic", "orders", "10.0.0.1:10911"): ""}


def test_d6_a_mapping_of_a_broker_that_is_gone():
    ours = changed(OURS, routes={"orders": route_at(OURS.brokers, mappings={"gone": "{}"})})
    assert rows_of(JAVA, ours) == {("topic", "orders", "gone"): "D6.1"}
    ours = changed(OURS, routes={"orders": route_at(OURS.brokers, mappings={"broker-a": "{}"})})
    assert rows_of(JAVA, ours) == {("topic", "orders", "broker-a"): ""}


def test_d27_more_than_a_registry_takes():
    ids = {number: f"a:{number}" for number in range(300)}
    java = with_rows(JAVA, **{"broker-a": BrokerRow("c1", ids)})
    ours = with_rows(OURS, **{"broker-a": BrokerRow("c1", dict(list(ids.items())[:256]))})
    assert rows_of(java, ours) == {("broker", "broker-a", ""): "D27"}
    many = {f"c{number}": {"broker-a"} for number in range(1001)}
    assert set(rows_of(with_rows(JAVA, many), OURS).values()) == {"D27.1"}


def test_d29_a_value_that_is_too_large():
    assert rows_of(changed(JAVA, kv={"ns": {"k": "x" * 65_537}}), OURS) == {("kv", "ns", "k"): "D29"}
    assert rows_of(changed(JAVA, kv={"ns": {"k": "x" * 65_536}}), OURS) == {("kv", "ns", "k"): ""}
    assert rows_of(changed(JAVA, kv={"ns": {"k": "x" * 65_537}}), changed(OURS, kv={"ns": {"k": "y"}})) == {
        ("kv", "ns", "k"): ""
    }


@pytest.mark.parametrize(("key", "row"), [
    ("enableShutdownGracefully", "D13"), ("shutdownWaitTimeSeconds", "D13.1"), ("needWaitForService", "D10"),
    ("serverWorkerThreads", "D23"), ("supportActingMaster", ""),
])  # fmt: skip
def test_keys_of_the_configuration(key, row):
    assert rows_of(changed(JAVA, config={key: "a"}), changed(OURS, config={key: "b"})) == {("config", key, ""): row}
