"""What a registration changes, given the tables."""

from __future__ import annotations

import msgspec
import pytest

from mqregistry.model import BrokerRow, DataVersion, QueueData, Registration
from mqregistry.tables.registration import RegistrationDiff, compare
from mqregistry.tables.tables import Tables

ADDR = "10.0.0.1:10911"
V1, V2 = DataVersion(1, 1, 0), DataVersion(2, 1, 0)
RW, RO = QueueData(8, 8, 6), QueueData(8, 8, 4)


def changes(topics, dropped, mappings):
    """What the tables of these tests lead to: no row, or one at rev 0, and no settings."""
    return RegistrationDiff("", 0, "0", 0, topics, dropped, mappings)


NOTHING = changes({}, [], [])


def registration(topics=("t1", "t2"), *, broker_id=0, version=V1, **fields):
    return Registration(
        "c1", "a", broker_id, fields.pop("addr", ADDR), data_version=version,
        topics={topic: QueueData(8, 8, 6) for topic in topics}, **fields,
    )  # fmt: skip


def tables_with(addrs, topics=None):
    tables = Tables()
    if addrs:
        tables.brokers["a"] = BrokerRow("c1", addrs)
    for topic, queue_data in (topics or {}).items():
        tables.set_queue_data(topic, "a", queue_data)
    return tables


def test_unknown_broker_brings_all_its_topics():
    assert compare(registration(), None, tables_with({})) == changes({"t1": RW, "t2": RW}, [], [])


def test_nothing_new_changes_nothing():
    tables = tables_with({0: ADDR}, {"t1": RW, "t2": RW})
    assert compare(registration(), V1, tables) == NOTHING
    assert compare(registration(version=V2), V1, tables) == NOTHING


def test_unchanged_version_leaves_present_queue_data_alone_and_adds_absent():
    tables = tables_with({0: ADDR}, {"t1": RO})
    assert compare(registration(), V1, tables) == changes({"t2": RW}, [], [])


@pytest.mark.parametrize("known", [None, V2, DataVersion(1, 2, 0), DataVersion(1, 1, 1)])
def test_any_difference_of_version_brings_present_queue_data_back(known):
    tables = tables_with({0: ADDR}, {"t1": RO, "t2": RW})
    assert compare(registration(), known, tables) == changes({"t1": RW}, [], [])


def test_new_id_brings_everything_though_the_version_is_known():
    tables = tables_with({1: ADDR}, {"t1": RO, "t2": RO})
    assert compare(registration(), V1, tables).topics == {"t1": RW, "t2": RW}


def test_queue_data_of_other_names_do_not_count():
    tables = tables_with({0: ADDR})
    tables.set_queue_data("t1", "b", RW)
    assert compare(registration(["t1"]), V1, tables).topics == {"t1": RW}


def test_queue_data_keeps_every_number():
    r = Registration("c1", "a", 0, ADDR, topics={"t": QueueData(3, 5, 7, 9)})
    assert compare(r, None, tables_with({})).topics == {"t": QueueData(3, 5, 7, 9)}


@pytest.mark.parametrize("acting", [None, True, False])
def test_slave_beside_a_master_changes_no_topics(acting):
    r = registration(broker_id=1, addr="s", enable_acting_master=acting)
    assert compare(r, None, tables_with({0: ADDR})) == NOTHING


@pytest.mark.parametrize(
    ("acting", "expected"), [(None, {}), (False, {"t1": RW, "t2": RW}), (True, {"t1": RO, "t2": RO})]
)
def test_lowest_slave_without_a_master_counts_if_the_broker_knows_acting_masters(acting, expected):
    r = registration(broker_id=1, addr="s", enable_acting_master=acting)
    assert compare(r, None, tables_with({2: "other"})).topics == expected


def test_slave_that_is_not_the_lowest_does_not_count():
    r = registration(broker_id=2, addr="s", enable_acting_master=False)
    assert compare(r, None, tables_with({1: "other"})) == NOTHING


def test_slave_whose_own_address_held_the_lower_id_is_the_lowest():
    r = registration(broker_id=2, addr="s", enable_acting_master=False)
    assert compare(r, None, tables_with({1: "s"})).topics == {"t1": RW, "t2": RW}


def test_missing_topics_stay_unless_it_is_set_so():
    tables = tables_with({0: ADDR}, {"t1": RW, "t2": RW, "t9": RW, "t8": RW})
    assert compare(registration(), V1, tables).dropped == []
    assert compare(registration(), V1, tables, delete_missing_topics=True).dropped == ["t8", "t9"]


def test_missing_topics_stay_when_there_are_static_topics():
    tables = tables_with({0: ADDR}, {"t9": RW})
    r = registration(mappings={"t1": ("a", "{}")})
    assert compare(r, V1, tables, delete_missing_topics=True).dropped == []


def test_missing_topics_of_a_slave_stay():
    r = registration(broker_id=1, addr="s")
    assert compare(r, None, tables_with({0: ADDR}, {"t9": RW}), delete_missing_topics=True) == NOTHING


def test_mappings_are_stored_where_they_differ():
    r = registration(mappings={"t1": ("a", "1"), "t2": ("b", "2")})
    tables = tables_with({0: ADDR}, {"t1": RW, "t2": RW})
    tables.set_mapping("t1", "a", "1")
    tables.set_mapping("t2", "a", "2")
    assert compare(r, None, tables).mappings == [("t2", "b", "2")]


def test_mappings_are_left_alone_while_the_version_is_unchanged():
    r = registration(mappings={"t1": ("a", "1")})
    tables = tables_with({0: ADDR}, {"t1": RW, "t2": RW})
    assert compare(r, V1, tables).mappings == []


def test_tables_are_not_changed():
    tables = tables_with({0: ADDR}, {"t1": RO, "t9": RW})
    before = repr(tables.contents())
    compare(registration(mappings={"t1": ("a", "1")}), None, tables, delete_missing_topics=True)
    assert repr(tables.contents()) == before


def test_the_difference_says_what_it_rests_on():
    tables = tables_with({0: ADDR})
    tables.brokers["a"] = BrokerRow("c1", {0: ADDR}, rev=7)
    tables.config_rev = 3
    for r in (registration(), registration(broker_id=1, addr="s")):
        diff = compare(r, None, tables, epoch="e", n="5")
        assert (diff.epoch, diff.rev, diff.n, diff.config_rev) == ("e", 7, "5", 3)


def test_another_part_of_the_version_counts_and_takes_nothing_away():
    tables = tables_with({0: ADDR}, {"t1": RO, "t2": RW, "t3": RW})
    part = {"is_new_body": True, "delete_missing_topics": True}
    assert compare(registration(), V1, tables, **part) == changes({"t1": RW}, [], [])
    assert compare(registration(version=V2), V1, tables, **part) == changes({"t1": RW}, ["t3"], [])


def test_another_part_leaves_alone_what_others_changed_unless_the_broker_changes_it():
    numbers = (RW.read_queue_nums, RW.write_queue_nums, RW.perm, RW.topic_sys_flag)
    for registered, changed in ((numbers, {}), ((1, 1, RW.perm, 0), {"t1": RW})):
        wiped = msgspec.structs.replace(RO, registered=registered)
        tables = tables_with({0: ADDR}, {"t1": wiped, "t2": RW})
        assert compare(registration(), V1, tables, is_new_body=True) == changes(changed, [], [])
        assert compare(registration(version=V2), V1, tables, is_new_body=True) == changes({"t1": RW}, [], [])


def test_tables_keep_what_the_broker_registered_beside_the_same_numbers():
    """Equal queue data is kept once."""
    wiped = msgspec.structs.replace(RO, registered=(8, 8, 6, 0))
    tables = tables_with({0: ADDR}, {"t1": RO, "t2": wiped})
    assert [tables.topics[topic]["a"].registered for topic in ("t1", "t2")] == [msgspec.UNSET, (8, 8, 6, 0)]
