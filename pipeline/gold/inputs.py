"""Finds and reads gold's input: silver's files as of one commit, and bronze's batches. Without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ..lake.lake import Lake, places
from ..lake.schema import BRONZE, SILVER
from ..silver.manifest import Manifest, log_of, read_last

_NO_BATCH: Final = -1
_ROWS_AT_ONCE: Final = 16_384  # of entries, whose JSON may be long


class Inputs:
    """One namespace and epoch of a lake, as of its last silver commit.

    Attributes:
        silver: number and content of silver's last commit; None: there is none.
    """

    def __init__(self, lake: Lake, namespace: str, epoch: str) -> None:
        self.lake = lake
        self.places = places(namespace, epoch)
        self.silver: tuple[int, Manifest] | None = read_last(lake, log_of(namespace, epoch))

    @property
    def manifest(self) -> Manifest:
        """The content of silver's last commit."""
        assert self.silver is not None
        return self.silver[1]

    def files(self, table: str, since: int, bucket: int | None = None) -> tuple[list[str], int]:
        """Files of a silver table that may have rows that held at ``since`` or later, and how many rows they have."""
        every = self.manifest.of(table, bucket=bucket)
        found = [file for file in every if file.to_us is None or file.to_us >= since * 1000]
        return [file.path for file in found], sum(file.rows for file in found)

    def buckets(self, table: str) -> list[int]:
        """Parts of a silver table: rows of one topic are all in the same one."""
        return sorted({file.bucket for file in self.manifest.of(table)})

    def rows(
        self, table: str, since: int, now: int, *, bucket: int | None = None, columns: Sequence[str] = ()
    ) -> pa.Table:
        """Rows that held at some time from ``since`` to ``now``, or ended then; with from_ms, to_ms (null: holds).

        Args:
            bucket: of this one alone.
            columns: these, valid_from and valid_to; else all.
        """
        wanted = [field for field in SILVER[table] if not columns or field.name in (*columns, "valid_from", "valid_to")]
        rows = self._table(self.files(table, since, bucket)[0], pa.schema(wanted))
        start = pc.floor(pc.divide(rows["valid_from"].cast(pa.int64()), 1000)).cast(pa.int64())
        end = pc.floor(pc.divide(rows["valid_to"].cast(pa.int64()), 1000)).cast(pa.int64())
        rows = rows.append_column("from_ms", start).append_column("to_ms", end)
        held = pc.or_kleene(pc.is_null(end), pc.greater_equal(end, since))
        return rows.filter(pc.and_kleene(held, pc.less_equal(start, now)))

    def begins(self) -> list[int]:
        """The earliest from_ms of every file that gold reads."""
        return [file.from_us // 1000 for table in ("broker_addr", "queue_data") for file in self.manifest.of(table)]

    def snapshots(self) -> list[int]:
        """The seqs at which the tables were read as a whole."""
        return self.lake.commits(f"snapshots/{self.places}")

    def last_batch(self, stream: str) -> int:
        """The number of a stream's last batch in bronze; -1: there is none."""
        return max(self.lake.commits(f"bronze/{stream}/{self.places}"), default=_NO_BATCH)

    def folders(self, stream: str, after: int, upto: int) -> tuple[list[str], int]:
        """Folders of the committed batches in ``(after, upto]`` that have rows, and how many they have."""
        log = f"bronze/{stream}/{self.places}"
        found, total = [], 0
        for number in self.lake.commits(log):
            if after < number <= upto:
                rows = int(self.lake.read_commit(log, number)["rows"])
                total += rows
                if rows:
                    found.append(f"{log}/batch={number:09d}")
        return found, total

    def entries(
        self, stream: str, batches: tuple[int, int], since: int, now: int, columns: Sequence[str], wanted: Any = None
    ) -> Iterator[pa.RecordBatch]:
        """Columns of BRONZE[stream] of these batches (after, upto) and of ``[since, now]``, some rows at a time.

        Args:
            wanted: an expression: those rows alone.
        """
        paths = [path for folder in self.folders(stream, *batches)[0] for path in self.lake.parquet_files(folder)]
        moment = (pc.field("ms") >= since) & (pc.field("ms") <= now)
        if paths:
            yield from self.lake.dataset(paths, BRONZE[stream]).to_batches(
                columns=list(columns), filter=moment if wanted is None else moment & wanted, batch_size=_ROWS_AT_ONCE,
                batch_readahead=2, fragment_readahead=1,
            )  # fmt: skip

    def span(self, stream: str, batches: tuple[int, int]) -> tuple[int, int] | None:
        """The first and the last ms of these batches; None: they have no rows."""
        paths = [path for folder in self.folders(stream, *batches)[0] for path in self.lake.parquet_files(folder)]
        first, last = None, None
        for batch in self.lake.dataset(paths, BRONZE[stream]).to_batches(columns=["ms"]) if paths else ():
            if batch.num_rows:
                found: Any = pc.min_max(batch["ms"]).as_py()
                first = found["min"] if first is None else min(first, found["min"])
                last = found["max"] if last is None else max(last, found["max"])
        return None if first is None or last is None else (first, last)

    def _table(self, paths: list[str], schema: pa.Schema) -> pa.Table:
        if not paths:
            return schema.empty_table()
        return self.lake.dataset(paths, schema).to_table()
