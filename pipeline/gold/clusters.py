"""Works out how evenly the write queues of each cluster are spread over its brokers. On arrays, without Spark."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..lake.schema import GOLD, MOMENT
from .queues import BROKER, CLUSTER, Brokers, skew
from .spans import HOUR_MS, Flags, Ints, Periods, count_per_period, ints


def figures(parts: pa.Table, grains: dict[str, tuple[Periods, Brokers]], hour_ms: int = HOUR_MS) -> pa.Table:
    """RESULT rows of mqregistry.pipeline.gold.queues, of whole days, to rows of GOLD["cluster"].

    Args:
        hour_ms: what the rows are made by.
    """
    brokers, clusters = (parts.filter(pc.equal(parts["kind"], kind)) for kind in (BROKER, CLUSTER))
    return pa.concat_tables(_figures(brokers, clusters, grain, *of, hour_ms) for grain, of in grains.items())


def _figures(rows: pa.Table, topics: pa.Table, grain: str, when: Periods, known: Brokers, hour_ms: int) -> pa.Table:
    names, cells = pa.array(known.clusters, pa.string()), len(known.clusters) * when.count

    def at_end(of: pa.Table, column: str, among: pa.Array) -> Ints:
        last = when.ends(of["at_ms"].to_numpy(), hour_ms)
        key = ints(pc.index_in(of["name"], among).to_numpy())
        return count_per_period(
            key[last], of["at_ms"].to_numpy()[last], when, len(among), of[column].to_numpy()[last]
        ).ravel()  # fmt: skip

    broker = ints(pc.index_in(rows["name"], known.names).to_numpy())
    changes = count_per_period(
        broker, rows["at_ms"].to_numpy(), when, len(known.names), rows["changes"].to_numpy()
    ).ravel()  # fmt: skip
    queues = at_end(rows, "write_queues", known.names)
    cluster, present = known.cluster.ravel(), known.present.ravel()
    some = cluster >= 0
    place = np.where(some, cluster * when.count + np.tile(np.arange(when.count), len(known.names)), 0)
    here = some & present
    count = np.bincount(place[here], minlength=cells)
    total = np.bincount(place[here], queues[here], cells)
    squares = np.bincount(place[here], queues[here].astype(np.float64) ** 2, cells)
    most = np.zeros(cells, dtype=np.int64)
    np.maximum.at(most, place[here], queues[here])
    changed = np.bincount(place[some], changes[some], cells).astype(np.int64)
    unknown = np.tile(_unknown(known, when), len(known.clusters))
    kept = np.flatnonzero(((count > 0) | (changed > 0)) & ~unknown)
    cv, max_mean = skew(count[kept], total[kept], squares[kept], most[kept])
    columns = {
        "grain": pa.repeat(grain, len(kept)),
        "period_start": pa.array(when.start[kept % when.count] * 1000).cast(MOMENT),
        "cluster": names.take(pa.array(kept // when.count)),
        "brokers": count[kept],
        "topics": at_end(topics, "brokers", names)[kept],
        "write_queues": total[kept].astype(np.int64),
        "changes": changed[kept],
        "queue_cv": cv,
        "queue_max_mean": max_mean,
    }
    schema = GOLD["cluster"]
    return pa.Table.from_arrays([pa.array(columns[f.name], f.type) for f in schema], schema=schema)


def _unknown(known: Brokers, when: Periods) -> Flags:
    """At the end of which periods nobody knows what was there."""
    found = np.zeros(when.count, dtype=bool)
    for start, end in known.holes:
        found |= (start <= when.last) & (when.last < end)
    return found
