"""Works out the figures of topics from those of their hours, and of what was looked up. Without Spark."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ..lake.schema import GOLD, MOMENT
from .queues import TOPIC
from .spans import HOUR_MS, Periods

# at_ms: the hour's start
LOOKUPS: Final = pa.schema(
    [("topic", pa.string()), ("at_ms", pa.int64()), ("found", pa.int64()), ("missing", pa.int64())]
)
_SUMMED: Final = ("routable_ms", "writable_ms", "changes")
_AT_END: Final = {"brokers": "sum", "write_queues": "sum", "queue_cv": "max", "queue_max_mean": "max"}
_TABLES: Final = ("topic", "unused_topic", "missing_topic")
_KEYS: Final = ["topic", "start_ms"]


def figures(
    parts: pa.Table, lookups: pa.Table, grains: dict[str, Periods], hour_ms: int = HOUR_MS
) -> dict[str, pa.Table]:
    """Rows of the tables topic, unused_topic and missing_topic.

    Args:
        parts: RESULT rows of mqregistry.pipeline.gold.queues, of whole days.
        lookups: LOOKUPS rows of the same days.
        hour_ms: what both are made by.
    """
    found: dict[str, list[pa.Table]] = {table: [GOLD[table].empty_table()] for table in _TABLES}
    hours = parts.filter(pc.equal(parts["kind"], TOPIC))
    hours = hours.rename_columns(["topic" if name == "name" else name for name in hours.schema.names])
    for grain, when in grains.items():
        asked = _sums(_within(lookups, when), {"found": "sum", "missing": "sum"})
        rows = _within(hours, when)
        last = pa.array(when.ends(rows["at_ms"].to_numpy(), hour_ms))
        for name, kind in _AT_END.items():
            none: Any = pa.scalar(0 if kind == "sum" else None, rows[name].type)
            rows = rows.set_column(rows.schema.get_field_index(name), name, pc.if_else(last, rows[name], none))
        rows = _sums(rows, {**dict.fromkeys(_SUMMED, "sum"), **_AT_END})
        rows = rows.filter(pc.or_(pc.greater(rows["routable_ms"], 0), pc.greater(rows["changes"], 0)))
        rows = rows.join(asked.select([*_KEYS, "found"]), _KEYS, join_type="left outer")
        rows = rows.append_column("lookups", pc.fill_null(rows["found"], 0))
        unused = pc.and_(pc.equal(rows["lookups"], 0), pc.greater(rows["routable_ms"], 0))
        missing = asked.filter(pc.greater(asked["missing"], 0))
        for table, of in zip(
            _TABLES, (rows, rows.filter(unused), missing.append_column("lookups", missing["missing"])), strict=True
        ):
            start = pc.multiply(of["start_ms"], 1000).cast(MOMENT)
            of = of.append_column("grain", pa.repeat(grain, of.num_rows)).append_column("period_start", start)
            found[table].append(of.select(GOLD[table].names).cast(GOLD[table]))
    return {table: pa.concat_tables(of) for table, of in found.items()}


def _within(rows: pa.Table, when: Periods) -> pa.Table:
    """Those of these periods, with the start of theirs."""
    at = rows["at_ms"].to_numpy()
    period = when.index(at)
    start = pa.array(when.first + when.step * period)
    return rows.append_column("start_ms", start).filter(pa.array(period >= 0))


def _sums(rows: pa.Table, columns: dict[str, str]) -> pa.Table:
    of = rows.group_by(_KEYS).aggregate(list(columns.items()))
    return of.rename_columns([*_KEYS, *columns])
