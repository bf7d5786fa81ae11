"""Works out how evenly the write queues of each cluster are spread over its brokers. On arrays, without Spark."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from ..lake.schema import GOLD, MOMENT
from .queues import Brokers
from .spans import Periods


def skew(count: int, total: int, squares: int, most: int) -> tuple[float | None, float | None]:
    """Of ``count`` numbers: population standard deviation / mean, greatest / mean. None where the mean is 0.

    Args:
        total: their sum.
        squares: the sum of their squares.
        most: the greatest.
    """
    if not total:
        return None, None
    return math.sqrt(max(0, count * squares - total**2)) / total, most * count / total


def figures(brokers: Brokers, grains: dict[str, Periods], sums: pa.Table, topics: pa.Table) -> pa.Table:
    """Rows of GOLD["cluster"].

    Args:
        sums: cluster, grain, at_ms, write_queues, squares, most (of brokers present at the end), changes.
        topics: cluster, grain, at_ms, topics.
    """
    found: dict[tuple[str, int, str], dict[str, int]] = {}
    for grain, when in grains.items():
        cluster, present = brokers.cluster[grain], brokers.present[grain]
        place = np.where(present & (cluster >= 0), cluster * when.count + np.arange(when.count), -1)
        cells, count = np.unique(place[place >= 0], return_counts=True)
        for cell, many in zip(cells.tolist(), count.tolist(), strict=True):
            at_ms = when.first + cell % when.count * when.step
            found[grain, at_ms, brokers.clusters[cell // when.count]] = {"brokers": many}
    for row in (*sums.to_pylist(), *topics.to_pylist()):
        values = found.setdefault((row.pop("grain"), row.pop("at_ms"), row.pop("cluster")), {})
        values |= {name: int(value) for name, value in row.items() if value is not None}
    rows = [_row(*key, found[key]) for key in sorted(found) if not _unknown(brokers, grains[key[0]], key[1])]
    return pa.Table.from_pylist(rows, schema=GOLD["cluster"])


def _unknown(brokers: Brokers, when: Periods, at_ms: int) -> bool:
    """Whether nobody knows what was there at the end of a period."""
    last = min(at_ms + when.step - 1, when.now)
    return any(start <= last < end for start, end in brokers.holes)


def _row(grain: str, at_ms: int, cluster: str, values: dict[str, int]) -> dict[str, Any]:
    value = {name: 0 for name in ("brokers", "topics", "write_queues", "changes", "squares", "most")} | values
    cv, max_mean = skew(value["brokers"], value["write_queues"], value.pop("squares"), value.pop("most"))
    return {
        "grain": grain, "period_start": pa.scalar(at_ms * 1000).cast(MOMENT).as_py(), "cluster": cluster, **value,
        "queue_cv": cv, "queue_max_mean": max_mean,
    }  # fmt: skip
