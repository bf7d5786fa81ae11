"""Route tables in memory, changed by events alone."""

from __future__ import annotations

import pytest

from mqregistry.events import changes
from mqregistry.events.changes import Row
from mqregistry.model import BrokerRow, QueueData
from mqregistry.tables.tables import Tables

RW, RO = QueueData(8, 8, 6), QueueData(8, 8, 4)
REMOVALS = [kind for kind in vars(changes).values() if getattr(kind, "type", None) in changes.TYPES
            and issubclass(kind, changes.BrokerRemoved)]  # fmt: skip


def registered(name="a", *, row=None, topics=None, rev=1, cluster="c1", **fields):
    if row is not None:
        fields["row"] = row
    return changes.BrokerRegistered(
        1, 1, broker_name=name, rev=rev, who=f"{cluster}|1:1", cluster=cluster, addr="1:1",
        topics=topics or {}, **fields,
    )  # fmt: skip


@pytest.fixture
def tables():
    tables = Tables()
    tables.apply(registered(row=Row("c1", {0: "1:1"}), topics={"t1": RW, "t2": RW}))
    tables.apply(registered("b", row=Row("c1", {0: "2:2"}), topics={"t2": RO}))
    return tables


def test_registration_sets_row_topics_and_cluster(tables):
    assert tables.contents() == {
        "topics": {"t1": {"a": RW}, "t2": {"a": RW, "b": RO}},
        "brokers": {"a": BrokerRow("c1", {0: "1:1"}, None, False, 1), "b": BrokerRow("c1", {0: "2:2"}, None, False, 1)},
        "clusters": {"c1": {"a", "b"}},
        "broker_topics": {"a": {"t1", "t2"}, "b": {"t2"}},
        "filter_servers": {},
        "mappings": {},
        "kv": {},
        "config": {},
    }


def test_registration_touches_every_topic_of_the_name_when_the_row_changed(tables):
    touched = tables.apply(registered(row=Row("c1", {0: "1:1", 1: "3:3"}, "z", True), topics={"t3": RW}, rev=9))
    assert set(touched) == {"t1", "t2", "t3"}
    assert tables.brokers["a"] == BrokerRow("c1", {0: "1:1", 1: "3:3"}, "z", True, 9)


def test_registration_touches_only_its_topics_when_the_row_did_not_change(tables):
    assert set(tables.apply(registered(topics={"t2": RO}, rev=9))) == {"t2"}
    assert tables.brokers["a"].rev == 9
    assert tables.brokers["a"].broker_addrs == {0: "1:1"}


def test_many_cells_at_once_are_as_one_by_one(tables):
    at_once, one_by_one = Tables(), Tables()
    for name in ("a", "b"):
        news = {"".join(("t", str(number))): QueueData(number % 3, 1, 6) for number in range(9)}
        at_once.set_queue_datas(name, news)
        for topic, queue_data in news.items():
            one_by_one.set_queue_data(topic, name, queue_data)
    more = {"".join(("t", "3")): QueueData(7, 7, 7), "".join(("t", "99")): QueueData(0, 1, 6)}
    at_once.set_queue_datas("a", more)
    for topic, queue_data in more.items():
        one_by_one.set_queue_data(topic, "a", queue_data)
    assert at_once.contents() == one_by_one.contents()
    # one object for each text and each queue data
    assert at_once.topics["t99"]["a"] is at_once.topics["t0"]["b"]
    keys = {id(topic) for topic in at_once.topics}
    assert {id(topic) for topics in at_once.broker_topics.values() for topic in topics} == keys
    at_once.set_queue_datas("nobody", {})
    assert "nobody" not in at_once.broker_topics


def test_registration_without_rev_leaves_the_rows(tables):
    tables.apply(registered(rev=None))
    assert tables.brokers["a"].rev == 1


def test_registration_drops_topics(tables):
    assert set(tables.apply(registered(dropped=["t1", "t2", "none"]))) == {"t1", "t2", "none"}
    assert tables.topics == {"t2": {"b": RO}}
    assert "a" not in tables.broker_topics


def test_registration_in_a_second_cluster_adds_the_name_there(tables):
    tables.apply(registered(cluster="c2"))
    assert tables.clusters == {"c1": {"a", "b"}, "c2": {"a"}}


def test_filter_servers_are_set_and_removed_and_touch_the_names_topics(tables):
    assert set(tables.apply(registered(filter_servers=["f"]))) == {"t1", "t2"}
    assert tables.filter_servers == {"c1|1:1": ["f"]}
    tables.apply(registered(filter_servers=None))
    assert tables.filter_servers == {"c1|1:1": ["f"]}
    assert set(tables.apply(registered(filter_servers=[]))) == {"t1", "t2"}
    assert tables.filter_servers == {}


def test_mappings_are_set_and_touch_their_topics(tables):
    assert set(tables.apply(registered(mappings=[("t7", "x", "{}")]))) == {"t7"}
    assert tables.mappings == {"t7": {"x": "{}"}}


@pytest.mark.parametrize("kind", REMOVALS)
def test_removal_of_the_last_address_takes_the_name(tables, kind):
    tables.apply(registered(filter_servers=["f"]))
    gone = kind(2, 2, broker_name="a", who="c1|1:1", cluster="c1", addr="1:1", row=None)
    assert set(tables.apply(gone)) == {"t1", "t2"}
    assert tables.topics == {"t2": {"b": RO}}
    assert tables.clusters == {"c1": {"b"}}
    assert tables.filter_servers == {}
    assert set(tables.brokers) == {"b"}
    assert list(tables.apply(gone)) == []


@pytest.mark.parametrize("kind", REMOVALS)
def test_removal_of_one_address_sets_the_row_and_the_perms(tables, kind):
    left = kind(2, 2, broker_name="a", who="c1|1:1", row=Row("c1", {1: "3:3"}, None, True), rev=2,
                  topics={"t1": RO})  # fmt: skip
    assert set(tables.apply(left)) == {"t1", "t2"}
    assert tables.brokers["a"] == BrokerRow("c1", {1: "3:3"}, None, True, 2)
    assert tables.topics["t1"] == {"a": RO}


def test_removal_that_concerns_no_row_leaves_it(tables):
    before = tables.brokers["a"]
    assert list(tables.apply(changes.BrokerClosed(2, 2, broker_name="a", who="c1|9:9"))) == []
    assert tables.brokers["a"] is before


def test_write_perm_sets_queue_data(tables):
    wiped = changes.WritePermSet(2, 2, broker_name="a", rev=2, topics={"t1": RO})
    assert set(tables.apply(wiped)) == {"t1"}
    assert tables.topics["t1"] == {"a": RO}
    assert tables.brokers["a"].rev == 2


def test_topic_deletion_takes_it_from_the_names_told(tables):
    deleted = changes.TopicDeleted(2, 2, topic="t2", broker_names=["a"], rev=2)
    assert list(tables.apply(deleted)) == ["t2"]
    assert tables.topics == {"t1": {"a": RW}, "t2": {"b": RO}}
    assert (tables.brokers["a"].rev, tables.brokers["b"].rev) == (2, 1)
    tables.apply(changes.TopicDeleted(3, 3, topic="t2", broker_names=["b"], rev=3))
    assert "t2" not in tables.topics


def test_topic_registration_sets_queue_data_of_each_name(tables):
    added = changes.TopicRegistered(2, 2, topic="t9", queue_datas={"a": RO, "b": RW}, rev=2)
    assert list(tables.apply(added)) == ["t9"]
    assert tables.topics["t9"] == {"a": RO, "b": RW}
    assert (tables.brokers["a"].rev, tables.brokers["b"].rev) == (2, 2)
    assert "t9" in tables.broker_topics["b"]


def test_kv_is_put_and_deleted_and_touches_the_topic_of_that_name():
    tables = Tables()
    assert list(tables.apply(changes.KvPut(1, 1, kv_namespace="n", key="t", value="v"))) == ["t"]
    assert tables.kv == {"n": {"t": "v"}}
    assert list(tables.apply(changes.KvDeleted(2, 2, kv_namespace="n", key="t"))) == ["t"]
    assert tables.kv == {"n": {}}


def test_kv_namespace_comes_without_a_key_or_a_value():
    tables = Tables()
    tables.apply(changes.KvPut(1, 1, kv_namespace="n"))
    tables.apply(changes.KvPut(2, 2, kv_namespace="m", key="k"))
    assert tables.kv == {"n": {}, "m": {}}


def test_config_is_set_and_touches_every_topic(tables):
    assert set(tables.apply(changes.ConfigSet(2, 2, config={"a": "1"}, config_rev=4))) == {"t1", "t2"}
    assert (tables.config, tables.config_rev) == ({"a": "1"}, 4)


@pytest.mark.parametrize(
    "change",
    [
        registered(row=Row("c1", {0: "9:9"}), topics={"t1": RO}, dropped=["t2"], filter_servers=["f"]),
        changes.BrokerExpired(2, 2, broker_name="a", who="c1|1:1", row=None),
        changes.TopicDeleted(2, 2, topic="t1", broker_names=["a"], rev=2),
        changes.TopicRegistered(2, 2, topic="t9", queue_datas={"a": RO}, rev=2),
    ],
)
def test_applying_an_event_twice_changes_nothing(tables, change):
    tables.apply(change)
    before = repr(tables.contents())
    tables.apply(change)
    assert repr(tables.contents()) == before


def test_equal_queue_data_share_one_object(tables):
    tables.set_queue_data("t5", "a", QueueData(8, 8, 6))
    assert tables.topics["t5"]["a"] is tables.topics["t1"]["a"]


def test_an_event_of_a_type_of_later_releases_is_passed_over_if_it_says_so(tables):
    before = str(tables.contents())
    assert not tables.apply(changes.LaterChange(2, 1, ignorable=True, unknown_type="broker_graded"))
    assert str(tables.contents()) == before


def test_an_event_of_an_unknown_type_is_an_error_and_changes_nothing(tables):
    before = str(tables.contents())
    with pytest.raises(changes.UnknownChange, match=r"event 2 is a 'queues_moved', which this release \(schema 2\."):
        tables.apply(changes.LaterChange(2, 1, unknown_type="queues_moved"))
    assert str(tables.contents()) == before
