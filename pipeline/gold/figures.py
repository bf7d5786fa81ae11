"""Reads gold's tables without Spark."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ..lake.gold_schema import GOLD, MOMENT
from ..lake.lake import Lake
from ..lake.schema import day_text

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
NEVER: Final = 1 << 42  # later than any moment
_MOMENT_OF: Final = {"alarm": "at", "broker_state": "valid_from"}  # the moment's column, in tables without periods
_MOST_CLUSTERS: Final = 100  # in the metrics
_WORST_TOPICS: Final = 10
SHARES: Final = {"availability": "present_ms", "write_availability": "writable_ms"}  # / observed_ms
_RESILIENCE_MS: Final = 30 * DAY_MS


class Refreshed(NamedTuple):
    """What the last refresh saw.

    ``begin_ms``: nothing is known of the time before it. ``now_ms``: end of observation. ``flap_ms``: an absence
    shorter than this is a flap. ``seq``: the change up to which silver counted. ``versions``: table -> the version that
    was read, as JSON.
    """

    begin_ms: int
    now_ms: int
    flap_ms: int
    seq: int
    versions: str


def last(lake: Lake, namespace: str, epoch: str) -> Refreshed | None:
    """The record of the last refresh; None: there was none."""
    rows = lake.read("gold/refresh", namespace=namespace, epoch=epoch, columns=Refreshed._fields).to_pylist()
    return Refreshed(**rows[0]) if rows else None


def epochs(lake: Lake, namespace: str) -> list[str]:
    """The epochs of a namespace with figures in gold, in order of their beginning."""
    rows = lake.read("gold/refresh", namespace=namespace, columns=["epoch", "begin_ms"])
    found: list[str] = rows.sort_by("begin_ms")["epoch"].to_pylist()
    return found


def read(
    lake: Lake, table: str, namespace: str, epoch: str, *, grain: str | None = None, from_ms: int = 0,
    to_ms: int = NEVER, columns: list[str] | None = None,
) -> pa.Table:  # fmt: skip
    """Rows of a gold table, in no order.

    Args:
        grain: ``hour`` or ``day``; None: both.
        from_ms, to_ms: only periods that begin in ``[from_ms, to_ms)``.
        columns: of ``GOLD[table]``; None: all.
    """
    moment = _MOMENT_OF.get(table, "period_start")
    begin, end = (pa.scalar(ms * 1000, MOMENT) for ms in (from_ms, to_ms))
    chosen: Any = (pc.field(moment) >= begin) & (pc.field(moment) < end)
    if moment == "period_start":  # whole files are skipped by their day
        days = pc.field("day") >= day_text(max(0, from_ms))
        chosen = chosen & days & (pc.field("day") <= day_text(to_ms))
    if grain is not None and "grain" in GOLD[table].names:
        chosen = chosen & (pc.field("grain") == grain)
    wanted = [name for name in GOLD[table].names if columns is None or name in columns]
    return lake.read(f"gold/{table}", namespace=namespace, epoch=epoch, columns=wanted, where=chosen)


def sums(rows: pa.Table, key: str, columns: Sequence[str]) -> pa.Table:
    """The sums of columns for each value of ``key``; the columns keep their names."""
    found = rows.group_by(key).aggregate([(name, "sum") for name in columns])
    return found.rename_columns({f"{name}_sum": name for name in columns})


def last_hour(lake: Lake, namespace: str, epoch: str) -> dict[str, dict[str, float]]:
    """Figures of the last whole hour, and the resilience of topics, as metrics: name -> cluster -> value."""
    seen = last(lake, namespace, epoch)
    if seen is None:
        return {}
    end_ms = seen.now_ms // HOUR_MS * HOUR_MS
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
        for share, part in SHARES.items()
    }
    counts = {name: found[name] for name in ("outages", "flaps", "missed_beats")}
    known = {f"pipeline_{name}": dict(values) for name, values in (shares | counts).items()}
    return known | {"pipeline_resilience": least_resilient(lake, namespace, epoch, seen.now_ms)}


def least_resilient(lake: Lake, namespace: str, epoch: str, now_ms: int) -> dict[str, float]:
    """The ten worst topics -> their score (table ``resilience``) over the last 30 days."""
    columns = ["topic", "routable_ms", "any_loss_ms"]
    days = {"from_ms": now_ms - _RESILIENCE_MS, "to_ms": now_ms}
    rows = read(lake, "resilience", namespace, epoch, grain="day", columns=columns, **days)
    topics = sums(rows, "topic", columns[1:]).to_pylist()
    scores = {row["topic"]: row["any_loss_ms"] / row["routable_ms"] for row in topics}
    return dict(sorted(scores.items(), key=lambda each: (each[1], each[0]))[:_WORST_TOPICS])
