"""Finds and reads gold's input: silver's tables and bronze's entries, as of one moment. Without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mqregistry.events.journal import STREAMS, Stream

from ..bronze.log import last_batch, lost
from ..lake import snapshot
from ..lake.files import File
from ..lake.lake import Lake, owner
from ..lake.schema import SILVER, TABLES
from ..silver.tables import Tables, load

_ROWS_AT_ONCE: Final = 16_384  # of entries, whose JSON may be long


class Inputs:
    """One namespace and epoch of a lake, as it is now.

    Attributes:
        silver: None: there is none.
        last_batch: stream -> the number of its last batch in bronze; -1: there is none.
        lost_beats: from when to when heartbeats are missing.
    """

    def __init__(self, lake: Lake, namespace: str, epoch: str) -> None:
        self.lake = lake
        self.place = namespace, epoch
        self.silver: Tables | None = load(lake, namespace, epoch)
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

    def files(self, table: str, since: int, bucket: int | None = None) -> list[File]:
        """Files of a silver table that may have rows that held at ``since`` or later."""
        every = self.tables.of(table, bucket=bucket)
        return [file for file in every if file.nulls["valid_to"] or file.high["valid_to"] >= since * 1000]

    def buckets(self, table: str) -> list[int]:
        """Parts of a silver table: rows of one topic are all in the same one."""
        return sorted({int(file.partition["bucket"]) for file in self.tables.of(table)})

    def rows(
        self, table: str, since: int, now: int, *, bucket: int | None = None, columns: Sequence[str] = ()
    ) -> pa.Table:
        """Rows that held at some time from ``since`` to ``now``, or ended then; with from_ms, to_ms (null: holds).

        Args:
            bucket: of this one alone.
            columns: these, valid_from and valid_to; else all.
        """
        names = [name for name in SILVER[table].names if not columns or name in (*columns, "valid_from", "valid_to")]
        rows = self.tables.read(table, files=self.files(table, since, bucket), columns=names)
        start = pc.floor(pc.divide(rows["valid_from"].cast(pa.int64()), 1000)).cast(pa.int64())
        end = pc.floor(pc.divide(rows["valid_to"].cast(pa.int64()), 1000)).cast(pa.int64())
        rows = rows.append_column("from_ms", start).append_column("to_ms", end)
        held = pc.or_kleene(pc.is_null(end), pc.greater_equal(end, since))
        return rows.filter(pc.and_kleene(held, pc.less_equal(start, now)))

    def begins(self) -> list[int]:
        """The earliest from_ms of every file that gold reads."""
        return [
            file.low["valid_from"] // 1000 for table in ("broker_addr", "queue_data") for file in self.tables.of(table)
        ]

    def entry_files(self, stream: Stream, since: int, now: int) -> list[File]:
        """Files that may have entries of ``[since, now]``."""
        return [file for file in self._entries[stream] if file.high["ms"] >= since and file.low["ms"] <= now]

    def entries(
        self, files: Sequence[File], stream: Stream, since: int, now: int, columns: Sequence[str], wanted: Any = None
    ) -> Iterator[pa.RecordBatch]:
        """Columns of the entries of ``[since, now]`` in some files, some rows at a time.

        Args:
            wanted: an expression: those rows alone.
        """
        moment = (pc.field("ms") >= since) & (pc.field("ms") <= now)
        if files:
            yield from self.lake.dataset(files, TABLES[f"bronze/{stream}"].columns).to_batches(
                columns=list(columns), filter=moment if wanted is None else moment & wanted, batch_size=_ROWS_AT_ONCE,
                batch_readahead=2, fragment_readahead=1,
            )  # fmt: skip

    def span(self, stream: Stream, after: int) -> tuple[int, int] | None:
        """The first and the last ms of the batches after one; None: they have no rows."""
        files = [file for file in self._entries[stream] if file.high["batch"] > after]
        if not files:
            return None
        rows = self.lake.dataset(files, TABLES[f"bronze/{stream}"].columns)
        found: Any = pc.min_max(rows.to_table(columns=["ms"], filter=pc.field("batch") > after)["ms"]).as_py()
        return None if found["min"] is None else (found["min"], found["max"])
