"""The schema of gold's tables: their columns and units; docs/pipeline.md defines each figure."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

MOMENT: Final = pa.timestamp("us", tz="UTC")
_S: Final = pa.string()
_I: Final = pa.int64()
_F: Final = pa.float64()


def columns(*named: tuple[str, pa.DataType] | tuple[str, pa.DataType, bool]) -> list[pa.Field]:
    """Columns by name, type, and whether they may be null (default: not)."""
    return [pa.field(column[0], column[1], nullable=len(column) > 2 and column[2]) for column in named]


def _gold(*named: tuple[str, pa.DataType] | tuple[str, pa.DataType, bool]) -> pa.Schema:
    """The schema of a table with figures per hour (grain ``hour``) and per day (``day``)."""
    return pa.schema(columns(("grain", _S), ("period_start", MOMENT), *named))


GOLD: Final = {
    "broker": _gold(
        ("cluster", _S), ("broker_name", _S), ("observed_ms", _I), ("present_ms", _I), ("writable_ms", _I),
        ("availability", _F, True), ("write_availability", _F, True), ("outages", _I), ("recoveries", _I),
        ("recovery_ms_mean", _F, True), ("recovery_ms_max", _I, True), ("flaps", _I), ("unwritable_spells", _I),
        ("write_recoveries", _I), ("write_recovery_ms_mean", _F, True), ("write_recovery_ms_max", _I, True),
        ("write_flaps", _I), ("registrations", _I), ("expiries", _I), ("closes", _I), ("unregistrations", _I),
        ("reaps", _I),
    ),
    "heartbeat": _gold(
        ("who", _S), ("broker_name", _S, True), ("beats", _I), ("refused", _I), ("front_ends", _I),
        ("interval_ms_p50", _I, True), ("interval_ms_p99", _I, True), ("interval_ms_max", _I, True),
        ("expected_ms", _I, True), ("missed_beats", _I),
    ),
    "topic": _gold(
        ("topic", _S), ("routable_ms", _I), ("writable_ms", _I), ("lookups", _I), ("changes", _I), ("brokers", _I),
        ("write_queues", _I), ("queue_cv", _F, True), ("queue_max_mean", _F, True),
    ),
    "cluster": _gold(
        ("cluster", _S), ("brokers", _I), ("topics", _I), ("write_queues", _I), ("changes", _I),
        ("queue_cv", _F, True), ("queue_max_mean", _F, True),
    ),
    "unused_topic": _gold(("topic", _S), ("routable_ms", _I)),
    "missing_topic": _gold(("topic", _S), ("lookups", _I)),
    # The states of a broker (absent, read_only, writable, unknown) from its first appearance on, without a hole.
    "broker_state": pa.schema(columns(
        ("cluster", _S), ("broker_name", _S), ("state", _S), ("valid_from", MOMENT), ("valid_to", MOMENT, True),
    )),
    "resilience": _gold(
        ("topic", _S), ("routable_ms", _I), ("broker_loss_ms", _I), ("host_loss_ms", _I), ("zone_loss_ms", _I),
        ("any_loss_ms", _I), ("score", _F, True),
    ),
    # "topic", "unused_topic" and "missing_topic" are computed from this table.
    "lookup": _gold(("topic", _S), ("found", _I), ("missing", _I)),
    # How a front end heard a process in an hour; "heartbeat" is computed from this table.
    "front_end_heartbeat": pa.schema(columns(
        ("period_start", MOMENT), ("who", _S), ("front_end", _S), ("broker_name", _S, True),
        ("named_id_ms", _I, True), ("named_id_n", _I, True), ("beats", _I), ("refused", _I),
        ("intervals", pa.list_(pa.struct([("interval_ms", _I), ("beats", _I)])), True),
        ("periods", pa.list_(pa.struct([("request", _S), ("interval_ms", _I), ("beats", _I)])), True),
    )),
    # What the last audit without differences had compared.
    "audited": pa.schema(columns(("seq", _I), ("now_ms", _I), ("ids", _S))),
    # What the last refresh had read.
    "refresh": pa.schema(columns(("begin_ms", _I), ("now_ms", _I), ("flap_ms", _I), ("seq", _I), ("versions", _S))),
    # Events of the type stream_alarm.
    "alarm": pa.schema(columns(
        ("at", MOMENT), ("seq", _I), ("alarm", _S, True), ("reader", _S, True), ("stream", _S, True),
    )),
}  # fmt: skip

FIGURES: Final = tuple(table for table in GOLD if table not in ("audited", "refresh"))
"""The tables with figures; the other two record the last audit and the last refresh."""

_DAY: Final = pa.field("day", _S, nullable=False)  # a refresh replaces whole days
GOLD_PARTITIONS: Final = {table: () if table in ("audited", "broker_state", "refresh") else (_DAY,) for table in GOLD}

GOLD_COMMENTS: Final = {
    "observed_ms": "time in which the state is known", "present_ms": "time with an address",
    "writable_ms": "time in which messages could be written", "availability": "present_ms / observed_ms",
    "write_availability": "writable_ms / observed_ms", "outages": "absences that began",
    "recoveries": "absences that ended", "recovery_ms_mean": "mean length of the absences that ended",
    "recovery_ms_max": "length of the longest absence that ended", "flaps": "absences that ended before flap_ms",
    "unwritable_spells": "stretches without a master or a writable queue that began",
    "write_recoveries": "stretches without a master or a writable queue that ended",
    "write_recovery_ms_mean": "mean length of the stretches in write_recoveries",
    "write_recovery_ms_max": "length of the longest stretch in write_recoveries",
    "write_flaps": "stretches in write_recoveries that ended before flap_ms",
    "registrations": "events broker_registered", "expiries": "events broker_expired",
    "closes": "events broker_closed", "unregistrations": "events broker_unregistered",
    "reaps": "events broker_reaped", "beats": "signs of life", "refused": "registrations that were refused",
    "front_ends": "how many front ends heard the process",
    "interval_ms_p50": "from beat to beat at one front end, median",
    "interval_ms_p99": "from beat to beat at one front end, 99th percentile",
    "interval_ms_max": "from beat to beat at one front end, longest",
    "expected_ms": "the day's median interval between two beats by the request that the process sends most often",
    "periods": "how often each interval between two beats by the same request (registration or heartbeat)",
    "missed_beats": "how many beats did not come",
    "routable_ms": "time with queue data", "lookups": "lookups of the topic",
    "changes": "queue data that began or ended", "brokers": "at the end of the period",
    "topics": "at the end of the period", "write_queues": "at the end of the period",
    "queue_cv": "standard deviation of write queues over brokers / mean",
    "queue_max_mean": "greatest number of write queues of a broker / mean",
    "broker_loss_ms": "time in which the loss of any one broker would have left the topic writable",
    "host_loss_ms": "like broker_loss_ms, for any one host", "zone_loss_ms": "like broker_loss_ms, for any one zone",
    "any_loss_ms": "like broker_loss_ms, for any one broker, host or zone", "score": "any_loss_ms / routable_ms",
    "found": "lookups that were answered with a route", "missing": "lookups of a name that was no topic",
    "front_end": "the front end that heard the process", "named_id_ms": "id of the last entry with a brokerName",
    "named_id_n": "id of the last entry with a brokerName",
    "intervals": "how often each interval from beat to beat", "now_ms": "end of observation",
    "flap_ms": "an absence shorter than this is a flap", "ids": "stream -> the last entry that was compared, as JSON",
    "versions": "table -> the version that was read, as JSON", "state": "absent, read_only, writable or unknown",
    "at": "when (UTC)", "alarm": "what was wrong", "reader": "the reader of the stream",
}  # fmt: skip
"""The meaning of columns that only gold has."""
