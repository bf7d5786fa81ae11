"""Brings one table of silver up to date: one MERGE turns cells that were set or ended into rows with their validity.

The MERGE finds a row by its key and ``from_seq``, so that a batch that is repeated changes nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from ..lake.lake import Lake
from ..lake.schema import SILVER_KEYS, SILVER_VALUES
from ..lake.tables import ensure, frame, literal, owned

# For each key, orders its cells and the row that held before by change; each new value becomes a row.
_ROWS: Final = """
WITH every AS (
    SELECT {keys}, {value} AS v, from_seq AS seq, -1L AS step, unix_millis(valid_from) AS ms,
        CAST(NULL AS string) AS kind, from_by AS by, true AS was_held
    FROM {{held}} LEFT SEMI JOIN {{cells}} USING ({keys})
    UNION ALL
    SELECT {keys}, v, seq, step, ms, kind, by, false FROM {{cells}}
),
together AS (SELECT{hint} * FROM every),
last_of_seq AS (  -- only the last value that a change sets was visible
    SELECT * FROM (SELECT *, lead(seq) OVER in_order AS next_seq FROM together {window})
    WHERE next_seq IS NULL OR next_seq <> seq
),
other AS (
    SELECT * FROM (SELECT *, lag(v) OVER in_order AS before, row_number() OVER in_order AS n FROM last_of_seq {window})
    WHERE n = 1 OR NOT v <=> before
),
spans AS (
    SELECT *, lead(seq) OVER in_order AS to_seq, lead(ms) OVER in_order AS to_ms, lead(kind) OVER in_order AS ended_by,
        lead(by) OVER in_order AS to_by
    FROM other {window}
)
SELECT {namespace} AS namespace, {epoch} AS epoch, {keys}, {values}
    timestamp_millis(ms) AS valid_from, timestamp_millis(to_ms) AS valid_to, seq AS from_seq, to_seq, ended_by,
    by AS from_by, to_by, to_seq IS NULL AS current
FROM spans WHERE v IS NOT NULL AND NOT (was_held AND to_seq IS NULL)
"""
_MERGE: Final = """
MERGE INTO {target} t USING {{rows}} s
ON {owned} AND (t.current OR t.to_seq > {after}) AND {same}
WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
"""

FEW_CELLS: Final = 10_000
_KEPT: Final = "spark.databricks.delta.merge.materializeSource"


class Owner(NamedTuple):
    """The namespace and epoch of rows; ``area``: a folder for silver's tables, other than ``silver``."""

    namespace: str
    epoch: str
    area: str | None = None


def held(spark: SparkSession, lake: Lake, owner: Owner, table: str, seq: int) -> DataFrame:
    """The rows that hold after change ``seq``; later changes, which a killed run may have written, do not count."""
    rows = frame(spark, lake, f"silver/{table}", *owner[:2], area=owner.area)
    return rows.where(f"from_seq <= {seq} AND (current OR to_seq > {seq})")


def merge(
    spark: SparkSession, lake: Lake, owner: Owner, table: str, cells: DataFrame, *, after: int,
    snapshot: tuple[int, int] | None = None, few: bool = False,
) -> None:  # fmt: skip
    """Bring a table up to date.

    Args:
        cells: their columns are the table's keys and values, and AT of ``cells.py``. topic null: the broker_name is
            gone from all its topics.
        after: the change up to which the table counts.
        snapshot: its seq and ms; rows that it does not set again end with it.
        few: the query plan contains the cells, so one task is enough, and MERGE keeps no copy of them.
    """
    keys = SILVER_KEYS[table]
    values = SILVER_VALUES[table][len(keys) :]
    names = {
        "keys": ", ".join(keys), "value": f"struct({', '.join(['true AS is_set', *values])})",
        "values": "".join(f"v.{name}, " for name in values), "namespace": literal(owner.namespace),
        "epoch": literal(owner.epoch),
        "owned": owned(owner[:2], "t."), "target": ensure(spark, lake, f"silver/{table}", owner.area), "after": after,
        "hint": " /*+ COALESCE(1) */" if few else "",
        "window": f"WINDOW in_order AS (PARTITION BY {', '.join(keys)} ORDER BY seq, step)",
        "same": " AND ".join(f"t.{name} = s.{name}" for name in (*keys, "from_seq")),
    }  # fmt: skip
    before = held(spark, lake, owner, table, after)
    found = [
        f"SELECT {names['keys']}, IF(gone, NULL, {names['value']}) AS v, seq, step, ms, kind, by FROM {{cells}} "
        f"WHERE {keys[0]} IS NOT NULL"
    ]
    if table == "queue_data":
        found.append(
            "SELECT known.topic, broker_name, NULL, seq, step, ms, kind, by FROM (SELECT * EXCEPT (topic) FROM {cells} "
            "WHERE topic IS NULL) JOIN (SELECT topic, broker_name FROM {before} UNION SELECT topic, broker_name FROM "
            "{cells} WHERE topic IS NOT NULL) known USING (broker_name)"
        )
    if snapshot is not None:
        seq, ms = snapshot
        found.append(f"SELECT {names['keys']}, NULL, {seq}L, 0L, {ms}L, 'snapshot', NULL FROM {{before}}")
    changed = spark.sql(" UNION ALL ".join(found), cells=cells, before=before)
    rows = spark.sql(_ROWS.format(**names), held=before, cells=changed)
    spark.conf.set(_KEPT, "none" if few else "auto")
    try:
        spark.sql(_MERGE.format(**names), rows=rows)
    finally:
        spark.conf.unset(_KEPT)  # other MERGEs of this session have sources that are not in the plan
