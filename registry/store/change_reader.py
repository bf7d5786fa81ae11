"""Reads the change stream of a namespace: forward, back, one change by its number, and how many a minute.

A large change is written as several events, its *parts*. Functions raise the errors of :class:`Store`, and StoreError
for an entry that cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, NamedTuple

import msgspec

from ..errors import StoreError
from ..events.changes import Change, ChangeDecoder, decode_change
from ..events.journal import CHANGES
from . import keys
from .connection.errors import mapped_errors
from .store import Store
from .streams import entry_pages, first_entry, last_entry_by, last_ms

_PAGE: Final = 500
_MOST_CHAINS: Final = 1000
_MOST_CHAIN_BYTES: Final = 2 << 20
_CHAIN: Final = re.compile(rb'\{"seq":(\d+),"ms":\d+,"chain":"(\w+)"')
_MINUTE_MS: Final = 60_000
# The time in an entry's id and the time of its event differ by less than this, unless somebody set the clock.
_SAME_CLOCK_MS: Final = 1000


class ChangeReader:
    """Reads the change stream after an entry. A blocking read holds one connection of the store."""

    def __init__(self, store: Store, last_id: str) -> None:
        self._client: Any = store.client
        self._key = keys.changes(store.namespace)
        self.last_id = last_id
        self._decoder = ChangeDecoder()

    async def read(self, *, block_ms: int, count: int = 500) -> list[Change]:
        """The next changes, in order; [] when there was none for ``block_ms`` (0 = do not wait).

        Raises:
            StoreUnavailable: Redis did not answer within the client's timeout, which must exceed block_ms.
            StoreError: an entry cannot be read.
        """
        with mapped_errors("reading the change stream"):
            reply = await self._client.xread(
                {self._key: self.last_id}, count=count, block=block_ms if block_ms > 0 else None
            )
        changes: list[Change] = []
        for _, entries in reply or ():
            for entry_id, fields in entries:
                changes.append(_decode(self._key, entry_id, fields, self._decoder.decode))
                self.last_id = entry_id.decode()
        if not changes:
            self._decoder.forget()
        return changes


def _decode(
    key: str, entry_id: bytes, fields: dict[bytes, bytes], decode: Callable[[bytes], Change] = decode_change
) -> Change:
    try:
        return decode(fields[b"e"])
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(f"entry {entry_id.decode()} of {key} is no event of this release: {error}") from error


async def last_change_id(store: Store) -> str:
    """Id of the last entry that was ever written to the stream, even if it was trimmed since; "" = none."""
    (last,) = await store.read(("HGET", keys.meta(store.namespace), "last_change"))
    return last.decode() if last else ""


async def chain_of(store: Store, entry_id: str) -> str:
    """The chain (hash of all events so far) in an entry of the stream; "" = the stream does not have the entry."""
    (found,) = await store.read(("XRANGE", keys.changes(store.namespace), entry_id, entry_id))
    return _decode(keys.changes(store.namespace), *found[0]).chain or "" if found else ""


async def last_chains(store: Store) -> list[tuple[int, str]]:
    """(seq, chain) of the last events of the stream, the oldest first; no event is decoded."""
    found: list[tuple[int, str]] = []
    size = 0
    async for entries in entry_pages(store, keys.changes(store.namespace), "+", "-", 100, back=True):
        for _, fields in entries:
            head = _CHAIN.match(fields.get(b"e", b""))
            size += len(fields.get(b"e", b""))
            if head is not None:
                found.append((int(head[1]), head[2].decode()))
        if len(found) >= _MOST_CHAINS or size >= _MOST_CHAIN_BYTES:
            break
    return found[::-1]


async def read_back(store: Store, *, since_ms: int = 0, before: str = "") -> AsyncIterator[list[Change]]:
    """The changes of the stream, the newest first, each with all its parts in their order.

    ``since_ms``: leave out earlier changes. ``before``: id of an entry; leave out this entry and later entries.
    """
    key, end = keys.changes(store.namespace), f"({before}" if before else "+"
    parts: list[Change] = []
    async for entries in entry_pages(store, key, end, str(since_ms), _PAGE, back=True):
        for entry_id, fields in entries:
            change = _decode(key, entry_id, fields)
            parts.append(change)
            if change.part == 1:
                yield parts[::-1]
                parts = []


async def read_first(store: Store) -> Change | None:
    """The oldest event that the stream has; None: the stream is empty."""
    key = keys.changes(store.namespace)
    (entries,) = await store.read(("XRANGE", key, "-", "+", "COUNT", 1))
    return _decode(key, *entries[0]) if entries else None


async def find_change(store: Store, seq: int) -> tuple[str, list[Change]] | None:
    """The change with this seq, with all its parts, and the id of its first entry; None: it is not in the stream.

    Cost: about thirty round trips, for a binary search over the times in the ids.
    """
    key = keys.changes(store.namespace)
    first, last = await store.read(
        ("XRANGE", key, "-", "+", "COUNT", 1), ("XREVRANGE", key, "+", "-", "COUNT", 1)
    )  # fmt: skip
    if not first or not _decode(key, *first[0]).seq <= seq <= _decode(key, *last[0]).seq:
        return None
    begin_ms = await last_ms(store, key, first[0], last[0], lambda *entry: _decode(key, *entry).seq <= seq)
    found, found_id = list[Change](), ""
    async for entries in entry_pages(store, key, str(begin_ms), "+", _PAGE):
        for entry_id, fields in entries:
            change = _decode(key, entry_id, fields)
            if change.part == 1:
                if found and found[-1].seq >= seq:
                    return await _from_part_1(store, found_id, found)
                found, found_id = [], entry_id.decode()
            found_id = found_id or entry_id.decode()
            found.append(change)
    there = found and found[0].seq <= seq <= found[-1].seq
    return await _from_part_1(store, found_id, found) if there else None


class Minutes(NamedTuple):
    """How many events were written in each minute (since 1970)."""

    per_minute: dict[int, int]
    since_ms: int | None  # events before this time are not counted; None: all are counted


class _Numbered(msgspec.Struct):
    seq: int
    ms: int


_numbered: Final = msgspec.json.Decoder(_Numbered)


async def count_by_minute(store: Store, at_ms: int, minutes: int, *, last_seq: int | None = None) -> Minutes:
    """The number of events in each of the last ``minutes``; the last minute ends at at_ms.

    It reads only the last event of each minute, in one round trip: their seqs give the counts. ``last_seq``: later
    events are not counted.
    """
    first = await first_entry(store, CHANGES)
    if first is None:
        return Minutes({}, at_ms)
    own, first_seq = at_ms // _MINUTE_MS, _numbered.decode(first.content).seq
    ends = [minute * _MINUTE_MS - 1 for minute in range(own - minutes + 1, own + 1)] + [at_ms]
    key = keys.changes(store.namespace)
    found = await store.read(*(("XREVRANGE", key, end, "-", "COUNT", 1) for end in (*ends, "+")))
    entries = [(entry[0][0], _numbered.decode(entry[0][1][b"e"])) if entry else None for entry in found]
    if all(one is None or abs(one[1].ms - int(one[0].partition(b"-")[0])) < _SAME_CLOCK_MS for one in entries):
        numbers = [one and one[1].seq for one in entries[:-1]]
    else:
        by = [await last_entry_by(store, CHANGES, end) for end in ends]
        numbers = [one and _numbered.decode(one.content).seq for one in by]
    most = numbers[-1] if last_seq is None else last_seq
    if most is None:
        return Minutes({}, at_ms)
    seqs = [first_seq - 1 if seq is None else min(seq, most) for seq in numbers]
    counts = {own - minutes + 1 + place: seqs[place + 1] - seqs[place] for place in range(minutes)}
    known = first_seq == 1 or numbers[0] is not None
    return Minutes({minute: count for minute, count in counts.items() if count > 0}, None if known else first.ms)


async def _from_part_1(store: Store, entry_id: str, found: list[Change]) -> tuple[str, list[Change]]:
    """The change with all its parts: its first parts may be from the previous millisecond."""
    earlier = await find_change(store, found[0].seq - 1) if found[0].part > 1 else None
    return earlier or (entry_id, found)
