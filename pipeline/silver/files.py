"""Reads the rows that hold from silver's files, and writes the files of a bucket after its replay.

Tables that are asked for a key (queue data, mappings, KV) are sorted by it, the others by ``valid_from``: statistics of
row groups then show a reader of one key, or of one instant, which few of them to read.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final

import msgspec
import pyarrow as pa

from ..lake.files import File, write_file
from ..lake.lake import Lake
from ..lake.schema import SILVER, SILVER_KEYS
from .cell_history import CellHistory, Held
from .tables import Tables

BY_KEY: Final = frozenset({"queue_data", "mapping", "kv"})


class Bucket(msgspec.Struct, frozen=True):
    """What a replay of one bucket wrote.

    added: files by table. replaced: tables whose rows that held before do not any more.
    """

    bucket: int
    added: dict[str, list[File]]
    replaced: list[str]


def sort_keys(table: str) -> list[tuple[str, str]]:
    """How a table's files are sorted, as pyarrow takes it."""
    first = [*SILVER_KEYS[table], "valid_from"] if table in BY_KEY else ["valid_from", *SILVER_KEYS[table]]
    return [(name, "ascending") for name in first]


def to_columns(rows: Sequence[tuple[Any, ...]], types: Sequence[pa.DataType]) -> list[pa.Array]:
    """Each place of the rows as an array. (``zip(*rows)`` takes three times as long: the rows are its arguments.)"""
    return [pa.array(list(map(itemgetter(at), rows)), type=each) for at, each in enumerate(types)]


def read_held(tables: Tables, table: str, bucket: int) -> dict[tuple[Any, ...], Held]:
    """Read the values that hold in a bucket."""
    keys = len(SILVER_KEYS[table])
    names = SILVER[table].names
    values = names.index("valid_from")
    wanted = [*names[:values], "valid_from", "from_seq", "from_by", "to_seq"]
    rows = tables.read(table, files=tables.open_files(table, bucket), columns=wanted)
    rows = rows.filter(rows["to_seq"].is_null())
    columns = [rows.column(name).to_pylist() for name in names[:values]]
    columns += [rows.column("valid_from").cast(pa.int64()).to_pylist(), rows.column("from_seq").to_pylist()]
    authors = dict[str | None, str | None]()  # one text for all rows of a large registration
    columns.append([authors.setdefault(by, by) for by in rows.column("from_by").to_pylist()])
    return {
        row[:keys]: Held(row[keys:values], *row[-3:]) for row in zip(*columns, strict=True)
    }  # fmt: skip


class Writer:
    """Writes the files of one bucket.

    Args:
        area: folder of the tables, within the lake.
        place: the partition of namespace and epoch.
    """

    def __init__(self, lake: Lake, area: str, place: dict[str, str], bucket: int) -> None:
        self._lake = lake
        self._area = area
        self._place = place
        self._bucket = bucket
        self._ended: dict[str, list[pa.Table]] = {}

    def take(self, table: str, cells: CellHistory) -> None:
        """Take the rows that ended so far off the cells."""
        if cells.ended:
            self._ended.setdefault(table, []).append(_to_arrow(table, cells.ended))
            cells.ended = []

    def finish(self, cells: dict[str, CellHistory]) -> Bucket:
        """Write everything."""
        added: dict[str, list[File]] = {}
        replaced = []
        for table, of_table in cells.items():
            self.take(table, of_table)
            if of_table.touched:
                replaced.append(table)
                if of_table.held:
                    added[table] = [self._write(table, _to_arrow(table, list(of_table.rows())), current=True)]
        for table, parts in self._ended.items():
            added.setdefault(table, []).append(self._write(table, pa.concat_tables(parts), current=False))
        return Bucket(self._bucket, added, replaced)

    def _write(self, table: str, rows: pa.Table, *, current: bool) -> File:
        partition = {**self._place, "current": str(current).lower(), "bucket": str(self._bucket)}
        return write_file(self._lake, f"{self._area}/{table}", rows.sort_by(sort_keys(table)), partition)


def _to_arrow(table: str, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    schema = SILVER[table]
    return pa.Table.from_arrays(to_columns(rows, schema.types), schema=schema)
