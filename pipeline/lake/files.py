"""Writes the Parquet files of Delta tables, here or in a task of Spark; a commit of Delta's log makes them count."""

from __future__ import annotations

import datetime
import secrets
import time
from collections.abc import Iterable
from typing import Any, Final, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ROW_GROUP_ROWS: Final = 32_768
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_US: Final = datetime.timedelta(microseconds=1)


class Folder(Protocol):
    """Where files go: :class:`mqregistry.pipeline.lake.lake.Lake`."""

    @property
    def filesystem(self) -> Any:
        """Of pyarrow."""

    def path(self, *parts: str) -> str:
        """The path of a place within the folder."""


class File(msgspec.Struct, frozen=True):
    """A Parquet file of a table.

    path: within the lake. partition: value of each partition column, as text. low, high: the least and the greatest
    value of each column of whole numbers or moments (microseconds); a column of nulls alone is in neither. nulls: of
    how many rows each of these columns is null.
    """

    path: str
    rows: int
    size_bytes: int
    partition: dict[str, str]
    low: dict[str, int] = {}
    high: dict[str, int] = {}
    nulls: dict[str, int] = {}


def write_file(lake: Folder, table: str, rows: pa.Table, partition: dict[str, str]) -> File:
    """Write rows as a file of a table; it counts once it is committed.

    Args:
        table: a folder within the lake.
    """
    path = f"{table}/{secrets.token_hex(12)}.parquet"  # a second attempt's has another name
    lake.filesystem.create_dir(lake.path(table), recursive=True)
    with lake.filesystem.open_output_stream(lake.path(path)) as out:
        pq.write_table(rows, out, row_group_size=ROW_GROUP_ROWS, compression="zstd")
        size_bytes = out.tell()
    low, high, nulls = {}, {}, {}
    for name in measured(rows.schema):
        column = rows[name]
        found: Any = pc.min_max(column.cast(pa.int64())).as_py()
        nulls[name] = column.null_count
        if found["min"] is not None:
            low[name], high[name] = found["min"], found["max"]
    return File(path, rows.num_rows, size_bytes, partition, low, high, nulls)


def measured(schema: pa.Schema) -> list[str]:
    """The columns that Delta's log has statistics of.

    The log says so, too: deltalake's pyarrow dataset takes a column that it expects statistics of and finds none of for
    one of nulls, and passes the file over.
    """
    return [field.name for field in schema if pa.types.is_int64(field.type) or pa.types.is_timestamp(field.type)]


def write_partitions(lake: Folder, table: str, rows: pa.Table, column: str, fixed: dict[str, str]) -> list[File]:
    """A file for each value of a column of texts, which is not in the files.

    Args:
        fixed: the values of the other partition columns.
    """
    if pc.count_distinct(rows[column]).as_py() > 1:
        rows = rows.sort_by(column)
    runs = pc.run_end_encode(rows[column].combine_chunks())
    without, start, files = rows.drop_columns([column]), 0, []
    for value, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        files.append(write_file(lake, table, without.slice(start, end - start), {**fixed, column: value}))
        start = end
    return files


def delta_stats(file: File, schema: pa.Schema) -> str:
    """The statistics of a file as Delta's log has them."""

    def shown(values: dict[str, int]) -> dict[str, int | str]:
        return {
            name: _moment(value) if pa.types.is_timestamp(schema.field(name).type) else value
            for name, value in values.items()
        }

    stats = {"numRecords": file.rows, "minValues": shown(file.low), "maxValues": shown(file.high),
             "nullCount": file.nulls}  # fmt: skip
    return msgspec.json.encode(stats).decode()


def _moment(us: int) -> str:
    return f"{_EPOCH + datetime.timedelta(microseconds=us):%Y-%m-%dT%H:%M:%S.%fZ}"


def from_log(table: str, actions: pa.Table) -> list[File]:
    """The files that Delta's add actions name."""
    return [
        File(
            f"{table}/{row['path']}", row["num_records"], row["size_bytes"],
            {name: str(value).lower() if isinstance(value, bool) else str(value)  # as Delta's log writes it
             for name, value in row["partition"].items()},
            *(_numbers(row.get(name)) for name in ("min", "max", "null_count")),
        )
        for row in actions.to_pylist()
    ]  # fmt: skip


def _numbers(values: dict[str, Any] | None) -> dict[str, int]:
    found = values or {}
    moments = {name: (value - _EPOCH) // _US for name, value in found.items() if isinstance(value, datetime.datetime)}
    return {name: value for name, value in found.items() if type(value) is int} | moments


def rows_in(files: Iterable[File]) -> int:
    """How many rows files have together."""
    return sum(file.rows for file in files)


def now_ms() -> int:
    """The time of this machine, for Delta's log."""
    return time.time_ns() // 1_000_000
