"""deleteTopicWithBrokerRegistration: topics that a registration no longer names go."""

from __future__ import annotations

import pytest

from mqregistry.protocol import lenient_json

from .harness import Broker

TABLE_NULL = b'{"topicConfigSerializeWrapper":{"dataVersion":{"counter":7,"timestamp":1},"topicConfigTable":null}}'


@pytest.fixture
def client(front_end_with):
    with front_end_with(delete_topic_with_broker_registration=True).client() as client:
        yield client


def topics(client):
    return sorted(lenient_json.loads(client.request(206).body)["topicList"])


def test_topics_that_are_not_named_any_more_go(client):
    client.register(Broker(topics=["topic1", "topic2", "topic3"]))
    client.register(Broker(topics=["topic2", "topic4"], counter=2))
    assert topics(client) == ["topic2", "topic4"]


def test_other_brokers_topics_stay(client):
    client.register(Broker("broker-b", "127.0.0.1:10921", topics=["topic1", "only-b"]))
    client.register(Broker(topics=["topic1", "topic2"]))
    client.register(Broker(topics=["topic2", "topic3"], counter=2))
    assert topics(client) == ["only-b", "topic1", "topic2", "topic3"]


@pytest.mark.parametrize("body", [TABLE_NULL, b'{"topicConfigSerializeWrapper":null}'], ids=["table", "wrapper"])
def test_null_says_nothing_about_topics_and_takes_none_away(client, body):
    broker = Broker(topics=["topic1", "topic2"])
    client.register(broker)
    ext, _ = broker.registration()
    assert client.request(103, ext | {"bodyCrc32": "0"}, body).code == 0
    assert topics(client) == ["topic1", "topic2"]
