"""The topic table and its DataVersion, what is made of it, and the pace: without a network."""

from __future__ import annotations

import pytest

from mqregistry.client.broker.payload import PayloadBuilder
from mqregistry.client.broker.registrar import Pace, TopicTable
from mqregistry.model import DataVersion, TopicConfig, TopicQueueMapping

from .registrar_bed import broker

T1, T2, T3 = (TopicConfig(name, 8, 8, 6) for name in ("t1", "t2", "t3"))


@pytest.fixture
def clock():
    return iter(range(1000, 2000))


@pytest.fixture
def topics(clock):
    return TopicTable([T1, T2], now_ms=lambda: next(clock))


@pytest.fixture
def told(topics):
    told = []
    topics.subscribe(told.append)
    return told


def test_begins_like_a_java_broker_without_files(topics):
    assert topics.data_version == DataVersion(0, 1000, 0)
    assert dict(topics) == {"t1": T1, "t2": T2}


def test_goes_on_from_a_version_that_is_given():
    topics = TopicTable([T1], data_version=DataVersion(7, 5, 3), now_ms=lambda: 9)
    topics.put(T2)
    assert topics.data_version == DataVersion(8, 9, 3)


def test_each_change_moves_the_version_once_and_tells_what_changed(topics, told):
    topics.put(T3, TopicConfig("t1", 1, 1, 6))
    assert topics.data_version == DataVersion(1, 1001, 0)
    topics.put_topic("t4")
    topics.put_mapping(TopicQueueMapping("t4", "broker-a", 8))
    assert topics.data_version == DataVersion(3, 1003, 0)
    assert told == [{"t1", "t3"}, {"t4"}, {"t4"}]


def test_what_changes_nothing_moves_nothing(topics, told):
    mapping = TopicQueueMapping("t1", "broker-a", 8)
    topics.put_mapping(mapping)
    before = topics.data_version
    topics.put(T1)
    topics.put()
    topics.put_mapping(mapping)
    topics.remove("unknown")
    assert topics.data_version == before
    assert len(told) == 1


def test_what_a_removal_changed_only_the_whole_table_tells(topics, told):
    topics.put_mapping(TopicQueueMapping("t1", "broker-a", 8))
    topics.remove("t1", "t2", "unknown")
    topics.touch()
    assert told[1:] == [None, None]
    assert (dict(topics), dict(topics.mappings)) == ({}, {})


def test_the_state_version_comes_with_the_next_change(topics):
    topics.state_version = 5
    assert topics.data_version.state_version == 0
    topics.put(T3)
    assert topics.data_version.state_version == topics.state_version == 5


def test_who_unsubscribed_is_not_told(topics):
    told = []
    topics.subscribe(told.append)()
    topics.put(T3)
    assert told == []


@pytest.mark.parametrize(("only_add", "left"), [(True, {"t1", "t2"}), (False, {"t2"})])
def test_order_topics(topics, told, only_add, left):
    """A 5.x broker forgets none, a 4.x broker those that are not named any more; neither registers for it at once."""
    assert topics.set_order_topics(["t1", "elsewhere"], only_add=only_add)
    assert topics.order_topics == {"t1"}
    assert topics.data_version.counter == 1
    assert not topics.set_order_topics(["t1"], only_add=only_add)
    assert topics.set_order_topics(["t2"], only_add=only_add)
    assert topics.order_topics == left
    assert told == []


@pytest.mark.parametrize("topic", [TopicConfig("", 1, 1, 6)])
def test_a_topic_without_a_name_is_refused_and_changes_nothing(topics, topic):
    before = topics.data_version
    with pytest.raises(ValueError, match="topic name is empty"):
        topics.put(T3, topic)
    with pytest.raises(TypeError, match="topic of a static topic mapping is None"):
        topics.put_mapping(TopicQueueMapping(None, "b", 1))
    assert (topics.data_version, set(topics)) == (before, {"t1", "t2"})


def test_the_whole_table_is_written_once_a_version(topics):
    updates = PayloadBuilder(topics, broker())
    whole = updates.whole()
    assert updates.whole() is whole
    assert whole.encoded() is whole.encoded()
    topics.put(T3)
    assert updates.whole() is not whole
    assert set(updates.whole().bodies[0].topics) == {"t1", "t2", "t3"}


def test_an_increment_has_the_tables_version_and_only_the_mappings_of_its_topics(topics):
    topics.put_mapping(TopicQueueMapping("t1", "b", 1), TopicQueueMapping("t2", "b", 1))
    (body,) = PayloadBuilder(topics, broker()).increment({"t1", "gone"}).bodies
    assert (set(body.topics), set(body.mappings)) == ({"t1"}, {"t1"})
    assert body.data_version == topics.data_version


def test_ordered_topics_are_marked(topics):
    topics.set_order_topics(["t1"], only_add=True)
    (encoded,) = PayloadBuilder(topics, broker()).whole().encoded()
    assert encoded.count(b'"order":true') == 1
    assert b'"t1":{"attributes":{},"order":true' in encoded


@pytest.mark.parametrize(("size", "parts"), [(1, [1, 1, 1, 0]), (2, [2, 1]), (3, [3, 0]), (4, [3])])
def test_split_bodies_have_versions_of_their_own(topics, told, size, parts):
    topics.put(T3)
    updates = PayloadBuilder(topics, broker(enable_split_registration=True, split_registration_size=size))
    bodies = updates.whole().bodies
    assert [len(body.topics) for body in bodies] == parts
    assert [body.data_version.counter for body in bodies] == list(range(2, 2 + len(parts)))
    assert bodies[-1].data_version == topics.data_version
    assert updates.whole().bodies is bodies
    assert len(told) == 1  # nobody need register because somebody does


@pytest.mark.parametrize(
    ("period_ms", "seconds"), [(1, 10), (9_999, 10), (10_000, 10), (30_000, 30), (60_000, 60), (600_000, 60)]
)
def test_the_period_is_clamped_as_in_java(period_ms, seconds):
    assert Pace.of(broker(register_name_server_period_ms=period_ms)) == Pace(10, seconds)


def test_retries_back_off_up_to_the_period():
    pace = Pace(10, 30, 1)
    for failures, bound in [(1, 1), (2, 2), (3, 4), (5, 16), (6, 30), (1000, 30)]:
        waits = [pace.retry_after_s(failures) for _ in range(200)]
        assert bound / 4 <= min(waits) <= max(waits) <= bound
        assert max(waits) - min(waits) > bound / 3
