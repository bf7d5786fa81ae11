"""Brings gold up to date: works out again what silver and bronze changed since its last commit, and keeps the rest."""

from __future__ import annotations

import logging
from typing import Any, Final

import msgspec

from mqregistry.events.journal import STREAMS

from ..lake.lake import Lake, State, owner
from ..silver.tables import observed_ms
from .inputs import Inputs
from .run import SPARK_FROM_ROWS, GoldRun, Span
from .tables import PART, Content, last

logger = logging.getLogger(__name__)

FLAP_MS: Final = 300_000


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
    """Bring gold up to what silver and bronze have.

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

    Raises:
        OtherWriter: another run brought gold on meanwhile.
    """
    inputs = Inputs(lake, namespace, epoch)
    if inputs.silver is None:
        return False
    silver = inputs.silver.content
    number, before = last(lake, namespace, epoch)
    if from_scratch or (
        before
        and (
            before.flap_ms != flap_ms
            or before.silver > inputs.silver.number
            or before.silver_seq > silver.seq
            or before.backfills != silver.backfills
        )
    ):
        before = None  # other rules, or another silver: nothing of it holds
    seen = before.bronze if before else dict.fromkeys(STREAMS, -1)
    fresh = {stream: inputs.span(stream, ("batch", seen[stream])) for stream in STREAMS}
    if now_ms is None:
        heard = fresh["heartbeats"]
        heard_ms = heard[1] if heard else 0
        observed = observed_ms(lake, namespace, epoch, silver.seq)
        if observed is not None:  # a clock that was ahead for a while is no observation
            heard_ms = min(heard_ms, observed)
        now_ms = max(silver.ms, before.now_ms if before else 0, heard_ms)
    first = [span[0] for stream, span in fresh.items() if span and stream != "changes"]
    if before:
        since = min(before.now_ms, now_ms, *first, *_changed(inputs, before))
    else:
        since = min([now_ms, *first, *inputs.begins()])
    begin_ms = min(before.begin_ms, since) if before else since
    content = Content(
        now_ms, begin_ms, flap_ms, inputs.silver.number, silver.ms, silver.seq, inputs.last_batch, silver.backfills
    )
    if before == content:
        return False
    span = Span(since - 1, now_ms)  # at midnight the day that is over is to become whole
    if not span.periods(since)["day"].count:
        return False  # no period has begun to pass
    logger.debug("gold of namespace %s, epoch %s: %s", namespace, epoch, span)
    place = owner(namespace, epoch)
    memory = lake.kept.get(key := ("gold", namespace, epoch))
    memory = memory if before and memory and memory.number == number else None
    run = GoldRun(spark, inputs, (namespace, epoch), span, content, before, memory, spark_from_rows)
    for table, files, periods in list(run.write()):
        of_table, app = lake.table(f"gold/{table}"), f"gold/{namespace}/{epoch}"
        replaced = {**place, "period": periods} if before else place
        if files or of_table.files(**replaced):
            of_table.commit(files, app, of_table.version(app) + 1, replaced=replaced)
    lake.set_state(PART, namespace, epoch, State(number + 1, msgspec.to_builtins(content)))
    lake.kept[key] = run.memory._replace(number=number + 1) if run.memory else None
    return True


def _changed(inputs: Inputs, before: Content) -> list[int]:
    """From when on silver may have changed, if it did; an event counts by its own ms, which may have been set back."""
    now = inputs.tables.content
    span = inputs.span("changes", ("seq", before.silver_seq))
    found = [] if span is None else [span[0]]
    if any(to_ms >= before.silver_ms for _, to_ms in now.holes) or (span is None and now.seq != before.silver_seq):
        found.append(before.silver_ms)
    return found
