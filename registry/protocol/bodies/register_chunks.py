"""Cuts large JSON bodies of registrations into chunks of topics, so that no chunk has to be decoded twice.

A body's topic table is cut between two topics, about every 20 KiB. The places depend on the names of the topics, not on
their number: so a broker's next body, and the bodies of other brokers of its cluster, mostly have the same chunks. A
chunk is found by the digest of its text. ``register.decoding`` reads the bodies that are not exactly as Java writes
them.

Why the chunks together mean the same as the whole body: a pattern matches all text before the table, so the start of
the table is certain. A strict parser reads each chunk, in braces, as one whole JSON object, and there is a comma
between two chunks. With the rest of the body they are one JSON text, and a JSON text has one meaning.
"""

from __future__ import annotations

import itertools
import re
import secrets
import weakref
from collections.abc import Container, Iterator, Mapping, MutableMapping, Sequence
from typing import Final, NamedTuple

import msgspec
import xxhash

from ...model import QueueData, TopicConfig
from ..lenient_json import MAX_QUOTED_BYTES, REFUSALS
from ..slices import Slices
from . import wire_json
from .register import JSON_BODY, check_objects
from .register_content import ENTRIES_PER_SLICE, MAX_ENTRIES, RegisterBody, check_entries

CHUNK_BYTES: Final = 14 * 1024
"""Each chunk but the last is at least this long (about a hundred topics), and seldom longer than twice that."""

_MOST_BYTES: Final = 256 * 1024  # of a chunk: a body with spaces between its topics has no places to cut
_SEED: Final = secrets.randbits(64)  # random, so that no attacker can make two chunks with one digest
# A chunk that is long enough may end before a topic if the hash of the name is divisible by this number. With a smaller
# number, the end is found sooner. With a larger number, two bodies that differ in one topic sooner have equal chunks
# again after that topic.
_ENDS_ONE_OF: Final = 8

# Text that matches has no backslash, no bracket inside a string and no name twice: each quote begins or ends a string.
_HEAD: Final = re.compile(
    rb'\{(?:"filterServerList":\[[^\\{}\[\]]*\],)?"topicConfigSerializeWrapper":\{'
    rb'(?:"dataVersion":\{[^\\{}]*\},)?(?:"mappingDataVersion":\{[^\\{}]*\},)?"topicConfigTable":\{(?=")'
)
_NEXT_TOPIC: Final = re.compile(rb'\},"[^"\\]+":\{"')
_STATIC: Final = b'}},"topicQueueMappingDetailMap":', b'}},"topicQueueMappingInfoMap":'
_table: Final = msgspec.json.Decoder(dict[str, TopicConfig], strict=False)

Topics = dict[str, QueueData]


class TopicChunk:
    """Some successive topics of a body.

    Args:
        digest: of its text. length: of its text, in bytes.
        topics: never changed; a caller that needs the memory sets it to None. ``size`` (the number of
            topics) and ``names`` (the sum of the hashes of their names) stay.
    """

    __slots__ = ("__weakref__", "_following", "digest", "length", "names", "size", "topics")

    def __init__(self, digest: bytes, length: int, topics: Topics) -> None:
        self.digest = digest
        self.length = length
        self.size = len(topics)
        self.names = sum(map(hash, topics))
        self.topics: Topics | None = topics
        # weak, because two bodies with the same chunks in another order would make a cycle
        self._following: weakref.ref[TopicChunk] | None = None

    @property
    def following(self) -> TopicChunk | None:
        """The next chunk in the last body that had this chunk; None: unknown, or no longer in memory."""
        return self._following() if self._following is not None else None

    def precedes(self, chunk: TopicChunk) -> None:
        """Remember the chunk that follows this chunk in a body."""
        if self.following is not chunk:
            self._following = weakref.ref(chunk)


class _Span(NamedTuple):
    """The place of a chunk in the body, the digest of its text, and the chunk if it is known."""

    digest: bytes
    begin: int
    end: int
    chunk: TopicChunk | None


class ChunkedBody:
    """A body that was cut into chunks; its methods decode it.

    ``chunks``: all chunks in their order, after a method has decoded the body.
    """

    def __init__(self, text: bytes, spans: Sequence[_Span], now_ms: int) -> None:
        self.chunks: tuple[TopicChunk, ...] = ()
        self._text = text
        self._spans = spans
        self._now_ms = now_ms

    def count_objects(self) -> int:
        """Estimate the number of objects in the body; of a known chunk the number of its topics, without reading it."""
        text, spans = self._text, self._spans
        objects = text.count(b"{", 0, spans[0].begin) + text.count(b"{", spans[-1].end)
        for span in spans:
            objects += span.chunk.size if span.chunk is not None else text.count(b"{", span.begin, span.end)
        return objects

    def reading_all(self, known: MutableMapping[bytes, TopicChunk]) -> Slices[RegisterBody | None]:
        """Decode the chunks whose topics are not in memory.

        Args:
            known: digest -> chunk; decoded chunks are added.

        Returns:
            the same as ``register.decoding``; None when the body is not as Java writes it, or names a topic twice.

        Raises:
            RemoteProtocolError: more topics than one registration may have.
        """
        rest = self._rest()
        if rest is None:
            return None
        decoded = yield from self._decoded(self._spans, known)
        return None if decoded is None else self._whole(rest, decoded, list(decoded), known)

    def reading_changes(
        self, last: Sequence[TopicChunk], topic_names: Container[str], known: MutableMapping[bytes, TopicChunk]
    ) -> Slices[RegisterBody | None]:
        """Decode the chunks that an earlier body of the same broker did not have.

        Args:
            last: the chunks of the earlier body, which named no topic twice.
            topic_names: all topics of the earlier body, and possibly more.
            known: as in :meth:`reading_all`.

        Returns:
            a body with only the topics of new chunks: every other topic of this body was in the earlier body with the
            same numbers. None: that is not certain (topics changed places or are gone), or no chunk is as before.

        Raises:
            RemoteProtocolError: more topics than one registration may have.
        """
        before = {chunk.digest: chunk for chunk in last}
        changed = [span for span in self._spans if span.digest not in before]
        rest = self._rest() if len(changed) < len(self._spans) else None
        if rest is None:
            return None
        decoded = yield from self._decoded(changed, known)
        if decoded is None:
            return None
        new = {chunk.digest: chunk for chunk in decoded}
        chunks = [before.get(span.digest) or new[span.digest] for span in self._spans]
        # Apart from new topics, the new chunks must have exactly the topics of the chunks that they replace: any other
        # topic may also be in an unchanged chunk.
        replaced = sum(chunk.names for chunk in last) - sum(chunk.names for chunk in chunks if chunk.digest in before)
        names = [topic for topics in decoded.values() for topic in topics]
        if (
            names
            and sum(map(hash, names)) != replaced
            and sum(hash(topic) for topic in names if topic in topic_names) != replaced
        ):
            return None
        return self._whole(rest, decoded, chunks, known)

    def _rest(self) -> RegisterBody | None:
        """The body without the topics; None when the body is not as Java writes it."""
        tail = self._text[self._spans[-1].end :]
        if b"\\" in tail or b"topicConfig" in tail:
            return None  # there may be another table
        wire = JSON_BODY.decode_standard(self._text[: self._spans[0].begin] + tail)
        wrapper = wire.topic_config_serialize_wrapper if wire else None
        if wire is None or wrapper is None or wrapper.topic_config_table != {}:
            return None
        mappings = {key: one.value() for key, one in (wrapper.topic_queue_mapping_info_map or {}).items()}
        version = wire_json.data_version(wrapper.data_version, self._now_ms)
        return RegisterBody(version, {}, mappings, wire.filter_server_list)

    def _decoded(
        self, spans: Sequence[_Span], known: Mapping[bytes, TopicChunk]
    ) -> Slices[dict[TopicChunk, Topics] | None]:
        """The chunks at these places with their topics."""
        decoded: dict[TopicChunk, Topics] = {}
        entries = in_slice = 0
        for span in spans:
            if in_slice >= ENTRIES_PER_SLICE:
                in_slice = 0
                yield
            chunk = known.get(span.digest)
            topics = chunk.topics if chunk is not None else None
            if topics is None:
                try:
                    table = _table.decode(b"{%b}" % self._text[span.begin : span.end])
                except REFUSALS:
                    return None
                if any(config.topic_name != key for key, config in table.items()):
                    return None
                topics = {topic: config.queue_data() for topic, config in table.items()}
            decoded[chunk or TopicChunk(span.digest, span.end - span.begin, topics)] = topics
            entries, in_slice = entries + len(topics), in_slice + len(topics)
            check_entries(entries)
        return decoded

    def _whole(
        self,
        rest: RegisterBody,
        decoded: dict[TopicChunk, Topics],
        chunks: Sequence[TopicChunk],
        known: MutableMapping[bytes, TopicChunk],
    ) -> RegisterBody | None:
        """The body with the decoded topics; adds the decoded chunks to ``known``, and notes all chunks of the body."""
        topics: Topics = {}
        for some in decoded.values():
            topics.update(some)
        entries = sum(chunk.size for chunk in chunks) + len(rest.mappings) + len(rest.filter_servers or ())
        if len(topics) != sum(chunk.size for chunk in decoded) or entries > MAX_ENTRIES:
            return None
        for chunk, some in decoded.items():
            known[chunk.digest] = chunk
            chunk.topics = some
        self.chunks = tuple(chunks)
        for chunk, following in itertools.pairwise(chunks):
            chunk.precedes(following)
        return RegisterBody(rest.data_version, topics, rest.mappings, rest.filter_servers)


def cut_body(
    body: bytes,
    known: Mapping[bytes, TopicChunk],
    *,
    now_ms: int = 0,
    chunk_bytes: int = CHUNK_BYTES,
    objects: int | None = None,
) -> ChunkedBody | None:
    """Cut a JSON body into chunks without decoding it.

    Args:
        known: digest -> chunk. After a known chunk, the chunk that followed it in an earlier body is tried first. If
            it fits, this takes a fifth of the time.
        now_ms: the timestamp of a data version that the body leaves out, in milliseconds.
        chunk_bytes: the least length of a chunk.
        objects: the number of objects in the body, if it was counted.

    Returns:
        None when the body is not as Java writes it.

    Raises:
        RemoteProtocolError: more topics than one registration may have.
    """
    head = _HEAD.match(body)
    if head is None:
        return None
    end = _table_end(body, head.end())
    if end is None or len(body) - end > MAX_QUOTED_BYTES:
        return None
    spans = list(_spans(body, head.end(), end, chunk_bytes, known))
    if len({span.digest for span in spans}) != len(spans) or any(span.end - span.begin > _MOST_BYTES for span in spans):
        return None
    chunked = ChunkedBody(body, spans, now_ms)
    # a static topic has four or five objects
    check_objects(body, 4 * MAX_ENTRIES, chunked.count_objects() if objects is None else objects)
    return chunked


def _table_end(body: bytes, at: int) -> int | None:
    """The place of the brace that closes the topic table.

    5.x brokers write static topics after the table, older brokers nothing. A wrong place is harmless: the text before
    or after a wrong place is no JSON, so the body is not read in chunks.
    """
    for static in _STATIC:
        found = body.rfind(static, at)
        if found >= 0:
            return found + 1
    return len(body) - 3 if body.endswith(b"}}}}") else None


def _spans(body: bytes, at: int, end: int, chunk_bytes: int, known: Mapping[bytes, TopicChunk]) -> Iterator[_Span]:
    text, expected = memoryview(body), None
    while True:
        chunk, stop = expected, at + (expected.length if expected is not None else 0)
        ends = stop == end or (stop < end and body[stop - 1 : stop + 2] == b'},"')
        if chunk is None or not ends or _digest(text[at:stop]) != chunk.digest:
            stop = _chunk_end(body, at, end, chunk_bytes)
            digest = _digest(text[at:stop])
            chunk = known.get(digest)
        else:
            digest = chunk.digest
        yield _Span(digest, at, stop, chunk)
        if stop == end:
            return
        at, expected = stop + 1, chunk.following if chunk is not None else None


def _digest(text: memoryview) -> bytes:
    return xxhash.xxh3_128_digest(text, seed=_SEED)


def _chunk_end(body: bytes, at: int, end: int, chunk_bytes: int) -> int:
    for found in _NEXT_TOPIC.finditer(body, at + chunk_bytes, end):
        if hash(found[0]) % _ENDS_ONE_OF == 0 or found.start() >= at + 2 * chunk_bytes:
            return found.start() + 1
    return end
