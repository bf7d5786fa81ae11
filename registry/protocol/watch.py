"""A request of our own: hold the answer until a route changes (ROUTE_WATCH).

Only our front ends know it. A stock NameServer of 5.x answers an unknown code with code 3, one of 4.x not at all,
and neither logs it nor hangs up (golden/FACTS 1.1), so a client can try it once on each connection. What tells that
the answer is meant is a field that no other answer has.

request: extFields ``holdMillis`` (the answer comes after that time at the latest), and ``epoch`` and ``seq`` of the
    last answer (absent: answer at once, with where the server stands); body: a JSON array of topics.
answer: extFields ``routeWatch`` = 1, ``epoch`` and ``seq``; body: those of the topics whose routes may have changed
    after the ``seq`` that was asked for, as a JSON array, or ``null`` when all may have.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Self

import msgspec

from registry.errors import RemoteProtocolError
from registry.protocol.numbers import parse_int, parse_long

ROUTE_WATCH: Final = 29105

MARK: Final = "routeWatch"
MARK_VALUE: Final = "1"
MAX_TOPICS: Final = 20_000
MAX_BODY_BYTES: Final = 4 << 20

_topics: Final[msgspec.json.Decoder[list[str] | None]] = msgspec.json.Decoder(list[str] | None)


class Position(NamedTuple):
    """How far a server's tables are: its registry's epoch, and the number of the last change in it."""

    epoch: str
    seq: int


class WatchRequest(NamedTuple):
    """``since``: None to be told where the server stands."""

    topics: frozenset[str]
    hold_ms: int
    since: Position | None

    @classmethod
    def decode(cls, ext_fields: dict[str, str] | None, body: bytes) -> Self:
        """Read a request.

        Raises:
            RemoteProtocolError: no list of topics, or one over the limits; ``closes`` is false.
        """
        ext = ext_fields or {}
        if len(body) > MAX_BODY_BYTES:
            raise RemoteProtocolError(f"a list of topics of {len(body)} bytes, at most {MAX_BODY_BYTES}")
        topics = _decode_topics(body or b"[]") or []
        if len(topics) > MAX_TOPICS:
            raise RemoteProtocolError(f"{len(topics)} topics, at most {MAX_TOPICS}")
        seq = parse_long(ext.get("seq", ""))
        since = None if seq is None or "epoch" not in ext else Position(ext["epoch"], seq)
        return cls(frozenset(topics), max(0, parse_int(ext.get("holdMillis", "")) or 0), since)

    def encode(self) -> tuple[dict[str, str], bytes]:
        """As extFields and body."""
        ext = {"holdMillis": str(self.hold_ms)}
        if self.since is not None:
            ext |= {"epoch": self.since.epoch, "seq": str(self.since.seq)}
        return ext, msgspec.json.encode(sorted(self.topics))


class WatchAnswer(NamedTuple):
    """``topics``: those that may have changed; None: all may have."""

    position: Position
    topics: tuple[str, ...] | None

    @classmethod
    def decode(cls, code: int, ext_fields: dict[str, str] | None, body: bytes) -> Self | None:
        """Read an answer; None when it is that of a server which does not know this request.

        Raises:
            RemoteProtocolError: it bears the mark, and nonsense; ``closes`` is false.
        """
        ext = ext_fields or {}
        if code != 0 or ext.get(MARK) != MARK_VALUE:
            return None
        seq = parse_long(ext.get("seq", ""))
        if seq is None or "epoch" not in ext:
            raise RemoteProtocolError(f"the answer to a watch without a position: {ext}")
        topics = _decode_topics(body or b"[]")
        return cls(Position(ext["epoch"], seq), None if topics is None else tuple(topics))

    def encode(self) -> tuple[dict[str, str], bytes]:
        """As extFields and body."""
        ext = {MARK: MARK_VALUE, "epoch": self.position.epoch, "seq": str(self.position.seq)}
        return ext, msgspec.json.encode(self.topics)


def _decode_topics(body: bytes) -> list[str] | None:
    try:
        return _topics.decode(body)
    except msgspec.DecodeError as error:
        raise RemoteProtocolError(f"no list of topics: {error}") from error
