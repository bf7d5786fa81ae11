"""Replays one bucket: applies operations to its open rows and writes its new files. Runs here or in a task of Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from ..garbage import collection_paused
from ..lake.lake import Lake
from . import head_bucket, topic_bucket
from .buckets import HEAD, KINDS, SNAPSHOT, SNAPSHOT_BEGINS, Payload, seq_of
from .cell_history import CellHistory, Moment
from .files import Writer, read_held
from .manifest import OPEN, File, folder_of

_TAKE_EVERY_ROWS: Final = 200_000  # rows that ended are that many tuples at most, columns afterwards


class ReplayPlan(NamedTuple):
    """What a replay needs to know, wherever it runs.

    area: the folder of the tables. number: of the commit that is made. files: those of the last commit, of all buckets.
    """

    lake: str
    namespace: str
    epoch: str
    area: str
    number: int
    compat: str
    files: tuple[File, ...]


def tables_of(bucket: int) -> Sequence[str]:
    """Which tables have cells in a bucket."""
    return head_bucket.TABLES if bucket == HEAD else topic_bucket.TABLES


@collection_paused()
def replay(plan: ReplayPlan, bucket: int, parcels: Iterable[tuple[int, int, bytes]]) -> list[File]:
    """Apply operations to a bucket.

    Args:
        parcels: (order, ms, payload) in that order; what comes twice counts once.

    Returns:
        all files of the bucket after it.
    """
    lake = Lake(plan.lake)
    before = [file for file in plan.files if file.bucket == bucket]
    cells = {
        table: CellHistory(read_held(lake, table, (f for f in before if (f.table, f.state) == (table, OPEN))))
        for table in tables_of(bucket)
    }
    tables: head_bucket.HeadBucket | topic_bucket.TopicBucket
    if bucket == HEAD:
        tables = head_bucket.HeadBucket(cells, live_by_cluster=plan.compat == "5.x")
    else:
        tables = topic_bucket.TopicBucket(cells)

    def place(table: str, state: str) -> str:
        return folder_of(plan.area, table, state, plan.namespace, plan.epoch, plan.number)

    writer = Writer(lake, place, bucket, before)
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
