"""The streams as things that are kept: readers and what they have acknowledged, trimming, lookup counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from redis import exceptions

from registry.journal import STREAMS
from registry.store import keys, scripts
from registry.store.connect import mapped_errors
from registry.store.store import Store

# One call of the trim takes about a millisecond of Redis at most.
ENTRIES_PER_TRIM = 5000
# An entry of lookups holds so many topics, and about so many bytes, at most.
TOPICS_PER_ENTRY = 500
BYTES_PER_ENTRY = 32 * 1024


class Limits(NamedTuple):
    """What of one stream is kept. bytes are those of the entries' JSON, 0 = not counted; Redis needs some 20 % more.

    age_ms, entries, bytes: beyond these, what every running reader has acknowledged goes; beyond hard_entries and
    hard_bytes, everything.
    """

    age_ms: int
    entries: int
    bytes: int
    hard_entries: int
    hard_bytes: int


class Alarm(NamedTuple):
    """Something a reader's operator should know; kind: near, lost or silent (lua/trim_streams), stream "-": all."""

    kind: str
    stream: str
    reader: str


class Trimmed(NamedTuple):
    """One call of the trim: entries removed, whether there is more to remove now, alarms that began with it."""

    removed: int
    more: bool
    alarms: list[Alarm]


class StreamState(msgspec.Struct, frozen=True):
    """One stream: its length, bytes of its entries (-1: not counted), ids of its first and last entry ("" = none)."""

    entries: int
    bytes: int
    first: str = ""
    last: str = ""


class Position(msgspec.Struct, frozen=True):
    """How far a reader is in one stream: everything up to ``id`` is acknowledged.

    behind: entries after it (exact for changes, else estimated from the times in between); behind_bytes: -1 = not
    known; behind_ms: from it to the last entry. state: "", or the alarm that lasts, near or lost.
    """

    id: str
    behind: int = 0
    behind_bytes: int = -1
    behind_ms: int = 0
    state: str = ""


class Reader(msgspec.Struct, frozen=True):
    """A reader, as it last told of itself. silent: it holds nothing back any more."""

    seen_ms: int
    positions: dict[str, Position] = {}
    silent: bool = False


class Survey(msgspec.Struct, frozen=True):
    """The streams and their readers at one moment."""

    now_ms: int
    streams: dict[str, StreamState]
    readers: dict[str, Reader]


_survey = msgspec.json.Decoder(Survey)


class StreamStore:
    """Acknowledging, trimming and looking at the streams of a namespace; raises as Store does."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._call = store.call

    async def acknowledge(self, stream: str, reader: str, entry_id: str, *, epoch: str = "") -> None:
        """Say that ``reader`` has everything of ``stream`` up to ``entry_id`` for good; "0-0": nothing yet.

        What comes after it stays until the reader says more, was silent for streamReaderTimeoutHours, or a hard limit
        is reached; the entry itself stays too. An older id than the last one has no effect.

        Args:
            epoch: of the namespace that was read; "" is not checked.

        Raises:
            StoreError: no such stream, no id, another epoch, or too many readers; nothing was written.
        """
        await self.acknowledge_all(reader, {stream: entry_id}, epoch=epoch)

    async def acknowledge_all(self, reader: str, positions: Mapping[str, str], *, epoch: str = "") -> None:
        """The same for several streams, all or nothing; with no positions, only a sign of life."""
        await self._call("acknowledge", *_arguments(reader, positions, epoch))

    async def forget_reader(self, reader: str) -> bool:
        """Keep nothing for this reader any more; returns whether there was one of that name."""
        return bool((await self._call("forget_reader", reader))[1])

    async def readers(self) -> dict[str, Reader]:
        """Every reader by name."""
        return (await self.survey()).readers

    async def survey(self) -> Survey:
        """The streams and their readers now."""
        return _survey.decode(await self._call("read_streams"))

    async def trim(
        self, limits: Mapping[str, Limits], *, reader_timeout_ms: int, most: int = ENTRIES_PER_TRIM
    ) -> Trimmed:
        """Remove at most ``most`` entries that are beyond the limits (of each stream), and judge the readers."""
        flat = [number for stream in STREAMS for number in limits[stream]]
        removed, more, *alarms = await self._call("trim_streams", most, reader_timeout_ms, *flat)
        return Trimmed(removed, bool(more), [Alarm(*alarm.decode().split(" ", 2)) for alarm in alarms])

    async def write_lookups(
        self, front_end: str, incarnation: str, number: int, during_ms: int, entries: Sequence[bytes]
    ) -> None:
        """Write down one report of a worker; ``entries`` are those of :func:`lookup_entries`. May be repeated."""
        await self._call("write_lookups", front_end, incarnation, number, during_ms, *entries)


def acknowledge_with(
    client: Any, namespace: str, reader: str, positions: Mapping[str, str], *, epoch: str = ""
) -> None:
    """:meth:`StreamStore.acknowledge_all` over a plain, synchronous client of redis-py (one Redis or a cluster).

    Raises:
        StoreUnavailable, StoreError: as there.
    """
    script = scripts.load()["acknowledge"]
    arguments = _arguments(reader, positions, epoch)
    with mapped_errors(f"acknowledge in namespace {namespace!r}"):
        try:
            client.evalsha(script.sha, 1, keys.meta(namespace), *arguments)
        except exceptions.NoScriptError:
            client.eval(script.source, 1, keys.meta(namespace), *arguments)


def _arguments(reader: str, positions: Mapping[str, str], epoch: str) -> list[str]:
    return [reader, epoch, *(part for pair in positions.items() for part in pair)]


def lookup_entries(found: Mapping[str, int], missing: Mapping[str, int]) -> list[bytes]:
    """Counts as the members of entries that are not too large; a topic stands in one of them."""
    entries: list[bytes] = []
    members: dict[str, list[bytes]] = {}
    topics = size = 0

    def close() -> None:
        nonlocal members, topics, size
        if members:
            entries.append(
                b",".join(b'"' + kind.encode() + b'":{' + b",".join(pairs) + b"}" for kind, pairs in members.items())
            )
        members, topics, size = {}, 0, 0

    for kind, counts in (("found", found), ("missing", missing)):
        for topic, count in counts.items():
            pair = msgspec.json.encode(topic) + b":%d" % count
            if topics == TOPICS_PER_ENTRY or (topics and size + len(pair) > BYTES_PER_ENTRY):
                close()
            members.setdefault(kind, []).append(pair)
            topics, size = topics + 1, size + len(pair) + 1
    close()
    return entries
