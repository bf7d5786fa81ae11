"""Entries whose topics are decoded once are the same as entries that are decoded one by one."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqregistry.events.changes import BrokerRegistered, ChangeDecoder, decode_change
from mqregistry.model import QueueData

NAMES = st.sampled_from(
    ["a", "b", 'q"', "b\\", "}", '},"at":5', ',"at":', ',"topics":', '"topics":{', "é", "topics", "at", "{", "}}"]
)


def entry(seq: int, topics: dict[str, QueueData], kind: str = "broker_registered", **members: Any) -> bytes:
    """An entry as lua/include/emit.lua writes it."""
    head = {"seq": seq, "ms": 1, "type": kind, "by": {"how": "wire"}, "broker_name": "b", **members}
    text = json.dumps(head, separators=(",", ":"), ensure_ascii=False)[:-1].encode()
    return text + b',"topics":' + msgspec.json.encode(topics) + b',"at":%d}' % (seq * 100)


def many(front: str = "topic", count: int = 200) -> dict[str, QueueData]:
    return {f"{front}-{number}": QueueData(number % 7, 4, 6) for number in range(count)}


def decoded(decode: Any, one: bytes) -> Any:
    try:
        return decode(one)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return type(error)


@given(st.data())
def test_each_entry_is_what_it_is_by_itself(data: st.DataObject) -> None:
    decoder = ChangeDecoder(most_bytes=data.draw(st.sampled_from([0, 15_000, 1 << 20])))
    for seq in range(data.draw(st.integers(1, 8))):
        topics = many(data.draw(NAMES), data.draw(st.sampled_from([0, 1, 150, 200])))
        topics |= {name: QueueData(1, 1, 1) for name in data.draw(st.lists(NAMES, max_size=3))}
        kind = data.draw(st.sampled_from(["broker_registered", "write_perm_set", "kv_put", "a_later_type"]))
        one = entry(seq, topics, kind, cluster=data.draw(NAMES), rev=seq)
        if data.draw(st.integers(0, 4)) == 0:
            at = data.draw(st.integers(0, len(one) - 1))
            one = one[:at] + data.draw(st.sampled_from([b"", b'"', b"}", b",", b"{", b"1"])) + one[at + 1 :]
        assert decoded(decoder.decode, one) == decoded(decode_change, one)
        if data.draw(st.integers(0, 4)) == 0:
            decoder.forget()


def test_topics_that_an_entry_shares_with_one_before_it_are_decoded_once() -> None:
    decoder = ChangeDecoder()
    first, other, second = (
        decoder.decode(entry(seq, topics)) for seq, topics in enumerate([many(), many("other"), many()], 1)
    )
    assert isinstance(first, BrokerRegistered)
    assert isinstance(second, BrokerRegistered)
    assert second.topics is first.topics
    assert (second.seq, second.at) == (3, 300)
    assert first != other
    decoder.forget()
    again = decoder.decode(entry(4, many()))
    assert isinstance(again, BrokerRegistered)
    assert again.topics is not first.topics
    assert again.topics == first.topics


def test_no_more_texts_are_kept_than_are_allowed() -> None:
    size = len(msgspec.json.encode(many("a")))
    decoder = ChangeDecoder(most_bytes=2 * size)
    a, b = decoder.decode(entry(1, many("a"))), decoder.decode(entry(2, many("b")))
    assert isinstance(a, BrokerRegistered)
    assert isinstance(b, BrokerRegistered)
    used = decoder.decode(entry(3, many("a")))
    decoder.decode(entry(4, many("c")))
    b_again, a_again = decoder.decode(entry(5, many("b"))), decoder.decode(entry(6, many("a")))
    assert isinstance(used, BrokerRegistered)
    assert isinstance(a_again, BrokerRegistered)
    assert isinstance(b_again, BrokerRegistered)
    assert used.topics is a.topics
    assert b_again.topics is not b.topics
    assert a_again.topics is not a.topics  # "b" had pushed it out


@pytest.mark.parametrize("cut", [b"", b'"'])
def test_what_is_no_event_is_refused_as_ever(cut: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        ChangeDecoder().decode(entry(1, many())[:-1] + cut)
