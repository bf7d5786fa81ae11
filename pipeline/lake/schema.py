"""The schema of every table of the lake, for writers and readers: its columns, their units, and what a row is.

- *bronze*: the streams' entries as they are, and the snapshots with which a past begins, or goes on after a gap.
- *silver*: the registry's tables with their validity, and the change up to which silver has them. A cell is one entry
  of a table, for example the queue data of a topic at a broker. A row is one value of a cell, from the change that set
  it to the change that ended it; ``valid_to`` is null while the value holds.
- *gold*: figures per hour and per day (``gold_schema.py``).

Moments are Redis time (an event's ``ms``), as timestamps in UTC. Within an epoch they never run backwards:
``silver/next_changes.py`` corrects them. A row holds at an instant T if ``valid_from <= T < valid_to``: rows of no
length (several changes in one millisecond) are kept, but hold at no instant.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, NamedTuple

import pyarrow as pa

from .gold_schema import GOLD, GOLD_COMMENTS, GOLD_PARTITIONS, MOMENT
from .gold_schema import columns as _columns

_S: Final = pa.string()
_I: Final = pa.int64()
_SHORT: Final = pa.int32()

_ID: Final = _columns(("id_ms", _I), ("id_n", _I))
# An entry that this release cannot read has a reason and its raw bytes, but no e.
_UNREAD: Final = _columns(("reason", _S, True), ("raw", pa.binary(), True))
_SAID: Final = pa.field("e", _S)

BRONZE: Final = {
    "changes": pa.schema([
        *_ID, *_columns(("seq", _I, True), ("ms", _I), ("type", _S, True)),
        *_columns(("part", _SHORT, True), ("parts", _SHORT, True)), _SAID, *_UNREAD,
    ]),
    "heartbeats": pa.schema([*_ID, *_columns(("ms", _I)), _SAID, *_UNREAD]),
    "lookups": pa.schema([*_ID, *_columns(("ms", _I)), _SAID, *_UNREAD]),
}  # fmt: skip

# A row with part 0 describes the snapshot; parts 1 to n are events that make the registry's tables.
_SNAPSHOT: Final = pa.schema(
    _columns(("seq", _I), ("ms", _I), ("type", _S), ("part", _SHORT), ("parts", _SHORT), ("e", _S))
)

_VALID: Final = _columns(
    ("valid_from", MOMENT), ("valid_to", MOMENT, True), ("from_seq", _I), ("to_seq", _I, True),
    ("ended_by", _S, True), ("from_by", _S, True), ("to_by", _S, True),
)  # fmt: skip
LATER: Final = ("valid_to", "to_seq", "ended_by", "to_by")
"""Null while a row holds."""

# The key columns of each table; its other columns are the value of a cell.
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
    "broker_addr": _columns(("broker_name", _S), ("broker_id", _I), ("cluster", _S), ("addr", _S)),
    "queue_data": _columns(
        ("topic", _S), ("broker_name", _S), ("read_queue_nums", _I), ("write_queue_nums", _I), ("perm", _I),
        ("flag", _I),
    ),
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

# A row for each step of silver; the row with the highest number says how far silver is.
PROGRESS: Final = pa.schema(_columns(
    ("number", _I), ("kind", _S), ("seq", _I), ("ms", _I), ("begin_ms", _I), ("compat", _S),
    ("observed_ms", _I, True), ("touched_ms", _I, True),
))  # fmt: skip

OWNER: Final = ("namespace", "epoch")


def day_text(ms: int) -> str:
    """The day (UTC) of a moment, as the column ``day`` has it."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d")


class TableSchema(NamedTuple):
    """A Delta table's columns, namespace and epoch first, and the names of the columns that partition it."""

    columns: pa.Schema
    partitions: tuple[str, ...]


def _table(columns: pa.Schema, *partitions: pa.Field) -> TableSchema:
    every = [*_columns(*((name, _S) for name in OWNER)), *columns, *partitions]
    return TableSchema(pa.schema(every), (*OWNER, *(field.name for field in partitions)))


# name within the lake -> schema
TABLES: Final = {
    **{f"bronze/{name}": _table(schema, pa.field("day", _S, nullable=False)) for name, schema in BRONZE.items()},
    "bronze/snapshot": _table(_SNAPSHOT),
    **{f"silver/{name}": _table(schema, pa.field("current", pa.bool_(), nullable=False))
       for name, schema in SILVER.items()},
    "silver/progress": _table(PROGRESS),
    "silver/gap": _table(pa.schema(_columns(("stream", _S), ("from_ms", _I), ("to_ms", _I)))),
    "silver/clock_step": _table(pa.schema(_columns(("seq", _I), ("from_ms", _I), ("to_ms", _I)))),
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
    "part": "one change may have several entries: the number of this one, from 1",
    "parts": "how many entries the change has",
    "e": "the entry's JSON, as it was; null if it cannot be read",
    "reason": "why the entry cannot be read; null if it can",
    "raw": "bytes of an entry that cannot be read: of its field e, or all fields as JSON of base64 texts",
    "valid_from": "since when the value holds (UTC)",
    "valid_to": "when the value ended (UTC); null while it holds",
    "from_seq": "the change that set the value; if a snapshot set it, the last change in the snapshot",
    "to_seq": "the change that ended the value; null while it holds",
    "ended_by": "type of the event that ended the value; null while it holds",
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
    "counter": "of the process's DataVersion",
    "timestamp": "of the process's DataVersion",
    "state_version": "of the process's DataVersion",
    "ha": "HOST:PORT of the process's HA service",
    "zone": "the broker's zone",
    "acting": "enableActingMaster",
    "mapping": "of a static topic, as JSON",
    "number": "rises by one; the highest counts",
    "kind": "snapshot, changes, backfill, observed or requarantine",
    "begin_ms": "since when the past is known, by the clock of Redis",
    "compat": "the RocketMQ release that the registry behaves like",
    "observed_ms": "up to when it is known that no change followed seq; null: not known",
    "touched_ms": "the earliest moment whose values this step changed; null: it changed none",
    "stream": "changes, heartbeats or lookups",
    "from_ms": "by the clock of Redis",
    "to_ms": "by the clock of Redis",
    "grain": "hour or day",
    "period_start": "of the period (UTC)",
}
"""The meaning of each column name, the same in every table."""
