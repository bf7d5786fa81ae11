"""Events as text, and sets of parts."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry import change as kinds
from registry.change import Change, Live, Parts, Row, decode_change
from registry.model import BrokerRow, QueueData


def test_decode_reads_a_whole_registration():
    change = decode_change(
        b'{"seq":7,"ms":9,"type":"broker_registered","broker_name":"a","rev":8,"part":1,"parts":2,"who":"c|1","cluster":"c",'
        b'"addr":"1","broker_id":0,"live":{"timeout_ms":5,"counter":1,"timestamp":2,"state_version":3,"ha":"h"},'
        b'"new":true,"row":{"cluster":"c","zone":"z","acting":true,"addrs":{"0":"1","-1":"2"}},'
        b'"filter_servers":["f"],"dropped":["d"],"mappings":[["t","n","{}"]],"topics":{"t":{"r":1,"w":2,"p":3,"f":4}}}'
    )
    assert change == Change(
        7, 9, kinds.BROKER_REGISTERED, 1, 2, "a", 8, "c|1", "c", "1", 0, True,
        Row("c", {0: "1", -1: "2"}, "z", True), Live(5, 1, 2, 3, "h"), {"t": QueueData(1, 2, 3, 4)}, ["d"], ["f"],
        [("t", "n", "{}")],
    )  # fmt: skip
    assert change.row.broker_row(8) == BrokerRow("c", {0: "1", -1: "2"}, "z", True, 8)


def test_row_that_is_absent_null_or_given_can_be_told_apart():
    def row(text):
        return decode_change(b'{"seq":1,"ms":1,"type":"broker_closed"' + text + b"}").row

    assert row(b"") is msgspec.UNSET
    assert row(b',"row":null') is None
    assert row(b',"row":{"cluster":"c","addrs":{}}') == Row("c", {})


def test_fields_of_a_later_release_are_passed_over():
    assert decode_change(b'{"seq":1,"ms":1,"type":"x","later":{"a":[1]}}').type == "x"


@pytest.mark.parametrize("text", [b"", b"[]", b'{"seq":1}', b'{"seq":"1","ms":1,"type":"x"}', b"\xff"])
def test_what_is_no_event_is_an_error(text):
    with pytest.raises(msgspec.DecodeError):
        decode_change(text)


def part(seq, number, of):
    return Change(seq, 1, "x", number, of)


def test_change_of_one_part_comes_at_once():
    change = part(1, 1, 1)
    assert list(Parts().add(change)) == [change]


def test_parts_come_together_with_the_last():
    parts, three = Parts(), [part(i, i, 3) for i in (1, 2, 3)]
    assert [list(parts.add(change)) for change in three] == [[], [], three]
    assert list(parts.add(part(4, 1, 1))) == [part(4, 1, 1)]


def test_set_that_was_not_finished_is_dropped():
    parts = Parts()
    assert list(parts.add(part(1, 1, 3))) == []
    assert list(parts.add(part(9, 1, 2))) == []
    assert list(parts.add(part(10, 2, 2))) == [part(9, 1, 2), part(10, 2, 2)]
    assert list(parts.add(part(11, 1, 2))) == []
    assert list(parts.add(part(20, 1, 1))) == [part(20, 1, 1)]


def test_reader_that_begins_in_the_middle_of_a_set_applies_none_of_it():
    parts = Parts()
    assert list(parts.add(part(2, 2, 3))) == []
    assert list(parts.add(part(3, 3, 3))) == []
    assert list(parts.add(part(4, 1, 1))) == [part(4, 1, 1)]


@given(st.lists(st.integers(1, 5), max_size=12))
def test_whole_sets_come_out_as_they_went_in(sizes):
    sent, seq = [], 0
    for size in sizes:
        sent += [part(seq + i, i, size) for i in range(1, size + 1)]
        seq += size
    parts = Parts()
    assert [out for change in sent for out in parts.add(change)] == sent
