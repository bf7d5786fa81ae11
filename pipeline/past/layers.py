"""Compares bronze with the entries that the streams still have, and gold with figures that are worked out again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqregistry.events.journal import CHANGES
from mqregistry.events.journal import Stream as Name

from ..bronze.log import last_position, lost
from ..gold.inputs import Inputs
from ..gold.run import GoldRun, Span
from ..gold.tables import Content, last
from ..lake import snapshot
from ..lake.lake import Lake, owner
from ..lake.schema import BRONZE, GOLD
from ..redis_stream.ranges import OLDEST, EntryId, Position, parse_id
from ..redis_stream.stream import GapError, Login, Stream

ROWS_SHOWN: Final = 10  # of one table that differ
_AT_ONCE: Final = 50_000  # entries that are compared
_N_BITS: Final = 20  # of an entry's id: entries of one millisecond
_TRIES: Final = 3


class Difference(NamedTuple):
    """A cell, row or entry that differs from what it is compared with. None as a value: it does not exist.

    history: what it was to be: the replayed value, the entry of the stream, the figures that were worked out again;
    found: the value in ``where`` ("redis", "bronze", "silver", "gold").
    """

    where: str
    table: str
    key: tuple[str, ...]
    history: Any
    found: Any


class StreamChecked(NamedTuple):
    """What was compared of a stream: how many entries, up to which one, and what differs."""

    compared: int
    last: str
    differences: list[Difference]


def compare_stream(
    redis_url: str, lake: Lake, name: Name, namespace: str, epoch: str, after: str | None,
    holes: Sequence[tuple[int, int]],
) -> StreamChecked:  # fmt: skip
    """Compare bronze with the entries of a stream, as far as both have them.

    Args:
        after: the last entry that was compared before; None: none was.
        holes: from when to when (ms) changes are missing in the lake.
    """
    end = last_position(lake, name, namespace, epoch)
    if end is None:
        return StreamChecked(0, str(OLDEST), [])
    if after is not None:
        start = parse_id(after)
    else:
        taken = snapshot.first(lake, namespace, epoch)
        start = parse_id(taken.last_id) if name == CHANGES and taken is not None else OLDEST
    known_lost = holes if name == CHANGES else lost(lake, name, namespace, epoch)
    stream = Stream(Login(redis_url), namespace, name)
    try:
        for tried in range(_TRIES):
            try:
                compared = list(_compared(stream, lake, (namespace, epoch), start, end.id, known_lost))
                break
            except GapError:  # trimmed while it was read
                if tried + 1 == _TRIES:
                    raise
    finally:
        stream.close()
    differences = [difference for _, found in compared for difference in found]
    return StreamChecked(sum(count for count, _ in compared), str(end.id), differences[:ROWS_SHOWN])


def _compared(
    stream: Stream, lake: Lake, place: tuple[str, str], start: EntryId, end: EntryId,
    known_lost: Sequence[tuple[int, int]],
) -> Iterator[tuple[int, list[Difference]]]:  # fmt: skip
    """Some entries at a time: how many, and what differs."""
    head = stream.head()
    last_here = stream.at_or_before(end)
    if head.first_id is None or head.first_id > end or last_here.id <= start:
        return
    first = None
    if head.first_id > start:
        start, first = OLDEST, head.first_id
    held: list[pa.RecordBatch] = []
    for page in stream.read(Position(start), last_here, place[1], first):
        held.append(page.batch)
        if sum(batch.num_rows for batch in held) >= _AT_ONCE:
            yield _compare_entries(lake, stream.name, place, pa.Table.from_batches(held), known_lost)
            held = []
    if held:
        yield _compare_entries(lake, stream.name, place, pa.Table.from_batches(held), known_lost)


def _compare_entries(
    lake: Lake, name: Name, place: tuple[str, str], theirs: pa.Table, known_lost: Sequence[tuple[int, int]]
) -> tuple[int, list[Difference]]:
    """StreamChecked that follow each other in the stream, and what bronze has from the first to the last of them."""
    keys = _keys(theirs)
    low, high = theirs["id_ms"][0].as_py(), theirs["id_ms"][-1].as_py()
    files = [
        file
        for file in lake.table(f"bronze/{name}").files(**owner(*place))
        if file.high["id_ms"] >= low and file.low["id_ms"] <= high
    ]
    mine = lake.dataset(files, BRONZE[name]).to_table(
        columns=["id_ms", "id_n", "e"], filter=(pc.field("id_ms") >= low) & (pc.field("id_ms") <= high)
    )
    found, count = np.unique(_keys(mine), return_counts=True)
    of_here = (found >= keys[0]) & (found <= keys[-1])
    texts = dict(zip(_keys(mine).tolist(), mine["e"].to_pylist(), strict=True))
    readable = pc.is_null(theirs["reason"]).to_numpy()
    moments = theirs["ms" if name == CHANGES else "id_ms"].fill_null(0).to_numpy()
    is_lost = np.zeros(len(keys), dtype=bool)
    for from_ms, to_ms in known_lost:
        is_lost |= (moments >= from_ms) & (moments <= to_ms)
    differences = []
    for key, wanted, may_lack in zip(keys.tolist(), theirs["e"].to_pylist(), is_lost | ~readable, strict=True):
        text = texts.get(key)
        if text == wanted or may_lack or (text is not None and _same(text, wanted)):
            continue
        differences.append(Difference("bronze", name, (_id(key),), wanted, text))
    for key in np.setdiff1d(found[of_here], keys).tolist():
        differences.append(Difference("bronze", name, (_id(key),), None, texts[key]))
    if name != CHANGES:  # those are taken in by their number, each once
        for key, times in zip(found[of_here & (count > 1)].tolist(), count[of_here & (count > 1)], strict=True):
            differences.append(Difference("bronze", name, (_id(key),), "once", f"{times} times"))
    return len(keys), differences


def _keys(rows: pa.Table) -> Any:
    return rows["id_ms"].to_numpy() << _N_BITS | rows["id_n"].to_numpy()


def _id(key: int) -> str:
    return f"{key >> _N_BITS}-{key & (1 << _N_BITS) - 1}"


def _same(one: str, other: str) -> bool:
    return bool(msgspec.json.decode(one) == msgspec.json.decode(other))


class GoldChecked(NamedTuple):
    """What was compared of gold: how many rows, up to which moment (-1: there is nothing), and what differs."""

    compared: int
    now_ms: int
    differences: list[Difference]


class _Again(GoldRun):
    """Works figures out as a refresh does, and keeps them in memory."""

    rows: dict[str, pa.Table]

    def _write(self, table: str, rows: pa.Table) -> None:
        self.rows = {table: rows.cast(GOLD[table])}


def compare_gold(spark: Any, lake: Lake, namespace: str, epoch: str, since_ms: int | None) -> GoldChecked:
    """Work out gold's figures from silver and bronze as its last refresh saw them, and compare.

    Args:
        spark: None: here, however much it is.
        since_ms: only what a refresh writes when entries of this moment or later come; None: all.
    """
    for _ in range(_TRIES):
        fresh = Lake(lake.root)  # what refreshes remember of files is of other batches
        number, content = last(fresh, namespace, epoch)
        if content is None:
            break
        found = _compare_gold(spark, fresh, (namespace, epoch), content, since_ms)
        if found is not None and (not found.differences or last(Lake(lake.root), namespace, epoch)[0] == number):
            return found  # else somebody refreshed it meanwhile
    return GoldChecked(0, -1, [])


def _compare_gold(
    spark: Any, lake: Lake, place: tuple[str, str], content: Content, since_ms: int | None
) -> GoldChecked | None:
    inputs = Inputs(lake, *place, upto=content)
    if inputs.silver is None or inputs.silver.content.backfills != content.backfills:
        return None  # silver was written again: the next refresh works all of it out
    before = None if since_ms is None else content
    span = Span((content.begin_ms if since_ms is None else since_ms) - 1, content.now_ms)
    run = _Again(spark, inputs, place, span, content, before)
    count, differences = 0, list[Difference]()
    for table, _, periods in run.write():
        mine = run.rows[table]
        files = lake.table(f"gold/{table}").files(**owner(*place), **({"period": periods} if before else {}))
        rows = lake.dataset(files, GOLD[table]).to_table() if files else GOLD[table].empty_table()
        count += rows.num_rows
        differences += _compare_rows(table, mine, rows)
    return GoldChecked(count, content.now_ms, differences)


def _compare_rows(table: str, mine: pa.Table, found: pa.Table) -> Iterator[Difference]:
    one, other = (Counter(tuple(row.values()) for row in rows.to_pylist()) for rows in (mine, found))
    names = GOLD[table].names
    for side, only in enumerate((one - other, other - one)):
        for values in islice(only.elements(), ROWS_SHOWN):
            row = {name: str(value) if hasattr(value, "isoformat") else value
                   for name, value in zip(names, values, strict=True)}  # fmt: skip
            key = tuple(str(value) for value in list(row.values())[:4] if isinstance(value, str))
            yield Difference("gold", table, key, *((row, None) if side == 0 else (None, row)))
