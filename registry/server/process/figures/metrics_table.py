"""The table of metrics: the name, kind, labels and meaning of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from ....histograms import BOUNDS_S, Told

PREFIX: Final = "mqregistry_"


class Series(NamedTuple):
    """One value of one metric; ``label_value`` is empty when it has no label."""

    name: str
    label_value: str
    value: float
    counts: Sequence[int] = ()  # of a histogram, by bucket (BOUNDS_S); its value is the sum
    second: str = ""  # the value of the second label, if the metric has one; third: of the third label
    third: str = ""


class Metric(NamedTuple):
    """One documented metric; ``label`` names its labels, if it has any, with a comma between them."""

    kind: Literal["counter", "gauge", "histogram"]
    help: str
    label: str = ""

    @property
    def labels(self) -> list[str]:
        """The names of the metric's labels."""
        return self.label.split(",") if self.label else []


# Everything that /metrics shows, without the prefix. docs/metrics.md is this table; a test holds both together.
METRICS: Final[Mapping[str, Metric]] = {
    "requests_total": Metric(
        "counter",
        "Requests that were answered, by request code and result: the response code's name in small letters, as "
        "success, system_error.",
        "code,result",
    ),
    "request_seconds": Metric(
        "histogram",
        "Time from a request to its answer in a worker: heartbeat, registration, write, read, lookup (only a sample, "
        "until the end of the event loop's turn).",
        "group",
    ),
    "lookups_total": Metric("counter", "Route lookups (105) by result: found, not_found, error.", "result"),
    "stale_answers_total": Metric("counter", "Answers from tables that may be old, because Redis was away."),
    "registrations_total": Metric(
        "counter", "Registrations (103) by path: unchanged, changed, refused, error.", "path"
    ),
    "bad_frames_total": Metric("counter", "Connections closed for bytes that are no frame."),
    "slow_clients_total": Metric("counter", "Connections closed because the client did not read."),
    "connections_closed_total": Metric(
        "counter",
        "Connections that were closed: by the client, late (by the client while this process was paused), idle, "
        "bad_frame, slow_frame, slow_client, handshake, tls, too_many, rate, memory, rules, broker_expired, shutdown.",
        "reason",
    ),
    "tls_end_seconds": Metric(
        "gauge",
        "When the first of these expires, in seconds since 1970: certificate (with its chain), trusted (certificates "
        "of CAs), revoked (revocation lists).",
        "what",
    ),
    "rate_seen_total": Metric(
        "counter", "Connections, writes and new brokers that a limit counted; limit: its setting.", "limit"
    ),
    "rate_exceeded_total": Metric("counter", "How many of these were over the limit, refused or not.", "limit"),
    "rate_refused_total": Metric("counter", "How many of these were refused, in mode enforce.", "limit"),
    "rate_addresses": Metric("gauge", "Addresses whose rates are kept, counted once for each kind of limit."),
    "auth_decisions_total": Metric(
        "counter",
        "Decisions on requests by result: allowed, refused, would_be_refused; lookups from the cache are not counted.",
        "result",
    ),
    "auth_failures_total": Metric("counter", "Requests that were or would be refused, by reason.", "reason"),
    "auth_revision": Metric("gauge", "Revision of the rules on who may do what; the lowest of the workers."),
    "auth_last_anonymous_write_seconds": Metric(
        "gauge", "When an anonymous sender last changed something, in seconds since 1970; 0: never, or the mode is off."
    ),
    "brokers_expired_total": Metric("counter", "Brokers that a sweeper of this process removed for silence."),
    "brokers_reaped_total": Metric(
        "counter", "Brokers that a sweeper of this process removed because the worker with their connection had died."
    ),
    "script_seconds": Metric("histogram", "Time that this process waits for Lua scripts.", "script"),
    "redis_read_seconds": Metric("histogram", "Time that this process waits for plain reads of Redis."),
    "redis_failures_total": Metric(
        "counter", "Calls of Redis that failed: away (no answer, or no writes now), refused (an error).", "kind"
    ),
    "view_seq": Metric("gauge", "Number of the last change in the tables; the lowest of the workers."),
    "view_lag_seconds": Metric("gauge", "Age of the last change when it was applied; the highest of the workers."),
    "change_visible_seconds": Metric("histogram", "Age of each change when a worker had applied it."),
    "view_stale": Metric("gauge", "Workers whose tables may be old."),
    "view_rebuilds_total": Metric("counter", "How often a worker read all tables from Redis."),
    "redis_away": Metric("gauge", "Workers that cannot reach Redis."),
    "grace": Metric("gauge", "1 while no broker is removed for silence, after an outage of Redis or its start."),
    "broker_overdue_seconds": Metric(
        "gauge", "How long ago a silent broker should have been removed; more than a few seconds: no sweeper runs."
    ),
    "brokers_alive": Metric("gauge", "Broker processes in the tables."),
    "topics": Metric("gauge", "Topics in the tables."),
    "channels": Metric("gauge", "Broker connections that this front end owns."),
    "closes_pending": Metric("gauge", "Closed broker connections that Redis does not know of yet."),
    "leases": Metric("gauge", "Workers of this front end that hold their lease."),
    "connections": Metric("gauge", "Open connections."),
    "held_bytes": Metric("gauge", "Bytes of unfinished frames, waiting requests and unread answers."),
    "workers": Metric("gauge", "Worker processes that answer."),
    "log_lines_dropped_total": Metric(
        "counter", "Lines of the log that were left out, because nobody read stderr, or the log file took none."
    ),
    "worker_restarts_total": Metric("counter", "Worker processes that ended by themselves and were started again."),
    "stream_entries": Metric("gauge", "Entries of the journal's streams: changes, heartbeats, lookups.", "stream"),
    "stream_bytes": Metric("gauge", "Bytes of the entries of a stream; heartbeats are not counted.", "stream"),
    "stream_reader_behind": Metric(
        "gauge", "Entries that a reader has not acknowledged; exact for changes, else an estimate.", "reader,stream"
    ),
    "stream_reader_behind_seconds": Metric(
        "gauge", "Time from the entry that a reader acknowledged last to the stream's last entry.", "reader,stream"
    ),
    "stream_reader_lost": Metric("gauge", "1 when a reader cannot go on without a gap.", "reader,stream"),
    "stream_reader_silent_seconds": Metric("gauge", "Time since a reader was last heard of.", "reader"),
    "stream_alarms_total": Metric(
        "counter", "Alarms about readers that a sweeper of this process raised: near, lost, silent.", "alarm"
    ),
    "changes_total": Metric(
        "counter", "Changes of the tables that this front end has seen, by type of event (docs/events.md).", "type"
    ),
    "brokers": Metric(
        "gauge", "Broker processes by role: master, slave; clusters beyond a hundred count as other.", "cluster,role"
    ),
    "broker_names_without_master": Metric("gauge", "Broker names that have addresses, and no master."),
    "topics_unwritable": Metric(
        "gauge", "Topics, except RocketMQ's own, for which a producer finds no queue; counted twice a minute."
    ),
    "broker_heard_seconds": Metric(
        "gauge",
        "Time since a broker process was last heard; brokerMetrics limits how many processes are shown.",
        "cluster,broker_name,address",
    ),
    "front_ends": Metric(
        "gauge", "Front ends of the namespace by state, as Redis knows them: ready, not_ready, draining, gone.", "state"
    ),
    "sweepers": Metric("gauge", "Sweepers of the namespace that swept within ten seconds, as Redis knows them."),
    "last_sweep_seconds": Metric(
        "gauge", "When the sweeper of this process last swept, in seconds since 1970; 0: it has not."
    ),
    "sweep_seconds": Metric("histogram", "Time of the passes of a sweeper of this process."),
    "sweep_failures_total": Metric("counter", "Passes that failed, and were tried again."),
    "redis_memory_bytes": Metric("gauge", "Memory that Redis uses (used_memory)."),
    "redis_memory_limit_bytes": Metric("gauge", "Memory that Redis may use (maxmemory); 0: no limit."),
    "redis_clients": Metric("gauge", "Connections to Redis (connected_clients)."),
    "redis_replicas": Metric("gauge", "Replicas of Redis that are connected (connected_slaves)."),
    "redis_persistence_failing": Metric(
        "gauge", "1 while Redis cannot write its append-only file or its snapshot; it may then refuse writes."
    ),
    "loop_lag_seconds": Metric(
        "gauge", "The longest delay of a worker's event loop in the last second; the highest of the workers."
    ),
    "loop_delay_seconds": Metric("histogram", "How late the workers' event loops came back from pauses of 50 ms."),
    "process_cpu_seconds": Metric(
        "gauge", "Processor time that a process has used; worker: its number, or sweeper, or pipeline.", "worker"
    ),
    "process_resident_memory_bytes": Metric(
        "gauge", "Resident memory of a process; worker: its number, or sweeper, or pipeline.", "worker"
    ),
    "pipeline_behind_seconds": Metric(
        "gauge",
        "Time from the last entry of a stream in the lake to the stream's last entry, as the last round found it.",
        "stream",
    ),
    "pipeline_rows_total": Metric("counter", "Entries of a stream that this pipeline brought into the lake.", "stream"),
    "pipeline_quarantined_total": Metric(
        "counter", "Entries of a stream that could not be read; the lake's table quarantine has them.", "stream"
    ),
    "pipeline_rounds_total": Metric(
        "counter",
        "Rounds by result: done, redis_away, worker_late (tried again), failed (the pipeline ends).",
        "result",
    ),
    "pipeline_last_round_seconds": Metric(
        "gauge", "When the last round succeeded, in seconds since 1970; 0: none has."
    ),
    "pipeline_round_duration_seconds": Metric("gauge", "How long the last successful round took."),
    "pipeline_seq": Metric("gauge", "Number of the last change in the lake's tables; sum over all namespaces."),
    "pipeline_availability": Metric(
        "gauge", "Share of the lake's last whole hour in which a cluster's brokers were registered.", "cluster"
    ),
    "pipeline_write_availability": Metric(
        "gauge", "Share of that hour in which a cluster's brokers had a master and a writable queue.", "cluster"
    ),
    "pipeline_outages": Metric("gauge", "How often a broker of a cluster went away in that hour.", "cluster"),
    "pipeline_flaps": Metric("gauge", "How often such a broker was back within five minutes.", "cluster"),
    "pipeline_missed_beats": Metric("gauge", "Heartbeats that were due in that hour and did not come.", "cluster"),
    "pipeline_resilience": Metric(
        "gauge",
        "Share of the lake's last 30 days in which the loss of any one broker, host or zone would have left a topic "
        "writable; only the ten worst topics.",
        "topic",
    ),
    "build_info": Metric("gauge", "1; release: of this process.", "release"),
    "ready": Metric("gauge", "1 when /readyz answers 200."),
    "start_time_seconds": Metric("gauge", "When this process started, in seconds since 1970."),
}

OF_PIPELINE: Final = frozenset(name for name in METRICS if name.startswith("pipeline_"))
"""The metrics that only ``mqregistry pipeline run`` has."""

OF_WORKERS: Final[Mapping[str, Callable[[Iterable[float]], float]]] = {
    **dict.fromkeys(("view_seq", "auth_revision"), min),
    **dict.fromkeys(
        ("view_stale", "channels", "closes_pending", "connections", "held_bytes", "rate_addresses"), sum
    ),
    **dict.fromkeys(
        (
            "view_lag_seconds", "grace", "broker_overdue_seconds", "brokers_alive", "topics",
            "broker_names_without_master", "topics_unwritable", "loop_lag_seconds",
            "auth_last_anonymous_write_seconds",
        ), max,
    ),
}  # fmt: skip
"""Gauges that each worker sends, and how /metrics combines the workers' values."""

_SERIES: Final = re.compile(r'(\w+)(?:\{\w+="([^"]*)"(?:,\w+="([^"]*)")?\})?')


def of_counters(counted: Mapping[str, float]) -> Iterator[Series]:
    """The series of counters; each key is a metric with its labels, as on the page of /metrics."""
    for series, value in sorted(counted.items()):
        match = _SERIES.fullmatch(series)
        if match is not None:
            yield Series(match[1], match[2] or "", float(value), second=match[3] or "")


def of_durations(durations: Mapping[str, Told]) -> Iterator[Series]:
    """The series of histograms; their keys are like those of :func:`of_counters`."""
    for series, (counts, total_s) in sorted(durations.items()):
        match = _SERIES.fullmatch(series)
        if match is not None and len(counts) == len(BOUNDS_S) + 1:
            yield Series(match[1], match[2] or "", total_s, counts)
