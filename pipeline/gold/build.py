"""Brings gold up to date: works out again what silver and bronze changed since its last commit, and keeps the rest."""

from __future__ import annotations

import logging
from typing import Any, Final

import msgspec

from ..lake.lake import Lake
from .inputs import Inputs
from .run import SPARK_FROM_ROWS, GoldRun, Span
from .tables import GRAINS, Commit, added, last_commit, log, prune

logger = logging.getLogger(__name__)

FLAP_MS: Final = 300_000
_STREAMS: Final = ("changes", "heartbeats", "lookups")


def refresh(
    spark: Any,
    lake: Lake,
    namespace: str,
    epoch: str,
    *,
    flap_ms: int = FLAP_MS,
    now_ms: int | None = None,
    from_scratch: bool = False,
    spark_from_rows: int = SPARK_FROM_ROWS,
) -> bool:
    """Bring gold up to silver's last commit and bronze's last batches.

    Killed at any moment and run again, it writes the same tables.

    Args:
        spark: a session; None: without Spark, for as much as one process can take.
        flap_ms: an absence shorter than this, with a return, is a flap. Another value than last time: everything is
            worked out again.
        now_ms: end of observation; default: how far silver is, or the newest heartbeat, whichever is later.
        from_scratch: work everything out, and keep nothing of the tables before; readers see those until this is done.
        spark_from_rows: fewer rows than this are worked on without Spark.

    Returns:
        Whether there was anything to do.
    """
    inputs = Inputs(lake, namespace, epoch)
    if inputs.silver is None:
        return False
    silver, manifest = inputs.silver
    number, last = last_commit(lake, namespace, epoch)
    before = last
    if from_scratch or (last and (last.flap_ms != flap_ms or last.silver > silver or last.silver_seq > manifest.seq)):
        before = None  # other rules, or another silver: nothing of it holds
    bronze = {stream: inputs.last_batch(stream) for stream in _STREAMS}
    seen = before.bronze if before else dict.fromkeys(_STREAMS, -1)
    fresh = {stream: inputs.span(stream, (seen[stream], bronze[stream])) for stream in _STREAMS}
    if now_ms is None:
        heard = fresh["heartbeats"]
        now_ms = max(manifest.ms, before.now_ms if before else 0, heard[1] if heard else 0)
    commit = Commit(now_ms, flap_ms, silver, manifest.ms, manifest.seq, bronze, _days(before, seen, fresh))
    if before and before.same_input(commit):
        return False
    first = [span[0] for stream, span in fresh.items() if span and stream != "changes"]
    since = min(before.now_ms, before.silver_ms, now_ms, *first) if before else min([now_ms, *first, *inputs.begins()])
    span = Span(since - 1, now_ms)  # at midnight the day that is over is to become one batch, too
    if not span.periods(since)["day"].count:
        return False  # no period has begun to pass
    logger.debug("gold of namespace %s, epoch %s: %s", namespace, epoch, span)
    run = GoldRun(spark, inputs, (namespace, epoch), number + 1, span, commit, before, spark_from_rows)
    tables = dict(before.tables) if before else {}
    for table, batch in run.write():
        tables[table] = added(tables.get(table, []), batch)
    commit = msgspec.structs.replace(commit, tables=tables)
    content: dict[str, Any] = msgspec.to_builtins(commit, str_keys=True)
    lake.commit(log(namespace, epoch), number + 1, content)
    prune(lake, namespace, epoch, *([last, commit] if last else [commit]))
    return True


def _days(
    before: Commit | None, seen: dict[str, int], fresh: dict[str, tuple[int, int] | None]
) -> dict[str, dict[int, int]]:
    """Per stream and day: the first batch that may have entries of it."""
    days = {stream: dict(before.days.get(stream, {})) if before else {} for stream in fresh}
    step = GRAINS["day"]
    for stream, span in fresh.items():
        if span:
            for day in range(span[0] // step * step, span[1] + 1, step):
                days[stream].setdefault(day, seen[stream] + 1)
    return days
