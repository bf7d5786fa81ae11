"""Finds the changes in bronze that silver takes in next: in order of ``seq``, each once, with all its entries (parts).

It also finds the time that counts for each change, because the clock of Redis may be set back. If a step back is larger
than ``STEP_MS``, the clock had been ahead: changes from that time get the time to which it was set back. After a
smaller step, changes get the latest time before the step, until the clock has passed that time again.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..lake.lake import LakeError
from .progress import ClockStep

CHUNK_CHANGES: Final = 1_000_000  # in one step; the driver reads four numbers of each
STEP_MS: Final = 60_000


class Chunk(NamedTuple):
    """The changes after ``after`` up to ``upto``, without a hole.

    ``ms``: the time of the last change. ``first_ms``: the time of the first change. ``spans``: see ``Spans`` in
    :mod:`mqregistry.pipeline.silver.cells`. ``steps``: where the clock was set back. ``more``: bronze has later
    changes.
    """

    after: int
    upto: int
    ms: int
    first_ms: int
    spans: list[tuple[int, int, int]]
    steps: list[ClockStep]
    more: bool


def next_chunk(
    changes: DataFrame, namespace: str, *, seq: int, ms: int, upto: int | None = None, limit: int = CHUNK_CHANGES
) -> Chunk | None:
    """The changes after ``seq`` up to the first hole; None: there are none, or no change has all its parts yet.

    Args:
        changes: the changes in bronze that can be read.
        ms: the time that counts for ``seq``.
        upto: the last change to take, which must be a last part.

    Raises:
        MissingChanges: the next change is missing, and there are later ones.
        ClockSetBack: the clock was set back by more than STEP_MS since ``seq``.
    """
    end = seq + limit if upto is None else min(upto, seq + limit)
    rows = changes.where((F.col("seq") > seq) & (F.col("seq") <= end)).select("seq", "ms", "part", "parts").toArrow()
    known, first = np.unique(rows["seq"].to_numpy(), return_index=True)
    then, earliest = None, None
    if not len(known) or known[-1] == end:
        later = changes.where(F.col("seq") > end).agg(F.min("seq"), F.min("ms")).first()
        then, earliest = tuple(later) if later else (None, None)
    if not len(known):
        if then is not None and (upto is None or seq < upto):
            raise MissingChanges(namespace, seq, then)
        return None
    holes = np.flatnonzero(known != np.concatenate(([seq], known[:-1])) + 1)
    if len(holes) and holes[0] == 0:
        raise MissingChanges(namespace, seq, int(known[0]))
    count = int(holes[0]) if len(holes) else len(known)
    said, part, parts = (rows[name].to_numpy()[first] for name in ("ms", "part", "parts"))
    whole = np.flatnonzero(part[:count] == parts[:count])
    if len(whole) == 0:
        if len(holes):
            raise MissingChanges(namespace, int(known[count - 1]), int(known[count]))
        return None
    count = int(whole[-1]) + 1
    behind = [int(said[count:].min())] if count < len(said) else []
    earliest = min([*behind, *([] if earliest is None else [earliest])], default=None)
    return _chunk(namespace, seq, ms, known[:count], said[:count], earliest)


def _chunk(namespace: str, seq: int, ms: int, seqs: Any, said: Any, earliest: int | None) -> Chunk:
    """Make the chunk; ``said``: the times in its events; ``earliest``: the earliest time in later events."""
    least = np.minimum.accumulate(np.append(said, said.max() if earliest is None else earliest)[::-1])[::-1][:-1]
    if ms - least[0] > STEP_MS:
        raise ClockSetBack(namespace, int(seqs[0]), ms, int(least[0]))
    moments = np.maximum(np.maximum.accumulate(np.where(said - least > STEP_MS, least, said)), ms)
    following = np.append(said[1:], said[-1] if earliest is None else earliest)
    back = np.flatnonzero(said - following > STEP_MS)
    steps = [ClockStep(int(seqs[at]) + 1, int(said[at]), int(following[at])) for at in back]
    return Chunk(seq, int(seqs[-1]), int(moments[-1]), int(moments[0]), _mended(seqs, said, moments), steps,
                 earliest is not None)  # fmt: skip


class MissingChanges(LakeError):
    """Bronze has a change and a later one, but not the changes in between."""

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
    """Changes in silver have later times than the clock of Redis shows now."""

    def __init__(self, namespace: str, seq: int, from_ms: int, to_ms: int) -> None:
        super().__init__(
            f"the clock of Redis was set back by {(from_ms - to_ms) / 1000:,.0f} s up to change {seq} of namespace "
            f"{namespace!r}: 'mqregistry pipeline backfill' corrects the earlier moments"
        )


def _mended(seqs: Any, said: Any, moments: Any) -> list[tuple[int, int, int]]:
    """The spans of the changes for which another time counts than the time in their events."""
    other = np.flatnonzero(said != moments)
    if len(other) == 0:
        return []
    breaks = np.flatnonzero((np.diff(other) != 1) | (np.diff(moments[other]) != 0)) + 1
    return [(int(seqs[run[0]]), int(seqs[run[-1]]), int(moments[run[0]])) for run in np.split(other, breaks)]
