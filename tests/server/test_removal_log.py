"""What the log says of the rows that a removal takes (docs/differences.md D34)."""

from __future__ import annotations

from mqregistry.events.changes import BrokerExpired, BrokerRegistered
from mqregistry.model import BrokerRow, QueueData
from mqregistry.server.process.java_log import SHOWN_TOPICS, removal_lines
from mqregistry.server.view.view import View

from .harness import Broker


def lines_of(log):
    return [line.partition("[removal_log] ")[2] or line for line in log.splitlines() if "remove from" in line]


def test_each_row_that_a_removal_takes_is_a_line(front_end_with):
    front_end = front_end_with()
    with front_end.client() as client:
        slave = Broker(broker_id=1, addr="127.0.0.1:10921")
        client.register(Broker())
        client.register(slave)
        client.register(Broker("broker-b", "127.0.0.1:10931", topics=["topic1", "topic3"]))
        for name, addr, broker_id in (("broker-a", slave.addr, 1), ("broker-a", "127.0.0.1:10911", 0)):
            fields = {"clusterName": "c1", "brokerName": name, "brokerAddr": addr, "brokerId": str(broker_id)}
            assert client.request(104, fields).code == 0
        client.request(216, {"topic": "topic3"})
        front_end.wait_until(lambda: "topic3 of broker-b" in front_end.log, "the last line")
    said = [line[line.index("remove from") :] for line in lines_of(front_end.log)]
    assert said == [
        "remove from brokerLiveTable: c1|127.0.0.1:10921",
        "remove from brokerAddrTable: address 127.0.0.1:10921, id 1 of broker-a",
        "remove from brokerLiveTable: c1|127.0.0.1:10911",
        "remove from brokerAddrTable: address 127.0.0.1:10911, id 0 of broker-a",
        "remove from brokerAddrTable: broker-a",
        "remove from clusterAddrTable: broker-a of cluster c1",
        "remove from topicQueueTable: topic topic1 of broker-a",
        "remove from topicQueueTable: topic topic2 of broker-a, and with it the topic",
        "remove from topicQueueTable: topic topic3 of broker-b, and with it the topic",
    ]


def test_a_huge_broker_is_a_few_lines():
    view = View()
    view.tables.brokers["a"] = BrokerRow("c1", {0: "x:1"})
    view.tables.clusters["c1"] = {"a"}
    view.tables.set_queue_datas("a", {f"t{number}": QueueData(4, 4, 6) for number in range(10_000)})
    applied = view.apply(
        BrokerExpired(seq=1, ms=1, broker_name="a", who="c1|x:1", cluster="c1", addr="x:1", broker_id=0, row=None)
    )
    lines = list(removal_lines(applied, view.tables))
    assert len(lines) == 5 + SHOWN_TOPICS + 1
    assert lines[:5] == [
        "remove from brokerLiveTable: c1|x:1",
        "remove from brokerAddrTable: address x:1, id 0 of a",
        "remove from brokerAddrTable: a",
        "remove from clusterAddrTable: a of cluster c1",
        "remove from clusterAddrTable: cluster c1",
    ]
    assert lines[-1] == "remove from topicQueueTable: 9950 more topics of a"


def test_a_registration_that_drops_topics_is_told():
    view = View()
    view.tables.brokers["a"] = BrokerRow("c1", {0: "x:1"})
    view.tables.set_queue_datas("a", {"t1": QueueData(4, 4, 6), "t2": QueueData(4, 4, 6)})
    applied = view.apply(BrokerRegistered(seq=1, ms=1, broker_name="a", dropped=["t2"]))
    assert list(removal_lines(applied, view.tables)) == [
        "remove from topicQueueTable: topic t2 of a, and with it the topic"
    ]
