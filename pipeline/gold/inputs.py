"""Finds and reads gold's input: silver's tables and bronze's entries, as of one moment. Without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from mqregistry.events.journal import STREAMS, Stream

from ..bronze.log import last_batch, lost
from ..lake import snapshot
from ..lake.files import File, rows_in
from ..lake.lake import Lake, owner
from ..lake.schema import SILVER, TABLES
from ..silver.buckets import parts
from ..silver.tables import Tables, as_of, load
from .tables import Content

_ROWS_AT_ONCE: Final = 16_384  # of entries, whose JSON may be long
_ROWS_OF_PARTS: Final = 500_000
_Decoded = TypeVar("_Decoded")


class Inputs:
    """One namespace and epoch of a lake, as it is now.

    Args:
        upto: as it was when a refresh saw this, as far as silver was not written again since.

    Attributes:
        silver: None: there is none.
        last_batch: stream -> the number of its last batch in bronze; -1: there is none.
        lost_beats: from when to when heartbeats are missing.
    """

    def __init__(self, lake: Lake, namespace: str, epoch: str, *, upto: Content | None = None) -> None:
        self.lake = lake
        self.place = namespace, epoch
        self.silver: Tables | None = load(lake, namespace, epoch)
        self.batches = upto.bronze if upto else None
        if self.silver is not None and upto is not None:
            self.silver.content = self.silver.content.as_of(upto.silver_seq, upto.silver_ms)
        # files are asked for after the number: none is passed over
        self.last_batch: dict[str, int] = {stream: last_batch(lake, stream, namespace, epoch)[0] for stream in STREAMS}
        self._entries = {
            stream: lake.table(f"bronze/{stream}").files(**owner(namespace, epoch)) for stream in STREAMS
        }  # fmt: skip
        self.lost_beats = lost(lake, "heartbeats", namespace, epoch)
        self.snapshots = [taken.seq for taken in snapshot.every(lake, namespace, epoch)]

    @property
    def tables(self) -> Tables:
        """Silver, where it is known to be there."""
        assert self.silver is not None
        return self.silver

    def files(self, table: str, since: int, buckets: frozenset[int] | None = None) -> list[File]:
        """Files of a silver table that may have rows that held at ``since`` or later."""
        seq = self.tables.content.seq
        return [
            file
            for file in self.tables.of(table, buckets)
            if file.nulls["valid_to"] or file.high["valid_to"] >= since * 1000 or file.high.get("to_seq", 0) > seq
        ]

    def buckets(self, table: str) -> list[frozenset[int] | None]:
        """Parts of a silver table that are worked on one by one; None: all of it is one."""
        files = self.tables.of(table)
        every: list[frozenset[int] | None] = [None]
        return every if rows_in(files) < _ROWS_OF_PARTS else parts({int(file.partition["bucket"]) for file in files})

    def rows(
        self, table: str, since: int, now: int, columns: Sequence[str], *, buckets: frozenset[int] | None = None
    ) -> pa.Table:
        """Rows that held at some time from ``since`` to ``now``, or ended then.

        Args:
            columns: these; and from_ms, to_ms (null: holds).
            buckets: of these alone.
        """
        schema, seq = SILVER[table], self.tables.content.seq
        names = [name for name in schema.names if name in (*columns, "valid_from", "valid_to", "from_seq", "to_seq")]
        held = pc.field("to_seq").is_null() | (pc.field("to_seq") > seq)
        wanted = held | (pc.field("valid_to") >= pa.scalar(since * 1000).cast(schema.field("valid_to").type))

        def read(file: File) -> pa.Table:
            return self.lake.dataset([file], schema).to_table(columns=names, filter=wanted)

        found = self.kept(f"{table} {min(buckets or [0])}", self.files(table, since, buckets), since, read)
        rows = pa.concat_tables([pa.schema([schema.field(name) for name in names]).empty_table(), *found])
        rows = as_of(rows, seq)
        for name, of in (("from_ms", "valid_from"), ("to_ms", "valid_to")):
            ms = pc.floor(pc.divide(rows[of].cast(pa.int64()), 1000)).cast(pa.int64())
            rows = rows.append_column(name, ms)
        in_time = pc.or_kleene(pc.is_null(rows["to_ms"]), pc.greater_equal(rows["to_ms"], since))
        return rows.filter(pc.and_kleene(in_time, pc.less_equal(rows["from_ms"], now)))

    def begins(self) -> list[int]:
        """The earliest from_ms of every file that gold reads."""
        return [
            file.low["valid_from"] // 1000 for table in ("broker_addr", "queue_data") for file in self.tables.of(table)
        ]

    def entry_files(self, stream: Stream, since: int, now: int) -> list[File]:
        """Files that may have entries of ``[since, now]``, in the order of these."""
        found = [file for file in self._entries[stream] if file.high["ms"] >= since and file.low["ms"] <= now]
        return sorted(found, key=lambda file: file.low["id_ms"])

    def entries(
        self, files: Sequence[File], stream: Stream, since: int, now: int, columns: Sequence[str], wanted: Any = None
    ) -> Iterator[pa.RecordBatch]:
        """Columns of the entries of ``[since, now]`` in some files, some rows at a time.

        Args:
            wanted: an expression: those rows alone.
        """
        moment = (pc.field("ms") >= since) & (pc.field("ms") <= now)
        if self.batches is not None:
            moment = moment & (pc.field("batch") <= self.batches[stream])
        if files:
            yield from self.lake.dataset(files, TABLES[f"bronze/{stream}"].columns).to_batches(
                columns=list(columns), filter=moment if wanted is None else moment & wanted, batch_size=_ROWS_AT_ONCE,
                batch_readahead=2, fragment_readahead=1,
            )  # fmt: skip

    def span(self, stream: Stream, after: Any) -> tuple[int, int] | None:
        """The first and the last ms of the entries for which an expression holds; None: there is none.

        Args:
            after: ``(column, number)``: the entries above it.
        """
        column, number = after
        files = [file for file in self._entries[stream] if file.high[column] > number]
        if not files:
            return None
        rows = self.lake.dataset(files, TABLES[f"bronze/{stream}"].columns)
        found: Any = pc.min_max(rows.to_table(columns=["ms"], filter=pc.field(column) > number)["ms"]).as_py()
        return None if found["min"] is None else (found["min"], found["max"])

    def kept(self, what: str, files: Sequence[File], since: int, decode: Callable[[File], _Decoded]) -> list[_Decoded]:
        """What files give, as far as it is of ``since`` or later; kept for the next refresh: a file never changes."""
        key = (what, *self.place)
        before = self.lake.kept.get(key, {})
        now = {}
        for file in files:
            known = before.get(file.path)
            now[file.path] = known if known is not None and known[0] <= since else (since, decode(file))
        self.lake.kept[key] = now
        return [decoded for _, decoded in now.values()]
