"""Reads gold's tables, and says which partition a row is in. Without Spark.

A refresh puts the rows that it worked out into the place of whole partitions: of the periods that new input touches.
"""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ..lake.lake import Lake, owner
from ..lake.schema import GOLD
from .spans import DAY_MS, HOUR_MS, NEVER, Periods

PART: Final = "gold"
GRAINS: Final = {"hour": HOUR_MS, "day": DAY_MS}
MOMENT_OF: Final = {"alarm": "at", "broker_state": "valid_from"}  # of tables without periods
BY_DAY: Final = frozenset({"heartbeat", "alarm", "broker_state"})  # all rows of a day are in one partition
STILL: Final = "now"  # the partition of broker_state's rows without an end
_MOST_CLUSTERS: Final = 100  # of metrics
_FORMATS: Final = {"hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d"}


class Content(msgspec.Struct, frozen=True):
    """What a refresh saw.

    now_ms: end of observation. begin_ms: what was before is not known. silver, silver_ms, silver_seq: the state of
    silver. bronze: stream -> the batch that it saw up to. backfills: of silver, as its own content has it.
    """

    now_ms: int
    begin_ms: int
    flap_ms: int
    silver: int
    silver_ms: int
    silver_seq: int
    bronze: dict[str, int]
    backfills: int = 0


def last(lake: Lake, namespace: str, epoch: str) -> tuple[int, Content | None]:
    """What the last refresh saw, and its number; -1 and None before the first."""
    state = lake.state(PART, namespace, epoch)
    return (-1, None) if state is None else (state.number, msgspec.convert(state.content, Content))


def namespaces(lake: Lake) -> list[str]:
    """The namespaces of which gold has figures."""
    return sorted({namespace for namespace, _ in lake.owners(PART)})


def epochs(lake: Lake, namespace: str) -> list[str]:
    """The epochs of a namespace of which gold has figures, in order of their beginning."""

    def begin_ms(epoch: str) -> int:
        content = last(lake, namespace, epoch)[1]
        return content.begin_ms if content else NEVER

    return sorted(lake.epochs(PART, namespace), key=begin_ms)


def with_period(table: str, rows: pa.Table, open_day: int) -> pa.Table:
    """Rows with the partition that each of them is in: its hour's from the last day (ms) on, else its day's."""
    moment = rows["valid_to" if table == "broker_state" else MOMENT_OF.get(table, "period_start")]
    period = pc.strftime(moment, _FORMATS["day"])
    if table == "broker_state":
        period = pc.fill_null(period, STILL)
    elif table not in BY_DAY:
        of_hour = pc.and_(pc.equal(rows["grain"], "hour"), pc.greater_equal(moment, _moment(open_day)))
        period = pc.if_else(of_hour, pc.strftime(moment, _FORMATS["hour"]), period)
    return rows.append_column("period", period)


def touched(table: str, grains: dict[str, Periods]) -> list[str]:
    """The partitions of these periods."""
    found = [STILL] if table == "broker_state" else []
    for grain, when in grains.items():
        if grain == "day" or table not in BY_DAY:
            starts = (datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC) for ms in when.start.tolist())
            found += [start.strftime(_FORMATS[grain]) for start in starts]
    return found


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
    schema = GOLD[table]
    moment = MOMENT_OF.get(table, "period_start")
    wanted = [field.name for field in schema if columns is None or field.name in columns]
    files = [
        file
        for file in lake.table(f"gold/{table}").files(**owner(namespace, epoch))
        if file.low[moment] < to_ms * 1000 and file.high[moment] >= from_ms * 1000
    ]
    if not files:
        return pa.schema([schema.field(name) for name in wanted]).empty_table()
    chosen: Any = (pc.field(moment) >= _moment(from_ms)) & (pc.field(moment) < _moment(to_ms))
    if grain is not None and moment == "period_start":
        chosen = chosen & (pc.field("grain") == grain)
    return lake.dataset(files, schema).to_table(columns=wanted, filter=chosen)


def last_hour(lake: Lake, namespace: str, epoch: str) -> dict[str, dict[str, float]]:
    """Figures of the last whole hour, as metrics: name -> cluster -> value."""
    _, content = last(lake, namespace, epoch)
    if content is None:
        return {}
    end_ms = content.now_ms // HOUR_MS * HOUR_MS
    hour: dict[str, Any] = {"grain": "hour", "from_ms": end_ms - HOUR_MS, "to_ms": end_ms}
    brokers = read(lake, "broker", namespace, epoch, **hour).to_pylist()
    clusters = {row["broker_name"]: row["cluster"] for row in brokers}
    shown = set(sorted({*clusters.values()})[:_MOST_CLUSTERS])
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for row in [*brokers, *read(lake, "heartbeat", namespace, epoch, **hour).to_pylist()]:
        if (cluster := clusters.get(row["broker_name"])) is not None:
            for name in ("observed_ms", "present_ms", "writable_ms", "outages", "flaps", "missed_beats"):
                found[name][cluster if cluster in shown else "other"] += row.get(name, 0)
    shares = {
        share: {cluster: found[part][cluster] / ms for cluster, ms in found["observed_ms"].items() if ms}
        for share, part in (("availability", "present_ms"), ("write_availability", "writable_ms"))
    }
    counts = {name: found[name] for name in ("outages", "flaps", "missed_beats")}
    return {f"pipeline_{name}": dict(values) for name, values in (shares | counts).items()}


def _moment(ms: int) -> pa.Scalar:
    return pa.scalar(ms * 1000, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
