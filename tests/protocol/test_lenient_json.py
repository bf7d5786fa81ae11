"""The tolerant parser: what it takes, what it refuses, and that neither takes long."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqregistry.errors import RemoteProtocolError
from mqregistry.protocol.lenient_json import (
    MAX_DEPTH,
    MAX_LENIENT_BYTES,
    _Parser,
    loads,
    quoting_integer_keys,
)
from mqregistry.protocol.slices import finish
from tests.protocol.at_once import quote_integer_keys

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{0:"a",1:"b"}', {"0": "a", "1": "b"}),
        ("{-1:{2:[3,{4:5}]}}", {"-1": {"2": [3, {"4": 5}]}}),
        ("{ 0 : 1 , 1 : 2 }", {"0": 1, "1": 2}),
        ("{a:1,_b$2:'c'}", {"a": 1, "_b$2": "c"}),
        ("{'a':'it''s'}", None),
        ("{'a':'it\\'s \"x\"'}", {"a": 'it\'s "x"'}),
        ("[1,2,]", [1, 2]),
        ("{,,a:1,,b:2,}", {"a": 1, "b": 2}),
        ("{true:1,null:2}", {"true": 1, "null": 2}),
        ("[true,false,null,-1.5e3,10]", [True, False, None, -1500.0, 10]),
        ("['\\u00fc\\x41\\n\\/\\\\']", ["üA\n/\\"]),
        ("['\\ud83d\\ude00']", ["😀"]),
        ("['\\ud800']", ["\ufffd"]),
        ("['line\nbreak']", ["line\nbreak"]),
        ("'text'", "text"),
        ("{a:'{1:2',1:3}", {"a": "{1:2", "1": 3}),
        ("{}", {}),
        ("{a:1 b:2}", None),
        ("{a 1}", None),
        ("{a:}", None),
        ("{:1}", None),
        ("{a:1]", None),
        ("[1}", None),
        ("[1", None),
        ("", None),
        ("NaN", None),
        ("undefined", None),
        ("['\\q']", None),
        ("['\\u12']", None),
        ("[1] 2", None),
        ("[" + "1" * 401 + ",]", None),
    ],
)
def test_lenient_values(text: str, value: Any) -> None:
    if value is None:
        with pytest.raises(RemoteProtocolError) as caught:
            loads(text.encode())
        assert not caught.value.closes
    else:
        assert loads(text.encode()) == value


@given(JSON)
def test_the_parser_reads_standard_json(value: Any) -> None:
    assert _Parser(json.dumps(value)).parse() == value
    assert _Parser(json.dumps(value, ensure_ascii=False, indent=1)).parse() == value


@given(st.dictionaries(st.integers(), JSON, max_size=5), st.text(max_size=10))
def test_bare_integer_keys_are_quoted_and_nothing_else(items: dict[int, Any], text: str) -> None:
    inner = {"text": text + '{1:2,"', "more": items}
    quoted = json.dumps(inner, separators=(",", ":")).encode()
    bare = b'{"text":%b,"more":{%b}}' % (
        json.dumps(inner["text"]).encode(),
        b",".join(b"%d:%b" % (key, json.dumps(value, separators=(",", ":")).encode()) for key, value in items.items()),
    )
    assert quote_integer_keys(bare) == quoted
    assert quote_integer_keys(quoted) == quoted
    assert loads(bare) == loads(quoted)


@given(st.binary(max_size=50) | st.text(alphabet="{}[]:,\"'\\ntu0018-.eE k", max_size=50).map(str.encode))
def test_any_bytes_parse_or_are_refused(data: bytes) -> None:
    try:
        loads(data)
    except RemoteProtocolError as error:
        assert not error.closes  # noqa: PT017


def test_depth_is_bounded() -> None:
    assert loads(b"[" * MAX_DEPTH + b"," + b"]" * MAX_DEPTH)
    with pytest.raises(RemoteProtocolError, match="nested deeper"):
        loads(b"[" * (MAX_DEPTH + 1) + b"," + b"]" * (MAX_DEPTH + 1))


def test_length_is_bounded() -> None:
    with pytest.raises(RemoteProtocolError, match="too long"):
        loads(b"[1,]" + b" " * MAX_LENIENT_BYTES)


LONG = MAX_LENIENT_BYTES - 2


@pytest.mark.parametrize(
    "piece",
    [b"{", b"[", b",", b'"', b"'", b"\\", b'"\\', b"{ ", b"{1", b"{1 ", b"1", b"{1:", b"a", b"-", b'{"a":', b" "],
)
def test_hostile_text_takes_no_more_than_linear_time(piece: bytes) -> None:
    start = time.thread_time()
    for data in (b"[" + piece * (LONG // len(piece)), b"['" + piece * (LONG // len(piece))):
        with pytest.raises(RemoteProtocolError):
            loads(data)
    assert time.thread_time() - start < 8.0  # quadratic time would be minutes
    start = time.thread_time()
    quote_integer_keys(piece * (8_000_000 // len(piece)))
    assert time.thread_time() - start < 8.0


def test_many_integer_keys_are_quoted_in_slices():
    bare = b"{" + b",".join(b"%d:1" % number for number in range(40_000)) + b"}"
    assert len(list(quoting_integer_keys(bare))) == 10
    assert finish(quoting_integer_keys(bare)) == quote_integer_keys(bare)
