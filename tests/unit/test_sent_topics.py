"""SentTopics: an event whose topics were sent from here is what decoding it gives, whoever it is of."""

from __future__ import annotations

import msgspec
import pytest

from registry.change import decode_change
from registry.model import QueueData
from registry.store import sent as module
from registry.store.sent import Sent, SentTopics

PARTS = [{f"t{i}": QueueData(i, n, 6) for i in range(n, n + 3)} for n in (0, 3)]
BODIES = [msgspec.json.encode(part)[1:-1] for part in PARTS]


def entry(part: int, name: str = "a", body: bytes | None = None, members: bytes = b"") -> bytes:
    topics = BODIES[part] if body is None else body
    return (
        b'{"seq":%d,"ms":5,"type":"broker_registered","broker_name":"%b","rev":9,"part":%d,"parts":2%b,"topics":{%b},"at":77}'
        % (part + 8, name.encode(), part + 1, members, topics)
    )


@pytest.fixture
def decoded(monkeypatch):
    """The sizes of what was decoded."""
    sizes = []

    def counted(text):
        sizes.append(len(text))
        return decode_change(text)

    monkeypatch.setattr(module, "decode_change", counted)
    return sizes


def test_what_was_sent_is_taken_and_only_the_head_is_read(decoded):
    sent = SentTopics()
    sent.add(Sent("a", BODIES, PARTS))
    for part in (0, 1):
        change = sent.decode(entry(part, members=b',"who":"c|a\\",\\"topics\\":{","row":{"cluster":"c","addrs":{}}'))
        assert change.topics is PARTS[part]
        assert change == decode_change(
            entry(part, members=b',"who":"c|a\\",\\"topics\\":{","row":{"cluster":"c","addrs":{}}')
        )
    assert max(decoded) < 250
    assert sent.decode(entry(0)).topics is not PARTS[0]  # it came, and is forgotten


@pytest.mark.parametrize(
    "other",
    [
        entry(0, "b"),
        entry(1),
        entry(0, body=BODIES[0] + b',"more":{"r":1,"w":1,"p":1,"f":1}'),
        entry(0, body=BODIES[0].replace(b'"r":2', b'"r":7')),
        b'{"seq":8,"ms":5,"type":"kv_put","kv_namespace":"n","key":"k","value":",\\"topics\\":{"}',
    ],
)  # fmt: skip
def test_events_of_others_in_between_are_decoded_whole(other):
    sent = SentTopics()
    sent.add(Sent("a", BODIES, PARTS))
    change = sent.decode(other)
    assert change == decode_change(other)
    assert not any(change.topics is part for part in PARTS)
    assert sent.decode(entry(0)).topics is PARTS[0]
    assert sent.decode(other) == decode_change(other)
    assert sent.decode(entry(1)) == decode_change(entry(1))


def test_brokers_that_say_the_same_are_told_apart():
    sent, same = SentTopics(), [dict(part) for part in PARTS]
    sent.add(Sent("a", BODIES, PARTS))
    sent.add(Sent("b", BODIES, same))
    for part in (0, 1):
        assert sent.decode(entry(part, "b")).topics is same[part]
    for part in (0, 1):
        assert sent.decode(entry(part)).topics is PARTS[part]


def test_what_was_refused_is_dropped_and_what_never_comes_makes_room():
    sent, one = SentTopics(), Sent("a", BODIES, PARTS)
    sent.add(one)
    sent.drop(one)
    sent.drop(one)
    assert sent.decode(entry(0)).topics is not PARTS[0]
    sent.add(one)
    for _ in range(9):
        sent.add(Sent("z", BODIES, PARTS))
    assert len(sent._sent) == 4


def test_text_that_is_no_event_is_an_error():
    sent = SentTopics()
    sent.add(Sent("a", BODIES, PARTS))
    for text in (b"", b"{", entry(0)[:-1], entry(0) + b"}", entry(0).replace(b'"seq":8', b'"seq":x')):
        with pytest.raises(msgspec.DecodeError):
            sent.decode(text)
