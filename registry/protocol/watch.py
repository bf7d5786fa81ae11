"""Encodes and decodes ROUTE_WATCH, a request of our own: the server answers it when a route has changed.

Only our front ends know this request. A Java NameServer answers an unknown code with code 3 (5.x) or not at all (4.x).
It neither logs the request nor closes the connection, so a client can try once on each connection. The field
``routeWatch``, which no other answer has, shows that the server understood the request.

request: extFields ``holdMillis`` (the longest time until the answer), and ``epoch`` and ``seq`` of the last answer (if
    absent, the server answers at once); body: a JSON array of topics.
answer: extFields ``routeWatch`` = 1, ``epoch`` and ``seq``; body: a JSON array of the topics whose routes may have
    changed after the ``seq`` of the request, or ``null`` when all may have.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Self

import msgspec

from ..errors import RemoteProtocolError
from ..names import fault_of_names
from .numbers import parse_int, parse_long

ROUTE_WATCH: Final = 29105

MARK: Final = "routeWatch"
MARK_VALUE: Final = "1"
MAX_TOPICS: Final = 20_000
MAX_BODY_BYTES: Final = 1 << 20

_topics: Final[msgspec.json.Decoder[list[str] | None]] = msgspec.json.Decoder(list[str] | None)


class TablesVersion(NamedTuple):
    """The version of a server's tables: the registry's epoch, and the ``seq`` of the last change in them."""

    epoch: str
    seq: int


class WatchRequest(NamedTuple):
    """A request to watch routes, decoded."""

    topics: frozenset[str]
    hold_ms: int
    since: TablesVersion | None  # the position of the last answer; None: the server answers at once

    @classmethod
    def decode(cls, ext_fields: dict[str, str] | None, body: bytes) -> Self:
        """Decode a request.

        Raises:
            RemoteProtocolError: the body is no list of topic names, or has too many; ``closes`` is false.
        """
        ext = ext_fields or {}
        topics = _decode_topics(body or b"[]") or []
        if len(topics) > MAX_TOPICS:
            raise RemoteProtocolError(f"{len(topics)} topics, at most {MAX_TOPICS}")
        fault = fault_of_names(topics)
        if fault is not None:
            raise RemoteProtocolError(f"topic {fault}")
        seq = parse_long(ext.get("seq", ""))
        since = None if seq is None or "epoch" not in ext else TablesVersion(ext["epoch"], seq)
        return cls(frozenset(topics), max(0, parse_int(ext.get("holdMillis", "")) or 0), since)

    def encode(self) -> tuple[dict[str, str], bytes]:
        """Encode as extFields and body."""
        ext = {"holdMillis": str(self.hold_ms)}
        if self.since is not None:
            ext |= {"epoch": self.since.epoch, "seq": str(self.since.seq)}
        return ext, msgspec.json.encode(sorted(self.topics))


class WatchAnswer(NamedTuple):
    """An answer to a watch, decoded."""

    position: TablesVersion
    topics: tuple[str, ...] | None  # the topics whose routes may have changed; None: all may have

    @classmethod
    def decode(cls, code: int, ext_fields: dict[str, str] | None, body: bytes) -> Self | None:
        """Decode an answer; None when the server does not know this request.

        Raises:
            RemoteProtocolError: the answer has the field ``routeWatch``, but is invalid; ``closes`` is false.
        """
        ext = ext_fields or {}
        if code != 0 or ext.get(MARK) != MARK_VALUE:
            return None
        seq = parse_long(ext.get("seq", ""))
        if seq is None or "epoch" not in ext:
            raise RemoteProtocolError(f"the answer to a watch without a position: {ext}")
        topics = _decode_topics(body or b"[]")
        return cls(TablesVersion(ext["epoch"], seq), None if topics is None else tuple(topics))

    def encode(self) -> tuple[dict[str, str], bytes]:
        """Encode as extFields and body."""
        ext = {MARK: MARK_VALUE, "epoch": self.position.epoch, "seq": str(self.position.seq)}
        return ext, msgspec.json.encode(self.topics)


def _decode_topics(body: bytes) -> list[str] | None:
    try:
        return _topics.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"no list of topics: {error}") from error
