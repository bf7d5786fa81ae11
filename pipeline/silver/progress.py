"""Reads the change up to which silver's tables count, and the times with lost changes."""

from __future__ import annotations

from typing import Final, NamedTuple

import pyarrow.compute as pc

from ..lake.lake import Lake
from ..lake.schema import PROGRESS

NONE: Final = -1  # the seq before every snapshot


class Progress(NamedTuple):
    """A step of silver, which is a row of ``silver/progress``.

    ``number``: rises by one; the highest counts. ``kind``: snapshot, changes, backfill, observed or requarantine.
    ``ms``: the time of change seq. ``begin_ms``: the time of the first snapshot. ``observed_ms``: no other change came
    up to this time.
    ``touched_ms``: the earliest time whose values this step changed.
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
    """Before change ``seq``, the clock of Redis was set back, from ``from_ms`` to ``to_ms``."""

    seq: int
    from_ms: int
    to_ms: int


def last(lake: Lake, namespace: str, epoch: str) -> Progress | None:
    """The newest step; None: silver has not begun."""
    rows = lake.read("silver/progress", namespace=namespace, epoch=epoch, columns=PROGRESS.names)
    if not rows.num_rows:
        return None
    [row] = rows.filter(pc.equal(rows["number"], pc.max(rows["number"]))).to_pylist()
    return Progress(**row)


def gaps(lake: Lake, namespace: str, epoch: str, stream: str = "changes") -> list[tuple[int, int]]:
    """The accepted gaps of a stream: from when to when (ms) its entries are missing."""
    rows = lake.read("silver/gap", namespace=namespace, epoch=epoch, where=pc.field("stream") == stream)
    return sorted(zip(rows["from_ms"].to_pylist(), rows["to_ms"].to_pylist(), strict=True))
