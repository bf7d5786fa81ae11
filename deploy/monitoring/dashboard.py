"""Writes dashboard.json, the Grafana dashboard, from the table of metrics: ``python deploy/monitoring/dashboard.py``.

The twelve panels at the top show whether something is wrong (``FRONT``). Every other metric has a panel in a folded row
(``ROWS``). Each panel links to a page of the console, at the panel's moment. A test checks that the file is up to date,
and that it shows every metric of the table.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from mqregistry.server.process.figures.metrics_table import METRICS, PREFIX, Metric

FILE: Final = Path(__file__).with_name("dashboard.json")

ROWS: Final = {
    ("Health of each front end", "/front-ends"): (
        "ready", "redis_away", "view_stale", "grace", "workers", "worker_restarts_total", "log_lines_dropped_total",
        "last_sweep_seconds", "sweep_seconds", "sweep_failures_total",
    ),
    ("Brokers and topics", "/brokers"): (
        "brokers", "topics", "broker_names_without_master", "changes_total", "brokers_expired_total",
        "brokers_reaped_total", "channels", "closes_pending", "broker_heard_seconds",
    ),
    ("Requests and connections", "/front-ends"): (
        "requests_total", "request_seconds", "lookups_total", "registrations_total", "stale_answers_total",
        "connections", "held_bytes", "connections_closed_total", "bad_frames_total", "slow_clients_total",
        "loop_lag_seconds", "loop_delay_seconds", "tls_end_seconds",
    ),
    ("How far front ends are behind the changes", "/front-ends"): (
        "view_seq", "change_visible_seconds", "view_rebuilds_total", "leases",
    ),
    ("Redis", "/front-ends"): (
        "script_seconds", "redis_read_seconds", "redis_failures_total", "redis_memory_bytes",
        "redis_memory_limit_bytes", "redis_clients", "redis_replicas", "redis_persistence_failing",
    ),
    ("Streams and their readers", "/streams"): (
        "stream_entries", "stream_bytes", "stream_reader_behind", "stream_reader_behind_seconds", "stream_reader_lost",
        "stream_reader_silent_seconds", "stream_alarms_total",
    ),
    ("Pipeline", "/streams"): (
        "pipeline_behind_seconds", "pipeline_last_round_seconds", "pipeline_round_duration_seconds",
        "pipeline_rounds_total", "pipeline_rows_total", "pipeline_quarantined_total", "pipeline_seq",
    ),
    ("Availability in the last whole hour, from the lake", "/brokers"): (
        "pipeline_availability", "pipeline_write_availability", "pipeline_outages", "pipeline_flaps",
        "pipeline_missed_beats", "pipeline_resilience",
    ),
    ("Rights and limits", "/"): (
        "auth_decisions_total", "auth_failures_total", "auth_revision", "auth_last_anonymous_write_seconds",
        "rate_seen_total", "rate_exceeded_total", "rate_refused_total", "rate_addresses",
    ),
    ("Processes", "/front-ends"): (
        "process_cpu_seconds", "process_resident_memory_bytes", "start_time_seconds", "build_info",
    ),
}  # fmt: skip
_WIDTH: Final = 8  # three panels side by side in Grafana's 24 columns
_HEIGHT: Final = 7
CONSOLE: Final = "http://127.0.0.1:9880"  # where 'mqregistry console' listens
_PLACES: Final = (
    *((x, y, 6, 5) for y in (0, 5) for x in (0, 6, 12, 18)),
    (0, 10, 6, 5), (0, 15, 6, 5), (6, 10, 9, 10), (15, 10, 9, 10),
)  # fmt: skip
_SINCE: Final = ("start_time_seconds", "last_sweep_seconds", "pipeline_last_round_seconds")


class Query(NamedTuple):
    """One value of a panel at the top. steps: from this value on -> the colour."""

    name: str
    expr: str
    unit: str
    steps: dict[float, str]


class Front(NamedTuple):
    """A panel at the top. page: the console's page with details. graph: a line over time, else the last value."""

    title: str
    description: str
    page: str
    queries: tuple[Query, ...]
    graph: bool = False


_GOOD: Final = "green"
_LOOK: Final = "orange"
_BAD: Final = "red"
_NONE_IS_BAD: Final = {0: _BAD, 1: _GOOD}
_ANY_IS_BAD: Final = {0: _GOOD, 1: _BAD}
_NONE_IS_BAD_RATE: Final = {0: _BAD, 0.001: _GOOD}
_ANY_IS_BAD_RATE: Final = {0: _GOOD, 0.001: _BAD}


def _alerts() -> str:
    """A regular expression for the alerts of rules.yml."""
    groups = yaml.safe_load(FILE.with_name("rules.yml").read_text(encoding="utf-8"))["groups"]
    return "|".join(rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule)


def _of(name: str, **labels: str) -> str:
    """PromQL: a metric in the chosen namespaces. labels: further labels, as regular expressions."""
    more = "".join(f', {label}=~"{value}"' for label, value in labels.items())
    return f'{PREFIX}{name}{{namespace=~"$namespace"{more}}}'


def _told(name: str, by: str = "namespace", **labels: str) -> str:
    """PromQL for a value of Redis that every front end reports: the sum of the namespaces' highest."""
    return f"sum(max by ({by}) ({_of(name, **labels)}))"


def _p99(histogram: str, by: str, **labels: str) -> str:
    return f"histogram_quantile(0.99, sum by (le, {by}) (rate({_of(histogram + '_bucket', **labels)}[5m])))"


FRONT: Final = (
    Front(
        "Alerts that fire", "How many alerts of rules.yml fire now. What each means, what to do: docs/alerts.md.", "/",
        # the empty namespace is for NoFrontEnd when Prometheus knows no target
        (Query("alerts", f'count(ALERTS{{alertstate="firing", alertname=~"{_alerts()}", namespace=~"$namespace|"}}) '
               "or vector(0)", "short", _ANY_IS_BAD),),
    ),
    Front(
        "Brokers", "Broker processes in the tables, and how many fewer they are than in the hour before.", "/brokers",
        (Query("alive", _told("brokers_alive"), "short", _NONE_IS_BAD),
         Query("gone and not back", f"sum(max by (namespace) (max_over_time({_of('brokers_alive')}[1h]))) - "
               f"{_told('brokers_alive')}", "short", {0: _GOOD, 1: _LOOK, 3: _BAD}),
         Query("names without master", _told("broker_names_without_master"), "short", _ANY_IS_BAD)),
    ),
    Front(
        "Topics with nowhere to write to", METRICS["topics_unwritable"].help, "/topics?state=unwritable",
        (Query("topics", _told("topics_unwritable"), "short", _ANY_IS_BAD),),
    ),
    Front(
        "Front ends", "Ready front ends, and others that Redis still knows: not ready, draining, gone.",
        "/front-ends",
        (Query("ready", f"{_told('front_ends', state='ready')} or vector(0)", "short", {0: _BAD, 1: _LOOK, 2: _GOOD}),
         Query("others", _told("front_ends", "namespace, state", state="not_ready|draining|gone"), "short",
               {0: _GOOD, 1: _LOOK})),
    ),
    Front(
        "Front ends behind the changes",
        "Age of the last change when the slowest worker applied it, and workers whose tables may be old.",
        "/front-ends",
        (Query("lag", f"max({_of('view_lag_seconds')})", "s", {0: _GOOD, 1: _LOOK, 5: _BAD}),
         Query("workers that may be behind", f"sum({_of('view_stale')})", "short", _ANY_IS_BAD)),
    ),
    Front(
        "Redis", "Workers that cannot reach Redis; 99th percentile of a read; used share of maxmemory, if it is set.",
        "/front-ends",
        (Query("workers without Redis", f"sum({_of('redis_away')})", "short", _ANY_IS_BAD),
         Query("read p99", _p99("redis_read_seconds", "namespace"), "s", {0: _GOOD, 0.02: _LOOK, 0.25: _BAD}),
         Query("memory", f"max({_of('redis_memory_bytes')} / ({_of('redis_memory_limit_bytes')} > 0))",
               "percentunit", {0: _GOOD, 0.7: _LOOK, 0.85: _BAD})),
    ),
    Front(
        "Expiry of silent brokers", "Sweepers that run, and how long ago a silent broker should have been removed.",
        "/brokers?sort=left",
        (Query("sweepers", f"min(max by (namespace) ({_of('sweepers')}))", "short", _NONE_IS_BAD),
         Query("overdue", f"max({_of('broker_overdue_seconds')})", "s", {0: _GOOD, 5: _LOOK, 30: _BAD})),
    ),
    Front(
        "Readers of the streams",
        "How far the slowest reader (mostly the pipeline) is behind, and readers that lost entries.", "/streams",
        (Query("behind", f"max({_of('stream_reader_behind_seconds')})", "s", {0: _GOOD, 600: _LOOK, 3600: _BAD}),
         Query("lost entries", _told("stream_reader_lost", "namespace, reader, stream"), "short", _ANY_IS_BAD)),
    ),
    Front(
        "Lookups", "Route lookups a second that all front ends answer, and those answered with an error.", "/",
        (Query("a second", f"sum(rate({_of('lookups_total')}[5m]))", "reqps", _NONE_IS_BAD_RATE),
         Query("errors", f"sum(rate({_of('lookups_total', result='error')}[5m]))", "reqps", _ANY_IS_BAD_RATE)),
    ),
    Front(
        "Registrations", "Registrations and heartbeats at all front ends; failures were refused or ended in an error.",
        "/changes",
        (Query("a second", f"sum(rate({_of('registrations_total')}[5m]))", "reqps", _NONE_IS_BAD_RATE),
         Query("failures", f"sum(rate({_of('registrations_total', path='refused|error')}[5m]))", "reqps",
               _ANY_IS_BAD_RATE)),
    ),
    Front(
        "Lookups in vain a second", "For topics that do not exist, by front end. The console names topics and clients.",
        "/missing",
        (Query("{{instance}}", f"sum by (instance) (rate({_of('lookups_total', result='not_found')}[5m]))", "reqps",
               {0: _GOOD, 10: _LOOK, 100: _BAD}),), graph=True,
    ),
    Front(
        "Lookup, 99th percentile", "Time in a worker from the request to its answer, by front end.", "/front-ends",
        (Query("{{instance}}", _p99("request_seconds", "instance", group="lookup"), "s",
               {0: _GOOD, 0.01: _LOOK, 0.1: _BAD}),), graph=True,
    ),
)  # fmt: skip


def expressions(name: str, metric: Metric) -> dict[str, str]:
    """The queries of a metric's panel, by the text that each adds to the legend; a histogram has two."""
    if metric.kind != "histogram":
        return {"": expression(name, metric)}
    by = ", ".join(["instance", *metric.labels])
    total, count = (f"sum by ({by}) (rate({_of(name + part)}[5m]))" for part in ("_sum", "_count"))
    return {"p99": _p99(name, by), "mean": f"{total} / {count}"}


def expression(name: str, metric: Metric) -> str:
    """The query of a metric that is no histogram."""
    by = ", ".join(["instance", *metric.labels])
    if metric.kind == "counter" or name == "process_cpu_seconds":
        return f"sum by ({by}) (rate({_of(name)}[5m]))"
    if name in _SINCE:
        return f"time() - ({_of(name)} > 0)"
    if name == "tls_end_seconds":
        return f"{_of(name)} - time()"
    return _of(name)


def unit(name: str, metric: Metric) -> str:
    """Grafana's name of the unit of a metric's panel."""
    if metric.kind == "counter":
        return "ops"
    if name.endswith("availability"):
        return "percentunit"
    if name == "auth_last_anonymous_write_seconds":
        return "dateTimeFromNow"
    return "bytes" if name.endswith("_bytes") else "s" if name.endswith("_seconds") else "short"


def _base(number: int, title: str, description: str, kind: str, place: tuple[int, int, int, int]) -> dict[str, Any]:
    x, y, w, h = place
    return {
        "id": number, "type": kind, "title": title, "description": description,
        "gridPos": {"x": x, "y": y, "w": w, "h": h},
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
    }  # fmt: skip


def _links(page: str, at: str) -> list[dict[str, Any]]:
    """A link to a page of the console as it was then; ``at``: the variable of Grafana with the moment."""
    mark = "&" if "?" in page else "?"
    url = f"${{console:raw}}{page}{mark}at=${{{at}}}"
    return [{"title": "The console at that moment", "url": url, "targetBlank": True}]


def _thresholds(steps: dict[float, str]) -> dict[str, Any]:
    """The colours of a value in Grafana's form; the first colour has no lower limit."""
    return {
        "mode": "absolute",
        "steps": [
            {"color": color, "value": value if number else None} for number, (value, color) in enumerate(steps.items())
        ],
    }


def front_panel(number: int, one: Front, place: tuple[int, int, int, int]) -> dict[str, Any]:
    """A panel at the top."""
    first, several = one.queries[0], len(one.queries) > 1
    defaults: dict[str, Any] = {
        "unit": first.unit, "min": 0, "thresholds": _thresholds(first.steps), "noValue": "–",
        # a last value has no time: the link uses the end of the shown time
        "links": _links(one.page, "__value.time" if one.graph else "__to"),
    }  # fmt: skip
    overrides = [
        {
            "matcher": {"id": "byName", "options": query.name},
            "properties": [
                {"id": "unit", "value": query.unit},
                {"id": "thresholds", "value": _thresholds(query.steps)},
            ],
        }
        for query in one.queries[1:]
    ]
    options: dict[str, Any] = {}
    if one.graph:
        defaults["custom"] = {"thresholdsStyle": {"mode": "line"}}
    else:
        options = {
            "reduceOptions": {"calcs": ["lastNotNull"]}, "graphMode": "area",
            "colorMode": "value" if several else "background", "textMode": "value_and_name" if several else "value",
        }  # fmt: skip
    return _base(number, one.title, one.description, "timeseries" if one.graph else "stat", place) | {
        "fieldConfig": {"defaults": defaults, "overrides": overrides},
        "options": options,
        "targets": _targets([(query.name, query.expr) for query in one.queries]),
    }  # fmt: skip


def _targets(queries: list[tuple[str, str]]) -> list[dict[str, str]]:
    return [
        {"refId": letter, "expr": expr, "legendFormat": name}
        for letter, (name, expr) in zip("ABC", queries, strict=False)
    ]


def folded_panel(number: int, name: str, metric: Metric, page: str, place: tuple[int, int, int, int]) -> dict[str, Any]:
    """A panel of one metric in a folded row."""
    legend = " ".join(["{{instance}}", *(f"{{{{{label}}}}}" for label in metric.labels)])
    title = name.removesuffix("_total").replace("_", " ")
    queries = [(f"{legend} {what}".rstrip(), expr) for what, expr in expressions(name, metric).items()]
    return _base(number, title, metric.help, "timeseries", place) | {
        "fieldConfig": {
            "defaults": {"unit": unit(name, metric), "min": 0, "links": _links(page, "__value.time")}, "overrides": [],
        },
        "targets": _targets(queries),
    }  # fmt: skip


def dashboard() -> dict[str, Any]:
    """The whole dashboard."""
    places = enumerate(zip(FRONT, _PLACES, strict=True), 1)
    panels = [front_panel(number, one, place) for number, (one, place) in places]
    number, y = len(panels), max(y + height for _, y, _, height in _PLACES)
    for (title, page), names in ROWS.items():
        number, y = number + 1, y + 1
        row = {"id": number, "type": "row", "title": title, "collapsed": True, "panels": list[dict[str, Any]](),
               "gridPos": {"x": 0, "y": y - 1, "w": 24, "h": 1}}  # fmt: skip
        for at, name in enumerate(names):
            number += 1
            place = at % 3 * _WIDTH, y + at // 3 * _HEIGHT, _WIDTH, _HEIGHT
            row["panels"].append(folded_panel(number, name, METRICS[name], page, place))
        panels.append(row)
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
                {"name": "console", "label": "Address of the console", "type": "textbox", "query": CONSOLE,
                 "current": {"text": CONSOLE, "value": CONSOLE}},
            ]
        },
        "panels": panels,
    }  # fmt: skip


def text() -> str:
    """The file's content."""
    return json.dumps(dashboard(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
