"""Streams of bytes for a name server: recorded requests, changed a little, a lot, or cleverly.

Every stream comes from a seed and a number alone, so that whatever one of them found can be had again.
"""

from __future__ import annotations

import copy
import json
import struct
import zlib
from functools import cache
from random import Random
from typing import Any, NamedTuple

import tests.golden as golden
from tests.hostile.request_fields import CODES as KNOWN_CODES
from tests.hostile.request_fields import every_field, fields_of

JSON_FORM, BINARY_FORM = 0, 1
LONG = 70_000

TEXTS = (
    "", "0", "-1", "1", "-0", "00", "+1", " 1", "2147483647", "2147483648", "-2147483649", "9223372036854775807",
    "9223372036854775808", "99999999999999999999", "1.5", "1e3", "NaN", "null", "true", "TRUE", "false", "\u0663",
    "|", "c1|a", "a b", "\x00", "\n", "\r\n", "\ud800", "\U0001f600", "ü", "mq:{x}:meta", "%s%n", "{}", "[]", '"', "\\",
    "ORDER_TOPIC_CONFIG", "DefaultCluster", "broker-a", "TBW102", "127.0.0.1:10911", "a" * 300,
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, 2**63, -(2**63), 10**30, 0.5, 1e308, -0.0,
    [], {}, [None], {"": None}, {"0": 0}, [[[]]], {"a": {"b": {"c": {}}}},
)  # fmt: skip
CODES = (*KNOWN_CODES, 0, 1, -1, 10, 1000, 1500, 9999, 32767, -32768, 2**31 - 1)
VERSIONS = (0, 1, 47, 48, 49, 317, 373, 400, 401, 412, 413, 479, 495, 513, -1, 2**31 - 1)
BYTES = (0, 1, 0x0A, 0x16, 0x20, 0x22, 0x2C, 0x5B, 0x5C, 0x7B, 0x7D, 0x7F, 0x80, 0xC3, 0xED, 0xFE, 0xFF)
FIELDS = (*every_field(), "x")

NUMBERS = (0, 1, -1, 2, 4, 6, 7, 16, 255, 65535, 2**31 - 1, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 0.5)
# How much more often than others these codes come: what changes tables has the longest way to go.
WEIGHTS = {103: 80, 322: 10, 217: 12, 100: 10, 318: 10, 105: 8, 104: 6, 904: 6, 216: 4, 205: 4, 327: 4}


class Request(NamedTuple):
    """A recorded request in its parts; header None: no JSON, no binary header that can be read."""

    header: dict[str, Any]
    body: bytes
    form: int


class Stream(NamedTuple):
    """framed: the outermost lengths are right, so that a request sent behind it is understood or the door closed."""

    data: bytes
    framed: bool


@cache
def corpus() -> list[Request]:
    """Every different request that a real peer has sent (but for opaque)."""
    found: dict[tuple[Any, ...], Request] = {}
    for name in golden.scenarios():
        for row, _ in golden.exchanges(name):
            request = take_apart(row["frame"])
            if request is not None and len(row["frame"]) < 20_000:
                code, ext = request.header.get("code"), request.header.get("extFields") or {}
                found.setdefault((code, request.form, tuple(sorted(ext)), len(request.body) // 64), request)
    return list(found.values())


@cache
def requests_by_code() -> tuple[list[list[Request]], list[int]]:
    """Requests by their code, and the weight of each: the corpus, and one with all fields of a code that it lacks."""
    found: dict[Any, list[Request]] = {}
    for request in corpus():
        found.setdefault(request.header.get("code"), []).append(request)
    for code in KNOWN_CODES:
        if code not in found:
            header = {"code": code, "version": 479, "flag": 0, "extFields": dict.fromkeys(fields_of(code), "1")}
            found[code] = [Request(header, b"[]", JSON_FORM)]
    return list(found.values()), [WEIGHTS.get(code, 1) for code in found]


def take_apart(frame: bytes) -> Request | None:
    (mark,) = struct.unpack_from(">I", frame, 4)
    form, size = mark >> 24, mark & 0xFF_FFFF
    header, body = frame[8 : 8 + size], frame[8 + size :]
    if form == JSON_FORM:
        try:
            return Request(json.loads(header), body, form)
        except ValueError:
            return None
    code, _, version, opaque, flag, remark = struct.unpack_from(">hbhiii", header)
    ext, at = {}, 17 + remark
    end = at + 4 + struct.unpack_from(">i", header, at)[0]
    at += 4
    while at < end:
        (length,) = struct.unpack_from(">h", header, at)
        key = header[at + 2 : at + 2 + length].decode()
        at += 2 + length
        (length,) = struct.unpack_from(">i", header, at)
        ext[key] = header[at + 4 : at + 4 + length].decode()
        at += 4 + length
    return Request({"code": code, "version": version, "opaque": opaque, "flag": flag, "extFields": ext}, body, form)


def stream(seed: int, number: int) -> Stream:
    """The stream of this number."""
    return Fuzzer(Random(f"{seed}/{number}")).stream()


class Fuzzer:
    """Draws one stream after the other."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def stream(self) -> Stream:
        frames = [self.frame() for _ in range(self.pick((1, 1, 1, 2, 4)))]
        data, framed = b"".join(frames), True
        if self.one_in(3):
            data, framed = self.damaged(data), False
        if self.one_in(40):
            data, framed = self.opening() + data, False
        return Stream(data, framed)

    # choices

    def one_in(self, count: int) -> bool:
        return self.random.randrange(count) == 0

    def pick(self, values: Any) -> Any:
        return values[self.random.randrange(len(values))]

    def text(self) -> str:
        if self.one_in(12):
            return "".join(chr(self.random.choice((self.random.randrange(128), self.random.randrange(0x3000))))
                           for _ in range(self.random.randrange(12)))  # fmt: skip
        if self.one_in(200):
            return "t" * LONG
        return str(self.pick(TEXTS))

    def value(self) -> Any:
        return copy.deepcopy(self.pick(VALUES))  # for it may be changed further

    # frames

    def frame(self) -> bytes:
        groups, weights = requests_by_code()
        header, body, form = self.pick(self.random.choices(groups, weights)[0])
        header = dict(header) | {"opaque": self.random.randrange(1 << 16)}
        header["extFields"] = dict(header.get("extFields") or {})
        if self.one_in(4):
            self.change_header(header)
        if body and not self.one_in(3):
            body = self.body(header, body)
        elif self.one_in(20):
            body = self.damaged(self.pick(corpus()).body)
        if "bodyCrc32" in header["extFields"] and not self.one_in(5):
            header["extFields"]["bodyCrc32"] = str(zlib.crc32(body) & 0x7FFFFFFF)
        if self.one_in(6):
            form = 1 - form
        head = self.binary_header(header) if form == BINARY_FORM else self.json_header(header)
        if self.one_in(40):
            head = self.damaged(head)
        if self.one_in(100):
            form = self.random.randrange(256)
        size = len(head) if not self.one_in(100) else self.random.randrange(len(head) + len(body) + 9)
        payload = struct.pack(">I", form << 24 | size & 0xFF_FFFF) + head + body
        return struct.pack(">i", len(payload)) + payload

    def change_header(self, header: dict[str, Any]) -> None:
        ext = header["extFields"]
        for _ in range(self.pick((1, 1, 1, 2, 3))):
            kind = self.random.randrange(14)
            if kind == 0:
                header["code"] = self.pick(CODES)
            elif kind == 1:
                header["version"] = self.pick(VERSIONS)
            elif kind == 2:
                header["flag"] = self.pick((0, 1, 2, 3, 4, -1, 2**31 - 1))
            elif kind == 3:
                header[self.pick(tuple(header))] = self.value()
            elif kind == 4 and ext:
                ext.pop(self.pick(tuple(ext)))
            elif kind == 5:
                header["extFields"] = ext = self.pick(({}, dict(ext), dict.fromkeys(FIELDS, "1")))
            else:
                ext[self.pick(tuple(ext) or FIELDS) if not self.one_in(5) else self.pick(FIELDS)] = self.text()
            if not isinstance(header.get("extFields"), dict):
                header["extFields"] = ext
        if self.one_in(15):
            key = self.pick(FIELDS)
            header["extFields"][key] = self.value()

    def json_header(self, header: dict[str, Any]) -> bytes:
        text = json.dumps(header, ensure_ascii=not self.one_in(3), separators=(",", ":"))
        return self.dialect(text).encode("utf-8", "surrogatepass")

    def binary_header(self, header: dict[str, Any]) -> bytes:
        def number(name: str, bits: int) -> int:
            value = header.get(name, 0)
            value = int(value) if isinstance(value, int) else 0
            return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)

        entries = b""
        for key, value in header["extFields"].items():
            key_bytes, value_bytes = (str(part).encode("utf-8", "surrogatepass") for part in (key, value))
            key_size, value_size = len(key_bytes) % 0x8000, len(value_bytes)
            if self.one_in(60):
                key_size, value_size = self.pick((-1, 0, 0x7FFF)), self.pick((-1, 0, 2**31 - 1, value_size + 1))
            entries += struct.pack(">h", key_size) + key_bytes + struct.pack(">i", value_size) + value_bytes
        head = struct.pack(
            ">hbhiii", number("code", 16), self.pick((0, 0, 0, 2, 9, -1)), number("version", 16), number("opaque", 32),
            number("flag", 32), 0 if not self.one_in(60) else self.pick((-1, 4, 2**31 - 1)),
        )  # fmt: skip
        size = len(entries) if not self.one_in(60) else self.pick((-1, 0, 2**31 - 1, len(entries) + 1))
        return head + struct.pack(">i", size) + entries

    # bodies

    def body(self, header: dict[str, Any], body: bytes) -> bytes:
        if body[:1] == b"\x78":
            try:
                body = zlib.decompress(body)
            except zlib.error:
                return self.damaged(body)
            body = zlib.compress(self.damaged(body))
            return self.damaged(body) if self.one_in(3) else body
        try:
            value = json.loads(body)
        except ValueError:
            return self.damaged(body)
        for _ in range(self.pick((1, 1, 2, 4))):
            value = self.changed(value)
        text = self.dialect(json.dumps(value, ensure_ascii=not self.one_in(3), separators=(",", ":")))
        made = text.encode("utf-8", "surrogatepass")
        if isinstance(value, dict) and "topicConfigSerializeWrapper" in value and self.one_in(4):
            made = self.compressed(value)
            header["extFields"]["compressed"] = self.pick(("true", "true", "false"))
        elif self.one_in(20):
            made = zlib.compress(made)
        return self.damaged(made) if self.one_in(8) else made

    def compressed(self, value: dict[str, Any]) -> bytes:
        """The form of a registration that `compressed=true` promises, from one in JSON."""

        def piece(data: bytes) -> bytes:
            size = len(data) if not self.one_in(60) else self.pick((-1, 0, 2**31 - 1, len(data) + 1))
            return struct.pack(">i", size) + data

        wrapper = value.get("topicConfigSerializeWrapper")
        wrapper = wrapper if isinstance(wrapper, dict) else {}
        table = wrapper.get("topicConfigTable")
        topics = (
            [topic if isinstance(topic, dict) else {} for topic in table.values()] if isinstance(table, dict) else []
        )
        out = piece(json.dumps(wrapper.get("dataVersion")).encode())
        out += struct.pack(">i", len(topics) if not self.one_in(40) else self.pick((-1, 0, 2**31 - 1, 10**6)))
        for topic in topics:
            words = [topic.get(name, "") for name in ("topicName", "readQueueNums", "writeQueueNums", "perm")]
            line = " ".join(map(str, [*words, "SINGLE_TAG", "{}"]))
            out += piece(line.encode("utf-8", "surrogatepass"))
        out += piece(json.dumps(value.get("filterServerList")).encode()) + struct.pack(">i", self.pick((0, 0, 1, -1)))
        return zlib.compress(out) + (b"more" if self.one_in(20) else b"")

    def changed(self, value: Any) -> Any:
        """The same tree with one node that is not the same."""
        if isinstance(value, dict) and value and not self.one_in(30):
            key = self.pick(tuple(value))
            kind = self.random.randrange(12)
            if kind == 0:
                return {name: item for name, item in value.items() if name != key}
            if kind == 1:
                return value | {self.text(): value[key]}
            return value | {key: self.changed(value[key])}
        if isinstance(value, list) and value and not self.one_in(30):
            at = self.random.randrange(len(value))
            return [*value[:at], self.changed(value[at]), *value[at + self.random.randrange(2) :]]
        kind = self.random.randrange(40)
        if kind == 0:
            deep: Any = value
            for _ in range(self.pick((5, 63, 64, 65, 400))):
                deep = [deep] if self.one_in(2) else {"a": deep}
            return deep
        if kind == 1:
            return [value] * self.random.randrange(200)
        if kind == 2:
            return {str(number): value for number in range(self.random.randrange(200))}
        if kind < 10:
            return self.value()
        if isinstance(value, bool):
            return not value
        if isinstance(value, int | float):
            return self.pick(NUMBERS)
        return self.text()

    def dialect(self, text: str) -> str:
        """As fastjson writes it, reads it, or just not."""
        kind = self.random.randrange(40)
        if kind == 0:
            return text.replace('"', "'")
        if kind == 1:
            return text.replace(",", ",,", self.random.randrange(1, 4))
        if kind == 2:
            for key in ("code", "0", "1", "topicName", "perm", "extFields"):
                text = text.replace(f'"{key}":', f"{key}:")
            return text
        if kind == 3:
            return self.pick(("\ufeff", " \n\t", "//c\n", "/**/")) + text + self.pick(("", " ", "}", ",", "\x00"))
        return text

    # raw bytes

    def opening(self) -> bytes:
        return self.damaged(
            self.pick((
                b"PROXY TCP4 10.0.0.1 10.0.0.2 1000 9876\r\n",
                b"PROXY UNKNOWN\r\n",
                b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + bytes(range(12)),
                b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + bytes(64),
                b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            ))
        )  # fmt: skip

    def damaged(self, data: bytes) -> bytes:
        """A few edits; sometimes none at all."""
        out = bytearray(data)
        for _ in range(self.pick((0, 1, 1, 2, 4, 16))):
            kind, at = self.random.randrange(8), self.random.randrange(len(out) + 1)
            end = min(len(out), at + self.pick((1, 1, 2, 4, 8, 64)))
            if kind == 0 and at < len(out):
                out[at] ^= 1 << self.random.randrange(8)
            elif kind == 1 and at < len(out):
                out[at] = self.pick(BYTES)
            elif kind == 2:
                out[at:at] = self.random.randbytes(self.pick((1, 2, 4, 17)))
            elif kind == 3:
                del out[at:end]
            elif kind == 4:
                out[at:at] = out[at:end]
            elif kind == 5 and self.one_in(3):
                del out[at:]
            elif kind == 6 and at + 4 <= len(out):
                out[at : at + 4] = struct.pack(
                    ">I", self.pick((0, 1, 3, 4, 2**24 - 1, 2**24, 2**31 - 1, 2**31, 2**32 - 1))
                )
            elif kind == 7:
                other = self.pick(corpus()).body
                start = self.random.randrange(len(other) + 1)
                out[at:end] = other[start : start + 32]
        return bytes(out)
