"""Works out how regularly each broker process was heard. On arrays; Spark calls it for groups of processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..lake.schema import GOLD
from .spans import Ints, Periods, ints

DAY_MS: Final = 86_400_000
# A beat's interval is measured to the one before it at the same front end, at most this far back; after a longer
# silence it is the one in its entry (since the last sign of life at any front end). So a refresh reads a bounded time
# again.
LOOK_BACK_MS: Final = 3_600_000

RESULT: Final = pa.schema(
    [pa.field("at_ms", pa.int64()) if field.name == "period_start" else field for field in GOLD["heartbeat"]]
)


def figures(rows: pa.Table, grains: dict[str, Periods], lost: Sequence[tuple[int, int]] = ()) -> pa.Table:
    """Entries of some processes, all of them from LOOK_BACK_MS before the first day on, to RESULT rows.

    Args:
        rows: who, broker_name (may be null), front_end, kind, ms, interval_ms, id_ms, id_n. Repeated ids count once.
        lost: from when to when entries are missing, rising: no interval reaches over that.
    """
    who_names, who = _numbered(rows["who"])
    front_ends, front_end = _numbered(rows["front_end"])
    id_ms, id_n = rows["id_ms"].to_numpy(), rows["id_n"].to_numpy()
    order = _order(who, id_ms, id_n)
    who, front_end, id_ms, id_n = who[order], front_end[order], id_ms[order], id_n[order]
    repeated = np.zeros(len(who), dtype=bool)
    repeated[1:] = (np.diff(who) == 0) & (np.diff(id_ms) == 0) & (np.diff(id_n) == 0)
    kinds, kind = _numbered(rows["kind"])
    refused = kind[order] == kinds.to_pylist().index("refused") if "refused" in kinds.to_pylist() else repeated & False
    ms, recorded = rows["ms"].to_numpy()[order], rows["interval_ms"].to_numpy()[order]
    broker_names, broker_name = _numbered(rows["broker_name"])
    broker_name = broker_name[order]

    good = ~repeated & ~refused
    interval = np.full(len(who), -1, dtype=np.int64)
    interval[good] = _intervals(who[good], front_end[good], ms[good], recorded[good], lost)

    day = ms // DAY_MS
    lane = _usual_front_end(who[good], front_end[good], day[good], len(front_ends))
    usual = np.zeros(len(who), dtype=bool)
    usual[good] = lane == front_end[good]
    timed = usual & (interval >= 0)
    expected = _medians(who[timed], day[timed], interval[timed])

    found = []
    for grain, when in grains.items():
        period = when.index(ms)
        counted = (period >= 0) & ~repeated
        cell, index = np.unique(who[counted] * when.count + period[counted], return_inverse=True)
        cells = len(cell)
        owner, start = cell // when.count, when.start[cell % when.count]
        beat = good[counted]
        heard = np.unique(index[beat] * len(front_ends) + front_end[counted][beat]) // max(1, len(front_ends))
        in_cell = np.searchsorted(cell, who[timed] * when.count + period[timed])
        here = period[timed] >= 0
        values, places = interval[timed][here], in_cell[here]
        usual_ms = _looked_up(expected, owner, start // DAY_MS)
        missed = _missed(values, usual_ms[places])
        order = np.lexsort((values, places))
        values, places = values[order], places[order]
        first = np.searchsorted(places, np.arange(cells))
        count = np.searchsorted(places, np.arange(cells), side="right") - first
        named = counted & (broker_name >= 0)
        latest = np.full(cells, -1, dtype=np.int64)
        latest[index[named[counted]]] = broker_name[named]  # the last one wins
        columns = {
            "grain": pa.repeat(grain, cells),
            "at_ms": start,
            "who": who_names.take(pa.array(owner)),
            "broker_name": broker_names.take(pa.array(latest, mask=latest < 0)),
            "beats": np.bincount(index, beat, cells).astype(np.int64),
            "refused": np.bincount(index, ~beat, cells).astype(np.int64),
            "front_ends": np.bincount(heard, minlength=cells),
            "interval_ms_p50": _ranked(values, first, count, 50),
            "interval_ms_p99": _ranked(values, first, count, 99),
            "interval_ms_max": _ranked(values, first, count, 100),
            "expected_ms": pa.array(usual_ms, mask=usual_ms < 0),
            "missed_beats": np.bincount(places, missed[order], cells).astype(np.int64),
        }
        found.append(pa.Table.from_arrays([pa.array(columns[f.name], f.type) for f in RESULT], schema=RESULT))
    return pa.concat_tables([RESULT.empty_table(), *found])


def _numbered(column: pa.ChunkedArray) -> tuple[pa.Array, Ints]:
    """Distinct values in order, and which of them each row has; -1: null."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    encoded = column.unify_dictionaries().combine_chunks()
    in_order = pc.sort_indices(encoded.dictionary)
    place = np.empty(len(in_order) + 1, dtype=np.int64)
    place[in_order.to_numpy()], place[-1] = np.arange(len(in_order)), -1
    return encoded.dictionary.take(in_order), place[encoded.indices.fill_null(-1).to_numpy()]


def _order(who: Ints, id_ms: Ints, id_n: Ints) -> Ints:
    """The order by process and id; entries mostly come in the order of their ids."""
    step = np.diff(id_ms)
    if np.all((step > 0) | ((step == 0) & (np.diff(id_n) >= 0))):
        few = who.max(initial=0) < 1 << 16
        return np.argsort(who.astype(np.uint16) if few else who, kind="stable")  # 16 bits: without comparisons
    return np.lexsort((id_n, id_ms, who))


def _intervals(who: Ints, front_end: Ints, ms: Ints, recorded: Ints, lost: Sequence[tuple[int, int]]) -> Ints:
    """Milliseconds since the beat before at the same front end; -1 where there was none, or after an absence."""
    # the entry of a process that had been away has the interval -1; no interval spans an absence
    life = np.cumsum(recorded < 0) + np.searchsorted(ints([end for _, end in lost]), ms, side="right")
    order = np.lexsort((np.arange(len(ms)), front_end, who))
    gap = np.full(len(ms), -1, dtype=np.int64)
    if len(ms):
        same = (np.diff(who[order]) == 0) & (np.diff(front_end[order]) == 0)
        since = np.maximum(np.diff(ms[order]), 0)
        near = same & (np.diff(life[order]) == 0) & (since <= LOOK_BACK_MS)
        gap[order[1:]] = np.where(near, since, -1)
    # the first at this front end, or after a long silence
    return np.where(gap >= 0, gap, np.where(recorded > LOOK_BACK_MS, recorded, -1))


def _usual_front_end(who: Ints, front_end: Ints, day: Ints, front_ends: int) -> Ints:
    """For every beat: the front end that heard this process most often on this day (the first by name of several)."""
    if not len(who):
        return who
    process_day = _process_day(who, day)
    lanes, count = np.unique(process_day * front_ends + front_end, return_counts=True)
    order = np.lexsort((lanes, -count, lanes // front_ends))
    days, first = np.unique(lanes[order] // front_ends, return_index=True)
    return ints((lanes[order][first] % front_ends)[np.searchsorted(days, process_day)])


def _process_day(who: Ints, day: Ints) -> Ints:
    """One number for a process on a day; days are those since 1970."""
    return who * 100_000 + day


def _medians(who: Ints, day: Ints, interval: Ints) -> tuple[Ints, Ints]:
    """The median interval (nearest rank) of each process on each day: (process and day, rising; interval)."""
    process_day = _process_day(who, day)
    order = np.lexsort((interval, process_day))
    days, first, count = np.unique(process_day[order], return_index=True, return_counts=True)
    return days, interval[order][first + _rank(count, 50) - 1]


def _looked_up(expected: tuple[Ints, Ints], who: Ints, day: Ints) -> Ints:
    """The median of each process on each day; -1 where it has no interval on that day."""
    days, median = expected
    if not len(days):
        return np.full(len(who), -1, dtype=np.int64)
    wanted = _process_day(who, day)
    place = np.minimum(np.searchsorted(days, wanted), len(days) - 1)
    return np.where(days[place] == wanted, median[place], -1)


def _missed(interval: Ints, expected: Ints) -> Ints:
    """How many beats did not come in each interval: round(interval / expected) - 1, halves to the even number."""
    times = np.rint(interval / np.maximum(expected, 1)).astype(np.int64)
    return np.where(expected > 0, np.maximum(times - 1, 0), 0)


def _rank(count: Ints, percent: int) -> Ints:
    """The nearest rank of a percentile, counted from 1."""
    return -(-count * percent // 100)


def _ranked(values: Ints, first: Ints, count: Ints, percent: int) -> pa.Array:
    """Nearest-rank percentile of each run of sorted values; null where a run is empty."""
    if not len(values):
        return pa.nulls(len(count), pa.int64())
    place = np.minimum(first + np.maximum(_rank(count, percent), 1) - 1, len(values) - 1)
    return pa.array(values[place], mask=count == 0)
