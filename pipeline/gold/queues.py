"""Works out what hours say of topics, brokers and clusters from queue data, in one pass over silver's largest table.

:func:`figures` is given all rows of some topics and works on all of them at once; Spark calls it for as many groups
of topics as there are. What concerns brokers and clusters comes out in parts, to be added up over groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .spans import (  # fmt: skip
    NEVER,
    Flags,
    Ints,
    Periods,
    Spans,
    count_per_period,
    expand,
    ints,
    overlaps,
    per_period,
    union,
    without,
)

# kind of a row, and which columns it uses
TOPIC: Final = "topic"  # name: the topic; at_ms: the hour; all but end_ms
BROKER: Final = "broker"  # name: the broker; at_ms; write_queues, changes
CLUSTER: Final = "cluster"  # name: the cluster; at_ms; brokers: topics that its brokers have at the end of the hour
SPAN: Final = "span"  # name: the broker; from at_ms to end_ms it has writable queue data among these

COLUMNS: Final = ("topic", "broker_name", "from_seq", "write_queue_nums", "perm")  # of silver, with the moments
RESULT: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("name", pa.string()),
        *(
            (name, pa.int64())
            for name in ("at_ms", "end_ms", "routable_ms", "writable_ms", "changes", "brokers", "write_queues")
        ),
        ("queue_cv", pa.float64()),
        ("queue_max_mean", pa.float64()),
    ]
)
_EXPANDED: Final = 4_000_000  # rows times periods that are looked at together: bounds the memory


class Brokers(NamedTuple):
    """What the work on queue data needs to know of brokers; sent to every task.

    names: sorted. masters: when each has an address under id 0. clusters: names; cluster[broker, period]: the cluster
    that the broker's row named last, as of the end of the period, -1: none yet. present: the same shape. holes: from
    when to when nobody knows anything, rising.
    """

    names: pa.Array
    masters: Spans
    clusters: list[str]
    cluster: Ints
    present: Flags
    holes: Sequence[tuple[int, int]] = ()


def figures(rows: pa.Table, brokers: Brokers, when: Periods, since: int, snapshots: Sequence[int]) -> pa.Table:
    """All rows of some topics to RESULT rows.

    Args:
        rows: topic, broker_name, from_ms, to_ms (null: holds), from_seq, write_queue_nums, perm.
        when: the hours to work out, which ``brokers`` is about.
        since: from when it is wanted which brokers have writable queue data.
        snapshots: rows that begin with one of these seqs did not change then: they were only seen.
    """
    topics, topic = _numbered(rows["topic"])
    broker = ints(pc.index_in(rows["broker_name"], brokers.names).fill_null(-1).to_numpy())
    start = rows["from_ms"].to_numpy()
    end = rows["to_ms"].fill_null(NEVER).to_numpy()
    queues = rows["write_queue_nums"].to_numpy()
    seen = np.isin(rows["from_seq"].to_numpy(), ints(snapshots))
    writable = ((rows["perm"].to_numpy() & 2) != 0) & (queues > 0)
    usable = writable & (broker >= 0)

    routable_spans = without(union(topic, start, end), brokers.holes)
    row, begin, finish = overlaps(broker[usable], start[usable], end[usable], brokers.masters)
    writable_spans = without(union(topic[usable][row], begin, finish), brokers.holes)

    spans = union(broker[usable], np.maximum(start[usable], since), end[usable])
    found = [
        _result(SPAN, len(spans.key), name=brokers.names.take(pa.array(spans.key)), at_ms=spans.start, end_ms=spans.end)
    ]
    for part in when.parts(max(1, _EXPANDED // max(1, len(topic)))):
        offset = (part.first - when.first) // when.step
        columns = slice(offset, offset + part.count)
        of_part = brokers._replace(cluster=brokers.cluster[:, columns], present=brokers.present[:, columns])
        changed = count_per_period(topic[~seen], start[~seen], part, len(topics))
        changed += count_per_period(topic, end, part, len(topics))
        # who is there at the end of each period
        last = part.last
        alive, period = expand(np.searchsorted(last, start), np.searchsorted(last, end))
        found.append(
            _topics(
                topics, part, per_period(routable_spans, part, len(topics)),
                per_period(writable_spans, part, len(topics)), changed, topic[alive], period, queues[alive],
            )
        )  # fmt: skip
        found.extend(_brokers(of_part, part, broker, start, end, seen, topic, alive, period, queues))
    return pa.concat_tables(found)


def writable_spans(parts: pa.Table, names: pa.Array) -> Spans:
    """When each broker (index of a name) has writable queue data, from the SPAN rows of all topics."""
    rows = parts.filter(pc.equal(parts["kind"], SPAN))
    return union(ints(pc.index_in(rows["name"], names).to_numpy()), rows["at_ms"].to_numpy(), rows["end_ms"].to_numpy())


def _numbered(column: pa.ChunkedArray) -> tuple[pa.Array, Ints]:
    """Distinct values, and which of them each row has."""
    encoded = column.combine_chunks().dictionary_encode()
    return encoded.dictionary, ints(encoded.indices.to_numpy(zero_copy_only=False))


def _result(kind: str, rows: int, **columns: object) -> pa.Table:
    """RESULT rows; columns that are not given are null."""
    arrays = [
        pa.array([kind] * rows, pa.string()) if field.name == "kind"
        else pa.array(columns[field.name], field.type) if field.name in columns
        else pa.nulls(rows, field.type)
        for field in RESULT
    ]  # fmt: skip
    return pa.Table.from_arrays(arrays, schema=RESULT)


def _topics(
    topics: pa.Array, when: Periods, routable: Ints, writable: Ints, changed: Ints, topic: Ints, period: Ints,
    queues: Ints,
) -> pa.Table:  # fmt: skip
    """Topic figures; topic, period, queues: of every queue data at the end of every period."""
    cell, cells = topic * when.count + period, len(topics) * when.count
    count = np.bincount(cell, minlength=cells)
    total = np.bincount(cell, queues, cells)
    squares = np.bincount(cell, queues.astype(np.float64) ** 2, cells)
    most = np.zeros(cells, dtype=np.int64)
    np.maximum.at(most, cell, queues)
    kept = np.flatnonzero((routable.ravel() > 0) | (changed.ravel() > 0) | (count > 0))
    count, total, squares, most = count[kept], total[kept], squares[kept], most[kept]
    cv, max_mean = skew(count, total, squares, most)
    return _result(
        TOPIC, len(kept), name=topics.take(pa.array(kept // when.count)), at_ms=when.start[kept % when.count],
        routable_ms=routable.ravel()[kept], writable_ms=writable.ravel()[kept], changes=changed.ravel()[kept],
        brokers=count, write_queues=total.astype(np.int64), queue_cv=cv, queue_max_mean=max_mean,
    )  # fmt: skip


def _brokers(
    brokers: Brokers, when: Periods, broker: Ints, start: Ints, end: Ints, seen: Flags, topic: Ints, alive: Ints,
    period: Ints, queues: Ints,
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
    kept = np.flatnonzero((total > 0) | (changed.ravel() > 0))
    # distinct (cluster, period, topic) among brokers that are present
    cluster = brokers.cluster.ravel()[cell]
    there = brokers.present.ravel()[cell] & (cluster >= 0)
    groups = ints(cluster[there]) * when.count + period[there]
    span = int(topic.max(initial=0)) + 1
    group, count = np.unique(np.unique(groups * span + topic[alive][there]) // span, return_counts=True)
    clusters = pa.array(brokers.clusters, pa.string())
    return [
        _result(
            BROKER, len(kept), name=brokers.names.take(pa.array(kept // when.count)),
            at_ms=when.start[kept % when.count], write_queues=total[kept], changes=changed.ravel()[kept],
        ),
        _result(
            CLUSTER, len(group), name=clusters.take(pa.array(group // when.count)),
            at_ms=when.start[group % when.count], brokers=count,
        ),
    ]  # fmt: skip


def skew(count: Ints, total: Ints, squares: Ints, most: Ints) -> tuple[pa.Array, pa.Array]:
    """Of ``count`` numbers: population standard deviation / mean, greatest / mean. Null where the mean is 0.

    Args:
        total: their sum.
        squares: the sum of their squares.
        most: the greatest.
    """
    none = total == 0
    mean = np.where(none, 1, total)
    cv = np.sqrt(np.maximum(count * squares - total**2, 0)) / mean
    return pa.array(cv, mask=none), pa.array(most * count / mean, mask=none)
