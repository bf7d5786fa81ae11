"""Reads from the streams what is known of an instant: which front ends heard brokers and answered clients, and how far
each stream was. Nothing else is known of a front end's past, because its status is not kept.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from ...events.journal import CHANGES, HEARTBEATS, LOOKUPS, STREAMS, Stream, decode_heartbeat, decode_lookups
from ...store.leases import DIRECT
from ...store.store import Store
from ...store.streams import StreamEntry, StreamState, Survey, entries_back, first_entry, last_entry_by
from ..state import MINUTE_MS

# The most entries that are read of a minute: enough for 3,000 brokers at three front ends, and fast enough for a page.
_BEATS: Final = 20_000
_REPORTS: Final = 200
# More entries than these are estimated, not counted. An entry of lookups has up to 32 KiB.
_COUNTED: Final = {HEARTBEATS: 5_000, LOOKUPS: 500}


class Sign(NamedTuple):
    """What one front end did in the minute before an instant."""

    last_ms: int  # the time of its last entry
    brokers: int = 0  # the broker processes that it heard
    lookups: int = 0  # the lookups that it counted


class Signs(NamedTuple):
    """The signs of all front ends, by their ids."""

    of: dict[str, Sign]
    heard_ms: int | None  # the last heartbeat until then; None: the stream begins later
    begins_ms: int | None  # the oldest heartbeat in the stream; None: the stream is empty
    whole: bool  # whether all entries of the minute were read


async def signs_by(store: Store, at_ms: int) -> Signs:
    """Read what each front end did in the minute before an instant."""
    begin_ms = at_ms - MINUTE_MS
    last: dict[str, int] = {}
    brokers: dict[str, set[str]] = {}
    lookups: dict[str, int] = {}
    heard_ms, beats, reports = None, 0, 0
    if (newest := await last_entry_by(store, HEARTBEATS, at_ms)) is not None:
        heard_ms = newest.ms
        async for entry in entries_back(store, HEARTBEATS, newest):
            if entry.ms < begin_ms or beats >= _BEATS:
                break
            beats += 1
            beat = decode_heartbeat(entry.content)
            last.setdefault(beat.front_end, beat.ms)
            brokers.setdefault(beat.front_end, set()).add(beat.who)
    if (newest := await last_entry_by(store, LOOKUPS, at_ms)) is not None:
        async for entry in entries_back(store, LOOKUPS, newest, 50):
            if entry.ms < begin_ms or reports >= _REPORTS:
                break
            reports += 1
            report = decode_lookups(entry.content)
            last[report.front_end] = max(report.ms, last.get(report.front_end, 0))
            counted = sum(report.found.values()) + sum(report.missing.values())
            lookups[report.front_end] = lookups.get(report.front_end, 0) + counted
    first = await first_entry(store, HEARTBEATS)
    found = {one: Sign(ms, len(brokers.get(one, ())), lookups.get(one, 0)) for one, ms in last.items()}
    return Signs(found, heard_ms, first.ms if first else None, beats < _BEATS and reports < _REPORTS)


class StreamThen(NamedTuple):
    """A stream as it was at an instant, from the entries that it still has."""

    entries: int  # written until then and still kept
    is_exact: bool  # False: the number of entries is estimated
    first: StreamEntry | None  # first, last: None: there is no such entry
    last: StreamEntry | None
    seq: int | None = None  # the number of the last entry; only changes have numbers


class _NumberedEntry(msgspec.Struct):
    seq: int


_number: Final = msgspec.json.Decoder(_NumberedEntry)


async def streams_by(store: Store, now: Survey, at_ms: int) -> dict[Stream, StreamThen]:
    """The streams at an instant; ``now``: what they hold now."""
    return {one: await _stream_by(store, one, now.streams[one], at_ms, now.now_ms) for one in STREAMS}


async def _stream_by(store: Store, stream: Stream, now: StreamState, at_ms: int, now_ms: int) -> StreamThen:
    first, last = await first_entry(store, stream), await last_entry_by(store, stream, at_ms)
    if first is None or last is None:
        return StreamThen(0, True, first, None)
    if stream == CHANGES:
        seq = _number.decode(last.content).seq
        return StreamThen(seq - _number.decode(first.content).seq + 1, True, first, last, seq)
    if last.id == now.last:
        return StreamThen(now.entries, True, first, last)
    counted = 0
    async for _ in entries_back(store, stream, last):
        counted += 1
        if counted > _COUNTED[stream]:
            break
    else:
        return StreamThen(counted, True, first, last)
    part = (last.ms - first.ms) / max(1, now_ms - first.ms)
    return StreamThen(max(counted, round(now.entries * min(1.0, part))), False, first, last)


def is_direct(front_end: str) -> bool:
    """Whether this front end is a broker's own process, which writes to Redis itself."""
    return front_end.startswith(DIRECT)
