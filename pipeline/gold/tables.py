"""Reads gold's files, and says which batches count for which periods. Without Spark.

A refresh writes one batch, and commits it with a list, for each table, of all batches that readers need: from which
hour and from which day on each of them counts. A batch counts up to where the next one begins. So a refresh replaces
the end of a table, however often it is repeated, and a reader needs one commit file.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from ..lake.lake import Lake, number_of, places
from ..lake.schema import GOLD
from .spans import NEVER

GRAINS: Final = {"hour": 3_600_000, "day": 86_400_000}
MOMENT_OF: Final = {"alarm": "at", "broker_state": "valid_from"}  # of tables without periods
_TRIES: Final = 3


class GoldBatch(msgspec.Struct, frozen=True):
    """From when on (ms) a batch counts, until a later batch does. For tables without periods ``day`` says it."""

    batch: int
    hour: int
    day: int


class Commit(msgspec.Struct, frozen=True):
    """A commit of gold: what a refresh saw and wrote.

    now_ms: end of observation. silver, silver_ms, silver_seq: the commit of silver that it saw.
    bronze: stream -> the batch that it saw up to. days: stream -> start of a day (ms) -> no batch before this one has
    entries of that day. tables: the batches that count, in the order in which they were written.
    """

    now_ms: int
    flap_ms: int
    silver: int
    silver_ms: int
    silver_seq: int
    bronze: dict[str, int]
    days: dict[str, dict[int, int]] = {}
    tables: dict[str, list[GoldBatch]] = {}

    def same_input(self, other: Commit) -> bool:
        """Whether both saw the same input."""
        return msgspec.structs.replace(self, days={}, tables={}) == msgspec.structs.replace(other, days={}, tables={})


def log(namespace: str, epoch: str) -> str:
    """The name of gold's commit log."""
    return f"gold/{places(namespace, epoch)}"


def last_commit(lake: Lake, namespace: str, epoch: str) -> tuple[int, Commit | None]:
    """The newest commit and its number; -1 and None before the first."""
    numbers = lake.commits(log(namespace, epoch))
    if not numbers:
        return -1, None
    return numbers[-1], msgspec.convert(lake.read_commit(log(namespace, epoch), numbers[-1]), Commit, str_keys=True)


def namespaces(lake: Lake) -> list[str]:
    """The namespaces of which gold has figures."""
    return sorted(folder.partition("=")[2] for folder in lake.folders("commits", "gold"))


def epochs(lake: Lake, namespace: str) -> list[str]:
    """The epochs of a namespace of which gold has figures, in order of their beginning."""
    found = [folder.partition("=")[2] for folder in lake.folders("commits", "gold", f"namespace={namespace}")]
    return sorted(found, key=lambda epoch: (_begins(lake, namespace, epoch), epoch))


def _begins(lake: Lake, namespace: str, epoch: str) -> Any:
    return (
        pc.min(read(lake, "topic", namespace, epoch, grain="day")["period_start"]).as_py()
        or pc.min(read(lake, "broker", namespace, epoch, grain="day")["period_start"]).as_py()
    )


def folder(table: str, namespace: str, epoch: str, batch: int) -> str:
    """Where a batch of a table is, within the lake."""
    return f"gold/{table}/{places(namespace, epoch)}/batch={batch:09d}"


def added(batches: list[GoldBatch], new: GoldBatch) -> list[GoldBatch]:
    """The batches with ``new`` at the end, without those of which no period counts any more."""
    kept = [batch for batch in batches if batch.hour < new.hour or batch.day < new.day]
    return [*kept, new]


def read(
    lake: Lake,
    table: str,
    namespace: str,
    epoch: str,
    *,
    grain: str | None = None,
    from_ms: int = 0,
    to_ms: int = NEVER,
    columns: list[str] | None = None,
) -> pa.Table:
    """Rows of a gold table, in no order.

    Args:
        grain: ``hour`` or ``day``; None: both.
        from_ms, to_ms: only periods that begin in ``[from_ms, to_ms)``.
        columns: those wanted; None: all.

    Returns:
        Columns of ``GOLD[table]``; no rows when there is no gold.
    """
    for attempt in range(_TRIES):
        _, commit = last_commit(lake, namespace, epoch)
        batches = commit.tables.get(table, []) if commit else []
        try:
            return read_batches(
                lake, table, namespace, epoch, batches, grain=grain, from_ms=from_ms, to_ms=to_ms, columns=columns
            )
        except FileNotFoundError:  # two refreshes ran meanwhile, and removed what no longer counts
            if attempt == _TRIES - 1:
                raise
    raise AssertionError("unreachable")


def read_batches(
    lake: Lake, table: str, namespace: str, epoch: str, batches: list[GoldBatch], *, grain: str | None = None,
    from_ms: int = 0, to_ms: int = NEVER, columns: list[str] | None = None,
) -> pa.Table:  # fmt: skip
    """As :func:`read`, of these batches of a commit.

    Raises:
        FileNotFoundError: later refreshes removed what that commit counted.
    """
    schema = GOLD[table]
    moment = MOMENT_OF.get(table, "period_start")
    wanted = [field.name for field in schema if columns is None or field.name in columns]
    found = [pa.schema([schema.field(name) for name in wanted]).empty_table()]
    for place, batch in enumerate(batches):
        following = batches[place + 1 :]
        chosen = None
        for each in GRAINS if moment == "period_start" else ("day",):
            if grain not in (None, each) and moment == "period_start":
                continue
            start = max(from_ms, getattr(batch, each))
            end = min(to_ms, *(getattr(later, each) for later in following), NEVER)
            if start >= end:
                continue
            part = (pc.field(moment) >= _moment(start)) & (pc.field(moment) < _moment(end))
            if moment == "period_start":
                part = part & (pc.field("grain") == each)
            chosen = part if chosen is None else chosen | part
        path = lake.path(folder(table, namespace, epoch, batch.batch))
        if chosen is not None:
            data = ds.dataset(path, format="parquet", filesystem=lake.filesystem, schema=schema)
            found.append(data.to_table(columns=wanted, filter=chosen))
    return pa.concat_tables(found)


def _moment(ms: int) -> pa.Scalar:
    return pa.scalar(ms * 1000, pa.int64()).cast(pa.timestamp("us", tz="UTC"))


def prune(lake: Lake, namespace: str, epoch: str, *commits: Commit) -> None:
    """Remove all but these last commits, and the batches that none of them counts.

    The commit before the newest stays for those who are reading it.
    """
    for table in GOLD:
        kept = {batch.batch for commit in commits for batch in commit.tables.get(table, [])}
        place = f"gold/{table}/{places(namespace, epoch)}"
        for name in lake.folders(place):
            if number_of(name) not in kept:
                lake.remove(place, name)
    for number in lake.commits(log(namespace, epoch))[: -len(commits)]:
        lake.forget_commit(log(namespace, epoch), number)
