"""Finds the changes in bronze that silver takes in next: whole sets of parts, in order of ``seq``, each once.

It also says as of which moment each of them counts, for the clock of Redis may be set back. A clock that is set back by
more than ``STEP_MS`` had been ahead: what it said of later moments counts as of the one that it was set back to. After
a smaller step changes count as of the latest moment before it, until the clock has passed that again.
"""

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
STEP_MS: Final = 60_000


class Chunk(NamedTuple):
    """The changes after ``after`` up to ``upto``, all there.

    files: those that hold them; ms: the moment of the last change; moments: see
    :class:`mqregistry.pipeline.silver.buckets.Moments`; more: others follow; steps: see
    :class:`mqregistry.pipeline.silver.tables.Content`.
    """

    files: list[File]
    after: int
    upto: int
    rows: int
    ms: int
    moments: list[tuple[int, int, int]]
    more: bool
    steps: tuple[tuple[int, int, int], ...] = ()


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
        ClockSetBack: the clock was set back by more than STEP_MS since ``seq``.
        LakeError: a change of a type that this release does not know.
    """
    rest = files_after(lake, namespace, epoch, seq)
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
        end = min([*ends, *([] if upto is None else [upto])])
        chunk = _read(lake, namespace, files, seq, ms, end, earliest_after(lake, rest, end))
        if chunk is not None:
            return chunk._replace(more=more)
    return None


def files_after(lake: Lake, namespace: str, epoch: str, seq: int) -> list[File]:
    """The files of bronze that have changes after ``seq``, in the order of their first one."""
    every = lake.table("bronze/changes").files(**owner(namespace, epoch))
    return sorted((file for file in every if file.high["seq"] > seq), key=lambda file: file.low["seq"])


def earliest_after(lake: Lake, files: list[File], seq: int) -> int | None:
    """The earliest moment that any change after ``seq`` in these files says; None: there are none."""
    found = [file.low["ms"] for file in files if file.low["seq"] > seq]
    partly = [file for file in files if file.low["seq"] <= seq < file.high["seq"]]
    if partly:
        said = lake.dataset(partly, BRONZE["changes"]).to_table(columns=["ms"], filter=pc.field("seq") > seq)["ms"]
        found.append(pc.min(said).as_py())
    return min(found, default=None)


def _read(
    lake: Lake, namespace: str, files: list[File], seq: int, ms: int, upto: int, earliest: int | None
) -> Chunk | None:
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
    least = np.minimum.accumulate(np.append(said, said.max() if earliest is None else earliest)[::-1])[::-1][:-1]
    if ms - least[0] > STEP_MS:
        raise ClockSetBack(namespace, int(seqs[0]), ms, int(least[0]))
    moments = np.maximum(np.maximum.accumulate(np.where(said - least > STEP_MS, least, said)), ms)
    last = int(seqs[-1])
    following = np.append(said[1:], said[-1] if earliest is None else earliest)
    back = np.flatnonzero(said - following > STEP_MS)
    steps = tuple((int(seqs[at]) + 1, int(said[at]), int(following[at])) for at in back)
    _check_types(dataset, after & (pc.field("seq") <= last), namespace)
    return Chunk(list(files), seq, last, end, int(moments[-1]), _mended(seqs, said, moments), False, steps)


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


class ClockSetBack(LakeError):
    """Changes that silver has taken in say later moments than the clock of Redis shows now."""

    def __init__(self, namespace: str, seq: int, from_ms: int, to_ms: int) -> None:
        super().__init__(
            f"the clock of Redis was set back by {(from_ms - to_ms) / 1000:,.0f} s up to change {seq} of namespace "
            f"{namespace!r}: 'mqregistry pipeline backfill' puts the moments before it right"
        )


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


def _mended(seqs: Any, said: Any, moments: Any) -> list[tuple[int, int, int]]:
    """Spans of changes that count as of another moment than they say."""
    other = np.flatnonzero(said != moments)
    if len(other) == 0:
        return []
    breaks = np.flatnonzero((np.diff(other) != 1) | (np.diff(moments[other]) != 0)) + 1
    return [(int(seqs[run[0]]), int(seqs[run[-1]]), int(moments[run[0]])) for run in np.split(other, breaks)]
