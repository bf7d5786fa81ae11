"""Turns a page of stream entries into one Arrow batch: a few columns, and the event's JSON unchanged.

An entry that cannot be read becomes a row with a reason and its raw bytes, but without its event.
"""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from mqregistry.events.changes import Change, decode_change, may_pass_over
from mqregistry.events.journal import Stream, decode, decode_heartbeat, decode_lookups
from mqregistry.store.connection.blocking import Entry

from ..lake.schema import BRONZE
from .ranges import UNKNOWN, EntryId, parse_id


class Page(NamedTuple):
    """A batch, and the seq of each entry: UNKNOWN if the entry cannot be read, or its stream has no numbers."""

    batch: pa.RecordBatch
    seqs: list[int]


def entry_id(entry: Entry) -> EntryId:
    """Parses the id of a stream's entry."""
    return parse_id(entry[0].decode())


def seq_of(entry: Entry) -> int:
    """The number of a change; UNKNOWN when it cannot be read."""
    return UNKNOWN if _fault("changes", entry[1]) else decode_change(entry[1][1]).seq


def page(stream: Stream, entries: Sequence[Entry]) -> Page:
    """Entries as a batch with the schema ``BRONZE[stream]``."""
    try:
        return _build(stream, entries)
    except (msgspec.DecodeError, pa.ArrowInvalid, ValueError, OverflowError):
        return _build_one_by_one(stream, entries)


def _ids(entries: Sequence[Entry]) -> list[pa.Array]:
    numbers = np.fromstring(b" ".join([entry[0] for entry in entries]).replace(b"-", b" ").decode(), np.int64, sep=" ")
    return [pa.array(numbers[0::2]), pa.array(numbers[1::2])]


def _build(stream: Stream, entries: Sequence[Entry]) -> Page:
    """Build the batch of all entries at once; raises if any entry cannot be read."""
    for _, fields in entries:
        if len(fields) != 2 or fields[0] != b"e":
            raise ValueError("not one field e")
    values = [fields[1] for _, fields in entries]
    columns, seqs = _COLUMNS[stream](values)
    count = len(values)
    text = pa.array(values, pa.binary()).cast(pa.string())  # checks the encoding
    nothing = [pa.nulls(count, pa.string()), pa.nulls(count, pa.binary())]
    arrays = [*_ids(entries), *columns, text, *nothing]
    return Page(pa.RecordBatch.from_arrays(arrays, schema=BRONZE[stream]), seqs)


def _change_columns(values: list[bytes]) -> tuple[list[pa.Array], list[int]]:
    changes = list(map(decode_change, values))
    if not all(map(may_pass_over, changes)):
        raise ValueError("an unknown type that must not be ignored")
    seqs = [change.seq for change in changes]
    return [
        pa.array(seqs, pa.int64()),
        pa.array([change.ms for change in changes], pa.int64()),
        pa.array([change.type for change in changes], pa.string()),
        pa.array([change.part for change in changes], pa.int32()),
        pa.array([change.parts for change in changes], pa.int32()),
    ], seqs


def _ms_column(decode: Callable[[bytes], Any], values: list[bytes]) -> tuple[list[pa.Array], list[int]]:
    return [pa.array([decode(value).ms for value in values], pa.int64())], [UNKNOWN] * len(values)


_COLUMNS: Final[dict[Stream, Callable[[list[bytes]], tuple[list[pa.Array], list[int]]]]] = {
    "changes": _change_columns,
    "heartbeats": functools.partial(_ms_column, decode_heartbeat),
    "lookups": functools.partial(_ms_column, decode_lookups),
}


def _fault(stream: Stream, fields: list[bytes]) -> str | None:
    """Why an entry cannot be read; None: it can."""
    if len(fields) != 2 or fields[0] != b"e":
        return "it does not consist of one field e"
    try:
        fields[1].decode()
        change = decode(stream, fields[1])
        if not isinstance(change, Change):
            pa.scalar(change.ms, pa.int64())
            return None
        for number in (change.seq, change.ms):
            pa.scalar(number, pa.int64())
        for number in (change.part, change.parts):
            pa.scalar(number, pa.int32())
    except (msgspec.DecodeError, UnicodeDecodeError, OverflowError, pa.ArrowInvalid) as error:
        return str(error)
    if not may_pass_over(change):
        return f"this release does not know changes of type {change.type!r}, and must not ignore them"
    return None


def raw_of(fields: list[bytes]) -> bytes:
    """The value of field e; if there are other fields, all fields and values in turn, as JSON of base64 texts."""
    if len(fields) == 2 and fields[0] == b"e":
        return fields[1]
    return msgspec.json.encode([base64.b64encode(part).decode() for part in fields])


def _build_one_by_one(stream: Stream, entries: Sequence[Entry]) -> Page:
    batches, seqs = [], []
    for entry in entries:
        fault = _fault(stream, entry[1])
        if fault is None:
            one = _build(stream, [entry])
            batches.append(one.batch)
            seqs += one.seqs
            continue
        at = entry_id(entry)
        row = {"id_ms": at.ms, "id_n": at.n, "ms": at.ms, "reason": fault, "raw": raw_of(entry[1])}
        batches.append(pa.RecordBatch.from_pylist([row], schema=BRONZE[stream]))
        seqs.append(UNKNOWN)
    return Page(pa.Table.from_batches(batches).combine_chunks().to_batches()[0], seqs)
