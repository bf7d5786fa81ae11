"""Shares silver's topics among as many buckets as there are rows for: a changed topic rewrites its bucket alone.

How many buckets there are is told by the numbers of those whose rows hold. Rows that ended stay where they are.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from ..lake.files import File, rows_in, write_partitions
from ..lake.schema import SILVER
from .buckets import LEAST_BITS, MOST_BITS, bucket_of
from .files import sort_keys
from .tables import Tables
from .topic_bucket import TABLES

BUCKET_ROWS: Final = 8_192  # that hold, about


def _held(tables: Tables, table: str) -> list[File]:
    return [file for file in tables.of(table) if file.partition["current"] == "true"]


def bits_of(tables: Tables | None) -> int:
    """How many buckets the topics are in, as a power of two."""
    buckets = {int(file.partition["bucket"]) for table in TABLES for file in (_held(tables, table) if tables else ())}
    return max([LEAST_BITS, *(bucket.bit_length() - 1 for bucket in buckets)])


def bits_wanted(tables: Tables) -> int:
    """How many there are to be; never fewer than there are."""
    bits, rows = bits_of(tables), max(rows_in(_held(tables, table)) for table in TABLES)
    while bits < MOST_BITS and rows > BUCKET_ROWS << bits:
        bits += 1
    return bits


def split(tables: Tables, area: str, place: dict[str, str], bits: int) -> dict[str, list[File]]:
    """Write the rows that hold, of tables that are not in so many buckets yet, into these; they do not count yet."""
    done = {}
    for table in TABLES:
        held = _held(tables, table)
        if all(int(file.partition["bucket"]) >> bits == 1 for file in held):
            continue
        rows = tables.lake.dataset(held, SILVER[table]).to_table().sort_by(sort_keys(table))
        topics = rows["topic"].combine_chunks().dictionary_encode()
        buckets = pa.array([str(bucket_of(topic, bits)) for topic in topics.dictionary.to_pylist()])
        rows = rows.append_column("bucket", buckets.take(topics.indices))
        done[table] = write_partitions(tables.lake, f"{area}/{table}", rows, "bucket", place | {"current": "true"})
    return done
