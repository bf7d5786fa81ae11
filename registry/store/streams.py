"""The three streams (changes, heartbeats, lookups): trims them, describes them and their readers, writes and reads.

Functions raise the errors of :class:`Store`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from redis import exceptions

from ..errors import StoreError
from ..events.journal import CHANGES, HEARTBEATS, LOOKUPS, STREAMS, Stream
from . import keys, scripts
from .connection.errors import mapped_errors
from .store import Store

# One call of the trim takes about a millisecond of Redis at most.
ENTRIES_PER_TRIM = 5000
# The most topics, and about the most bytes, that an entry of lookups holds.
TOPICS_PER_ENTRY = 500
BYTES_PER_ENTRY = 32 * 1024
# Up to this many unacknowledged entries of a reader are counted; larger numbers are estimated.
COUNTED: Final = 1000
_READ_BYTES: Final = 1 << 20


class StreamLimits(NamedTuple):
    """How much of one stream is kept. bytes: of the entries' JSON, of heartbeats their memory in Redis; 0 = no limit.

    The trim removes entries beyond age_ms, entries or bytes if every running reader has acknowledged them. It removes
    all entries beyond hard_entries or hard_bytes.
    """

    age_ms: int
    entries: int
    bytes: int
    hard_entries: int
    hard_bytes: int


class Alarm(NamedTuple):
    """A reader loses entries soon, or lost some; ``kind``: near, lost or silent (lua/trim_streams). stream "-": all."""

    kind: str
    stream: str
    reader: str


class Trimmed(NamedTuple):
    """The result of one call of the trim."""

    removed: int  # entries
    more: bool  # there is more to remove now
    alarms: list[Alarm]  # that began with this call
    full: bool = False  # Redis is at its maxmemory, and refuses every write that does not free memory


class StreamState(msgspec.Struct, frozen=True):
    """One stream: its length, bytes of its entries (-1: not counted), ids of its first and last entry ("" = none)."""

    entries: int
    bytes: int
    first: str = ""
    last: str = ""


class ReaderPosition(msgspec.Struct, frozen=True):
    """The position of a reader in one stream: everything up to ``id`` is acknowledged."""

    id: str
    behind: int = 0  # how many entries come after ``id``; for heartbeats and lookups an estimate, unless ``exact``
    behind_bytes: int = -1  # their bytes; -1 = not known
    behind_ms: int = 0  # time from ``id`` to the last entry
    state: str = ""  # the alarm that lasts, near or lost; "" = none
    exact: bool = False  # :func:`count_behind` has counted ``behind``


class StreamReader(msgspec.Struct, frozen=True):
    """A reader of the streams. ``silent``: it was silent for too long, and the trim no longer keeps entries for it."""

    seen_ms: int
    positions: dict[str, ReaderPosition] = {}
    silent: bool = False


class Survey(msgspec.Struct, frozen=True):
    """The streams and their readers at one moment."""

    now_ms: int
    streams: dict[str, StreamState]
    readers: dict[str, StreamReader]


class _Made(msgspec.Struct):
    """The part of an entry's JSON that has the time at which the entry was made."""

    ms: int


RawEntry = tuple[bytes, dict[bytes, bytes]]
"""An entry of a stream as redis-py returns it: id, field -> value."""

_survey = msgspec.json.Decoder(Survey)
_made = msgspec.json.Decoder(_Made)
_KEYS: Final = {CHANGES: keys.changes, HEARTBEATS: keys.heartbeats, LOOKUPS: keys.lookups}


class StreamStore:
    """Runs the scripts for the streams of a namespace."""

    def __init__(self, store: Store) -> None:
        self._call = store.call

    async def forget_reader(self, reader: str) -> bool:
        """Delete a reader: no entries are kept for it any more. Returns whether it existed."""
        return bool((await self._call("forget_reader", reader))[1])

    async def survey(self) -> Survey:
        """Read the state of the streams and of their readers."""
        return _survey.decode(await self._call("read_streams"))

    async def trim(
        self, limits: Mapping[str, StreamLimits], *, reader_timeout_ms: int, most: int = ENTRIES_PER_TRIM
    ) -> Trimmed:
        """Remove at most ``most`` entries beyond the limits of their streams, and look for alarms."""
        flat = [number for stream in STREAMS for number in limits[stream]]
        removed, more, full, *alarms = await self._call("trim_streams", most, reader_timeout_ms, *flat)
        return Trimmed(removed, bool(more), [Alarm(*alarm.decode().split(" ", 2)) for alarm in alarms], bool(full))

    async def write_lookups(
        self, front_end: str, incarnation: str, number: int, during_ms: int, entries: Sequence[bytes]
    ) -> None:
        """Write one report of a worker, the ``entries`` of :func:`lookup_entries`. The caller may repeat it."""
        await self._call("write_lookups", front_end, incarnation, number, during_ms, *entries)


class EntryReader:
    """Reads the entries of one stream from a moment on; it does not wait for new entries.

    ``begin``: the first moment, by the clock of Redis; or the ``position`` of an earlier EntryReader.
    """

    def __init__(self, store: Store, stream: Stream, begin: int | str) -> None:
        self._store = store
        self._key = _KEYS[stream](store.namespace)
        self.position = begin if isinstance(begin, str) else str(max(0, begin))

    async def read(self, count: int = 500) -> list[bytes]:
        """The field ``e`` of the next entries, in order; [] where the stream ends."""
        (entries,) = await self._store.read(("XRANGE", self._key, self.position, "+", "COUNT", count))
        if entries:
            self.position = f"({entries[-1][0].decode()}"
        return [fields[b"e"] for _, fields in entries if b"e" in fields]


async def count_behind(store: Store, survey: Survey) -> Survey:
    """Return the survey with exact numbers for readers that are at most ``COUNTED`` entries behind.

    Redis has no command that counts the entries between two ids, so this reads them: some milliseconds for each reader.
    """

    async def exactly(stream: Stream, position: ReaderPosition) -> ReaderPosition:
        if stream == CHANGES or not position.behind:
            return msgspec.structs.replace(position, exact=True)
        if stream == LOOKUPS and not 0 <= position.behind_bytes <= _READ_BYTES:
            return position
        key = _KEYS[stream](store.namespace)
        (entries,) = await store.read(("XRANGE", key, f"({position.id}", "+", "COUNT", COUNTED + 1))
        if len(entries) > COUNTED:
            return msgspec.structs.replace(position, behind=max(position.behind, COUNTED + 1))
        return msgspec.structs.replace(position, behind=len(entries), exact=True)

    readers = {}
    for name, reader in survey.readers.items():
        known = [(stream, reader.positions[stream]) for stream in STREAMS if stream in reader.positions]
        positions: dict[str, ReaderPosition] = {stream: await exactly(stream, position) for stream, position in known}
        readers[name] = msgspec.structs.replace(reader, positions=positions)
    return msgspec.structs.replace(survey, readers=readers)


class StreamEntry(NamedTuple):
    """One entry of a stream. ``ms``: the time in its content; the time in its id may be slightly later."""

    id: str
    ms: int
    content: bytes

    @property
    def behind(self) -> str:
        """The next possible id after this entry."""
        ms, _, number = self.id.partition("-")
        return f"{ms}-{int(number) + 1}"


async def entry_pages(
    store: Store, key: str, begin: str, end: str, count: int, *, back: bool = False
) -> AsyncIterator[list[RawEntry]]:
    """The entries of a stream from id ``begin`` to id ``end``, page by page. back: newest first, so begin >= end."""
    command = "XREVRANGE" if back else "XRANGE"
    while True:
        (entries,) = await store.read((command, key, begin, end, "COUNT", count))
        yield entries
        if len(entries) < count:
            return
        begin = f"({entries[-1][0].decode()}"


async def first_entry(store: Store, stream: Stream) -> StreamEntry | None:
    """The oldest entry that a stream still has."""
    (entries,) = await store.read(("XRANGE", _KEYS[stream](store.namespace), "-", "+", "COUNT", 1))
    return _entry(*entries[0]) if entries else None


async def last_entry_by(store: Store, stream: Stream, at_ms: int) -> StreamEntry | None:
    """The last entry of a stream that was made at at_ms or before; None: all entries are later.

    Cost: two round trips if the times in ids and contents agree; about thirty if somebody set the clock.
    """
    key = _KEYS[stream](store.namespace)
    (entries,) = await store.read(("XREVRANGE", key, str(max(0, at_ms)), "-", "COUNT", 1))
    if entries and (guess := _entry(*entries[0])).ms <= at_ms:
        (after,) = await store.read(("XRANGE", key, f"({guess.id}", "+", "COUNT", 1))
        if not after or _entry(*after[0]).ms > at_ms:
            return guess
    first, last = await store.read(("XRANGE", key, "-", "+", "COUNT", 1), ("XREVRANGE", key, "+", "-", "COUNT", 1))
    if not first or _entry(*first[0]).ms > at_ms:
        return None
    found_ms = await last_ms(store, key, first[0], last[0], lambda *entry: _entry(*entry).ms <= at_ms)
    (entries,) = await store.read(("XRANGE", key, str(found_ms), str(found_ms)))
    return [one for one in (_entry(*entry) for entry in entries) if one.ms <= at_ms][-1]


async def last_ms(
    store: Store, key: str, first: RawEntry, last: RawEntry, fits: Callable[[bytes, dict[bytes, bytes]], bool]
) -> int:
    """The millisecond of the last entry that fits, by binary search: all entries from ``first`` to this one fit."""
    low, high = (int(entry_id.partition(b"-")[0]) for entry_id, _ in (first, last))
    while low < high:
        middle = (low + high + 1) // 2
        (entries,) = await store.read(("XRANGE", key, str(middle), "+", "COUNT", 1))
        low, high = (middle, high) if entries and fits(*entries[0]) else (low, middle - 1)
    return low


async def entries_back(store: Store, stream: Stream, last: StreamEntry, count: int = 500) -> AsyncIterator[StreamEntry]:
    """An entry of a stream and all earlier entries, the newest first."""
    async for entries in entry_pages(store, _KEYS[stream](store.namespace), last.id, "-", count, back=True):
        for entry_id, fields in entries:
            yield _entry(entry_id, fields)


def _entry(entry_id: bytes, fields: Mapping[bytes, bytes]) -> StreamEntry:
    content = fields.get(b"e", b"")
    try:
        ms = _made.decode(content).ms
    except msgspec.DecodeError as error:
        raise StoreError(f"entry {entry_id.decode()} of a stream cannot be read by this release: {error}") from error
    return StreamEntry(entry_id.decode(), ms, content)


def acknowledge_with(
    client: Any, namespace: str, reader: str, positions: Mapping[str, str], *, epoch: str = ""
) -> None:
    """Record up to which entry ``reader`` has saved each stream, all or none, over a synchronous client of redis-py.

    Later entries stay in the streams until the reader acknowledges them, is silent for streamReaderTimeoutHours, or a
    hard limit is reached.

    Args:
        positions: stream -> id of an entry; "0-0": nothing yet. An id before the last acknowledged id has no effect.
            Without positions the call only shows that the reader is alive.
        epoch: of the namespace that was read; "" is not checked.

    Raises:
        StoreError: no such stream, no id, another epoch, or too many readers; nothing was written.
        MissingRight: this login may not acknowledge.
    """
    script = scripts.load()["acknowledge"]
    arguments = [reader, epoch, *(part for pair in positions.items() for part in pair)]
    with mapped_errors(f"acknowledge in namespace {namespace!r}"):
        try:
            client.evalsha(script.sha, 1, keys.meta(namespace), *arguments)
        except exceptions.NoScriptError:
            with scripts.may_be_sent(script.name):
                client.eval(script.source, 1, keys.meta(namespace), *arguments)


def lookup_entries(
    found: Mapping[str, int], missing: Mapping[str, int], clients: Mapping[str, Sequence[str]] | None = None
) -> list[bytes]:
    """Encode lookup counts as entries of limited size; each is a text of JSON members. A topic's count is in one entry.

    ``clients``: missing topic -> addresses of some clients that asked for it; another entry may have them.
    """
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

    of_kind: tuple[tuple[str, Mapping[str, int | Sequence[str]]], ...]
    of_kind = ("found", found), ("missing", missing), ("clients", clients or {})
    for kind, values in of_kind:
        for topic, value in values.items():
            pair = msgspec.json.encode(topic) + b":" + msgspec.json.encode(value)
            if topics == TOPICS_PER_ENTRY or (topics and size + len(pair) > BYTES_PER_ENTRY):
                close()
            members.setdefault(kind, []).append(pair)
            topics, size = topics + 1, size + len(pair) + 1
    close()
    return entries
