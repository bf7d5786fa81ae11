"""Large JSON bodies of registrations in pieces: what stands there as it stood last time is not decoded again.

A body's topic table is cut, between two topics, into pieces of some kilobytes. Of a body that was read whole each piece
leaves a digest behind; of the next one, pieces with the same digests are passed over, and what lies between them is
decoded. Whatever does not look exactly as Java's writers write it is left to ``decode_register_body``, which reads
everything: None then.

Why the parts tell the whole: the text before the table is matched whole, so the table begins where it is thought to.
Each piece, in braces, is a whole JSON object to a strict parser, and a comma stands between two of them; with the rest
of the body it makes one JSON text that can be read in one way only.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import xxhash

from registry.model import TopicConfig

from . import wire_json
from .lenient_json import REFUSALS
from .register_body import MAX_ENTRIES, RegisterBody, WireBody, check_objects

PIECE_BYTES: Final = 16 * 1024
"""At least so long is a piece: a hundred topics."""

_SEED: Final = secrets.randbits(64)  # nobody can make two pieces with one digest
_LOOK_AHEAD: Final = 4
# When so many pieces have changed, and none before or between them has not, all of them probably have: reading the body
# whole is quicker then.
_HOPELESS: Final = 8

# Nothing here has a backslash, a bracket in a text, or a name twice: each quote is what it seems to be.
_HEAD: Final = re.compile(
    rb'\{(?:"filterServerList":\[[^\\{}\[\]]*\],)?"topicConfigSerializeWrapper":\{'
    rb'(?:"dataVersion":\{[^\\{}]*\},)?(?:"mappingDataVersion":\{[^\\{}]*\},)?"topicConfigTable":\{(?=")'
)
_NEXT_TOPIC: Final = re.compile(rb'\},"[^"\\]+":\{"')
_STATIC: Final = b'"topicQueueMapping'
_KEY: Final = re.compile(rb'"[^"\\]+":\{')
_table: Final = msgspec.json.Decoder(dict[str, TopicConfig], strict=False)
_body: Final = wire_json.TolerantDecoder(WireBody, "register body", nulls=frozenset({"filterServerList"}))


Topics = dict[str, TopicConfig]

# Decodes the text from .. to, where those pieces stood; adds to the topics and to the pieces.
_DecodePart = Callable[[int, int, "Sequence[Piece]", Topics, "list[Piece]"], None]


class _Doubt(Exception):
    """Read it as a whole."""


class Piece(NamedTuple):
    """What is kept of a piece: the digest of its text, its length, how many topics it names and a hash of their names,
    and how it begins (with the comma before it).
    """

    digest: bytes
    size: int
    topics: int
    names: int
    begin: bytes


class Read(NamedTuple):
    """A body that was read in pieces, and what to compare the next one with.

    body: its ``topics`` are all of them, or of a difference those that stand in other pieces than before.
    by_piece: the topics of each piece by its digest, if somebody wants them; not to be changed.
    """

    body: RegisterBody
    pieces: tuple[Piece, ...]
    by_piece: Mapping[bytes, Topics] | None = None

    @property
    def topics(self) -> int:
        """How many topics the whole body names."""
        return sum(piece.topics for piece in self.pieces)


def read_whole(body: bytes, *, now_ms: int = 0, by_piece: bool = False, piece_bytes: int = PIECE_BYTES) -> Read | None:
    """Decode a JSON body in pieces; None: it is not as Java writes it, or a topic stands there twice.

    Args:
        now_ms: as in ``decode_register_body``. by_piece: also say which topics stand in which piece.

    Raises:
        RemoteProtocolError: more topics than are taken at once.
    """
    head = _HEAD.match(body)
    if head is None:
        return None
    check_objects(body)
    table: Topics = {}
    pieces: list[Piece] = []
    kept: dict[bytes, Topics] | None = {} if by_piece else None
    try:
        end = _table_end(body, head.end())
        _cut(body, head.end(), end, piece_bytes, table, pieces, kept)
        if len(table) != sum(piece.topics for piece in pieces):
            return None
        return _read(body, head.end(), end, table, pieces, now_ms)._replace(by_piece=kept)
    except _Doubt:
        return None


def read_difference(
    body: bytes,
    last: Sequence[Piece],
    known_topics: Container[str],
    *,
    now_ms: int = 0,
    piece_bytes: int = PIECE_BYTES,
) -> Read | None:
    """Decode what differs from an earlier body; None: the difference does not tell all.

    Args:
        last: the pieces of that body.
        known_topics: all topics of that body, and others that it may be.

    Each topic of the body that is not in the result's stood in the earlier one with the same numbers. That holds also
    when a topic stands there twice; where topics have changed places, or all have changed, the answer is None.
    """

    def decode(begin: int, stop: int, before: Sequence[Piece], table: Topics, pieces: list[Piece]) -> None:
        names = sum(piece.names for piece in before)
        _read_changed(body, begin, stop, piece_bytes, names, known_topics, table, pieces)

    return _read_around(body, last, decode, now_ms)


def read_alike(body: bytes, other: Read, *, now_ms: int = 0, piece_bytes: int = PIECE_BYTES) -> Read | None:
    """Decode a body that is much like another broker's, as brokers of one cluster have mostly the same topics.

    Args:
        other: with ``by_piece``.

    Returns:
        the same as ``read_whole`` with ``by_piece``, what both have being the same objects; None where that gives None,
        and where the two have little in common.
    """
    kept = dict(other.by_piece or {})

    def decode(begin: int, stop: int, before: Sequence[Piece], table: Topics, pieces: list[Piece]) -> None:
        _cut(body, begin, stop, piece_bytes, table, pieces, kept)

    read = _read_around(body, other.pieces, decode, now_ms)
    if read is None:
        return None
    table: Topics = {}
    for piece in read.pieces:
        table.update(kept[piece.digest])
    if len(table) != read.topics:
        return None
    return Read(msgspec.structs.replace(read.body, topics=table), read.pieces, kept)


def _read_around(body: bytes, last: Sequence[Piece], decode: _DecodePart, now_ms: int) -> Read | None:
    """Pass over what is as in ``last``, and have decoded what stands between."""
    head = _HEAD.match(body)
    if head is None:
        return None
    check_objects(body)
    view = memoryview(body)
    table: Topics = {}
    pieces: list[Piece] = []
    at, place, unchanged = head.end(), 0, 0
    changed: list[tuple[int, int, Sequence[Piece]]] = []  # not decoded yet: from, to, and what stood there before
    try:
        while True:
            if place >= _HOPELESS and not unchanged:
                return None
            if place < len(last) and _digest(view[at : at + last[place].size]) == last[place].digest:
                for one in changed:
                    decode(*one, table, pieces)
                changed.clear()
                pieces.append(last[place])
                unchanged += 1
                end = at + last[place].size
                place += 1
            else:
                end, following = _changed_until(body, at, last, place)
                changed.append((at, end, last[place:following]))
                place = following
            mark = body[end : end + 1]
            if mark == b"}":
                break
            if mark != b",":
                return None
            at = end + 1
        for one in changed:
            decode(*one, table, pieces)
        return _read(body, head.end(), end, table, pieces, now_ms)
    except _Doubt:
        return None


def _changed_until(body: bytes, at: int, last: Sequence[Piece], place: int) -> tuple[int, int]:
    """Where the text that begins at ``at`` is again as it was, and which piece is there."""
    window = at + 2 * PIECE_BYTES
    for following in range(place + 1, min(place + _LOOK_AHEAD, len(last))):
        window += last[following - 1].size
        found = body.find(last[following].begin, at, window)
        if found >= 0:
            return found, following
    return _table_end(body, at), len(last)


def _read_changed(
    body: bytes,
    at: int,
    end: int,
    piece_bytes: int,
    names: int,
    known_topics: Container[str],
    table: Topics,
    pieces: list[Piece],
) -> None:
    """Decode changed text. But for new topics it must name those that it named before: any other may stand in a piece
    that was passed over, too, and there last.
    """
    changed: Topics = {}
    first, before = len(pieces), len(table)
    _cut(body, at, end, piece_bytes, changed, pieces)
    if sum(map(hash, changed)) != names and sum(hash(topic) for topic in changed if topic in known_topics) != names:
        raise _Doubt
    table.update(changed)
    if len(table) - before != sum(piece.topics for piece in pieces[first:]):
        raise _Doubt  # said twice, in two pieces: the next difference could not tell which one counts


def _table_end(body: bytes, at: int) -> int:
    """Behind the table's last topic. Brokers from 5.x on have static topics after it, others nothing."""
    found = body.find(_STATIC, at)
    if found >= 0:
        if body[found - 3 : found] != b"}},":
            raise _Doubt
        return found - 2
    if not body.endswith(b"}}}}"):
        raise _Doubt
    return len(body) - 3


def _cut(
    body: bytes,
    at: int,
    end: int,
    piece_bytes: int,
    table: Topics,
    pieces: list[Piece],
    kept: dict[bytes, Topics] | None = None,
) -> None:
    """Decode the topics from ``at`` to ``end``, piece by piece."""
    while True:
        found = _NEXT_TOPIC.search(body, at + piece_bytes, end)
        stop = found.start() + 1 if found else end
        text = body[at:stop]
        begin = _KEY.match(text)
        if begin is None:
            raise _Doubt
        try:
            topics = _table.decode(b"{%b}" % text)
        except REFUSALS:
            raise _Doubt from None
        for key, topic in topics.items():
            if topic.topic_name != key:
                raise _Doubt
        table.update(topics)
        digest = _digest(text)
        if kept is not None:
            kept[digest] = topics
        pieces.append(Piece(digest, len(text), len(topics), sum(map(hash, topics)), b"," + begin[0]))
        if found is None:
            return
        at = stop + 1


def _read(body: bytes, head: int, end: int, table: Topics, pieces: list[Piece], now_ms: int) -> Read:
    """Everything but the table, and the whole."""
    tail = body[end:]
    if b"\\" in tail or b"topicConfig" in tail:
        raise _Doubt  # another table may stand there
    wire = _body.decode_standard(body[:head] + tail)
    wrapper = wire.topic_config_serialize_wrapper if wire else None
    if wire is None or wrapper is None or wrapper.topic_config_table != {}:
        raise _Doubt
    mappings = {key: one.value() for key, one in (wrapper.topic_queue_mapping_info_map or {}).items()}
    if sum(piece.topics for piece in pieces) + len(mappings) + len(wire.filter_server_list or ()) > MAX_ENTRIES:
        raise _Doubt
    version = wire_json.data_version(wrapper.data_version, now_ms)
    return Read(RegisterBody(version, table, mappings, wire.filter_server_list), tuple(pieces))


def _digest(text: bytes | memoryview) -> bytes:
    return xxhash.xxh3_128_digest(text, seed=_SEED)
