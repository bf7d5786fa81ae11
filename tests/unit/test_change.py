"""Events as text, and sets of parts."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqregistry.events.changes import (
    BrokerRegistered,
    KvPut,
    LaterChange,
    Live,
    Parts,
    Row,
    TopicDeleted,
    decode_change,
    may_pass_over,
)
from mqregistry.model import BrokerRow, QueueData


def test_decode_reads_a_whole_registration():
    change = decode_change(
        b'{"seq":7,"ms":9,"type":"broker_registered","broker_name":"a","rev":8,"part":1,"parts":2,"who":"c|1","cluster":"c",'
        b'"addr":"1","broker_id":0,"live":{"timeout_ms":5,"counter":1,"timestamp":2,"state_version":3,"ha":"h"},'
        b'"new":true,"row":{"cluster":"c","zone":"z","acting":true,"addrs":{"0":"1","-1":"2"}},'
        b'"filter_servers":["f"],"dropped":["d"],"mappings":[["t","n","{}"]],"topics":{"t":{"r":1,"w":2,"p":3,"f":4}}}'
    )
    assert change == BrokerRegistered(
        7, 9, 1, 2, broker_name="a", rev=8, who="c|1", cluster="c", addr="1", broker_id=0, new=True,
        row=Row("c", {0: "1", -1: "2"}, "z", True), live=Live(5, 1, 2, 3, "h"), topics={"t": QueueData(1, 2, 3, 4)},
        dropped=["d"], filter_servers=["f"], mappings=[("t", "n", "{}")],
    )  # fmt: skip
    assert change.type == BrokerRegistered.type == "broker_registered"
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


def test_an_event_of_a_later_type_is_known_by_its_head():
    later = decode_change(b'{"seq":4,"ms":5,"type":"queues_moved","part":1,"parts":2,"at":9,"row":[]}')
    assert later == LaterChange(4, 5, 1, 2, at=9, unknown_type="queues_moved")
    assert later.type == "queues_moved"
    assert not may_pass_over(later)
    assert may_pass_over(decode_change(b'{"seq":4,"ms":5,"type":"queues_moved","ignorable":true}'))


def test_a_known_type_with_a_wrong_member_is_an_error_and_no_later_type():
    with pytest.raises(msgspec.ValidationError, match="kv_namespace"):
        decode_change(b'{"seq":1,"ms":1,"type":"kv_put","kv_namespace":1,"ignorable":true}')


def test_events_that_the_release_before_wrote_into_snapshots_can_be_read():
    """They have every member that any event has."""
    rest = (
        b'"new":false,"live":null,"topics":{},"dropped":[],"filter_servers":null,"mappings":[],"queue_datas":{},'
        b'"config":{},"config_rev":null,"ignorable":false,"alarm":null,"reader":null,"stream":null,"at":null}'
    )
    put = (
        b'{"seq":9,"ms":8,"type":"kv_put","part":3,"parts":7,"broker_name":"","rev":null,"who":null,"cluster":null,'
        b'"addr":null,"broker_id":null,"topic":null,"broker_names":[],"kv_namespace":"n","key":"k","value":"v",'
    )
    assert decode_change(put + rest) == KvPut(9, 8, 3, 7, kv_namespace="n", key="k", value="v")
    registered = put.replace(b'"kv_put"', b'"broker_registered"').replace(b'"broker_name":""', b'"broker_name":"a"')
    assert decode_change(registered + rest) == BrokerRegistered(9, 8, 3, 7, broker_name="a")


def test_an_event_reads_back_as_it_was_written():
    event = TopicDeleted(1, 2, topic="t", broker_names=["a"], rev=3)
    assert decode_change(msgspec.json.encode(event)) == event


def part(seq, number, of):
    return LaterChange(seq, 1, number, of, unknown_type="x")


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
