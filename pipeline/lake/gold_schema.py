"""The figures of gold: every table's columns, their units, and what a row is; docs/pipeline.md says what each means."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

MOMENT: Final = pa.timestamp("us", tz="UTC")
_S: Final = pa.string()
_I: Final = pa.int64()


def _gold(columns: list[tuple[str, pa.DataType, bool]]) -> pa.Schema:
    """grain: ``hour`` or ``day``; period_start: UTC."""
    return pa.schema(
        [
            pa.field("grain", _S, nullable=False),
            pa.field("period_start", MOMENT, nullable=False),
            *(pa.field(name, kind, nullable=nullable) for name, kind, nullable in columns),
        ]
    )


_F: Final = pa.float64()

GOLD: Final = {
    "broker": _gold(
        [
            ("cluster", _S, False),
            ("broker_name", _S, False),
            *((name, _I, False) for name in ("observed_ms", "present_ms", "writable_ms")),
            ("availability", _F, True),
            ("write_availability", _F, True),
            ("outages", _I, False),
            ("recoveries", _I, False),
            ("recovery_ms_mean", _F, True),
            ("recovery_ms_max", _I, True),
            ("flaps", _I, False),
            ("unwritable_spells", _I, False),
            ("write_recoveries", _I, False),
            ("write_recovery_ms_mean", _F, True),
            ("write_recovery_ms_max", _I, True),
            ("write_flaps", _I, False),
            *((name, _I, False) for name in ("registrations", "expiries", "closes", "unregistrations", "reaps")),
        ]
    ),
    "heartbeat": _gold(
        [
            ("who", _S, False),
            ("broker_name", _S, True),
            *((name, _I, False) for name in ("beats", "refused", "front_ends")),
            *((f"interval_ms_{name}", _I, True) for name in ("p50", "p99", "max")),
            ("expected_ms", _I, True),
            ("missed_beats", _I, False),
        ]
    ),
    "topic": _gold(
        [
            ("topic", _S, False),
            *((name, _I, False) for name in ("routable_ms", "writable_ms", "lookups", "changes")),
            *((name, _I, False) for name in ("brokers", "write_queues")),
            ("queue_cv", _F, True),
            ("queue_max_mean", _F, True),
        ]
    ),
    "cluster": _gold(
        [
            ("cluster", _S, False),
            *((name, _I, False) for name in ("brokers", "topics", "write_queues", "changes")),
            ("queue_cv", _F, True),
            ("queue_max_mean", _F, True),
        ]
    ),
    "unused_topic": _gold([("topic", _S, False), ("routable_ms", _I, False)]),
    "missing_topic": _gold([("topic", _S, False), ("lookups", _I, False)]),
    # The state of a broker, from its first appearance on, without a gap: absent, read_only, writable.
    "broker_state": pa.schema(
        [
            pa.field("cluster", _S, nullable=False),
            pa.field("broker_name", _S, nullable=False),
            pa.field("state", _S, nullable=False),
            pa.field("valid_from", MOMENT, nullable=False),
            pa.field("valid_to", MOMENT),
        ]
    ),
    # How long a topic would have stayed writable whichever one broker, host or zone had been lost.
    "resilience": _gold(
        [
            ("topic", _S, False),
            *((name, _I, False) for name in ("routable_ms", "broker_loss_ms", "host_loss_ms", "zone_loss_ms")),
            ("any_loss_ms", _I, False),
            ("score", _F, True),
        ]
    ),
    # Lookups of a name; "topic", "unused_topic" and "missing_topic" are made of it.
    "lookup": _gold([("topic", _S, False), ("found", _I, False), ("missing", _I, False)]),
    # How a front end heard a process in an hour; "heartbeat" is made of it.
    "front_end_heartbeat": pa.schema(
        [
            pa.field("period_start", MOMENT, nullable=False),
            pa.field("who", _S, nullable=False),
            pa.field("front_end", _S, nullable=False),
            pa.field("broker_name", _S),
            pa.field("named_id_ms", _I),
            pa.field("named_id_n", _I),
            pa.field("beats", _I, nullable=False),
            pa.field("refused", _I, nullable=False),
            pa.field("intervals", pa.list_(pa.struct([("interval_ms", _I), ("beats", _I)]))),
            pa.field("periods", pa.list_(pa.struct([("request", _S), ("interval_ms", _I), ("beats", _I)]))),
        ]
    ),
    # What the last audit saw that found no difference; ids: stream -> the last entry that was compared, as JSON.
    "audited": pa.schema(
        [
            *(pa.field(name, _I, nullable=False) for name in ("seq", "now_ms")),
            pa.field("ids", _S, nullable=False),
        ]
    ),
    # What the last refresh saw.
    "refresh": pa.schema(
        [
            *(pa.field(name, _I, nullable=False) for name in ("begin_ms", "now_ms", "flap_ms", "seq")),
            pa.field("versions", _S, nullable=False),
        ]
    ),
    # stream_alarm events
    "alarm": pa.schema(
        [
            pa.field("at", MOMENT, nullable=False),
            pa.field("seq", _I, nullable=False),
            pa.field("alarm", _S),
            pa.field("reader", _S),
            pa.field("stream", _S),
        ]
    ),
}

_DAY: Final = pa.field("day", _S, nullable=False)
# A refresh replaces whole days.
FIGURES: Final = tuple(table for table in GOLD if table not in ("audited", "refresh"))
"""The tables with figures; the other two say how far an audit and a refresh were."""

GOLD_PARTITIONS: Final = {table: () if table in ("audited", "broker_state", "refresh") else (_DAY,) for table in GOLD}

GOLD_COMMENTS: Final = {
    "observed_ms": "time of which it is known what was", "present_ms": "time with an address",
    "writable_ms": "time in which messages were taken", "availability": "present_ms / observed_ms",
    "write_availability": "writable_ms / observed_ms", "outages": "absences that began",
    "recoveries": "absences that ended", "recovery_ms_mean": "how long these had been, mean",
    "recovery_ms_max": "how long these had been, longest", "flaps": "those that were shorter than flap_ms",
    "unwritable_spells": "stretches without a master or a writable queue that began",
    "write_recoveries": "such stretches that ended", "write_recovery_ms_mean": "how long these had been, mean",
    "write_recovery_ms_max": "how long these had been, longest",
    "write_flaps": "those that were shorter than flap_ms", "registrations": "events broker_registered",
    "expiries": "events broker_expired", "closes": "events broker_closed",
    "unregistrations": "events broker_unregistered", "reaps": "events broker_reaped",
    "beats": "signs of life", "refused": "registrations that were not taken",
    "front_ends": "how many front ends heard it", "interval_ms_p50": "from beat to beat at one front end, median",
    "interval_ms_p99": "the same, 99th percentile", "interval_ms_max": "the same, longest",
    "expected_ms": "the median interval, on that day, of the request that it sends most often",
    "periods": "the same between two beats by one request, registration or heartbeat",
    "missed_beats": "how many beats did not come",
    "routable_ms": "time with queue data", "lookups": "lookups of the topic",
    "changes": "queue data that began or ended", "brokers": "at the end of the period",
    "topics": "at the end of the period", "write_queues": "at the end of the period",
    "queue_cv": "standard deviation of write queues over brokers / mean",
    "queue_max_mean": "greatest number of write queues of a broker / mean",
    "broker_loss_ms": "time in which the loss of any one broker would have left it writable",
    "host_loss_ms": "the same of any one host", "zone_loss_ms": "the same of any one zone",
    "any_loss_ms": "the same of any one broker, host or zone", "score": "any_loss_ms / routable_ms",
    "found": "lookups that were answered with a route", "missing": "lookups of a name that was no topic",
    "front_end": "the front end that heard it", "named_id_ms": "of the last entry that had a brokerName",
    "named_id_n": "of the last entry that had a brokerName", "intervals": "how often each interval was",
    "now_ms": "end of observation", "flap_ms": "an absence shorter than this is a flap",
    "ids": "stream -> the last entry that was compared, as JSON",
    "versions": "of the tables that were read, as JSON", "state": "absent, read_only, writable or unknown",
    "at": "when (UTC)", "alarm": "what was wrong", "reader": "of the stream",
}  # fmt: skip
"""The meaning of columns that other layers do not have."""
