"""Silver as of one change: how far it is, and which files its tables consist of.

A table's files are in partitions: rows that hold (``current``) and rows that ended, by bucket. A commit to a table adds
rows that ended, and puts other rows that hold into the place of a bucket's. The tables are written one after the other,
and then the state, which says up to which change they go. What a table has of later changes, because the run that wrote
it was killed, is left out when it is read; the next run takes in the same changes again, and writes the other tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ..lake.files import File
from ..lake.lake import NONE, Lake, State, owner
from ..lake.schema import SILVER

PART: Final = "silver"
_SEQ_BITS: Final = 40
LATER: Final = ("valid_to", "ended_by", "to_by", "to_seq")  # null while a row holds; to_seq last, which says whether


class Content(msgspec.Struct, frozen=True):
    """What the state of silver says.

    seq: the last change that counts. ms: its moment. begin_ms: since when, of the first snapshot. compat: of
    the namespace. holes: (from ms, to ms) of which changes are missing, up to the snapshot that the past goes on from.
    rewritten: how often a backfill wrote all rows anew, or a split those that hold. steps: (seq, ms before, ms): the
    clock of Redis had been set back by that change. backfills: how many there were; each may have changed any row.
    """

    seq: int
    ms: int
    begin_ms: int
    compat: str = "5.x"
    holes: tuple[tuple[int, int], ...] = ()
    rewritten: int = 0
    steps: tuple[tuple[int, int, int], ...] = ()
    backfills: int = 0

    @property
    def number(self) -> int:
        """The number of a commit to Delta's log: rises with every change, and with every backfill."""
        return NONE if self.seq == NONE else self.rewritten << _SEQ_BITS | self.seq

    def as_of(self, seq: int, ms: int) -> Content:
        """What it said after an earlier change; ms: the moment of that."""
        holes = tuple(hole for hole in self.holes if seq == self.seq or hole[0] < ms)
        steps = tuple(step for step in self.steps if step[0] <= seq)
        return msgspec.structs.replace(self, seq=seq, ms=ms, holes=holes, steps=steps)


class Tables:
    """Silver's tables as of one change.

    Attributes:
        number: of the state; NONE: there is none yet.
        files: of each table, all of them.
    """

    def __init__(self, lake: Lake, content: Content, number: int, files: Mapping[str, Sequence[File]]) -> None:
        self.lake = lake
        self.content = content
        self.number = number
        self.files = files

    def of(self, table: str, buckets: Iterable[int] | None = None) -> list[File]:
        """The files of a table, or of some of its buckets."""
        files, wanted = self.files.get(table, ()), {str(bucket) for bucket in buckets or ()}
        return [file for file in files if buckets is None or file.partition["bucket"] in wanted]

    def read(
        self, table: str, *, files: Iterable[File] | None = None, columns: Sequence[str] | None = None,
        wanted: Any = None,
    ) -> pa.Table:  # fmt: skip
        """Rows of a table as of the last change that counts.

        Args:
            files: some of its files; default: all.
            columns: default: all.
            wanted: an expression on columns other than those of a row's end: only these rows.
        """
        schema, seq = SILVER[table], self.content.seq
        names = list(columns or schema.names)
        files = list(self.of(table) if files is None else files)
        kept = [file for file in files if file.low["from_seq"] <= seq]
        if not kept:
            return pa.schema([schema.field(name) for name in names]).empty_table()
        if all(max(file.high["from_seq"], file.high.get("to_seq", seq)) <= seq for file in kept):
            return self.lake.dataset(kept, schema).to_table(columns=names, filter=wanted)
        since = pc.field("from_seq") <= seq
        more = [*names, *(name for name in ("from_seq", "to_seq") if name not in names)]
        rows = self.lake.dataset(kept, schema).to_table(
            columns=more, filter=since if wanted is None else since & wanted
        )
        return as_of(rows, seq).select(names)

    def open_files(self, table: str, bucket: int) -> list[File]:
        """The files of a bucket that may have rows that hold."""
        seq = self.content.seq
        return [
            file
            for file in self.of(table, [bucket])
            if file.partition["current"] == "true" or file.high.get("to_seq", seq) > seq
        ]


def as_of(rows: pa.Table, seq: int) -> pa.Table:
    """Rows as they were after a change; they have ``from_seq`` and ``to_seq``."""
    rows = rows.filter(pc.field("from_seq") <= seq)
    holds = pc.fill_null(pc.greater(rows["to_seq"], seq), False)
    if pc.any(holds).as_py():
        for name in LATER:
            if name in rows.schema.names:
                at, column = rows.schema.get_field_index(name), rows[name]
                rows = rows.set_column(at, rows.field(at), pc.if_else(holds, pa.scalar(None, column.type), column))
    return rows


def app(namespace: str, epoch: str) -> str:
    """Under what name silver's commits are in Delta's log."""
    return f"silver/{namespace}/{epoch}"


def load(lake: Lake, namespace: str, epoch: str) -> Tables | None:
    """Silver as its state says it is; None: there is none."""
    state = lake.state(PART, namespace, epoch)
    if state is None:
        return None
    files = {table: lake.table(f"silver/{table}").files(**owner(namespace, epoch)) for table in SILVER}
    return Tables(lake, msgspec.convert(state.content, Content), state.number, files)


def begun(lake: Lake, namespace: str, epoch: str) -> tuple[int, int]:
    """What any table has at most: how often it was rewritten, and the last change; NONE: none."""
    number = max(lake.table(f"silver/{table}").version(app(namespace, epoch)) for table in SILVER)
    return (0, NONE) if number == NONE else (number >> _SEQ_BITS, number & ((1 << _SEQ_BITS) - 1))


def save(lake: Lake, namespace: str, epoch: str, before: Tables | None, content: Content) -> int:
    """Say how far the tables are; gives the number of the state."""
    number = before.number + 1 if before else NONE + 1
    lake.set_state(PART, namespace, epoch, State(number, msgspec.to_builtins(content)))
    return number


def observe(lake: Lake, namespace: str, epoch: str, seq: int, ms: int) -> None:
    """Record that no change followed ``seq`` up to a moment: Redis time that was read before the end of the stream."""
    before = lake.state("observed", namespace, epoch)
    number = before.number + 1 if before else NONE + 1
    lake.set_state("observed", namespace, epoch, State(number, {"seq": seq, "ms": ms}))


def observed_ms(lake: Lake, namespace: str, epoch: str, seq: int) -> int | None:
    """Up to when (ms) it is known that no change followed; None: that is not known."""
    state = lake.state("observed", namespace, epoch)
    return int(state.content["ms"]) if state and state.content["seq"] <= seq else None
