"""Every type of event has its script, its struct, its meaning and its line in the reference."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from mqregistry.events import changes
from mqregistry.events.cells import (
    MEANINGS,
    DropBroker,
    DropQueueData,
    EndLive,
    JoinCluster,
    Operation,
    SetConfig,
    SetFilterServers,
    SetKv,
    SetLive,
    SetMappings,
    SetQueueData,
    SetRev,
    SetRow,
    operations,
)
from mqregistry.events.changes import EVENTS, TYPES, BrokerChange, Change, LaterChange, Live, Row, decode_change
from mqregistry.model import QueueData
from mqregistry.operators.words import what
from mqregistry.store import scripts
from mqregistry.tables.live_table import LiveTable
from mqregistry.tables.tables import Tables

REFERENCE = Path(__file__).parents[2] / "docs" / "events.md"
RW = QueueData(8, 8, 6)
LIVE, ROW = Live(5, 1, 2, 3, "h"), Row("c", {0: "1"})
OF_BROKER = {"broker_name": "a", "who": "c|1", "cluster": "c", "addr": "1", "broker_id": 0}
HEAD = {"seq", "ms", "part", "parts", "ignorable", "at", "by", "chain", "after", "knew"}


def members(event: type[Change]) -> set[str]:
    return {field.name for field in msgspec.structs.fields(event)} - HEAD


def rows() -> dict[str, str]:
    found = re.findall(r"^\| `(\w+)` (\|.*)$", REFERENCE.read_text(), flags=re.M)
    assert len(found) == len(dict(found)), "a type has two rows"
    return dict(found)


def test_scripts_emit_exactly_the_types_that_have_a_struct():
    emitted = set()
    for script in scripts.load().values():
        emitted |= set(re.findall(r"""\bemit(?:_topics)?\("(\w+)\"""", script.source))
        emitted |= set(re.findall(r"""remove_(?:who|from_row)\([^)\n"]*"(\w+)\"""", script.source))
    assert emitted == TYPES


def test_no_two_structs_have_one_type():
    assert len(TYPES) == len(EVENTS)


def test_every_struct_of_an_event_is_in_the_list():
    def leaves(of: type[Change]) -> set[type[Change]]:
        return set().union(*map(leaves, of.__subclasses__())) if of.__subclasses__() else {of}

    of_changes = {leaf for leaf in leaves(Change) if leaf.__module__ == changes.__name__}
    assert of_changes == {*EVENTS, LaterChange}


def test_every_event_has_a_meaning():
    assert {event for event in MEANINGS if event.__module__ == changes.__name__} == {*EVENTS, LaterChange}


def test_the_reference_has_a_row_for_each_type_and_no_other():
    assert rows().keys() == TYPES


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_the_reference_names_every_member(event):
    common = members(BrokerChange) if issubclass(event, BrokerChange) else set()
    named = set(re.findall(r"`(\w+)`", rows()[event.type].split("|")[2]))
    assert named == members(event) - common
    assert members(BrokerChange) <= set(re.findall(r"`(\w+)`", REFERENCE.read_text()))


def test_every_operation_is_applied_by_the_tables_or_the_live_table():
    from mqregistry.tables import tables

    assert {*tables._APPLY, SetLive, EndLive} == set(get_args(Operation))


MEANT = [
    (changes.BrokerRegistered(
        1, 1, rev=9, row=ROW, live=LIVE, topics={"t": RW}, dropped=["d"], filter_servers=["f"],
        mappings=[("t", "n", "{}")], **OF_BROKER,
    ), [
        SetFilterServers("c|1", ["f"]), JoinCluster("c", "a"), SetRow("a", ROW, 9), SetQueueData("a", {"t": RW}),
        DropQueueData("a", ["d"]), SetMappings([("t", "n", "{}")]), SetLive("c|1", "a", "c", "1", 0, LIVE),
    ]),
    (changes.BrokerRegistered(1, 1, part=2, parts=2, broker_name="a", rev=9, topics={"t": RW}), [
        SetRev("a", 9), SetQueueData("a", {"t": RW}),
    ]),
    (changes.BrokerRefused(1, 1, ignorable=True, **OF_BROKER), []),
    (changes.BrokerUnregistered(1, 1, row=None, **OF_BROKER), [
        SetFilterServers("c|1", ()), DropBroker("a"), EndLive("c|1", "a", True, True),
    ]),
    (changes.BrokerExpired(1, 1, row=ROW, rev=9, topics={"t": RW}, **OF_BROKER), [
        SetFilterServers("c|1", ()), SetRow("a", ROW, 9), SetQueueData("a", {"t": RW}),
        EndLive("c|1", "a", True, False),
    ]),
    (changes.BrokerClosed(1, 1, **OF_BROKER), [SetFilterServers("c|1", ()), EndLive("c|1", "a", False, False)]),
    (changes.BrokerReaped(1, 1, broker_name="a", row=None), [DropBroker("a")]),
    (changes.WritePermSet(1, 1, broker_name="a", rev=9, topics={"t": RW}), [
        SetRev("a", 9), SetQueueData("a", {"t": RW}),
    ]),
    (changes.TopicDeleted(1, 1, topic="t", broker_names=["a"], rev=9), [DropQueueData("a", ["t"]), SetRev("a", 9)]),
    (changes.TopicRegistered(1, 1, topic="t", queue_datas={"a": RW}, rev=9), [
        SetQueueData("a", {"t": RW}), SetRev("a", 9),
    ]),
    (changes.KvPut(1, 1, kv_namespace="n"), [SetKv("n", None, None)]),
    (changes.KvPut(1, 1, kv_namespace="n", key="k", value="v"), [SetKv("n", "k", "v")]),
    (changes.KvDeleted(1, 1, kv_namespace="n", key="k"), [SetKv("n", "k", None)]),
    (changes.ConfigSet(1, 1, config={"a": "1"}, config_rev=4), [SetConfig({"a": "1"}, 4)]),
    (changes.StreamAlarm(1, 1, ignorable=True, alarm="near"), []),
    (changes.AuthChanged(1, 1, ignorable=True, revision=7), []),
    (changes.LaterChange(1, 1, ignorable=True, unknown_type="later"), []),
]  # fmt: skip


@pytest.mark.parametrize(("change", "meant"), MEANT, ids=lambda value: getattr(value, "type", None))
def test_what_an_event_does(change, meant):
    assert list(operations(change)) == meant


@pytest.mark.parametrize("change", [change for change, _ in MEANT], ids=lambda change: change.type)
def test_an_event_is_read_as_it_was_written(change):
    assert decode_change(msgspec.json.encode(change)) == change


@pytest.mark.parametrize("change", [change for change, _ in MEANT[:-1]], ids=lambda change: change.type)
def test_an_event_has_words_for_people(change):
    assert what(change)


def test_each_event_is_among_those_whose_operations_are_shown():
    assert {type(change) for change, _ in MEANT} == {*EVENTS, LaterChange}


def test_an_event_of_a_later_type_that_may_not_be_passed_over_has_no_operations():
    with pytest.raises(changes.UnknownChange, match="event 2 is a 'later'"):
        operations(LaterChange(2, 1, unknown_type="later"))


def test_topics_of_an_event_are_one_operation_that_holds_the_events_own_dict():
    change = changes.BrokerRegistered(1, 1, broker_name="a", topics={f"t{n}": RW for n in range(10_000)})
    (operation,) = operations(change)
    assert operation.queue_datas is change.topics


def lives_after(*events, live_by_cluster=True):
    tables = Tables()
    lives = LiveTable(tables, live_by_cluster=live_by_cluster)
    for event in events:
        tables.apply(event)
        lives.apply(event)
    return {who: {name: info.broker_id for name, info in names.items()} for who, names in lives.by_who.items()}


def registered(name, broker_id=0):
    who = {"who": "c|1", "cluster": "c", "addr": "1"}
    return changes.BrokerRegistered(
        1, 1, broker_name=name, broker_id=broker_id, row=Row("c", {broker_id: "1"}), live=LIVE, **who
    )


def test_live_info_ends_under_the_name_that_the_process_left():
    gone = changes.BrokerClosed(2, 2, broker_name="a", who="c|1", addr="1", row=None)
    assert lives_after(registered("a"), registered("b", 1)) == {"c|1": {"a": 0, "b": 1}}
    assert lives_after(registered("a"), registered("b", 1), gone) == {"c|1": {"b": 1}}
    assert lives_after(registered("a"), gone, gone) == {}


def test_with_4_8_live_info_stays_where_the_address_is_still_in_the_row():
    said = changes.BrokerUnregistered(2, 2, broker_name="a", who="c|1", addr="1")
    assert lives_after(registered("a"), said, live_by_cluster=False) == {"c|1": {"a": 0}}


def test_with_4_8_a_goodbye_ends_an_address_that_is_in_no_row():
    moved = changes.BrokerRegistered(2, 2, broker_name="b", row=Row("c", {0: "2"}))
    said = changes.BrokerUnregistered(3, 3, broker_name="a", who="c|1", addr="1", row=None)
    events = registered("a"), registered("b"), moved, said
    assert lives_after(*events, live_by_cluster=False) == {}
    assert lives_after(*events) == {"c|1": {"b": 0}}
