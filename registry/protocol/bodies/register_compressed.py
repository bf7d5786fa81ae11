"""Decodes a compressed registerBroker body (103) while it is inflated, piece by piece.

Everybody may send such a body, and 60 KB may inflate to 64 MiB. So each part has a maximum size, at most one inflated
piece is in memory besides the decoded objects, and the event loop runs between slices of the work.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from ...errors import RemoteProtocolError
from ...model import QueueData, TopicQueueMapping
from ..numbers import parse_int
from ..slices import Slices
from . import wire_json
from .register_content import ENTRIES_PER_SLICE, MAX_INFLATED_BYTES, RegisterBody, check_entries
from .wire_json import TolerantDecoder, WireVersion

# Maximum sizes of the parts. Real brokers send at most a tenth of these.
MAX_VERSION_BYTES: Final = 4 << 10
MAX_TOPIC_BYTES: Final = 16 << 10
MAX_FILTER_SERVERS_BYTES: Final = 512 << 10
MAX_MAPPING_BYTES: Final = 64 << 10
MAX_MAPPINGS_BYTES: Final = 8 << 20
"""Of all static topic mappings together."""

_INPUT_BYTES: Final = 1 << 16
_PIECE_BYTES: Final = 1 << 18
_PIECES_PER_SLICE: Final = 4
_MAPPINGS_PER_SLICE: Final = 500
_LENGTH: Final = struct.Struct(">i")
_FILTER_TYPES: Final = frozenset({"SINGLE_TAG", "MULTI_TAG"})
_version: Final = TolerantDecoder(WireVersion, "data version")
_filter_servers: Final = TolerantDecoder(list[str], "filter server list")


class BodySize(NamedTuple):
    """The size of a body: bytes of its text after inflating, and about how many objects are in it."""

    text_bytes: int
    objects: int


def begins_like_zlib(body: bytes) -> bool:
    """Whether a body has a zlib header (RFC 1950: method 8, a multiple of 31); no JSON text begins with these bytes."""
    return len(body) >= 2 and body[0] & 0x0F == 8 and (body[0] << 8 | body[1]) % 31 == 0


def measuring(body: bytes) -> Slices[BodySize]:
    """Measure a compressed body; of a broken zlib stream, measure the part before the error.

    Cost: 3 ms for each MB of text, and little memory.
    """
    front, size = b"", 0
    try:
        for number, piece in enumerate(_inflated(body)):
            if number % _PIECES_PER_SLICE == _PIECES_PER_SLICE - 1:
                yield
            if len(front) < MAX_VERSION_BYTES + 2 * _LENGTH.size:
                front += piece[: MAX_VERSION_BYTES + 2 * _LENGTH.size]
            size += len(piece)
            if size > MAX_INFLATED_BYTES:
                break
    except RemoteProtocolError:
        pass
    return BodySize(size, _topics_of(front))


def _topics_of(front: bytes) -> int:
    """The number of topics that the beginning of the text names."""
    try:
        (version_bytes,) = _LENGTH.unpack_from(front)
        (count,) = _LENGTH.unpack_from(front, _LENGTH.size + max(0, version_bytes))
    except struct.error:
        return 0
    return max(0, int(count))


def _inflated(body: bytes) -> Iterator[bytes]:
    """The text in pieces; RemoteProtocolError: no zlib stream. A truncated stream is no error, as in Java."""
    inflater, compressed = zlib.decompressobj(), memoryview(body)
    try:
        for at in range(0, len(body), _INPUT_BYTES):
            rest: bytes | memoryview = compressed[at : at + _INPUT_BYTES]
            while not inflater.eof:
                piece = inflater.decompress(rest, _PIECE_BYTES)
                rest = inflater.unconsumed_tail
                if piece:
                    yield piece
                if not rest and len(piece) < _PIECE_BYTES:
                    break
    except zlib.error as error:
        raise RemoteProtocolError(f"bad zlib stream: {error}") from None


class _Text:
    """Reads the inflated text from beginning to end."""

    def __init__(self, body: bytes) -> None:
        self._pieces = _inflated(body)
        self._data = b""
        self._at = 0
        self._inflated = 0

    def number(self) -> int:
        (number,) = _LENGTH.unpack(self._take(_LENGTH.size))
        return int(number)

    def part(self, what: str, most_bytes: int) -> bytes:
        """The next text, after its length."""
        size = self.number()
        if size < 0:
            raise _ends_early()
        if size > most_bytes:
            raise RemoteProtocolError(f"a {what} of {size} bytes in a register body: at most {most_bytes} are taken")
        return self._take(size)

    def _take(self, size: int) -> bytes:
        end = self._at + size
        while end > len(self._data):
            piece = next(self._pieces, None)
            if piece is None:
                raise _ends_early()
            self._inflated += len(piece)
            if self._inflated > MAX_INFLATED_BYTES:
                raise RemoteProtocolError(f"a body inflates to more than {MAX_INFLATED_BYTES} bytes")
            self._data = self._data[self._at :] + piece
            self._at, end = 0, size
        taken = self._data[self._at : end]
        self._at = end
        return taken


def _ends_early() -> RemoteProtocolError:
    return RemoteProtocolError("compressed register body ends too early")


def decoding(body: bytes, now_ms: int, *, with_mappings: bool) -> Slices[RegisterBody]:
    """Decode a compressed body; see ``register.decoding``."""
    text = _Text(body)
    data_version = wire_json.data_version(_version.decode(text.part("data version", MAX_VERSION_BYTES)), now_ms)
    topics: dict[str, QueueData] = {}
    count = text.number()
    check_entries(count)
    for number in range(count):
        if number % ENTRIES_PER_SLICE == ENTRIES_PER_SLICE - 1:
            yield
        topic, queue_data = _decode_topic_line(text.part("topic", MAX_TOPIC_BYTES))
        topics[topic] = queue_data
    yield
    filter_servers = _decode_filter_servers(text.part("list of filter servers", MAX_FILTER_SERVERS_BYTES))
    mappings: dict[str, TopicQueueMapping] = {}
    if with_mappings:
        count = text.number()
        check_entries(count)
        left = MAX_MAPPINGS_BYTES
        for number in range(count):
            if number % _MAPPINGS_PER_SLICE == _MAPPINGS_PER_SLICE - 1:
                yield
            part = text.part("static topic mapping", MAX_MAPPING_BYTES)
            left -= len(part)
            if left < 0:
                raise RemoteProtocolError(
                    f"static topic mappings of more than {MAX_MAPPINGS_BYTES} bytes in a register body"
                )
            mapping = wire_json.decode_mapping(part)
            if mapping.topic is None:
                raise RemoteProtocolError("a static topic mapping without a topic")
            mappings[mapping.topic] = mapping
    check_entries(len(topics) + len(mappings) + len(filter_servers or ()))
    return RegisterBody(data_version, topics, mappings, filter_servers)


def _decode_topic_line(line: bytes) -> tuple[str, QueueData]:
    words = line.decode("utf-8", "replace").split(" ", 5)
    if len(words) >= 5 and words[4] in _FILTER_TYPES:
        read, write, perm = parse_int(words[1]), parse_int(words[2]), parse_int(words[3])
        if read is not None and write is not None and perm is not None:
            return words[0], QueueData(read, write, perm)
    raise RemoteProtocolError(f"bad topic line {line[:80]!r}")


def _decode_filter_servers(data: bytes) -> list[str] | None:
    # As in Java an unreadable list is empty, and an empty part is null.
    if data.strip() in (b"", b"null"):
        return None
    try:
        return _filter_servers.decode(data)
    except RemoteProtocolError:
        return []
