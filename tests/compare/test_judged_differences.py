"""Since when sides differ, and which differences count."""

from __future__ import annotations

import msgspec
import pytest

from mqregistry.compare.differences import Cell, differences
from mqregistry.compare.judged_differences import Lasting, Sort
from mqregistry.model import BrokerRow

from .told import content

LASTING_MS = 30_000
ORDERS = Cell("topic", "orders")


class Looks:
    """Looks at sides; each gives (sort, since, cell) of every difference."""

    def __init__(self):
        self.lasting = Lasting(LASTING_MS)

    def at(self, now_ms, *, seen=None, **sides):
        self.lasting.look(now_ms, differences(sides), sides, seen)
        return [(one.sort, one.since_ms, one.cell) for one in self.lasting.standing(now_ms)]


@pytest.fixture
def looks():
    return Looks()


HAS, LACKS = content(), content(topics=[])


def test_a_difference_counts_when_it_lasts_longer_than_the_period(looks):
    assert looks.at(1_000, a=HAS, b=LACKS) == [(Sort.YOUNG, 1_000, ORDERS)]
    assert looks.at(31_000, a=HAS, b=LACKS) == [(Sort.YOUNG, 1_000, ORDERS)]
    assert looks.at(31_001, a=HAS, b=LACKS) == [(Sort.COUNTED, 1_000, ORDERS)]
    assert looks.at(32_000, a=HAS, b=HAS) == []


def test_sides_that_agreed_meanwhile_begin_anew(looks):
    looks.at(0, a=HAS, b=LACKS)
    looks.at(29_000, a=LACKS, b=LACKS)
    assert looks.at(40_000, a=HAS, b=LACKS) == [(Sort.YOUNG, 40_000, ORDERS)]


def test_a_side_that_stays_behind_counts_although_the_other_goes_on_changing(looks):
    for now_ms in range(0, 40_000, 1_000):
        kv = {"ns": {"k": str(now_ms)}}
        seen = looks.at(now_ms, a=content(kv=kv), b=content(kv={"ns": {"k": "old"}}))
    assert seen == [(Sort.COUNTED, 0, Cell("kv", "ns", "value", "k"))]


def test_each_pair_has_an_age_of_its_own(looks):
    looks.at(0, a=HAS, b=HAS, c=LACKS)
    looks.at(20_000, a=HAS, b=LACKS, c=LACKS)
    looks.at(40_000, a=HAS, b=LACKS, c=LACKS)
    counts, young = looks.lasting.standing(40_000)
    assert (counts.sort, counts.since_ms, counts.between) == (Sort.COUNTED, 0, [("a", "c")])
    assert (young.sort, young.since_ms, young.between) == (Sort.YOUNG, 20_000, [("a", "b")])


def test_a_side_that_cannot_be_read_keeps_its_differences(looks):
    looks.at(0, a=HAS, b=LACKS)
    assert looks.at(20_000, a=HAS) == [(Sort.YOUNG, 0, ORDERS)]
    assert looks.at(31_000, a=HAS, b=LACKS) == [(Sort.COUNTED, 0, ORDERS)]
    assert looks.at(32_000, b=LACKS) == [(Sort.COUNTED, 0, ORDERS)]
    assert looks.at(33_000, a=LACKS, b=LACKS) == []


def test_a_cell_that_was_not_looked_at_stays_as_it_was(looks):
    looks.at(0, a=HAS, b=LACKS)
    seen = looks.at(31_000, seen=[Cell("topic", "other")], a=LACKS, b=LACKS)
    assert seen == [(Sort.COUNTED, 0, ORDERS)]
    assert looks.lasting.open_cells() == [ORDERS]


JAVA_HAS, JAVA_LACKS = content(java=True), content(topics=[], java=True)


def test_java_servers_that_differ_among_themselves_are_noise_where_ours_agrees_with_one(looks):
    assert looks.at(0, j1=JAVA_HAS, j2=JAVA_LACKS, ours=HAS) == [(Sort.YOUNG, 0, ORDERS)]
    assert looks.at(31_000, j1=JAVA_HAS, j2=JAVA_LACKS, ours=HAS) == [(Sort.NOISE, 0, ORDERS)]


def test_ours_counts_where_it_agrees_with_no_java_server(looks):
    def wide(number, java):
        return content(java=java, brokers={"broker-a": BrokerRow("c1", {0: f"10.0.0.{number}:10911"})})

    sides = {"j1": wide(1, True), "j2": wide(2, True), "ours": wide(3, False)}
    looks.at(0, **sides)
    assert {sort for sort, _, _ in looks.at(31_000, **sides)} == {Sort.NOISE, Sort.COUNTED}
    (counts,) = (one for one in looks.lasting.standing(31_000) if one.sort is Sort.COUNTED)
    assert counts.between == [("j1", "ours"), ("j2", "ours")]


def test_java_servers_alone_are_compared_like_any_others(looks):
    looks.at(0, j1=JAVA_HAS, j2=JAVA_LACKS)
    assert looks.at(31_000, j1=JAVA_HAS, j2=JAVA_LACKS) == [(Sort.COUNTED, 0, ORDERS)]


def test_what_is_meant_never_counts(looks):
    empty = {"broker-x": BrokerRow("c1", {})}
    java = msgspec.structs.replace(JAVA_HAS, brokers={**JAVA_HAS.brokers, **empty})
    looks.at(0, java=java, ours=HAS)
    assert looks.at(99_000, java=java, ours=HAS) == [(Sort.MEANT, 0, Cell("broker", "broker-x"))]
    assert [one.row for one in looks.lasting.standing(99_000)] == ["D16"]
    assert looks.lasting.open_cells() == []
