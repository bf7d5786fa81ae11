"""Reads the entries in quarantine again: what this release can read goes to bronze."""

from __future__ import annotations

from typing import NamedTuple

from mqregistry.events.journal import CHANGES, STREAMS, Stream

from ..lake.lake import Lake, owner
from ..lake.schema import QUARANTINE
from ..redis_stream.entries import page
from ..redis_stream.ranges import UNKNOWN, Position
from .entries import write_entries
from .log import commit_again, last_batch


class Again(NamedTuple):
    """How many entries of quarantine are in bronze now, and how many are still not."""

    read: int
    left: int


def requarantine(lake: Lake, namespace: str, epoch: str) -> Again:
    """Read the entries of all streams in quarantine again. Killed anywhere and run again, it comes to the same.

    Raises:
        OtherWriter: a run brought bronze on meanwhile.
    """
    done = [_of_stream(lake, stream, namespace, epoch) for stream in STREAMS]
    return Again(sum(one.read for one in done), sum(one.left for one in done))


def _of_stream(lake: Lake, stream: Stream, namespace: str, epoch: str) -> Again:
    place = {**owner(namespace, epoch), "stream": stream}
    number, end = last_batch(lake, stream, namespace, epoch)
    files = lake.table("quarantine").files(**place)
    if not files or end is None:
        return Again(0, 0)
    rows = lake.dataset(files, QUARANTINE).to_table().sort_by([("id_ms", "ascending"), ("id_n", "ascending")])
    entries = [
        (f"{row['id_ms']}-{row['id_n']}".encode(), [b"e", row["raw"]]) for row in rows.to_pylist()
    ]  # what had other fields is an array in JSON, and no event
    found = page(stream, entries)
    part = write_entries(lake, stream, namespace, epoch, number + 1, [found.batch])
    if part.rows:
        commit_again(lake, stream, namespace, epoch, number + 1, _after(stream, end, found.seqs), part)
    return Again(part.rows, len(part.bad_ids))


def _after(stream: Stream, end: Position, seqs: list[int]) -> Position:
    """The position in the stream, of which some of the entries can be read now that could not before."""
    if stream != CHANGES or not end.unread:
        return end
    seq, unread = end.seq, 0
    for number in seqs[-end.unread :]:
        seq, unread = (number, 0) if number != UNKNOWN else (seq, unread + 1)
    return Position(end.id, seq, unread)


__all__ = ["Again", "requarantine"]
