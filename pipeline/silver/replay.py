"""Replays one bucket: applies operations to its open rows and writes its new files. Runs here or in a task of Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from ..garbage import collection_paused
from ..lake.files import File
from ..lake.lake import Lake, owner
from . import head_bucket, topic_bucket
from .buckets import HEAD, KINDS, SNAPSHOT, SNAPSHOT_BEGINS, Payload, seq_of
from .cell_history import CellHistory, Moment
from .files import Bucket, Writer, read_held
from .tables import Content, Tables

_TAKE_EVERY_ROWS: Final = 200_000  # rows that ended are that many tuples at most, columns afterwards


class ReplayPlan(NamedTuple):
    """What a replay needs to know, wherever it runs.

    area: the folder of the tables. content, files: of silver before it, of all buckets. bits: how many there are.
    """

    lake: str
    namespace: str
    epoch: str
    area: str
    content: Content
    files: Mapping[str, Sequence[File]]
    bits: int


def tables_of(bucket: int) -> Sequence[str]:
    """Which tables have cells in a bucket."""
    return head_bucket.TABLES if bucket == HEAD else topic_bucket.TABLES


@collection_paused()
def replay(plan: ReplayPlan, bucket: int, parcels: Iterable[tuple[int, int, bytes]]) -> Bucket:
    """Apply operations to a bucket.

    Args:
        parcels: (order, ms, payload) in that order; what comes twice counts once.
    """
    lake = Lake(plan.lake)
    before = Tables(lake, plan.content, 0, plan.files)
    cells = {table: CellHistory(read_held(before, table, bucket)) for table in tables_of(bucket)}
    tables: head_bucket.HeadBucket | topic_bucket.TopicBucket
    if bucket == HEAD:
        tables = head_bucket.HeadBucket(cells, live_by_cluster=plan.content.compat == "5.x")
    else:
        tables = topic_bucket.TopicBucket(cells)

    writer = Writer(lake, plan.area, owner(plan.namespace, plan.epoch), bucket)
    busiest = cells["live" if bucket == HEAD else "queue_data"]
    decode, last, snapshot = msgspec.msgpack.Decoder(Payload).decode, -1, None
    for order, ms, payload in parcels:
        if order == last:
            continue
        last = order
        if payload == SNAPSHOT_BEGINS:
            snapshot = Moment(ms * 1000, seq_of(order), SNAPSHOT)
            for table in cells.values():
                table.begin_snapshot()
            tables.index()
            continue
        of_event = decode(payload)
        at = Moment(ms * 1000, seq_of(order), KINDS[of_event.kind], of_event.by)
        for operation in of_event.operations:
            tables.apply(operation, at)
        if len(busiest.ended) >= _TAKE_EVERY_ROWS:
            for name, table in cells.items():
                writer.take(name, table)
    if snapshot is not None:
        for table in cells.values():
            table.end_snapshot(snapshot)
    return writer.finish(cells)
