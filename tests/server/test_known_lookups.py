"""Lookups known by their bytes are answered as those that go the long way, byte for byte, whatever comes."""

from __future__ import annotations

import asyncio
import json
import os
import struct

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mqregistry.behaviour import FIVE, FOUR_EIGHT
from mqregistry.protocol.codes import Encoding
from mqregistry.protocol.command import Command, decode_command, encode_command
from mqregistry.protocol.frame import FrameReader
from tests import golden

from .pair import CLIENTS, OTHER_ORDER, TIMES, Pair, framed, java, request

quick = settings(
    deadline=None, max_examples=100 * TIMES, derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip

pytestmark = pytest.mark.usefixtures("running_loop")


@pytest.mark.parametrize("client", [*CLIENTS, *OTHER_ORDER])
def test_every_clients_lookups_become_known(pair, client):
    for opaque in (5, 6, 70_000, 2**31 - 1, 1_000_000_000, 8):
        pair.feed(request(client, b"orders", opaque))
    assert pair.quick.hits == 4, "asked twice, then known"
    assert pair.slow.hits == 0
    pair.check_counts()


@pytest.mark.parametrize("behaviour", [FIVE, FOUR_EIGHT], ids=lambda behaviour: behaviour.compat)
def test_recorded_lookups_are_answered_alike(behaviour):
    frames = {
        row["frame"]
        for name in golden.scenarios()
        for row, reply in golden.exchanges(name)
        if row["code"] == 105 and reply is not None
    }
    pair = Pair(behaviour)
    topics = {(decode_command(frame[4:]).ext_fields or {}).get("topic") for frame in frames} - {None, "NoSuchTopic"}
    pair.fill(topics)
    for frame in sorted(frames) * 4:
        pair.feed(frame)
    pair.feed(b"".join(sorted(frames)))
    json_frames = [frame for frame in frames if frame[4] == 0]
    assert pair.quick.hits > len(json_frames)
    pair.check_counts()


@pytest.mark.parametrize(
    "opaque",
    ["0", "1", "9", "10", "999999999", "1000000000", "2147483647", "2147483648", "4294967297", "9999999999",
     "10000000000", "-1", "-0", "+5", "007", "00", "5.0", "5e0", "5.5", '"5"', '" 5"', "'5'", " 5", "5 ", "\t5", "null",
     "true", "", "0x5", "5_0", "\u0665", "[5]", '{"opaque":5}', "1" * 400],
)  # fmt: skip
def test_whatever_stands_for_the_opaque(pair, opaque):
    pair.learn(java("TopicA", 1))
    hits = pair.quick.hits
    assert hits
    head, tail = java("TopicA", 1)[8:].split(b'"opaque":1')
    header = head + b'"opaque":' + opaque.encode() + tail
    pair.feed(framed(header))
    pair.reconnect()
    pair.feed(framed(header) + java("TopicA", 3))
    pair.reconnect()
    pair.learn(framed(header))
    usual = opaque.isascii() and opaque.isdigit() and opaque[0] != "0" and int(opaque) < 2**31
    assert (pair.quick.hits > hits + 1) == usual
    pair.check_counts()


# Each of these must not be taken for another one, whatever was learned before.
ODD_HEADERS = [
    b'{"code":105,"extFields":{"opaque":5,"topic":"TopicA"},"flag":0,"language":"JAVA","version":479}',
    b'{"code":105,"extFields":{"opaque":"5","topic":"TopicA"},"flag":0,"opaque":7,"version":479}',
    b'{"code":105,"extFields":{"topic":"TopicA"},"flag":0,"opaque":5,"opaque":6,"version":479}',
    b'{"opaque":5,"code":105,"extFields":{"topic":"TopicA"},"flag":0,"opaque":6,"version":479}',
    b'{"opaque":5,"code":105,"extFields":{"topic":"TopicA"},"flag":0,"version":479,"op\\u0061que":6}',
    b'{"code":105,"extFields":{"topic":"TopicA"},"flag":0,"op\\u0061que":6,"opaque":5,"version":479}',
    b'{"code":105,"extFields":{"topic":"TopicA"},"flag":0,"op\\u0061que":6,"version":479}',
    b'{"code":105,"extFields":{"topic":"TopicA"},"flag":0,"opaque":5,"version":479,"op\\u0061que":5}',
    b'{"code":105,"extFields":{"topic":"TopicA"},"flag":0,"remark":"\\"opaque\\":5,","version":479}',
    b'{"code":105,"extFields":{"topic":"TopicA"},"flag":0,"opaque":5,"remark":"\\"opaque\\":6,","version":479}',
    b'{"code":105,"extFields":{"topic":"TopicA"},"flag":0,"opaque":5,"remark":{"opaque":6,"a":1},"version":479}',
    b'{"code":105,"extFields":{"topic":"TopicA"},"flag":0,"opaque":5,"more":{"opaque":6,"a":1},"version":479}',
    b"{'code':105,'extFields':{'topic':'TopicA'},'flag':0,'remark':'\"opaque\":5,','opaque':6,'version':479}",
    b'{code:105,extFields:{topic:"TopicA"},flag:0,"opaque":5,version:479}',
    b'{"code":105,"extFields":{"topic":"TopicA"},"flag":0,,"opaque":5,,"version":479,}',
    b'{"code":105,"extFields":{"topic":"TopicA"},"flag":1,"opaque":5,"version":479}',
    b'{"code":105,"extFields":{"topic":"TopicA"},"flag":2,"opaque":5,"version":479}',
    b'{"code":105,"extFields":{"topic":"TopicA"},"flag":4,"opaque":5,"version":479}',
    b'{"code":105,"extFields":{"topic":"TopicA","topic":"orders"},"flag":0,"opaque":5,"version":479}',
    b'{"code":105,"extFields":{"topic":"orders"},"extFields":{"topic":"TopicA"},"opaque":5,"version":479}',
    b'{"code":105,"extFields":{"topic":"TopicA","more":"1"},"flag":0,"opaque":5,"version":479}',
    b'{"code":105,"extFields":{"topic":"TopicA","__ZONE_MODE":"true","__ZONE_NAME":"z1"},"opaque":5,"version":479}',
    b'{"code":105,"extFields":{"topic":"TopicA","acceptStandardJsonOnly":"TRUE"},"opaque":5,"version":0}',
    b'{"code":105,"extFields":{"topic":"TopicA","acceptStandardJsonOnly":true},"opaque":5,"version":0}',
    b'{"code":105,"extFields":{"topic":"TopicA"},"opaque":5,"version":"479"}',
    b'{"code":"105","extFields":{"topic":"TopicA"},"opaque":5,"version":479}',
    b'{"code":105,"extFields":{"topic":"TopicA"},"opaque":5,"version":99999999999}',
    b'{"code":105,"extFields":{"topic":"TopicA"},"language":9,"opaque":5,"version":479}',
    b'{"code":105,"extFields":{"topic":"TopicA"},"language":"","opaque":5,"version":479}',
    b'{"code":105,"extFields":{"topic":"Nowhere"},"opaque":5,"version":479}',
    b'{"code":105,"extFields":{"topic":""},"opaque":5,"version":479}',
    b'{"code":105,"extFields":{},"opaque":5,"version":479}',
    b'{"code":105,"extFields":null,"opaque":5,"version":479}',
    b'{"code":105,"opaque":5,"version":479}',
    b'{"code":106,"extFields":{"topic":"TopicA"},"opaque":5,"version":479}',
    b'{"extFields":{"topic":"TopicA"},"code":105,"opaque":5,"code":106,"version":479}',
    b'["opaque":5,]',
    b'"opaque":5,',
    b'opaque":5,"a":1}',
    b'{"code":105,"extFields":{"topic":"TopicA"},"opaque":5,"version":479} ',
    b'{"code":105,"extFields":{"topic":"TopicA"},"opaque":5,"version":479}x',
    b'{"code":105,"extFields":{"topic":"TopicA"},"version":479,"opaque":5}',
    b'{"code":105,"extFields":{"topic":"x\x00y"},"opaque":5,"version":479}',
    b'{"code":105,"extFields":{"topic":"\xff"},"opaque":5,"version":479}',
    b'{"code":105,"extFields":{"topic":"\\ud800"},"opaque":5,"version":479}',
]


@pytest.mark.parametrize("header", ODD_HEADERS, ids=range(len(ODD_HEADERS)))
@pytest.mark.parametrize("behaviour", [FIVE, FOUR_EIGHT], ids=lambda behaviour: behaviour.compat)
def test_odd_headers_are_answered_as_ever(header, behaviour):
    pair = Pair(behaviour)
    pair.fill()
    others = [header.replace(b'"opaque":5', b'"opaque":%d' % opaque) for opaque in (123, 5, 77)]
    for each in [*[header] * 4, *others]:
        pair.feed(framed(each))
        if pair.quick.connection.closing:
            pair.reconnect()
    pair.check_counts()


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">II", 200, len(java()) - 8) + java()[8:],  # more is to come
        struct.pack(">II", len(java()) - 5, len(java()) - 9) + java()[8:],  # the last byte begins another frame
        struct.pack(">II", len(java()) - 4, len(java()) - 9) + java()[8:],  # the last byte is the body
        struct.pack(">II", len(java()) - 4, len(java()) - 7) + java()[8:],  # the header is longer than the frame
        struct.pack(">II", len(java()) - 4, 1 << 24 | len(java()) - 8) + java()[8:],  # a binary header
        struct.pack(">II", len(java()) - 4, 2 << 24 | len(java()) - 8) + java()[8:],  # no header that there is
        struct.pack(">II", 2**32 - 1, len(java()) - 8) + java()[8:],
        struct.pack(">II", 3, len(java()) - 8) + java()[8:],
        framed(java()[8:], b"a body"),
    ],
)
def test_only_the_header_of_a_whole_frame_is_known(pair, frame):
    pair.learn(java())
    hits = pair.quick.hits
    assert hits
    pair.feed(frame)
    assert pair.quick.hits == hits
    pair.reconnect()
    for _ in range(3):
        pair.feed(frame * 2)
        pair.reconnect()


def test_a_lookup_is_not_mistaken_for_one_with_its_opaque_elsewhere(pair):
    """What is left of both without the opaque is the same text."""
    usual = b'{"code":105,"extFields":{"topic":"TopicA"},"opaque":5,"flag":0,"version":479}'
    pair.learn(framed(usual))
    hits = pair.quick.hits
    assert hits
    for odd in (
        b'{"code":105,"extFields":{"opaque":5,"topic":"TopicA"},"flag":0,"version":479}',
        b'{"opaque":5,"code":105,"extFields":{"topic":"TopicA"},"flag":0,"version":479}',
        b'{"code":105,"extFields":{"topic":"Topic"opaque":5,A"},"flag":0,"version":479}',
        b'{"code":105,"extFields":{"topic":"TopicA"},"flag":0,"opaque":5,"version":479}',
    ):
        pair.feed(framed(odd))
        pair.reconnect()
    assert pair.quick.hits == hits
    pair.learn(framed(b'{"code":105,"extFields":{"topic":"x\x00y"},"opaque":5,"version":479}'))
    pair.feed(framed(b'{"code":105,"extFields":{"topic":"x"opaque":5,y"},\x00"version":479}'))


def mutations() -> st.SearchStrategy[bytes]:
    """A client's header with pieces put in, taken away or doubled: near misses of what is known."""
    pieces = st.sampled_from(
        [b'"opaque":', b'"opaque":5,', b'"opaque":"5",', b",", b'"', b"\\", b"{", b"}", b" ", b"\x00", b"5", b"0", b"-",
         b'"flag":2,', b'"flag":0,', b'"version":1,', b'"remark":"\\"opaque\\":1,",',
         b'"extFields":{"topic":"orders"},', b'"topic":"orders",', b'"code":106,',
         b"'", b"[", b"]", b":", b"null", b"\n", b"\xc3\xbc", b"\xff"]
    )  # fmt: skip

    @st.composite
    def mutated(draw: st.DrawFn) -> bytes:
        client = draw(st.sampled_from([*CLIENTS, *OTHER_ORDER]))
        topic = draw(st.sampled_from([b"TopicA", b"orders", b"a,,b", b"Nowhere"]))
        header = request(client, topic, draw(st.integers(0, 2**31 - 1)))[8:]
        for _ in range(draw(st.integers(0, 3))):
            at = draw(st.integers(0, len(header)))
            until = at + draw(st.sampled_from([0, 0, 1, 9, 11]))
            header = header[:at] + draw(pieces | st.just(b"")) + header[until:]
        return header

    return mutated()


@quick
@given(st.lists(mutations(), min_size=1, max_size=6), st.data())
def test_near_misses_of_what_is_known(headers, data):
    pair = Pair()
    pair.fill()
    for client in (*CLIENTS, *OTHER_ORDER):
        for topic in (b"TopicA", b"orders"):
            pair.learn(request(client, topic, 17))
    for header in headers:
        for _ in range(data.draw(st.sampled_from([1, 4]))):
            pair.feed(framed(header))
            if pair.quick.connection.closing:
                pair.reconnect()
    pair.check_counts()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["TopicA", "5", "opaque", '"opaque":5,', "", "\x00"]) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["opaque", "topic", "a"]), inner),
    max_leaves=4,
)  # fmt: skip


@quick
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["code", "extFields", "flag", "language", "opaque", "remark", "serializeTypeCurrentRPC", "version", "x"]
            ),
            json_values,
        ),
        max_size=7,
    ),
    st.permutations([("code", 105), ("extFields", {"topic": "TopicA"}), ("opaque", 5), ("version", 479), ("flag", 0)]),
    st.integers(0, 4),
    st.sampled_from([(",", ":"), (", ", ": "), (",", " :")]),
)
@example([("remark", '"opaque":5,')], [("code", 105), ("extFields", {"topic": "TopicA"}), ("opaque", 5)], 3, (",", ":"))
def test_generated_headers(extra, usual, kept, separators):
    pair = Pair()
    pair.fill()
    pair.learn(java("TopicA"))
    pairs = [*extra, *usual[: kept + 1]]
    text = separators[0].join(
        f"{json.dumps(name)}{separators[1]}{json.dumps(value, separators=separators, ensure_ascii=False)}"
        for name, value in pairs
    )
    header = f"{{{text}}}".encode("utf-8", "replace")
    for _ in range(4):
        pair.feed(framed(header))
        if pair.quick.connection.closing:
            pair.reconnect()
    pair.check_counts()


def test_split_at_every_byte(pair):
    stream = b"".join([java("TopicA", 1), java("orders", 22), java("Nowhere", 3), java("TopicA", 4)])
    pair.feed(stream * 4)
    for at in range(len(stream) + 1):
        pair.feed(stream[:at])
        pair.feed(stream[at:])
    for at in range(len(stream)):
        pair.feed(stream[at : at + 1])
    assert pair.quick.hits > len(stream)
    pair.check_counts()


@quick
@given(
    st.lists(
        st.sampled_from(
            ["TopicA", "orders", "Nowhere", "binary", "106", "write", "oneway", "garbage", "empty", "long"]
        ),
        max_size=12,
    ),
    st.lists(st.integers(1, 400), max_size=12),
)
def test_any_requests_in_any_pieces(requests, sizes):
    pair = Pair()
    pair.fill()
    pair.learn(java("TopicA"))
    pair.learn(java("orders"))
    made = {
        "binary": encode_command(
            Command(code=105, opaque=9, version=479, ext_fields={"topic": "orders"}, encoding=Encoding.ROCKETMQ)
        ),
        "106": encode_command(Command(code=106, opaque=8, version=479)),
        # Redis is away: an error, written by a task, so in no read's answer
        "write": encode_command(Command(code=216, opaque=7, version=479, ext_fields={"topic": "orders"})),
        "oneway": encode_command(Command(code=105, opaque=9, flag=2, ext_fields={"topic": "orders"})),
        "garbage": framed(b"}{"),
        "empty": framed(b""),
        "long": java("T" * 2000),
    }
    stream = b"".join(made.get(name) or java(name, 10 + number) for number, name in enumerate(requests))
    loop = asyncio.get_running_loop()
    at = 0
    for size in [*sizes, len(stream) + 1]:
        pair.feed(stream[at : at + size])
        at += size
    asyncio._set_running_loop(None)
    try:
        for side in pair.sides:
            if side.connection._writes.task is not None:
                loop.run_until_complete(side.connection._writes.task)
    finally:
        asyncio._set_running_loop(loop)
    assert pair.quick.wire.written[-1:] == pair.slow.wire.written[-1:]
    assert b"".join(pair.quick.wire.written) == b"".join(pair.slow.wire.written)
    pair.check_counts()


def test_many_in_one_read_are_one_write(pair):
    pair.learn(java("TopicA"))
    hits = pair.quick.hits
    answers = pair.feed(b"".join(java("TopicA", opaque) for opaque in range(1, 17)))
    assert pair.quick.hits == hits + 16
    opaques = [decode_command(frame).opaque for frame in FrameReader().feed(answers)]
    assert opaques == list(range(1, 17))


def test_a_long_batch_goes_out_in_pieces_until_the_client_stops_reading(pair, monkeypatch):
    monkeypatch.setattr("mqregistry.server.net.connection._WRITE_BYTES", 3000)
    pair.learn(java("TopicA"))
    for side in pair.sides:
        side.connection.paused_at_s = 1.0
        side.connection.data_received(b"".join(java("TopicA", opaque) for opaque in range(1, 40)))
        assert side.connection._backlog, "the client does not read: no more is made for it"
        side.connection.data_received(java("orders", 50))
    for side in pair.sides:
        while side.connection._backlog:
            side.connection.resume_writing()
    assert b"".join(pair.quick.wire.written) == b"".join(pair.slow.wire.written)
    pair.check_counts()


def test_nothing_known_overtakes_what_waits(pair):
    """A partial frame, or requests that wait until the client reads."""
    pair.learn(java("TopicA"))
    hits = pair.quick.hits
    pair.feed(java("orders")[:50])
    pair.feed(java("orders")[50:] + java("TopicA"))
    assert pair.quick.hits == hits
    for side in pair.sides:
        side.connection._backlog.append(java("orders")[4:])
    assert pair.feed(java("TopicA")) == b""
    assert pair.quick.hits == hits
