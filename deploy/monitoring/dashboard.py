"""Writes dashboard.json, the Grafana dashboard, from the table of metrics: ``python deploy/monitoring/dashboard.py``.

A panel for each metric, in rows by the question that they answer. A test holds that the file is up to date, and that
every metric of the table is in one row.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from mqregistry.server.process.figures.table import METRICS, PREFIX, Metric

FILE: Final = Path(__file__).with_name("dashboard.json")

ROWS: Final = {
    "Is anything wrong?": (
        "front_ends", "sweepers", "redis_away", "view_stale", "grace", "broker_overdue_seconds", "ready", "workers",
        "worker_restarts_total", "broker_names_without_master", "topics_unwritable", "log_lines_dropped_total",
    ),
    "Brokers and topics": (
        "brokers_alive", "brokers", "topics", "channels", "closes_pending", "changes_total", "brokers_expired_total",
        "brokers_reaped_total", "last_sweep_seconds", "sweep_seconds", "sweep_failures_total", "broker_heard_seconds",
    ),
    "What clients and brokers get": (
        "requests_total", "request_seconds", "lookups_total", "stale_answers_total", "registrations_total",
        "connections", "held_bytes",
        "connections_closed_total", "bad_frames_total", "slow_clients_total", "loop_lag_seconds", "loop_delay_seconds",
        "tls_end_seconds",
    ),
    "How far front ends are": (
        "view_seq", "view_lag_seconds", "change_visible_seconds", "view_rebuilds_total", "leases",
    ),
    "Redis": (
        "script_seconds", "redis_read_seconds", "redis_failures_total", "redis_memory_bytes",
        "redis_memory_limit_bytes", "redis_clients", "redis_replicas",
        "redis_persistence_failing", "stream_entries", "stream_bytes",
    ),
    "Readers of the streams": (
        "stream_reader_behind", "stream_reader_behind_seconds", "stream_reader_lost", "stream_reader_silent_seconds",
        "stream_alarms_total",
    ),
    "The pipeline": (
        "pipeline_behind_seconds", "pipeline_last_round_seconds", "pipeline_round_duration_seconds",
        "pipeline_rounds_total", "pipeline_rows_total", "pipeline_quarantined_total", "pipeline_seq",
    ),
    "What the lake says of the last hour": (
        "pipeline_availability", "pipeline_write_availability", "pipeline_outages", "pipeline_flaps",
        "pipeline_missed_beats",
    ),
    "Who may do what, and how often": (
        "auth_decisions_total", "auth_failures_total", "auth_revision", "auth_last_anonymous_write_seconds",
        "rate_seen_total", "rate_exceeded_total", "rate_refused_total", "rate_addresses",
    ),
    "Processes": (
        "process_cpu_seconds", "process_resident_memory_bytes", "start_time_seconds", "build_info",
    ),
}  # fmt: skip
_SELECT: Final = '{namespace=~"$namespace"}'
_WIDTH: Final = 8  # three panels side by side in Grafana's 24 columns
_HEIGHT: Final = 7
_SINCE: Final = ("start_time_seconds", "last_sweep_seconds", "pipeline_last_round_seconds")


def expressions(name: str, metric: Metric) -> dict[str, str]:
    """What a panel draws of a metric, by what its legend adds; of a histogram two lines."""
    if metric.kind != "histogram":
        return {"": expression(name, metric)}
    whole, by = f"{PREFIX}{name}", ", ".join(["instance", *metric.labels])
    rate = {part: f"rate({whole}_{part}{_SELECT}[5m])" for part in ("bucket", "sum", "count")}
    return {
        "p99": f"histogram_quantile(0.99, sum by (le, {by}) ({rate['bucket']}))",
        "mean": f"sum by ({by}) ({rate['sum']}) / sum by ({by}) ({rate['count']})",
    }


def expression(name: str, metric: Metric) -> str:
    """The same of a metric that is no histogram."""
    whole = f"{PREFIX}{name}"
    by = ", ".join(["instance", *metric.labels])
    if metric.kind == "counter" or name == "process_cpu_seconds":
        return f"sum by ({by}) (rate({whole}{_SELECT}[5m]))"
    if name in _SINCE:
        return f"time() - ({whole}{_SELECT} > 0)"
    if name == "tls_end_seconds":
        return f"{whole}{_SELECT} - time()"
    return f"{whole}{_SELECT}"


def unit(name: str, metric: Metric) -> str:
    """Grafana's word for the unit of what a panel draws."""
    if metric.kind == "counter":
        return "ops"
    if name.endswith("availability"):
        return "percentunit"
    if name == "auth_last_anonymous_write_seconds":
        return "dateTimeFromNow"
    return "bytes" if name.endswith("_bytes") else "s" if name.endswith("_seconds") else "short"


def panel(number: int, name: str, metric: Metric, x: int, y: int) -> dict[str, Any]:
    """One panel of a metric."""
    legend = " ".join(["{{instance}}", *(f"{{{{{label}}}}}" for label in metric.labels)])
    return {
        "id": number,
        "type": "timeseries",
        "title": name.removesuffix("_total").replace("_", " "),
        "description": metric.help,
        "gridPos": {"x": x, "y": y, "w": _WIDTH, "h": _HEIGHT},
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "fieldConfig": {"defaults": {"unit": unit(name, metric), "min": 0}, "overrides": []},
        "targets": [
            {"refId": letter, "expr": expr, "legendFormat": f"{legend} {what}".rstrip()}
            for letter, (what, expr) in zip("AB", expressions(name, metric).items(), strict=False)
        ],
    }


def dashboard() -> dict[str, Any]:
    """The whole dashboard."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, names in ROWS.items():
        panels.append({"id": len(panels) + 1, "type": "row", "title": title, "collapsed": False, "panels": [],
                       "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}})  # fmt: skip
        y += 1
        for at, name in enumerate(names):
            x, line = at % 3 * _WIDTH, at // 3 * _HEIGHT
            panels.append(panel(len(panels) + 1, name, METRICS[name], x, y + line))
        y += -(-len(names) // 3) * _HEIGHT
    return {
        "uid": "mqregistry",
        "title": "mqregistry",
        "tags": ["mqregistry", "rocketmq"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus"},
                {"name": "namespace", "type": "query", "multi": True, "includeAll": True, "refresh": 2,
                 "datasource": {"type": "prometheus", "uid": "${datasource}"},
                 "query": f"label_values({PREFIX}ready, namespace)", "current": {"text": "All", "value": "$__all"}},
            ]
        },
        "panels": panels,
    }  # fmt: skip


def text() -> str:
    """The file's content."""
    return json.dumps(dashboard(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
