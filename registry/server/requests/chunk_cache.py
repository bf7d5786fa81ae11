"""Caches large registrations as chunks of topics, so that no chunk is decoded or encoded twice.

A chunk is a piece of a registration's body with some topics. The cache finds a chunk by a digest of its bytes. It has:

- the chunks of each broker's last body. As long as the tables hold that body, only the new chunks of the broker's next
  body are decoded and compared.
- the topics of the chunks that were used in the last seconds, decoded and encoded. When a whole fleet registers at
  once, the brokers of a cluster decode their common topics once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, MutableMapping, Sequence
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from ...model import QueueData
from ...protocol.bodies.register_chunks import TopicChunk
from ...store.route_writes import TOPICS_PER_EVENT, EncodedTopics
from .decoding_turns import OBJECT_BYTES

KEPT_S: Final = 5.0
"""The topics of a chunk are forgotten when no registration used them for this time; the digest stays."""
MAX_DECODED_BYTES: Final = 24 << 20
"""The most memory of decoded topics: enough for about 60,000 topics."""
MAX_CHUNKS: Final = 50_000
"""The most chunks. A chunk takes about 200 bytes without its topics: 10 MB for 500 brokers with 10,000 topics each."""


class LastBody(NamedTuple):
    """One broker's last body that the tables hold."""

    broker_name: str
    # While the view has this load_id and the row of broker_name has this rev, the tables hold every topic of the body;
    # wipes_write: without the write permission.
    load_id: int
    rev: int
    wipes_write: bool
    chunks: Sequence[TopicChunk]


class ChunkCache:
    """The chunks of one worker; ``encode``: encodes topics as the registration script wants them."""

    def __init__(self, encode: Callable[[dict[str, QueueData]], EncodedTopics]) -> None:
        self.known: Final[MutableMapping[bytes, TopicChunk]] = WeakValueDictionary()
        """Digest -> chunk: the chunks of every last body, and the chunks with topics."""
        self.decoded_bytes = 0
        self._encode = encode
        self._used_at: dict[TopicChunk, float] = {}  # the chunks with topics, the longest unused first
        self._encoded: dict[TopicChunk, EncodedTopics] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._bodies: dict[str, LastBody] = {}
        self._body_chunks = 0

    def last_body(self, who: str, load_id: int) -> LastBody | None:
        """The last body of a broker; None: it is not known, or the tables were loaded again since."""
        body = self._bodies.get(who)
        return body if body is not None and body.load_id == load_id else None

    def keep_body(self, who: str, body: LastBody) -> None:
        """Remember a broker's body; if there are too many chunks, forget the oldest bodies."""
        self.forget_body(who)
        self._bodies[who] = body
        self._body_chunks += len(body.chunks)
        while self._body_chunks > MAX_CHUNKS:
            self.forget_body(next(iter(self._bodies)))

    def forget_body(self, who: str) -> None:
        """Forget the broker's last body, so that its next body is decoded as a whole."""
        gone = self._bodies.pop(who, None)
        if gone is not None:
            self._body_chunks -= len(gone.chunks)

    def used(self, chunks: Sequence[TopicChunk]) -> None:
        """Keep the topics of these chunks for the next body."""
        now = asyncio.get_running_loop().time()
        for chunk in chunks:
            if chunk.topics is not None:
                if self._used_at.pop(chunk, None) is None:
                    self.decoded_bytes += _decoded_bytes(chunk)
                self._used_at[chunk] = now
        while self.decoded_bytes > MAX_DECODED_BYTES:
            self._forget_topics(next(iter(self._used_at)))
        if self._timer is None and self._used_at:
            self._timer = asyncio.get_running_loop().call_later(KEPT_S, self._forget_unused)

    def encoded(self, chunks: Sequence[TopicChunk]) -> list[EncodedTopics] | None:
        """The topics of these chunks as the registration script wants them.

        None: some topics have been forgotten, or a chunk has more topics than an event holds: its body has spaces
        between the topics, and cannot be cut further.
        """
        encoded = []
        for chunk in chunks:
            one = self._encoded.get(chunk)
            if one is None:
                if chunk.topics is None or chunk.size > TOPICS_PER_EVENT:
                    return None
                one = self._encode(chunk.topics)
                if chunk in self._used_at:
                    self._encoded[chunk] = one
            encoded.append(one)
        return encoded

    def _forget_unused(self) -> None:
        loop = asyncio.get_running_loop()
        before = loop.time() - KEPT_S
        for chunk in [chunk for chunk, used_at in self._used_at.items() if used_at <= before]:
            self._forget_topics(chunk)
        self._timer = loop.call_later(KEPT_S, self._forget_unused) if self._used_at else None

    def _forget_topics(self, chunk: TopicChunk) -> None:
        del self._used_at[chunk]
        self._encoded.pop(chunk, None)
        self.decoded_bytes -= _decoded_bytes(chunk)
        chunk.topics = None


def _decoded_bytes(chunk: TopicChunk) -> int:
    return chunk.length + OBJECT_BYTES * chunk.size
