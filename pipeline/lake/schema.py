"""Every table of the lake: its columns, their units, and what a row is. One place, for writers and readers alike.

- *bronze*: the streams' entries as they are, and the snapshots with which a past begins, or goes on after a gap.
- *silver*: the registry's tables with their validity. A row is one value of one cell, from the change that set it to
  the change that ended it; ``valid_to`` is null while it holds. And how far they are.
- *gold*: figures per hour and per day (``gold_schema.py``).

Moments are Redis time (an event's ``ms``), written as timestamps in UTC; they never run backwards within an epoch: an
event after Redis' clock stepped back counts as of the latest moment before it. At an instant T a row holds when
``valid_from <= T < valid_to``. Rows of no length (several changes in one millisecond) are kept; no instant sees them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, NamedTuple

import pyarrow as pa

from .gold_schema import GOLD as GOLD
from .gold_schema import GOLD_COMMENTS, GOLD_PARTITIONS
from .gold_schema import MOMENT as MOMENT
from .gold_schema import columns as _columns

_S: Final = pa.string()
_I: Final = pa.int64()


_ID: Final = _columns(("id_ms", _I), ("id_n", _I))
# An entry that cannot be read, or is of a schema that this release does not know, has a reason and raw, and no e.
_UNREAD: Final = _columns(("reason", _S, True), ("raw", pa.binary(), True))
_SAID: Final = pa.field("e", _S)

BRONZE: Final = {
    "changes": pa.schema(
        [
            *_ID,
            *_columns(("seq", _I, True), ("ms", _I), ("type", _S, True)),
            *_columns(("part", pa.int32(), True), ("parts", pa.int32(), True)),
            _SAID,
            *_UNREAD,
        ]
    ),
    "heartbeats": pa.schema([*_ID, *_columns(("ms", _I)), _SAID, *_UNREAD]),
    "lookups": pa.schema([*_ID, *_columns(("ms", _I)), _SAID, *_UNREAD]),
}

# The tables of the registry as events of one seq, parts 1 to n; and a row with part 0 that describes the snapshot.
SNAPSHOT: Final = pa.schema(
    _columns(("seq", _I), ("ms", _I), ("type", _S), ("part", pa.int32()), ("parts", pa.int32()), ("e", _S))
)

_VALID: Final = _columns(
    ("valid_from", MOMENT), ("valid_to", MOMENT, True), ("from_seq", _I), ("to_seq", _I, True),
    ("ended_by", _S, True), ("from_by", _S, True), ("to_by", _S, True),
)  # fmt: skip
LATER: Final = ("valid_to", "to_seq", "ended_by", "to_by")
"""Null while a row holds."""

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

_SILVER: Final = {
    # one address of a broker row; cluster is the row's
    "broker_addr": _columns(("broker_name", _S), ("broker_id", _I), ("cluster", _S), ("addr", _S)),
    "queue_data": _columns(
        ("topic", _S), ("broker_name", _S), ("read_queue_nums", _I), ("write_queue_nums", _I), ("perm", _I),
        ("flag", _I),
    ),
    # what a broker process said of itself
    "live": _columns(
        ("who", _S), ("broker_name", _S), ("cluster", _S), ("addr", _S), ("broker_id", _I), ("timeout_ms", _I),
        ("counter", _I), ("timestamp", _I), ("state_version", _I), ("ha", _S, True),
    ),
    "kv": _columns(("kv_namespace", _S), ("key", _S), ("value", _S)),
    "broker_row": _columns(("broker_name", _S), ("cluster", _S), ("zone", _S, True), ("acting", pa.bool_())),
    "cluster_member": _columns(("cluster", _S), ("broker_name", _S)),
    "mapping": _columns(("topic", _S), ("broker_name", _S), ("mapping", _S)),
    "filter_server": _columns(("who", _S), ("filter_servers", pa.list_(_S))),
    "kv_namespace": _columns(("kv_namespace", _S)),
    "config": _columns(("key", _S), ("value", _S)),
}  # fmt: skip

SILVER: Final = {table: pa.schema([*columns, *_VALID]) for table, columns in _SILVER.items()}
SILVER_VALUES: Final = {table: [column.name for column in columns] for table, columns in _SILVER.items()}
"""The key columns and the value columns of each table."""

# How far silver is: a row for each step, and the one with the highest number counts.
PROGRESS: Final = pa.schema(
    _columns(
        ("number", _I), ("kind", _S), ("seq", _I), ("ms", _I), ("begin_ms", _I), ("compat", _S),
        ("observed_ms", _I, True), ("touched_ms", _I, True),
    )
)  # fmt: skip
GAP: Final = pa.schema(_columns(("stream", _S), ("from_ms", _I), ("to_ms", _I)))
CLOCK_STEP: Final = pa.schema(_columns(("seq", _I), ("from_ms", _I), ("to_ms", _I)))

OWNER: Final = ("namespace", "epoch")


def day_text(ms: int) -> str:
    """The day (UTC) of a moment, as in the column ``day``."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d")


class TableSchema(NamedTuple):
    """A Delta table: its columns, namespace and epoch first, and those that it is partitioned by."""

    columns: pa.Schema
    partitions: tuple[str, ...]


def _table(columns: pa.Schema, *partitions: pa.Field) -> TableSchema:
    every = [*_columns(*((name, _S) for name in OWNER)), *columns, *partitions]
    return TableSchema(pa.schema(every), (*OWNER, *(field.name for field in partitions)))


# name within the lake -> what it is
TABLES: Final = {
    **{f"bronze/{name}": _table(schema, pa.field("day", _S, nullable=False)) for name, schema in BRONZE.items()},
    "bronze/snapshot": _table(SNAPSHOT),
    **{f"silver/{name}": _table(schema, pa.field("current", pa.bool_(), nullable=False))
       for name, schema in SILVER.items()},
    "silver/progress": _table(PROGRESS),
    "silver/gap": _table(GAP),
    "silver/clock_step": _table(CLOCK_STEP),
    **{f"gold/{name}": _table(schema, *GOLD_PARTITIONS[name]) for name, schema in GOLD.items()},
}  # fmt: skip

COMMENTS: Final = {
    **GOLD_COMMENTS,
    "namespace": "of the registry",
    "epoch": "one life of the registry's tables; a Redis that came back empty begins a new one",
    "day": "of the moment, UTC",
    "id_ms": "the stream entry's id is <id_ms>-<id_n>",
    "id_n": "the stream entry's id is <id_ms>-<id_n>",
    "seq": "number of the change",
    "ms": "when, by the clock of Redis",
    "type": "of the event",
    "part": "one change may be written in several entries: which of them this is, from 1",
    "parts": "in how many entries the change is written",
    "e": "the entry's JSON, as it was; null if it cannot be read",
    "reason": "why the entry cannot be read; null if it can",
    "raw": "bytes of an entry that cannot be read: of its field e, or all fields as JSON of base64 texts",
    "valid_from": "since when the value holds (UTC)",
    "valid_to": "since when it does not hold any more (UTC); null while it does",
    "from_seq": "the change that set the value; of a snapshot's rows the snapshot's",
    "to_seq": "the change that ended it; null while it holds",
    "ended_by": "type of the event that ended it; null while it holds",
    "from_by": "who caused from_seq, as JSON; null where the event does not say",
    "to_by": "who caused to_seq, as JSON; null where the event does not say",
    "current": "whether the value holds",
    "who": "a broker process: <cluster>|<addr>",
    "broker_name": "the brokerName",
    "broker_id": "the brokerId; 0 is the master",
    "cluster": "the cluster's name",
    "addr": "HOST:PORT of the broker",
    "perm": "4 readable, 2 writable, together 6",
    "flag": "topicSysFlag",
    "timeout_ms": "time without a heartbeat after which the process counts as gone",
    "counter": "of its DataVersion",
    "timestamp": "of its DataVersion",
    "state_version": "of its DataVersion",
    "ha": "HOST:PORT of its HA service",
    "zone": "the broker's zone",
    "acting": "enableActingMaster",
    "mapping": "of a static topic, as JSON",
    "number": "rises by one; the highest counts",
    "kind": "snapshot, changes, backfill, observed or requarantine",
    "begin_ms": "since when the past is known, by the clock of Redis",
    "compat": "the RocketMQ that the registry behaves like",
    "observed_ms": "up to when it is known that no change followed seq; null: not known",
    "touched_ms": "the earliest moment of which anything differs from before; null: nothing does",
    "stream": "changes, heartbeats or lookups",
    "from_ms": "by the clock of Redis",
    "to_ms": "by the clock of Redis",
    "grain": "hour or day",
    "period_start": "of the period (UTC)",
}
"""The meaning of each column name, the same in every table."""
