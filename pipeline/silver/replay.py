"""One bucket, replayed: its open rows, the operations since, and the files that come of it. Runs where Spark wants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from pipeline import collector
from pipeline.lake import Lake
from pipeline.silver import head, topics
from pipeline.silver.cells import Cells, Moment
from pipeline.silver.files import Writer, read_held
from pipeline.silver.manifest import OPEN, File, folder_of
from pipeline.silver.ops import HEAD, KINDS, SNAPSHOT, HeadOp, TopicOp, seq_of

_TAKE_EVERY_ROWS: Final = 200_000  # rows that ended are that many tuples at most, columns afterwards


class Plan(NamedTuple):
    """What a replay needs to know, wherever it runs. batch: the folder of the commit that is made; files: those of the
    last commit, of all buckets.
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
    return head.TABLES if bucket == HEAD else topics.TABLES


@collector.off()
def replay(plan: Plan, bucket: int, ops: Iterable[tuple[int, int, bytes]]) -> list[File]:
    """Apply operations to a bucket.

    Args:
        ops: (order, ms, payload) in that order; what comes twice counts once.

    Returns:
        all files of the bucket after it.
    """
    lake = Lake(plan.lake)
    before = [file for file in plan.files if file.bucket == bucket]
    cells = {
        table: Cells(read_held(lake, table, (f for f in before if (f.table, f.state) == (table, OPEN))))
        for table in tables_of(bucket)
    }
    bucket_tables: Any
    if bucket == HEAD:
        bucket_tables = head.Head(cells, live_by_cluster=plan.compat == "5.x")
        reset = msgspec.msgpack.encode(HeadOp(KINDS.index(SNAPSHOT)))
    else:
        bucket_tables = topics.Topics(cells)
        reset = msgspec.msgpack.encode(TopicOp(KINDS.index(SNAPSHOT)))

    def place(table: str, state: str) -> str:
        return folder_of(plan.area, table, state, plan.namespace, plan.epoch, plan.number)

    writer = Writer(lake, place, bucket, before)
    busiest = cells["live" if bucket == HEAD else "queue_data"]
    apply, last, at = bucket_tables.apply, -1, None
    for order, ms, payload in ops:
        if order == last:
            continue
        last = order
        us = ms * 1000
        if payload == reset:
            at = Moment(us, seq_of(order), SNAPSHOT)
            for table in cells.values():
                table.begin_anew()
            bucket_tables.index()
            continue
        apply(payload, us, seq_of(order))
        if len(busiest.ended) >= _TAKE_EVERY_ROWS:
            for name, table in cells.items():
                writer.take(name, table)
    if at is not None:
        for table in cells.values():
            table.end_anew(at)
    return writer.finish(cells)
