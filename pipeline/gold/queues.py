"""Works out the figures of topics, brokers and clusters from queue data, in one pass over silver's largest table.

:func:`figures` is given all rows of some topics and works on all of them at once; Spark calls it for as many groups
of topics as there are (``run.py``). What concerns brokers and clusters comes out in parts, to be added up over groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from .spans import (  # fmt: skip
    NEVER,
    Flags,
    Ints,
    Periods,
    Spans,
    count_per_period,
    expand,
    from_deltas,
    ints,
    overlaps,
    per_period,
    union,
    without,
)

# kind of a row, and which columns it uses
TOPIC: Final = "topic"  # name: the topic; grain, at_ms: period; all but delta
BROKER: Final = "broker"  # name: the broker, cluster: whose it is; present; write_queues, changes
CLUSTER: Final = "cluster"  # cluster; brokers: topics that its brokers have at the end of the period
DELTA: Final = "delta"  # name: the broker; at_ms: a moment; delta: of its number of writable queue data

COLUMNS: Final = ("topic", "broker_name", "from_seq", "write_queue_nums", "perm")  # of silver, with the moments
RESULT: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("name", pa.string()),
        ("cluster", pa.string()),
        ("grain", pa.string()),
        ("at_ms", pa.int64()),
        ("present", pa.bool_()),
        *((name, pa.int64()) for name in ("routable_ms", "writable_ms", "changes", "brokers", "write_queues", "delta")),
        ("queue_cv", pa.float64()),
        ("queue_max_mean", pa.float64()),
    ]
)
_EXPANDED: Final = 4_000_000  # rows times periods that are looked at together: bounds the memory


class Brokers(NamedTuple):
    """What the work on queue data needs to know of brokers; sent to every task.

    names: sorted. masters: when each has an address under id 0. clusters: names; cluster[grain][broker, period]: the
    cluster that the broker's row named last, as of the end of the period, -1: none yet. present: the same shape.
    holes: when nobody knows anything.
    """

    names: pa.Array
    masters: Spans
    clusters: list[str]
    cluster: dict[str, Ints]
    present: dict[str, Flags]
    holes: Sequence[tuple[int, int]] = ()


def figures(
    rows: pa.Table, brokers: Brokers, grains: dict[str, Periods], since: int, snapshots: Sequence[int]
) -> pa.Table:
    """All rows of some topics to RESULT rows.

    Args:
        rows: topic, broker_name, from_ms, to_ms (null: holds), from_seq, write_queue_nums, perm.
        grains: the periods to work out, by grain.
        since: from when the changes of a broker's writable queue data are wanted.
        snapshots: rows that begin with one of these seqs did not change then: they were only seen.
    """
    topics, topic = _numbered(rows["topic"])
    broker = _looked_up(rows["broker_name"], brokers.names)
    start = rows["from_ms"].to_numpy()
    end = rows["to_ms"].fill_null(NEVER).to_numpy()
    queues = rows["write_queue_nums"].to_numpy()
    seen = np.isin(rows["from_seq"].to_numpy(), ints(snapshots))
    writable = ((rows["perm"].to_numpy() & 2) != 0) & (queues > 0)
    usable = writable & (broker >= 0)

    routable_spans = without(union(topic, start, end), brokers.holes)
    row, begin, finish = overlaps(broker[usable], start[usable], end[usable], brokers.masters)
    writable_spans = without(union(topic[usable][row], begin, finish), brokers.holes)

    found = [_deltas(broker[usable], start[usable], end[usable], since, brokers)]
    for grain, when in grains.items():
        for part in when.parts(max(1, _EXPANDED // max(1, len(topic)))):
            offset = (part.first - when.first) // when.step
            columns = slice(offset, offset + part.count)
            place = brokers.cluster[grain][:, columns], brokers.present[grain][:, columns]
            changed = count_per_period(topic[~seen], start[~seen], part, len(topics))
            changed += count_per_period(topic, end, part, len(topics))
            # who is there at the end of each period
            last = part.last
            alive, period = expand(np.searchsorted(last, start), np.searchsorted(last, end))
            found.append(
                _topics(
                    topics, grain, part, per_period(routable_spans, part, len(topics)),
                    per_period(writable_spans, part, len(topics)), changed, topic[alive], period, queues[alive],
                )
            )  # fmt: skip
            found.extend(_brokers(brokers, grain, part, place, broker, start, end, seen, topic, alive, period, queues))
    return pa.concat_tables(found)


def _numbered(column: pa.ChunkedArray) -> tuple[pa.Array, Ints]:
    """Distinct values, and which of them each row has."""
    encoded = column.combine_chunks().dictionary_encode()
    return encoded.dictionary, ints(encoded.indices.to_numpy(zero_copy_only=False))


def _looked_up(column: pa.ChunkedArray, names: pa.Array) -> Ints:
    import pyarrow.compute as pc

    return ints(pc.index_in(column, names).fill_null(-1).to_numpy())


def _result(kind: str, rows: int, **columns: object) -> pa.Table:
    """RESULT rows; columns that are not given are null."""
    arrays = [
        pa.array([kind] * rows, pa.string()) if field.name == "kind"
        else pa.array(columns[field.name], field.type) if field.name in columns
        else pa.nulls(rows, field.type)
        for field in RESULT
    ]  # fmt: skip
    return pa.Table.from_arrays(arrays, schema=RESULT)


def _deltas(broker: Ints, start: Ints, end: Ints, since: int, brokers: Brokers) -> pa.Table:
    """How the number of writable queue data of each broker changes from ``since`` on, by moments where it does."""
    wanted = end > since
    broker, start, end = broker[wanted], np.maximum(start[wanted], since), end[wanted]
    closed = end < NEVER
    at = np.concatenate([broker * NEVER + start, broker[closed] * NEVER + end[closed]])
    one = np.concatenate([np.ones(len(start), np.int64), np.full(int(closed.sum()), -1, np.int64)])
    moments, index = np.unique(at, return_inverse=True)
    delta = np.bincount(index, one, len(moments)).astype(np.int64)
    kept = delta != 0
    moments, delta = moments[kept], delta[kept]
    return _result(
        DELTA, len(delta), name=brokers.names.take(pa.array(moments // NEVER)), at_ms=moments % NEVER, delta=delta
    )


def _topics(
    topics: pa.Array, grain: str, when: Periods, routable: Ints, writable: Ints, changed: Ints,
    topic: Ints, period: Ints, queues: Ints,
) -> pa.Table:  # fmt: skip
    """Topic figures; topic, period, queues: of every queue data at the end of every period."""
    cell, cells = topic * when.count + period, len(topics) * when.count
    count = np.bincount(cell, minlength=cells)
    total = np.bincount(cell, queues, cells)
    squares = np.bincount(cell, queues.astype(np.float64) ** 2, cells)
    most = np.zeros(cells, dtype=np.int64)
    np.maximum.at(most, cell, queues)
    kept = np.flatnonzero((routable.ravel() > 0) | (changed.ravel() > 0))
    count, total, squares, most = count[kept], total[kept], squares[kept], most[kept]
    none = total == 0
    with np.errstate(divide="ignore", invalid="ignore"):
        cv = np.sqrt(np.maximum(count * squares - total**2, 0)) / total
        max_mean = most * count / total
    return _result(
        TOPIC, len(kept), name=topics.take(pa.array(kept // when.count)), grain=pa.repeat(grain, len(kept)),
        at_ms=when.start[kept % when.count], routable_ms=routable.ravel()[kept], writable_ms=writable.ravel()[kept],
        changes=changed.ravel()[kept], brokers=count, write_queues=total.astype(np.int64),
        queue_cv=pa.array(cv, mask=none), queue_max_mean=pa.array(max_mean, mask=none),
    )  # fmt: skip


def _brokers(
    brokers: Brokers, grain: str, when: Periods, place: tuple[Ints, Flags],
    broker: Ints, start: Ints, end: Ints, seen: Flags, topic: Ints,
    alive: Ints, period: Ints, queues: Ints,
) -> list[pa.Table]:  # fmt: skip
    """Write queues and changes of each broker, topics of each cluster, as far as these topics go."""
    known, cells = len(brokers.names), len(brokers.names) * when.count
    if not known:
        return []
    ours = broker >= 0
    began = ours & ~seen
    changed = count_per_period(broker[began], start[began], when, known)
    changed += count_per_period(broker[ours], end[ours], when, known)
    here = ours[alive]
    alive, period = alive[here], period[here]
    cell = broker[alive] * when.count + period
    total = np.bincount(cell, queues[alive], cells).astype(np.int64)
    cluster, present = place[0].ravel(), place[1].ravel()
    kept = np.flatnonzero((((total > 0) & present) | (changed.ravel() > 0)) & (cluster >= 0))
    names = pa.array(brokers.clusters, pa.string())
    parts = _result(
        BROKER, len(kept), name=brokers.names.take(pa.array(kept // when.count)),
        cluster=names.take(pa.array(cluster[kept])), grain=pa.repeat(grain, len(kept)),
        at_ms=when.start[kept % when.count], present=present[kept], write_queues=total[kept],
        changes=changed.ravel()[kept],
    )  # fmt: skip
    # distinct (cluster, period, topic) among brokers that are present
    there = present[cell] & (cluster[cell] >= 0)
    groups = ints(cluster[cell][there]) * when.count + period[there]
    span = int(topic.max(initial=0)) + 1
    group, count = np.unique(np.unique(groups * span + topic[alive][there]) // span, return_counts=True)
    return [
        parts,
        _result(
            CLUSTER, len(group), cluster=names.take(pa.array(group // when.count)),
            grain=pa.repeat(grain, len(group)), at_ms=when.start[group % when.count], brokers=count,
        ),
    ]  # fmt: skip


def writable_spans(broker: Ints, ms: Ints, delta: Ints) -> Spans:
    """Where each broker has writable queue data, from the DELTA rows of all groups."""
    return from_deltas(broker, ms, delta)
