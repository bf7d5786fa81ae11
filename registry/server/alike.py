"""Large bodies of new brokers, kept for the next brokers of their cluster, which mostly have the same topics.

When a fleet registers with an empty registry, the first broker of a cluster is read topic by topic. What it says is
kept, in pieces, as topics and as what the script is sent for them; of the brokers after it only what differs is decoded
and encoded. Some seconds after the last one everything is forgotten: later, brokers are compared with their own last
bodies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from registry.model import QueueData
from registry.protocol.register_pieces import Piece, Read
from registry.store.routes import TOPICS_PER_EVENT, EncodedTopics

KEPT_S: Final = 5.0
MAX_CLUSTERS: Final = 16

_Digests = tuple[bytes, ...]


class _Body:
    """One cluster's: a body as it was read, and its pieces' topics as the script wants them."""

    def __init__(self, read: Read) -> None:
        self.read = read
        self.encoded: dict[_Digests, EncodedTopics] = {}


class AlikeBodies:
    """By cluster.

    Args:
        encode: topics as the script wants them.
        kept_s: they are forgotten when none was asked for that long.
    """

    def __init__(self, encode: Callable[[dict[str, QueueData]], EncodedTopics], *, kept_s: float = KEPT_S) -> None:
        self._encode = encode
        self._kept_s = kept_s
        self._bodies: dict[str, _Body] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._bodies)

    def get(self, cluster: str) -> Read | None:
        """The body of a broker of this cluster, with ``by_piece``."""
        body = self._bodies.get(cluster)
        if body is None:
            return None
        self._put_off()
        return body.read

    def put(self, cluster: str, read: Read) -> None:
        """Keep one; ``read`` has ``by_piece``."""
        while len(self._bodies) >= MAX_CLUSTERS:
            del self._bodies[next(iter(self._bodies))]
        self._bodies[cluster] = _Body(read)
        self._put_off()

    def encoded(self, cluster: str, read: Read) -> list[EncodedTopics] | None:
        """All topics of a body, no more than an event holds together; None when nothing of its cluster is kept."""
        body = self._bodies.get(cluster)
        if body is None or body.read.by_piece is None or read.by_piece is None:
            return None
        known, encoded = body.read.by_piece, []
        for pieces in _grouped(read.pieces):
            digests = tuple(piece.digest for piece in pieces)
            one = body.encoded.get(digests)
            if one is None:
                one = self._encode(
                    {
                        topic: config.queue_data()
                        for digest in digests
                        for topic, config in read.by_piece[digest].items()
                    }
                )
                if all(digest in known for digest in digests):
                    body.encoded[digests] = one
            encoded.append(one)
        return encoded

    def forget(self) -> None:
        """All of them."""
        self._bodies.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _put_off(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._kept_s, self.forget)


def _grouped(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Pieces that make an event together.

    A piece alone is never too much: a topic takes 60 bytes at least. Where a group ends is up to its last piece, not to
    how many there were before: bodies of which one has a piece more in the middle have the same groups on both sides.
    """
    group: list[Piece] = []
    topics = 0
    for piece in pieces:
        if group and topics + piece.topics > TOPICS_PER_EVENT:
            yield group
            group, topics = [], 0
        group.append(piece)
        topics += piece.topics
        if topics > TOPICS_PER_EVENT // 2 and piece.digest[0] % 2 == 0:
            yield group
            group, topics = [], 0
    if group:
        yield group
