"""Every table of the lake: its columns, their units, and what a row is. One place, for writers and readers alike.

- *bronze*: the streams' entries as they are, with the batch that brought them. Partitions: namespace, epoch, day (of
  Redis time, UTC).
- *silver*: the registry's tables with their validity. A row is one value of one cell, from the change that set it to
  the change that ended it; ``valid_to`` is null while it holds. Partitions: namespace, epoch, current (whether it
  holds), bucket.
- *gold*: figures per hour and per day. Partitions: namespace, epoch, period (see ``pipeline/gold/tables.py``).

Moments are Redis time (an event's ``ms``), written as timestamps in UTC; they never run backwards within an epoch: an
event after Redis' clock stepped back counts as of the latest moment before it. At an instant T a row holds when
``valid_from <= T < valid_to``. Rows of no length (several changes in one millisecond) are kept; no instant sees them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import pyarrow as pa

MOMENT: Final = pa.timestamp("us", tz="UTC")

_ID: Final = [
    pa.field("id_ms", pa.int64(), nullable=False),  # entry id <id_ms>-<id_n>
    pa.field("id_n", pa.int64(), nullable=False),
]
_RAW: Final = pa.field("e", pa.string(), nullable=False)  # the entry's JSON, as it was

BRONZE: Final = {
    "changes": pa.schema(
        [
            *_ID,
            pa.field("seq", pa.int64(), nullable=False),
            pa.field("ms", pa.int64(), nullable=False),
            pa.field("type", pa.string(), nullable=False),
            pa.field("part", pa.int32(), nullable=False),
            pa.field("parts", pa.int32(), nullable=False),
            _RAW,
        ]
    ),
    "heartbeats": pa.schema([*_ID, pa.field("ms", pa.int64(), nullable=False), _RAW]),
    "lookups": pa.schema([*_ID, pa.field("ms", pa.int64(), nullable=False), _RAW]),
}

# Entries that cannot be read, or are of a schema that this release does not know.
QUARANTINE: Final = pa.schema(
    [
        *_ID,
        pa.field("reason", pa.string(), nullable=False),
        pa.field("raw", pa.binary(), nullable=False),  # the value of field e; or all fields as JSON of base64 texts
    ]
)

# from_seq, to_seq: the changes that began and ended the row (a snapshot's rows begin with its seq).
# ended_by: type of the event that ended it; null while it holds.
# from_by, to_by: who caused these changes, as JSON like the event's (docs/events.md); null where it does not say.
_VALID: Final = [
    pa.field("valid_from", MOMENT, nullable=False),
    pa.field("valid_to", MOMENT),
    pa.field("from_seq", pa.int64(), nullable=False),
    pa.field("to_seq", pa.int64()),
    pa.field("ended_by", pa.string()),
    pa.field("from_by", pa.string()),
    pa.field("to_by", pa.string()),
]
AUTHORS: Final = ("from_by", "to_by")


def _silver(key: list[tuple[str, pa.DataType]], values: list[tuple[str, pa.DataType, bool]]) -> pa.Schema:
    return pa.schema(
        [
            *(pa.field(name, kind, nullable=False) for name, kind in key),
            *(pa.field(name, kind, nullable=nullable) for name, kind, nullable in values),
            *_VALID,
        ]
    )


_S: Final = pa.string()
_I: Final = pa.int64()

# What makes a cell of each table: its columns before these are the key, after them the value.
SILVER_KEYS: Final = {
    "broker_addr": ("broker_name", "broker_id"),
    "queue_data": ("topic", "broker_name"),
    "live": ("who", "broker_name"),
    "kv": ("kv_namespace", "key"),
    "broker_row": ("broker_name",),
    "cluster_member": ("cluster", "broker_name"),
    "mapping": ("topic", "broker_name"),
    "filter_server": ("who",),
    "kv_namespace": ("kv_namespace",),
    "config": ("key",),
}

SILVER: Final = {
    # one address of a broker row; cluster is the row's
    "broker_addr": _silver([("broker_name", _S), ("broker_id", _I)], [("cluster", _S, False), ("addr", _S, False)]),
    "queue_data": _silver(
        [("topic", _S), ("broker_name", _S)],
        [("read_queue_nums", _I, False), ("write_queue_nums", _I, False), ("perm", _I, False), ("flag", _I, False)],
    ),
    # what a broker process said of itself; who is <cluster>|<addr>
    "live": _silver(
        [("who", _S), ("broker_name", _S)],
        [
            ("cluster", _S, False),
            ("addr", _S, False),
            ("broker_id", _I, False),
            ("timeout_ms", _I, False),
            ("counter", _I, False),  # of its DataVersion
            ("timestamp", _I, False),  # of its DataVersion
            ("state_version", _I, False),
            ("ha", _S, True),
        ],
    ),
    "kv": _silver([("kv_namespace", _S), ("key", _S)], [("value", _S, False)]),
    "broker_row": _silver(
        [("broker_name", _S)], [("cluster", _S, False), ("zone", _S, True), ("acting", pa.bool_(), False)]
    ),
    "cluster_member": _silver([("cluster", _S), ("broker_name", _S)], []),
    "mapping": _silver([("topic", _S), ("broker_name", _S)], [("mapping", _S, False)]),
    "filter_server": _silver([("who", _S)], [("filter_servers", pa.list_(pa.string()), False)]),
    "kv_namespace": _silver([("kv_namespace", _S)], []),
    "config": _silver([("key", _S)], [("value", _S, False)]),
}  # fmt: skip


SILVER_VALUES: Final = {table: schema.names[: -len(_VALID)] for table, schema in SILVER.items()}
"""The columns of each table that say what a row is of, and what is so."""


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

# Figures; docs/pipeline.md says what each of them means.
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
    # What a broker was, from its first appearance on, without a gap. state: absent, read_only, writable.
    "broker_state": pa.schema(
        [
            pa.field("cluster", _S, nullable=False),
            pa.field("broker_name", _S, nullable=False),
            pa.field("state", _S, nullable=False),
            pa.field("valid_from", MOMENT, nullable=False),
            pa.field("valid_to", MOMENT),
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

_OWNER: Final = [pa.field("namespace", pa.string(), nullable=False), pa.field("epoch", pa.string(), nullable=False)]
BATCH: Final = pa.field("batch", pa.int64(), nullable=False)


class TableSchema(NamedTuple):
    """A Delta table: the columns that its files have, and those that it is partitioned by, namespace and epoch first.

    A partition's values are in Delta's log, and not in the files.
    """

    columns: pa.Schema
    partitions: pa.Schema


def _table(columns: Iterable[pa.Field], *partitions: pa.Field) -> TableSchema:
    return TableSchema(pa.schema(columns), pa.schema([*_OWNER, *partitions]))


_DAY: Final = pa.field("day", pa.string(), nullable=False)
_PERIOD: Final = pa.field("period", pa.string(), nullable=False)
_CURRENT: Final = pa.field("current", pa.bool_(), nullable=False)
_BUCKET: Final = pa.field("bucket", pa.int32(), nullable=False)

# name within the lake -> what it is
TABLES: Final = {
    **{f"bronze/{stream}": _table([*schema, BATCH], _DAY) for stream, schema in BRONZE.items()},
    "quarantine": _table(QUARANTINE, pa.field("stream", pa.string(), nullable=False), BATCH),
    # the tables of the registry as events, from which a past begins, or goes on after a gap
    "snapshot": _table(BRONZE["changes"]),
    **{f"silver/{name}": _table(schema, _CURRENT, _BUCKET) for name, schema in SILVER.items()},
    **{f"gold/{name}": _table(schema, _PERIOD) for name, schema in GOLD.items()},
    # how far each part of the pipeline is, as JSON: written after the tables that it speaks of
    "state": _table([pa.field("number", _I, nullable=False), pa.field("content", _S, nullable=False)],
                    pa.field("part", _S, nullable=False)),
}  # fmt: skip
