"""Register bodies in every form, good and bad."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqregistry.errors import LocalProtocolError, RemoteProtocolError
from mqregistry.model import DataVersion, QueueData, TopicQueueMapping
from mqregistry.protocol import lenient_json
from mqregistry.protocol.bodies import register_compressed, register_content
from mqregistry.protocol.bodies.register import encode_register_body
from mqregistry.protocol.bodies.register_chunks import cut_body
from mqregistry.protocol.bodies.register_content import RegisterBody
from mqregistry.protocol.slices import finish
from tests.protocol.at_once import decode_register_body

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(min_size=1, max_size=10)
ONE_WORD = NAMES.filter(lambda name: " " not in name)


def registers(names: st.SearchStrategy[str], sys_flags: st.SearchStrategy[int]) -> st.SearchStrategy[RegisterBody]:
    topics = st.dictionaries(names, st.builds(QueueData, INT32, INT32, INT32, sys_flags), max_size=5)
    mappings = st.lists(
        st.builds(
            TopicQueueMapping,
            names,
            st.none() | names,
            INT32,
            INT64,
            st.booleans(),
            st.just("__global__") | names,
            st.dictionaries(INT32, INT32, max_size=3),
        ),
        max_size=3,
    )
    return st.builds(
        RegisterBody,
        st.builds(DataVersion, INT64, INT64, INT64),
        topics,
        mappings.map(lambda items: {str(mapping.topic): mapping for mapping in items}),
        st.none() | st.lists(names, max_size=3),
    )


@given(registers(NAMES, INT32))
def test_json_form_round_trips(body: RegisterBody) -> None:
    assert decode_register_body(encode_register_body(body), compressed=False, version=513) == body


@given(registers(ONE_WORD, st.just(0)))
def test_compressed_form_round_trips(body: RegisterBody) -> None:
    data = encode_register_body(body, compressed=True)
    assert decode_register_body(data, compressed=True, version=513) == body
    assert decode_register_body(data, compressed=False, version=513) == body  # D1


def test_compressed_form_of_4x_has_no_mappings() -> None:
    body = RegisterBody(mappings={"T": TopicQueueMapping("T", "b")})
    data = encode_register_body(body, compressed=True, version=412)
    assert decode_register_body(data, compressed=True, version=412).mappings == {}
    with pytest.raises(RemoteProtocolError, match="ends too early"):
        decode_register_body(data, compressed=True, version=413)


def test_compressed_form_cannot_carry_a_space_in_a_name() -> None:
    body = RegisterBody(topics={"a b": QueueData(1, 1, 6)})
    with pytest.raises(LocalProtocolError, match="has a space"):
        encode_register_body(body, compressed=True)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("", RegisterBody(DataVersion(0, 0, 0))),
        ("{}", RegisterBody(DataVersion(0, 99, 0))),
        (
            '{"filterServerList":null,"topicConfigSerializeWrapper":null}',
            RegisterBody(DataVersion(0, 99, 0), filter_servers=None),
        ),
        ('{"filterServerList":["f:1"]}', RegisterBody(DataVersion(0, 99, 0), filter_servers=["f:1"])),
        (
            "{topicConfigSerializeWrapper:null,filterServerList:null}",
            RegisterBody(DataVersion(0, 99, 0), filter_servers=None),
        ),
        (
            '{"topicConfigSerializeWrapper":{"dataVersion":{"counter":3},"topicConfigTable":{"T":{}}}}',
            RegisterBody(DataVersion(3, 99, 0), {"T": QueueData(16, 16, 6)}),
        ),
        (
            '{"topicConfigSerializeWrapper":{"topicConfigTable":{"key":{"topicName":"T","readQueueNums":"4",'
            '"writeQueueNums":null,"perm":2}}}}',
            RegisterBody(DataVersion(0, 99, 0), {"T": QueueData(4, 16, 2)}),
        ),
        (
            "{topicConfigSerializeWrapper:{dataVersion:{counter:1,timestamp:5},topicConfigTable:{L:{topicName:'L',"
            "readQueueNums:2,writeQueueNums:2,perm:6,},}}}",
            RegisterBody(DataVersion(1, 5, 0), {"L": QueueData(2, 2, 6)}),
        ),
        (
            '{"topicConfigSerializeWrapper":{"topicQueueMappingInfoMap":{"T":{"bname":"b","currIdMap":{0:3,1:4},'
            '"dirty":false,"epoch":7,"scope":"__global__","topic":"T","totalQueues":2}},'
            '"topicQueueMappingDetailMap":{"T":{"hostedQueues":{0:[{"gen":0}]},"currIdMap":{0:0}}}}}',
            RegisterBody(
                DataVersion(0, 99, 0),
                mappings={"T": TopicQueueMapping("T", "b", 2, 7, False, "__global__", {0: 3, 1: 4})},
            ),
        ),
    ],
)
def test_json_forms(body: str, expected: RegisterBody) -> None:
    assert decode_register_body(body.encode(), compressed=False, version=479, now_ms=99) == expected


@pytest.mark.parametrize(
    "body",
    [
        b"\x00\xffnot json",
        b"[]",
        b"5",
        b'{"topicConfigSerializeWrapper":5}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"perm":"x"}}}}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"perm":3000000000}}}}',
        b'{"topicConfigSerializeWrapper":{"dataVersion":{"counter":9223372036854775808}}}',
        b'{"surprise":' + b"[" * 200_000,
        b'{"filterServerList":{"a":1}}',
        b"\x78\x9cnot zlib at all",
    ],
)
def test_bad_json_forms_are_refused_and_keep_the_connection(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_register_body(body, compressed=False, version=479)
    assert not caught.value.closes


def text(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def compressed(
    *lines: bytes, version: bytes = b"{}", filters: bytes = b"[]", tail: bytes = b"", count: int | None = None
) -> bytes:
    number = struct.pack(">i", len(lines) if count is None else count)
    return zlib.compress(text(version) + number + b"".join(map(text, lines)) + text(filters) + tail)


@pytest.mark.parametrize(
    "body",
    [
        compressed(b"TooShort 4"),
        compressed(b"T 4 4 6"),
        compressed(b"T x 4 6 SINGLE_TAG"),
        compressed(b"T 4 4 99999999999 SINGLE_TAG"),
        compressed(b"T 4 4 6 OTHER_TAG"),
        compressed(b""),
        compressed(b"T 4 4 6 SINGLE_TAG", count=2),
        compressed(b"T 4 4 6 SINGLE_TAG", count=2**31 - 1),
        compressed(version=b"x"),
        compressed(tail=struct.pack(">i", 1) + text(b"{}")),
        compressed(tail=struct.pack(">i", 1) + text(b"[")),
        compressed(tail=struct.pack(">i", 3)),
        zlib.compress(struct.pack(">i", -1)),
        zlib.compress(struct.pack(">i", 100) + b"{}"),
        zlib.compress(b""),
        b'{"plain":"body"}',
        compressed(b"T 4 4 6 SINGLE_TAG")[:20],
    ],
)
def test_bad_compressed_forms_are_refused_and_keep_the_connection(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_register_body(body, compressed=True, version=479)
    assert not caught.value.closes


def test_compressed_form_in_detail() -> None:
    mapping = b'{"bname":"b","currIdMap":{0:1},"topic":"S","totalQueues":1}'
    body = compressed(
        b'A 4 5 6 SINGLE_TAG {"k":"v w"}',
        b"B 1 2 3 MULTI_TAG",
        version=b'{"counter":2,"timestamp":8}',
        filters=b'["f:1"]',
        tail=struct.pack(">i", 1) + text(mapping),
    )
    assert decode_register_body(body, compressed=True, version=413) == RegisterBody(
        DataVersion(2, 8, 0),
        {"A": QueueData(4, 5, 6), "B": QueueData(1, 2, 3)},
        {"S": TopicQueueMapping("S", "b", 1, 0, False, "__global__", {0: 1})},
        ["f:1"],
    )


@pytest.mark.parametrize(
    ("filters", "expected"), [(b"[]", []), (b"null", None), (b"", None), (b"not json", []), (b"['a',]", ["a"])]
)
def test_compressed_filter_servers(filters: bytes, expected: list[str] | None) -> None:
    body = decode_register_body(compressed(filters=filters), compressed=True, version=100)
    assert body.filter_servers == expected


def test_negative_counts_are_no_entries() -> None:
    body = compressed(count=-1, tail=struct.pack(">i", -1))
    assert decode_register_body(body, compressed=True, version=479).topics == {}


def bomb(*parts: bytes) -> bytes:
    """Compressed, whatever it inflates to."""
    packer = zlib.compressobj(9)
    return b"".join(map(packer.compress, parts)) + packer.flush()


def lines() -> bytes:
    line = text(b"t 4 4 6 SINGLE_TAG" + b" " * 10_000)
    return bomb(text(b"{}"), struct.pack(">i", 90_000), *[line] * 20_000)


def mappings() -> bytes:
    mapping = text(b'{"topic":"t"}' + b" " * 60_000)
    return bomb(text(b"{}"), struct.pack(">i", 0), text(b"[]"), struct.pack(">i", 900), *[mapping] * 900)


# Made when a test asks: together they take seconds, and each process of a test run reads this module.
BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "lines": (lines, "inflates to more than"),
    "version": (lambda: bomb(text(b"{" + b" " * (100 << 20) + b"}")), "a data version of 104857602 bytes"),
    "version that is none": (lambda: bomb(text(b"[" + b"[]," * (20 << 20) + b"[]]")), "a data version of"),
    "topic": (
        lambda: bomb(text(b"{}"), struct.pack(">i", 1), text(b" " * (60 << 20))),
        "a topic of 62914560 bytes",
    ),
    "filter servers": (
        lambda: bomb(text(b"{}"), struct.pack(">i", 0), text(b"[" + b'"",' * (20 << 20) + b'""]')),
        "a list of filter servers of",
    ),
    "mapping": (
        lambda: bomb(text(b"{}"), struct.pack(">i", 0), text(b"[]"), struct.pack(">i", 1), text(b" " * (60 << 20))),
        "a static topic mapping of",
    ),
    "mappings": (mappings, "static topic mappings of more than 8388608 bytes"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_no_more_of_a_bomb_is_held_than_a_piece(name: str) -> None:
    """B4: 60 KB that inflate to 60 MB took 3 GB and 19 s of the event loop."""
    make, fault = BOMBS[name]
    data = make()
    assert len(data) < 300_000
    tracemalloc.start()
    for compressed in (True, False):
        with pytest.raises(RemoteProtocolError, match=fault):
            decode_register_body(data, compressed=compressed, version=479)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 2 << 20


def test_inflating_stops_at_the_bound(monkeypatch) -> None:
    monkeypatch.setattr(register_compressed, "MAX_INFLATED_BYTES", 4 << 20)
    with pytest.raises(RemoteProtocolError, match="inflates to more than 4194304 bytes"):
        decode_register_body(lines(), compressed=True, version=479)


def test_brokers_before_3_0_11_send_the_bare_wrapper() -> None:
    wrapper = b'{"dataVersion":{"counter":1,"timestamp":2},"topicConfigTable":{"Old":{"topicName":"Old","perm":6}}}'
    expected = RegisterBody(DataVersion(1, 2, 0), {"Old": QueueData(16, 16, 6)}, filter_servers=None)
    assert decode_register_body(wrapper, compressed=False, version=36) == expected
    assert decode_register_body(wrapper, compressed=False, version=37).topics == {}
    assert decode_register_body(b"", compressed=False, version=36) == RegisterBody(filter_servers=None)
    with pytest.raises(RemoteProtocolError, match="bad topic table"):
        decode_register_body(b"?", compressed=False, version=36)


@given(st.binary(max_size=80), st.booleans(), st.integers(0, 600))
def test_any_bytes_decode_or_are_refused(body: bytes, is_compressed: bool, version: int) -> None:
    for data in (body, zlib.compress(body)):
        try:
            decode_register_body(data, compressed=is_compressed, version=version)
        except RemoteProtocolError as error:
            assert not error.closes  # noqa: PT017


def test_ten_thousand_topics_take_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = {name: QueueData(8, 8, 6) for name in (f"Topic_{at:05d}_of_this_test" for at in range(10_000))}
    body = RegisterBody(DataVersion(1, 2, 3), topics)
    data = encode_register_body(body)
    assert len(data) > 1_700_000
    static = data.replace(b'DetailMap":{}', b'DetailMap":{"T":{"currIdMap":{0:0,1:1}}}')
    cut = cut_body(static, {})
    assert cut is not None
    assert finish(cut.reading_all({})) == body

    def slow(*_: object, **__: object) -> None:
        raise AssertionError("the lenient reader, ten times slower, was asked")

    monkeypatch.setattr(lenient_json, "loads", slow)
    monkeypatch.setattr(lenient_json, "quoting_integer_keys", slow)
    assert decode_register_body(data, compressed=False, version=479) == body


def test_more_entries_than_one_script_should_write_are_refused_with_what_to_do(monkeypatch):
    monkeypatch.setattr(register_content, "MAX_ENTRIES", 3)
    topics = {f"t{number}": QueueData(1, 1, 6) for number in range(3)}
    for compressed in (False, True):
        most = encode_register_body(RegisterBody(topics=topics, filter_servers=[]), compressed=compressed)
        assert len(decode_register_body(most, compressed=compressed, version=479).topics) == 3
        for body in (
            RegisterBody(topics=topics | {"t9": QueueData(1, 1, 6)}),
            RegisterBody(topics=topics, filter_servers=["f:1"]),
        ):
            text = encode_register_body(body, compressed=compressed)
            with pytest.raises(RemoteProtocolError, match=r"of 4 topics.* at most 3 .*enableSplitRegistration"):
                decode_register_body(text, compressed=compressed, version=479)
