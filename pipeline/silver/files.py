"""Reads and writes silver's Parquet files, and merges many closed files into one.

Tables that are asked for a key (queue data, mappings, KV) are sorted by it, the others by ``valid_from``: statistics of
row groups then show a reader of one key, or of one instant, which few of them to read.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..lake.lake import Lake
from ..lake.schema import SILVER, SILVER_KEYS
from .cell_history import CellHistory, Held
from .manifest import CLOSED, OPEN, File

BY_KEY: Final = frozenset({"queue_data", "mapping", "kv"})
ROW_GROUP_ROWS: Final = 32_768
# So many closed files of one level, table and bucket become one of the next level; larger ones stay as they are.
MERGED_FILES: Final = 8
MERGED_ROWS: Final = 250_000


def sort_keys(table: str) -> list[tuple[str, str]]:
    """How a table's files are sorted, as pyarrow takes it."""
    first = [*SILVER_KEYS[table], "valid_from"] if table in BY_KEY else ["valid_from", *SILVER_KEYS[table]]
    return [(name, "ascending") for name in first]


def to_arrow(table: str, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Rows as :class:`mqregistry.pipeline.silver.cell_history.CellHistory` gives them."""
    schema = SILVER[table]
    return pa.Table.from_arrays(to_columns(rows, schema.types), schema=schema)


def to_columns(rows: Sequence[tuple[Any, ...]], types: Sequence[pa.DataType]) -> list[pa.Array]:
    """Each place of the rows as an array. (``zip(*rows)`` takes three times as long: the rows are its arguments.)"""
    return [pa.array(list(map(itemgetter(at), rows)), type=each) for at, each in enumerate(types)]


def read_held(lake: Lake, table: str, files: Iterable[File]) -> dict[tuple[Any, ...], Held]:
    """Read the values that hold from files of open rows."""
    keys = len(SILVER_KEYS[table])
    names = SILVER[table].names
    values = names.index("valid_from")
    held, authors = {}, dict[str | None, str | None]()  # one text for all rows of a large registration
    for file in files:
        rows = pq.read_table(lake.path(file.path), filesystem=lake.filesystem, schema=SILVER[table])
        columns = [rows.column(name).to_pylist() for name in names[:values]]
        columns += [rows.column("valid_from").cast(pa.int64()).to_pylist(), rows.column("from_seq").to_pylist()]
        columns.append([authors.setdefault(by, by) for by in rows.column("from_by").to_pylist()])
        for row in zip(*columns, strict=True):
            held[row[:keys]] = Held(row[keys:values], *row[-3:])
    return held


class Writer:
    """Writes the files of one bucket after its replay.

    Args:
        place: the folder of a table and state (closed, open) in this commit.
        before: the bucket's files so far.
    """

    def __init__(
        self, lake: Lake, place: Callable[[str, str], str], bucket: int, before: Sequence[File]
    ) -> None:  # fmt: skip
        self._lake = lake
        self._place = place
        self._bucket = bucket
        self._files = list(before)
        self._ended: dict[str, list[pa.Table]] = {}

    def take(self, table: str, cells: CellHistory) -> None:
        """Take the rows that ended so far off the cells."""
        if cells.ended:
            self._ended.setdefault(table, []).append(to_arrow(table, cells.ended))
            cells.ended = []

    def finish(self, cells: dict[str, CellHistory]) -> list[File]:
        """Write everything; returns the bucket's files after it."""
        for table, of_table in cells.items():
            self.take(table, of_table)
            if of_table.touched:
                self._files = [file for file in self._files if (file.table, file.state) != (table, OPEN)]
                if of_table.held:
                    self._write(table, OPEN, to_arrow(table, list(of_table.rows())), 0)
        for table, parts in self._ended.items():
            self._write(table, CLOSED, pa.concat_tables(parts), 0)
            self._merge(table)
        return self._files

    def _merge(self, table: str) -> None:
        level = 0
        while True:
            small = [
                file
                for file in self._files
                if (file.table, file.state, file.level) == (table, CLOSED, level) and file.rows <= MERGED_ROWS
            ]
            if len(small) < MERGED_FILES:
                return
            rows = read_files(self._lake, table, small).to_table()
            self._files = [file for file in self._files if file not in small]
            level += 1
            self._write(table, CLOSED, rows, level)

    def _write(self, table: str, state: str, rows: pa.Table, level: int) -> None:
        rows = rows.sort_by(sort_keys(table))
        name = f"b{self._bucket:02d}-{level}-{secrets.token_hex(4)}.parquet"  # a second attempt's has another name
        folder = self._place(table, state)
        self._lake.filesystem.create_dir(self._lake.path(folder), recursive=True)
        pq.write_table(
            rows,
            self._lake.path(folder, name),
            filesystem=self._lake.filesystem,
            row_group_size=ROW_GROUP_ROWS,
            compression="zstd",
            use_dictionary=True,
            write_statistics=True,
        )
        self._files.append(
            File(
                table,
                state,
                self._bucket,
                f"{folder}/{name}",
                rows.num_rows,
                _us(pc.min(rows.column("valid_from"))),
                _us(pc.max(rows.column("valid_to"))) if state == CLOSED else None,
                level,
            )
        )


def _us(scalar: Any) -> int:
    us: int = scalar.cast(pa.int64()).as_py()
    return us


def read_files(lake: Lake, table: str, files: Sequence[File]) -> Any:
    """A pyarrow dataset of these files."""
    return lake.dataset([file.path for file in files], SILVER[table])
