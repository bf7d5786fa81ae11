"""The table of metrics: the name, kind, labels and meaning of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

PREFIX: Final = "mqregistry_"


class Series(NamedTuple):
    """One value of one metric; ``label_value`` is empty when it has no label, ``times`` counts a summary.

    second, third: the values of the second and third label, where there are so many.
    """

    name: str
    label_value: str
    value: float
    times: int = 0
    second: str = ""
    third: str = ""


class Metric(NamedTuple):
    """One documented metric; ``label`` names its labels, if it has any, with a comma between them."""

    kind: Literal["counter", "gauge", "summary"]
    help: str
    label: str = ""

    @property
    def labels(self) -> list[str]:
        """The names of its labels."""
        return self.label.split(",") if self.label else []


# Everything that /metrics shows, without the prefix. docs/metrics.md is this table; a test holds both together.
METRICS: Final[Mapping[str, Metric]] = {
    "requests_total": Metric("counter", "Requests that were answered."),
    "lookups_total": Metric("counter", "Route lookups (105) by result: found, not_found, error.", "result"),
    "stale_answers_total": Metric("counter", "Answers given from a view that may be behind, because Redis was away."),
    "registrations_total": Metric(
        "counter", "Registrations (103) by path: unchanged, changed, refused, error.", "path"
    ),
    "bad_frames_total": Metric("counter", "Connections closed for bytes that are no frame."),
    "slow_clients_total": Metric("counter", "Connections closed because the client did not read."),
    "rate_seen_total": Metric(
        "counter", "Connections, writes and new brokers that a limit was asked about; limit: its setting.", "limit"
    ),
    "rate_exceeded_total": Metric("counter", "How many of them were over the limit, refused or not.", "limit"),
    "rate_refused_total": Metric("counter", "How many of them were refused: its mode is enforce.", "limit"),
    "rate_addresses": Metric("gauge", "Addresses whose rates are kept, counted once for each kind of limit."),
    "auth_decisions_total": Metric(
        "counter",
        "Decisions by result: allowed, refused, would_be_refused; without lookups known by their bytes.",
        "result",
    ),
    "auth_failures_total": Metric("counter", "Requests that were or would be refused, by reason.", "reason"),
    "auth_revision": Metric("gauge", "Revision of the rules on who may do what; the lowest of the workers."),
    "auth_last_anonymous_write_seconds": Metric(
        "gauge", "When somebody not known last changed something, in seconds since 1970; 0: never. Not in mode off."
    ),
    "auth_older_workers": Metric(
        "gauge", "Worker processes of releases without authentication that serve while the mode is enforce."
    ),
    "brokers_expired_total": Metric("counter", "Brokers that a sweeper of this process removed for silence."),
    "brokers_reaped_total": Metric("counter", "Brokers that a sweeper of this process removed after a dead worker."),
    "script_seconds": Metric("summary", "Time of the Lua scripts, as a worker waits for them.", "script"),
    "view_seq": Metric("gauge", "Change number that the view has reached; the lowest of the workers."),
    "view_lag_seconds": Metric("gauge", "Age of the last change when it was applied; the highest of the workers."),
    "view_stale": Metric("gauge", "Workers whose view may be behind."),
    "view_rebuilds_total": Metric("counter", "Times that a view was read again."),
    "redis_away": Metric("gauge", "Workers that cannot reach Redis."),
    "grace": Metric("gauge", "1 while nobody is removed for silence, after an outage or a start."),
    "broker_overdue_seconds": Metric(
        "gauge", "For how long a silent broker should have been removed; more than a few seconds: no sweeper runs."
    ),
    "brokers_alive": Metric("gauge", "Broker processes in the tables."),
    "topics": Metric("gauge", "Topics in the tables."),
    "channels": Metric("gauge", "Broker connections that this front end owns."),
    "closes_pending": Metric("gauge", "Closed broker connections that Redis does not know of yet."),
    "leases": Metric("gauge", "Workers of this front end that hold their lease."),
    "connections": Metric("gauge", "Open connections."),
    "held_bytes": Metric("gauge", "Bytes of unfinished frames, waiting requests and unread answers."),
    "workers": Metric("gauge", "Worker processes that answer."),
    "worker_restarts_total": Metric("counter", "Worker processes that ended by themselves and were started again."),
    "stream_entries": Metric("gauge", "Entries of the journal's streams: changes, heartbeats, lookups.", "stream"),
    "stream_bytes": Metric("gauge", "Bytes of the entries of a stream; heartbeats are not counted.", "stream"),
    "stream_reader_behind": Metric(
        "gauge", "Entries that a reader has not acknowledged; estimated but for changes.", "reader,stream"
    ),
    "stream_reader_behind_seconds": Metric(
        "gauge", "Time from what a reader acknowledged last to the stream's last entry.", "reader,stream"
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
    "topics_unwritable": Metric("gauge", "Topics of which a producer finds no queue; counted twice a minute."),
    "broker_heard_seconds": Metric(
        "gauge",
        "Time since a broker process was last heard; only of as many as brokerMetrics says.",
        "cluster,broker_name,address",
    ),
    "front_ends": Metric(
        "gauge", "Front ends of the namespace by state, as Redis knows them: ready, not_ready, draining, gone.", "state"
    ),
    "sweepers": Metric("gauge", "Sweepers of the namespace that swept within ten seconds, as Redis knows them."),
    "last_sweep_seconds": Metric(
        "gauge", "When the sweeper of this process last swept, in seconds since 1970; 0: it has not."
    ),
    "redis_memory_bytes": Metric("gauge", "Memory that Redis uses (used_memory)."),
    "redis_memory_limit_bytes": Metric("gauge", "Memory that Redis may use (maxmemory); 0: no limit."),
    "redis_clients": Metric("gauge", "Connections to Redis (connected_clients)."),
    "redis_replicas": Metric("gauge", "Replicas of Redis that are connected (connected_slaves)."),
    "redis_persistence_failing": Metric(
        "gauge", "1 while Redis cannot write its append-only file or its snapshot; it may then refuse writes."
    ),
    "loop_lag_seconds": Metric(
        "gauge", "How late a worker's event loop came back from a pause of a second; the highest of the workers."
    ),
    "process_cpu_seconds": Metric(
        "gauge", "Processor time that a worker process has used (sweeper: a sweeper by itself).", "worker"
    ),
    "process_resident_memory_bytes": Metric("gauge", "Resident memory of a worker process.", "worker"),
    "build_info": Metric("gauge", "1; release: of this process.", "release"),
    "ready": Metric("gauge", "1 when /readyz answers 200."),
    "start_time_seconds": Metric("gauge", "When this process started, in seconds since 1970."),
}
