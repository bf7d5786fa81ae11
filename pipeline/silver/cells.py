"""Turns changes into rows for Spark: the cells that each change sets or ends, as ``registry/events/cells.py`` says.

An event says all that it does to topics. What it does to the *head* (brokers, clusters, live info, KV, settings) also
depends on earlier changes: so the rows of the head hold operations, which ``head.py`` applies.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, Final

import msgspec
import pyarrow as pa

from mqregistry.events.cells import DropBroker, DropQueueData, Operation, SetMappings, SetQueueData, SetRev, operations
from mqregistry.events.changes import UnknownChange, decode_change

from ..garbage import collection_paused
from ..lake.lake import LakeError

HEAD: Final = "head"
SNAPSHOT: Final = "snapshot"
_OPERATION_BITS: Final = 20  # of ``step``, for the operations of one event
_NO_VALUE: Final = (None,) * 6

_AT: Final = {
    "gone": pa.bool_(), "seq": pa.int64(),
    "step": pa.int64(),  # the order of operations within one seq
    "ms": pa.int64(), "kind": pa.string(), "by": pa.string(),
}  # fmt: skip
AT: Final = list(_AT)

# A row is one cell that is set, or is gone. topic null: the broker_name is gone from all its topics.
CELLS: Final = pa.schema([
    ("target", pa.string()),  # a table, or HEAD
    ("topic", pa.string()), ("broker_name", pa.string()),
    *((name, pa.int64()) for name in ("read_queue_nums", "write_queue_nums", "perm", "flag")),
    ("mapping", pa.string()),
    ("operations", pa.binary()),  # of HEAD
    *_AT.items(),
])  # fmt: skip


Spans = Sequence[tuple[int, int, int]]
"""(first seq, last seq, ms), in rising order: the time ms counts for these changes, not the time in their events."""


def _moment(spans: Spans, seq: int, ms: int) -> int:
    """The time that counts for a change whose event has ``ms``."""
    at = bisect_right(spans, seq, key=itemgetter(0)) - 1
    return spans[at][2] if at >= 0 and seq <= spans[at][1] else ms


def to_cells(batches: Iterator[pa.RecordBatch], spans: Spans, *, snapshot: bool) -> Iterator[pa.RecordBatch]:
    """Turn events (columns seq, ms, part, e) into rows of CELLS.

    Raises:
        LakeError: a change of an unknown type may not be ignored.
    """
    for batch in batches:
        with collection_paused():
            *numbers, texts = batch.columns
            columns = [*(column.to_pylist() for column in numbers), texts.cast(pa.binary()).to_pylist()]
            found = [row for event in zip(*columns, strict=True) for row in _of_event(spans, snapshot, *event)]
            yield to_batch(found, CELLS)


def _of_event(spans: Spans, snapshot: bool, seq: int, ms: int, part: int, e: bytes) -> Iterator[tuple[Any, ...]]:
    change = decode_change(e)
    try:
        done = operations(change)
    except UnknownChange as error:
        raise LakeError(f"{error}; a newer release wrote it: use that one") from error
    by = None if change.by is None or snapshot else change.by.encoded().decode()
    moment, kind = _moment(spans, seq, ms), SNAPSHOT if snapshot else change.type
    head: list[Operation] = []
    for step, operation in enumerate(done, part << _OPERATION_BITS):
        at = (seq, step, moment, kind, by)
        match operation:
            case SetQueueData():
                for topic, data in operation.queue_datas.items():
                    numbers = data.read_queue_nums, data.write_queue_nums, data.perm, data.topic_sys_flag
                    yield ("queue_data", topic, operation.broker_name, *numbers, None, None, False, *at)
            case DropQueueData():
                for topic in operation.topics:
                    yield ("queue_data", topic, operation.broker_name, *_NO_VALUE, True, *at)
            case SetMappings():
                for topic, name, text in operation.mappings:
                    yield ("mapping", topic, name, None, None, None, None, text, None, False, *at)
            case SetRev():
                pass  # silver has no revisions
            case _:
                head.append(operation)
                if type(operation) is DropBroker:
                    yield ("queue_data", None, operation.broker_name, *_NO_VALUE, True, *at)
    if head:
        yield (HEAD, *(None,) * 7, msgspec.msgpack.encode(head), None, *at)


def to_batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows as columns. (``zip(*rows)`` takes three times as long: the rows are its arguments.)"""
    arrays = [pa.array(list(map(itemgetter(at), rows)), type=field.type) for at, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
