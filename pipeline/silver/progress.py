"""How far silver is: the change up to which its tables count, and the times of which nothing is known."""

from __future__ import annotations

from typing import Final, NamedTuple

import pyarrow.compute as pc

from ..lake.lake import Lake
from ..lake.schema import PROGRESS

NONE: Final = -1  # the seq before every snapshot


class Progress(NamedTuple):
    """A step of silver; see ``schema.PROGRESS``.

    number: rises by one; the highest counts. kind: snapshot, changes, backfill, observed or requarantine. ms: the
    moment of seq. begin_ms: of the first snapshot. observed_ms: up to when it is known that no change followed.
    touched_ms: the earliest moment at which the tables changed.
    """

    number: int
    kind: str
    seq: int
    ms: int
    begin_ms: int
    compat: str
    observed_ms: int | None = None
    touched_ms: int | None = None


class ClockStep(NamedTuple):
    """The clock of Redis had been set back by a change."""

    seq: int
    from_ms: int
    to_ms: int


def last(lake: Lake, namespace: str, epoch: str) -> Progress | None:
    """The step that counts; None: silver has not begun."""
    rows = lake.read("silver/progress", namespace=namespace, epoch=epoch, columns=PROGRESS.names)
    if not rows.num_rows:
        return None
    [row] = rows.filter(pc.equal(rows["number"], pc.max(rows["number"]))).to_pylist()
    return Progress(**row)


def gaps(lake: Lake, namespace: str, epoch: str, stream: str = "changes") -> list[tuple[int, int]]:
    """From when to when (ms) entries of a stream are missing, because a gap was accepted."""
    rows = lake.read("silver/gap", namespace=namespace, epoch=epoch, where=pc.field("stream") == stream)
    return sorted(zip(rows["from_ms"].to_pylist(), rows["to_ms"].to_pylist(), strict=True))
