"""Answers what a loss would have done to topics, in Spark SQL over silver's intervals and the recorded lookups."""

from __future__ import annotations

import contextlib
from importlib.resources import files
from typing import Final, NamedTuple

import pyarrow.compute as pc
from pyspark.sql import SparkSession

from ..gold.inputs import Inputs
from ..lake.lake import Lake, LakeError
from ..lake.tables import literal
from ..past.travel import EpochPast, show_ms

DEFAULT_MS: Final = 30 * 24 * 3_600_000
_LOSS: Final = files(__package__) / "loss.sql"
# What may be lost -> the table and column that name it, and the SQL that finds its name for an address in loss.sql
KINDS: Final = {
    "broker": ("broker_addr", "broker_name", "a.broker_name"),
    "cluster": ("broker_addr", "cluster", "a.cluster"),
    "zone": ("broker_row", "zone", "coalesce(r.zone, '')"),
    "host": ("broker_addr", "addr", "regexp_replace(a.addr, ':[0-9]+$', '')"),
}
_TOPICS: Final = """
SELECT topic, sum(to_ms - from_ms) AS there_ms,
    sum(CASE WHEN loses_queue THEN to_ms - from_ms ELSE 0 END) AS no_queue_ms,
    sum(CASE WHEN loses_master THEN to_ms - from_ms ELSE 0 END) AS no_master_ms,
    sum(CASE WHEN loses_route THEN to_ms - from_ms ELSE 0 END) AS no_route_ms,
    min(CASE WHEN loses_queue THEN from_ms END) AS first_ms,
    coalesce(max(lookups), 0) AS lookups, coalesce(max(lost_lookups), 0) AS lost_lookups
FROM loss LEFT JOIN (
    SELECT topic, sum(n) AS lookups, sum(CASE WHEN loses_route THEN n ELSE 0 END) AS lost_lookups
    FROM (
        SELECT ms, topic, n FROM lookups
        LATERAL VIEW explode(from_json(e, 'found map<string, bigint>').found) AS topic, n
    ) JOIN loss USING (topic)
    WHERE ms >= from_ms AND ms < to_ms GROUP BY topic
) USING (topic)
GROUP BY topic
"""


class Topic(NamedTuple):
    """What the loss would have done to a topic.

    ``there_ms``: for how long it had a route. ``no_queue_ms``, ``no_master_ms``, ``no_route_ms``: for how long the loss
    would have left it without a writable queue, a master, a route, although it had one. ``first_ms``: when it would
    first have lost its last queue; None: never. ``lookups``: lookups with a route; ``lost_lookups``: those of them that
    would have had none.
    """

    topic: str
    there_ms: int
    no_queue_ms: int
    no_master_ms: int
    no_route_ms: int
    first_ms: int | None
    lookups: int
    lost_lookups: int


class Answer(NamedTuple):
    """The topics that existed from from_ms to to_ms, worst first."""

    from_ms: int
    to_ms: int
    topics: list[Topic]

    @property
    def lost(self) -> list[Topic]:
        """The topics that would have lost something."""
        return [topic for topic in self.topics if topic.no_queue_ms or topic.no_master_ms or topic.no_route_ms]


def check(past: EpochPast, kind: str, names: list[str]) -> None:
    """Check that the lake knows each name.

    Raises:
        LakeError: it does not know one; the message says what it knows.
    """
    table, column, _ = KINDS[kind]
    rows = past.lake.read(f"silver/{table}", namespace=past.namespace, epoch=past.epoch, columns=[column])
    values = {value for value in pc.unique(rows[column]).to_pylist() if value is not None}
    there = sorted({value.rpartition(":")[0] for value in values} if kind == "host" else values)
    for name in names:
        if name not in there:
            shown = f"it knows {', '.join(there[:10])}{' ...' * (len(there) > 10)}" if there else "it knows none"
            raise LakeError(f"the lake knows no {kind} {name!r} of namespace {past.namespace!r}; {shown}")


def span(past: EpochPast, at_ms: int | None, from_ms: int | None, to_ms: int | None) -> tuple[int, int]:
    """The part of a time that the lake knows, as [from, to) in ms; an instant is one millisecond.

    Raises:
        LakeError: the lake knows nothing of that time.
    """
    end_ms = past.end_ms() + 1
    if at_ms is not None:
        from_ms, to_ms = at_ms, at_ms + 1
    to_ms = min(end_ms, to_ms or end_ms)
    from_ms = max(past.begin_ms, to_ms - DEFAULT_MS if from_ms is None else from_ms)
    if from_ms >= to_ms:
        raise LakeError(
            f"of that time the lake knows nothing: its past of namespace {past.namespace!r} goes from "
            f"{show_ms(past.begin_ms)} to {show_ms(end_ms - 1)}"
        )
    return from_ms, to_ms


def ask(spark: SparkSession, lake: Lake, past: EpochPast, kind: str, names: list[str], time: tuple[int, int]) -> Answer:
    """What the loss of all ``names`` would have done to every topic, at every instant of a time.

    Args:
        kind: of KINDS.
        time: from when to when (ms).
    """
    from_ms, to_ms = time
    inputs = Inputs(spark.newSession(), lake, past.namespace, past.epoch, seq=past.progress.seq)
    texts = ", ".join(map(literal, names))
    with contextlib.closing(inputs):
        for table in ("broker_addr", "broker_row", "queue_data"):
            inputs.view(table, inputs.held(table, from_ms, to_ms - 1))
        inputs.small_view("gap", inputs.table("silver/gap"))
        inputs.view("lookups", inputs.entries("lookups", from_ms, to_ms - 1))
        text = _LOSS.read_text(encoding="utf-8").replace("{lost}", f"{KINDS[kind][2]} IN ({texts})")
        inputs.view("loss", inputs.spark.sql(text, from_ms=from_ms, to_ms=to_ms), keep=True)
        rows = inputs.spark.sql(_TOPICS).collect()
    found = sorted(
        (Topic(**row.asDict()) for row in rows),
        key=lambda topic: (-topic.no_queue_ms, -topic.no_master_ms, -topic.no_route_ms, topic.topic),
    )  # fmt: skip
    return Answer(from_ms, to_ms, found)
