"""Finds the changes in bronze that silver takes in next: whole sets of parts, in order of ``seq``, each once."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow.compute as pc

from mqregistry.events.cells import operations
from mqregistry.events.changes import TYPES, UnknownChange, decode_change

from ..lake.lake import Lake, LakeError, places
from ..lake.schema import BRONZE

# What one commit takes in at most, unless one batch holds more. Tasks hold it in Python: 0.8 GB of both at one time.
CHUNK_ROWS: Final = 1_000_000


class Chunk(NamedTuple):
    """The changes after ``after`` up to ``upto``, all there.

    paths: the Parquet files that hold them, within the lake; batch: the last batch that is used up; ms: the moment of
    the last change; floors: see :class:`mqregistry.pipeline.silver.buckets.Floors`; more: batches follow.
    """

    paths: list[str]
    after: int
    upto: int
    rows: int
    ms: int
    batch: int
    floors: list[tuple[int, int, int]]
    more: bool


def next_chunk(
    lake: Lake, namespace: str, epoch: str, *, seq: int, ms: int, batch: int, upto: int | None = None,
    chunk_rows: int = CHUNK_ROWS,
) -> Chunk | None:  # fmt: skip
    """What follows ``seq``, up to the first hole; None: nothing, or no whole set of parts yet.

    Args:
        ms: the moment of ``seq``.
        batch: batches up to this one are used up.
        upto: go no further; the last of a set of parts.

    Raises:
        MissingChanges: the next change is not there, and later ones are.
        LakeError: a change of a type that this release does not know.
    """
    log = f"bronze/changes/{places(namespace, epoch)}"
    numbers = [number for number in lake.commits(log) if number > batch]
    taken: dict[int, int] = {}  # batch -> its last seq
    rows = 0
    for at, number in enumerate(numbers):
        content = lake.read_commit(log, number)
        taken[number] = content["last_seq"] or 0
        rows += content["rows"]
        if rows < chunk_rows and at + 1 < len(numbers):
            continue
        chunk = _read(lake, namespace, epoch, taken, seq, ms, upto)
        if chunk is not None:
            return chunk._replace(more=at + 1 < len(numbers))
    return None


def _read(
    lake: Lake, namespace: str, epoch: str, batches: dict[int, int], seq: int, ms: int, upto: int | None
) -> Chunk | None:
    folder = f"bronze/changes/{places(namespace, epoch)}"
    paths = [path for number in batches for path in lake.parquet_files(folder, f"batch={number:09d}")]
    if not paths:
        return None
    dataset = lake.dataset(paths, BRONZE["changes"])
    after = pc.field("seq") > seq
    if upto is not None:
        after = after & (pc.field("seq") <= upto)
    table = dataset.to_table(columns=["seq", "ms", "part", "parts"], filter=after)
    if table.num_rows == 0:
        return None
    seqs, first = np.unique(table.column("seq").to_numpy(), return_index=True)
    holes = np.flatnonzero(seqs != np.concatenate(([seq], seqs[:-1])) + 1)
    if len(holes) and holes[0] == 0:
        raise MissingChanges(namespace, seq, int(seqs[0]))
    end = int(holes[0]) if len(holes) else len(seqs)
    part, parts = (table.column(name).to_numpy()[first[:end]] for name in ("part", "parts"))
    whole = np.flatnonzero(part == parts)
    if len(whole) == 0:
        if len(holes):
            raise MissingChanges(namespace, int(seqs[end - 1]), int(seqs[end]))
        return None
    end = int(whole[-1]) + 1
    seqs, said = seqs[:end], table.column("ms").to_numpy()[first[:end]]
    moments = np.maximum(np.maximum.accumulate(said), ms)
    last = int(seqs[-1])
    _check_types(dataset, after & (pc.field("seq") <= last), namespace)
    used_up = min(batches) - 1
    for number, last_seq in batches.items():
        if last_seq > last:
            break
        used_up = number
    return Chunk(paths, seq, last, end, int(moments[-1]), used_up, _floors(seqs, said, moments), False)


class MissingChanges(LakeError):
    """Bronze holds one change and then a later one, and not what was between."""

    def __init__(self, namespace: str, seq: int, then: int) -> None:
        lost = f"change {seq + 1} is" if then == seq + 2 else f"changes {seq + 1} to {then - 1} are"
        super().__init__(
            f"the lake of namespace {namespace!r} holds change {seq} and then change {then}: {lost} missing, because "
            "the stream was trimmed before it was read, an entry could not be read (see quarantine), or a file is "
            "gone. What came before is in the tables; 'mqregistry pipeline run --accept-gap' goes on from a new "
            "snapshot"
        )
        self.seq = seq
        self.then = then


def _check_types(dataset: Any, wanted: Any, namespace: str) -> None:
    """Raise if there is a type that this release neither knows nor may pass over."""
    types: set[str] = set()
    for batch in dataset.to_batches(columns=["type"], filter=wanted):
        types.update(pc.unique(batch.column(0)).to_pylist())
    if types <= TYPES:
        return  # without reading the events
    later = dataset.to_table(columns=["e"], filter=wanted & ~pc.field("type").isin(sorted(TYPES)))
    for e in later.column("e").to_pylist():
        try:
            operations(decode_change(e.encode()))
        except UnknownChange as error:
            raise LakeError(f"namespace {namespace!r}: {error}; a newer release wrote it: use that one") from error


def _floors(seqs: Any, said: Any, moments: Any) -> list[tuple[int, int, int]]:
    """Spans of changes that say less than the latest moment before them."""
    behind = np.flatnonzero(said < moments)
    if len(behind) == 0:
        return []
    breaks = np.flatnonzero((np.diff(behind) != 1) | (np.diff(moments[behind]) != 0)) + 1
    return [(int(seqs[run[0]]), int(seqs[run[-1]]), int(moments[run[0]])) for run in np.split(behind, breaks)]
