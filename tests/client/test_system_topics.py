"""The system topics are those that real brokers registered, recorded in tests/golden."""

from __future__ import annotations

import msgspec
import pytest

from mqregistry.client.broker.config import BrokerConfig
from mqregistry.client.broker.topic_table import TopicTable
from mqregistry.model import TopicConfig
from mqregistry.protocol.command import decode_command
from tests.golden import load


def first_registration(scenario):
    row = next(row for row in load(scenario)[1] if row.get("code") == 103 and row["direction"] == "request")
    return decode_command(row["frame"][4:])


@pytest.mark.parametrize(
    "scenario",
    [
        "broker-4.8.0-default--ns-4.8.0", "broker-4.9.7-default--ns-5.3.3", "broker-5.3.3-default--ns-5.3.3",
        "broker-5.5.0-default--ns-5.5.0",
    ],
)  # fmt: skip
def test_a_table_begins_with_the_topics_of_a_real_broker(scenario):
    sent = first_registration(scenario)
    fields = sent.ext_fields
    config = BrokerConfig(
        broker_name=fields["brokerName"], broker_addr=fields["brokerAddr"], cluster_name=fields["clusterName"],
        version=sent.version,
    )  # fmt: skip
    body = msgspec.json.decode(sent.body)
    recorded = body["topicConfigSerializeWrapper"]["topicConfigTable"]
    assert dict(TopicTable.with_system_topics(config)) == msgspec.convert(recorded, dict[str, TopicConfig])


def test_own_topics_are_added_and_take_the_place_of_system_topics():
    config = BrokerConfig(broker_name="b", broker_addr="h:1", cluster_name="c")
    table = TopicTable.with_system_topics(config, [TopicConfig("orders", 4, 4, 6), TopicConfig("TBW102", 2, 2, 6)])
    assert table["orders"].read_queue_nums == 4
    assert (table["TBW102"].write_queue_nums, table["c"].perm, table["b"].perm) == (2, 7, 7)
    assert table.data_version.counter == 0
