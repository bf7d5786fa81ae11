"""Works out how regularly each broker process was heard: histograms of hours from entries, figures from histograms.

On arrays; Spark calls :func:`hours` for groups of processes. A histogram has every interval as it was, so figures of a
day that are made of its hours are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..lake.schema import GOLD, MOMENT
from .spans import DAY_MS, HOUR_MS, Ints, Periods, ints

# A beat's interval is measured to the one before it at the same front end, at most this far back; after a longer
# silence it is the one in its entry (since the last sign of life at any front end). So a refresh reads a bounded time
# again.
LOOK_BACK_MS: Final = HOUR_MS
_N_BITS: Final = 20  # of an entry's id: entries of one millisecond

# Beats of a process at a front end in an hour (at_ms) that came after the same interval (-1: there was none to
# measure). named: the id of the last entry with a broker_name, -1: none.
HOURS: Final = pa.schema(
    [
        ("who", pa.string()),
        ("front_end", pa.string()),
        ("at_ms", pa.int64()),
        *((name, pa.int64()) for name in ("interval_ms", "beats", "refused", "named")),
        ("broker_name", pa.string()),
    ]
)


def hours(rows: pa.Table, when: Periods, lost: Sequence[tuple[int, int]] = ()) -> pa.Table:
    """Entries of some processes, all of them from LOOK_BACK_MS before the first hour on, to HOURS rows.

    Args:
        rows: who, broker_name (may be null), front_end, kind, ms, interval_ms, id_ms, id_n. Repeated ids count once.
        lost: from when to when (id_ms) entries are missing, rising: no interval reaches over that.
    """
    who_names, who = _numbered(rows["who"])
    front_ends, front_end = _numbered(rows["front_end"])
    id_ms, id_n = rows["id_ms"].to_numpy(), rows["id_n"].to_numpy()
    order = _order(who, id_ms, id_n)
    who, front_end, id_ms, id_n = who[order], front_end[order], id_ms[order], id_n[order]
    repeated = np.zeros(len(who), dtype=bool)
    repeated[1:] = (np.diff(who) == 0) & (np.diff(id_ms) == 0) & (np.diff(id_n) == 0)
    refused = pc.equal(rows["kind"], "refused").to_numpy()[order]
    ms, recorded = rows["ms"].to_numpy()[order], rows["interval_ms"].to_numpy()[order]
    broker_names, broker_name = _numbered(rows["broker_name"])
    broker_name = broker_name[order]

    good = ~repeated & ~refused
    interval = np.full(len(who), -1, dtype=np.int64)
    lives = np.searchsorted(ints([end for _, end in lost]), id_ms, side="right")
    interval[good] = _intervals(who[good], front_end[good], ms[good], recorded[good], lives[good])
    period = when.index(ms)
    counted = (period >= 0) & ~repeated
    named = np.where(broker_name >= 0, id_ms << _N_BITS | id_n, -1)[counted]
    columns = [column[counted] for column in (who, front_end, period, interval, good, refused)]
    keys = ["who", "front_end", "period", "interval_ms"]
    found = pa.table([*columns, named], names=[*keys, "beats", "refused", "named"]).group_by(keys).aggregate(
        [("beats", "sum"), ("refused", "sum"), ("named", "max")]
    )  # fmt: skip
    by_id = np.argsort(named)
    last = found["named_max"].to_numpy()
    name = broker_name[counted][by_id][np.searchsorted(named[by_id], last)] if len(last) else ints([])
    arrays = [
        who_names.take(found["who"]), front_ends.take(found["front_end"]),
        pa.array(when.first + when.step * found["period"].to_numpy()), found["interval_ms"],
        found["beats_sum"].cast(pa.int64()), found["refused_sum"].cast(pa.int64()), found["named_max"],
        broker_names.take(pa.array(name, mask=name < 0)),
    ]  # fmt: skip
    return pa.table(arrays, names=HOURS.names).cast(HOURS)


def figures(rows: pa.Table, grains: dict[str, Periods]) -> pa.Table:
    """HOURS rows of whole days to rows of GOLD["heartbeat"]."""
    who_names, who = _numbered(rows["who"])
    front_ends, front_end = _numbered(rows["front_end"])
    at, interval, beats, refused, named = (rows[name].to_numpy() for name in HOURS.names[2:7])
    day = _process_day(who, at // DAY_MS)
    timed = (_usual_front_end(day, front_end, beats, len(front_ends)) == front_end) & (interval >= 0)
    days, of_day = np.unique(day, return_inverse=True)
    median = _ranked(of_day[timed], interval[timed], beats[timed], len(days), [50])[0]
    missed = np.where(timed, _missed(interval, median[of_day]) * beats, 0)
    in_order = np.argsort(named, kind="stable")

    found = [GOLD["heartbeat"].empty_table()]
    for grain, when in grains.items():
        period = when.index(at)
        counted = period >= 0
        cell, index = np.unique(who[counted] * when.count + period[counted], return_inverse=True)
        cells = len(cell)
        owner, start = cell // when.count, when.start[cell % when.count]
        heard = counted & (beats > 0)
        lanes = np.unique(index[beats[counted] > 0] * len(front_ends) + front_end[heard]) // max(1, len(front_ends))
        here = timed[counted]
        ranked = _ranked(index[here], interval[counted][here], beats[counted][here], cells, [50, 99, 100])
        expected = median[np.searchsorted(days, _process_day(owner, start // DAY_MS))]
        latest = np.full(cells, -1, dtype=np.int64)
        place = np.full(len(who), -1, dtype=np.int64)
        place[counted] = index
        last = in_order[counted[in_order] & (named[in_order] >= 0)]
        latest[place[last]] = last  # the last one wins
        columns = {
            "grain": pa.repeat(grain, cells),
            "period_start": pa.array(start * 1000).cast(MOMENT),
            "who": who_names.take(pa.array(owner)),
            "broker_name": rows["broker_name"].combine_chunks().take(pa.array(latest, mask=latest < 0)),
            "beats": np.bincount(index, beats[counted], cells).astype(np.int64),
            "refused": np.bincount(index, refused[counted], cells).astype(np.int64),
            "front_ends": np.bincount(lanes, minlength=cells),
            **{f"interval_ms_{name}": _or_null(of) for name, of in zip(("p50", "p99", "max"), ranked, strict=True)},
            "expected_ms": _or_null(expected),
            "missed_beats": np.bincount(index, missed[counted], cells).astype(np.int64),
        }
        schema = GOLD["heartbeat"]
        found.append(pa.Table.from_arrays([pa.array(columns[f.name], f.type) for f in schema], schema=schema))
    return pa.concat_tables(found)


def _or_null(values: Ints) -> pa.Array:
    return pa.array(values, mask=values < 0)


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


def _intervals(who: Ints, front_end: Ints, ms: Ints, recorded: Ints, lives: Ints) -> Ints:
    """Milliseconds since the beat before at the same front end; -1 where there was none, or after an absence.

    Args:
        lives: after how many gaps each one came.
    """
    # the entry of a process that had been away has the interval -1; no interval spans an absence
    life = np.cumsum(recorded < 0)
    order = np.lexsort((front_end, who))
    gap = np.full(len(ms), -1, dtype=np.int64)
    if len(ms):
        same = (np.diff(who[order]) == 0) & (np.diff(front_end[order]) == 0)
        since = np.maximum(np.diff(ms[order]), 0)
        near = same & (np.diff(life[order]) == 0) & (np.diff(lives[order]) == 0) & (since <= LOOK_BACK_MS)
        gap[order[1:]] = np.where(near, since, -1)
    # the first at this front end, or after a long silence
    return np.where(gap >= 0, gap, np.where(recorded > LOOK_BACK_MS, recorded, -1))


def _process_day(who: Ints, day: Ints) -> Ints:
    """One number for a process on a day; days are those since 1970."""
    return who * 100_000 + day


def _usual_front_end(process_day: Ints, front_end: Ints, beats: Ints, front_ends: int) -> Ints:
    """For every row: the front end that heard this process most often on this day (the first by name of several)."""
    if not len(front_end):
        return front_end
    lanes, index = np.unique(process_day * front_ends + front_end, return_inverse=True)
    order = np.lexsort((lanes, -np.bincount(index, beats), lanes // front_ends))
    days, first = np.unique(lanes[order] // front_ends, return_index=True)
    return ints((lanes[order][first] % front_ends)[np.searchsorted(days, process_day)])


def _missed(interval: Ints, expected: Ints) -> Ints:
    """How many beats did not come in each interval: round(interval / expected) - 1, halves to the even number."""
    times = np.rint(interval / np.maximum(expected, 1)).astype(np.int64)
    return np.where(expected > 0, np.maximum(times - 1, 0), 0)


def _ranked(cell: Ints, value: Ints, count: Ints, cells: int, percents: list[int]) -> list[Ints]:
    """Nearest-rank percentiles of values in each cell, each of which is there ``count`` times; -1: there is none."""
    if not len(cell):
        return [np.full(cells, -1, dtype=np.int64) for _ in percents]
    order = np.lexsort((value, cell))
    upto = np.cumsum(count[order])
    total = np.bincount(cell, count, cells).astype(np.int64)
    before = np.cumsum(total) - total
    found = []
    for percent in percents:
        place = np.searchsorted(upto, before + np.maximum(-(-total * percent // 100), 1))
        of_place = value[order][np.minimum(place, len(order) - 1)]
        found.append(np.where(total > 0, of_place, -1))
    return found
