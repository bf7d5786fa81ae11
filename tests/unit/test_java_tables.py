"""The tables under Java's names: order, two clusters with one address, what is not told."""

from __future__ import annotations

import msgspec

from mqregistry.model import BrokerRow, QueueData
from mqregistry.tables.java_tables import NAMES, JavaDataVersion, JavaLiveInfo, java_tables
from mqregistry.tables.tables import Tables


def live(cluster, addr):
    return JavaLiveInfo(cluster, addr, 1, 2, JavaDataVersion(1, 0, 1), [], "")


def told(tables, lives=()):
    return msgspec.to_builtins(java_tables(tables, lives), str_keys=True)


def test_empty_tables_are_there_and_empty():
    assert told(Tables()) == {name: {} for name in NAMES}


def test_what_is_not_known_is_absent():
    assert told(Tables(), None).keys() == set(NAMES) - {"brokerLiveTable"}


def test_everything_is_in_the_order_of_its_name():
    tables = Tables()
    for topic in ("b", "a"):
        for name in ("y", "x"):
            tables.set_queue_data(topic, name, QueueData(1, 2, 6, 3))
    tables.brokers["y"] = BrokerRow("c", {1: "d:1", 0: "c:1"}, zone_name="z")
    tables.clusters["c"] = {"y", "x"}
    tables.set_filter_servers("c2|b:1", ["f"])
    tables.set_filter_servers("c3|a:1", ["g", "f"])
    found = told(tables, [live("c1", "b:1"), live("c1", "a:1")])
    assert list(found["topicQueueTable"]) == ["a", "b"]
    assert [data["brokerName"] for data in found["topicQueueTable"]["a"]] == ["x", "y"]
    assert found["topicQueueTable"]["a"][0] | {"brokerName": "x", "writeQueueNums": 2, "topicSysFlag": 3}
    assert found["brokerAddrTable"]["y"]["zoneName"] == "z"
    assert list(found["brokerAddrTable"]["y"]["brokerAddrs"]) == ["0", "1"]
    assert found["clusterAddrTable"] == {"c": ["x", "y"]}
    assert list(found["brokerLiveTable"]) == ["a:1", "b:1"]
    assert list(found["filterServerTable"].items()) == [("a:1", ["g", "f"]), ("b:1", ["f"])]


def test_an_address_of_two_clusters_is_there_for_each():
    found = told(Tables(), [live("c2", "a:1"), live("c1", "a:1"), live("c1", "b:1"), live("c1", "b:1")])
    assert list(found["brokerLiveTable"]) == ["c1|a:1", "c2|a:1", "b:1"]
