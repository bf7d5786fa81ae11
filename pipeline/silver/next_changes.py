"""Finds the changes in bronze that silver takes in next: whole sets of parts, in order of ``seq``, each once."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow.compute as pc

from mqregistry.events.cells import operations
from mqregistry.events.changes import TYPES, UnknownChange, decode_change

from ..lake.files import File
from ..lake.lake import Lake, LakeError, owner
from ..lake.schema import BRONZE

# What one commit takes in, about. Tasks hold it in Python: 0.8 GB of both at one time.
CHUNK_ROWS: Final = 1_000_000
_LEAST_CHUNK: Final = 100_000  # more than any set of parts has


class Chunk(NamedTuple):
    """The changes after ``after`` up to ``upto``, all there.

    files: those that hold them; ms: the moment of the last change; floors: see
    :class:`mqregistry.pipeline.silver.buckets.Floors`; more: others follow.
    """

    files: list[File]
    after: int
    upto: int
    rows: int
    ms: int
    floors: list[tuple[int, int, int]]
    more: bool


def next_chunk(
    lake: Lake, namespace: str, epoch: str, *, seq: int, ms: int, upto: int | None = None,
    chunk_rows: int = CHUNK_ROWS,
) -> Chunk | None:  # fmt: skip
    """What follows ``seq``, up to the first hole; None: nothing, or no whole set of parts yet.

    Args:
        ms: the moment of ``seq``.
        upto: go no further; the last of a set of parts.

    Raises:
        MissingChanges: the next change is not there, and later ones are.
        LakeError: a change of a type that this release does not know.
    """
    every = lake.table("bronze/changes").files(**owner(namespace, epoch))
    rest = sorted((file for file in every if file.high["seq"] > seq), key=lambda file: file.low["seq"])
    files, rows = [], 0
    for at, file in enumerate(rest):
        files.append(file)
        rows += file.rows
        following = rest[at + 1].low["seq"] if at + 1 < len(rest) else None
        if rows < chunk_rows and following is not None:
            continue
        # what is before the next file is all there; and one file may hold many days
        ends = [seq + max(chunk_rows, _LEAST_CHUNK), *([] if following is None else [following - 1])]
        more = min(ends) < max(each.high["seq"] for each in rest)
        chunk = _read(lake, namespace, files, seq, ms, min([*ends, *([] if upto is None else [upto])]))
        if chunk is not None:
            return chunk._replace(more=more)
    return None


def _read(lake: Lake, namespace: str, files: list[File], seq: int, ms: int, upto: int) -> Chunk | None:
    dataset = lake.dataset(files, BRONZE["changes"])
    after = (pc.field("seq") > seq) & (pc.field("seq") <= upto)
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
    return Chunk(list(files), seq, last, end, int(moments[-1]), _floors(seqs, said, moments), False)


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
