"""A lake as the earlier stages leave it, from rows: for tests and benches of gold."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq

from mqregistry.pipeline.lake.lake import places
from mqregistry.pipeline.lake.schema import BRONZE, MOMENT, SILVER


class Written:
    """Writes silver and bronze by the same rules as the jobs do: files first, then the commit."""

    def __init__(self, lake, namespace="default", epoch="e1"):
        self.lake, self.namespace, self.epoch = lake, namespace, epoch
        self.places = places(namespace, epoch)

    def silver(self, number, *, seq, ms, **tables):
        """Everything silver knows at that commit: rows by table, with from_ms and to_ms."""
        files = []
        for table, rows in tables.items():
            if not rows:
                continue
            path = f"silver/{table}/{self.places}/closed/batch={number:09d}/rows.parquet"
            arrow = silver_table(table, rows)
            self._write(path, arrow)
            files.append(
                {
                    "table": table, "state": "closed", "bucket": 0, "path": path, "rows": len(rows), "level": 0,
                    "from_us": min(row["from_ms"] for row in rows) * 1000,
                    "to_us": None if any(row["to_ms"] is None for row in rows)
                    else max(row["to_ms"] for row in rows) * 1000,
                }
            )  # fmt: skip
        content = {"seq": seq, "ms": ms, "bronze_batch": 0, "begin_seq": 0, "begin_ms": 0, "files": files}
        self.lake.commit(f"silver/{self.places}", number, content)

    def bronze(self, stream, number, entries, *, commit=True):
        """Entries of a stream as dicts; their ids are their ms."""
        rows = []
        for place, entry in enumerate(entries):
            row = {"id_ms": entry["ms"], "id_n": place, "ms": entry["ms"], "e": json.dumps(entry)}
            if stream == "changes":
                row |= {"seq": entry["seq"], "type": entry["type"], "part": entry.get("part", 1), "parts": 1}
            rows.append(row)
        log = f"bronze/{stream}/{self.places}"
        self._write(f"{log}/batch={number:09d}/day=2026-01-01/part.parquet", pa.Table.from_pylist(rows, BRONZE[stream]))
        if commit:
            self.lake.commit(log, number, {"rows": len(rows), "quarantined": 0})

    def _write(self, path, table):
        folder, _, name = path.rpartition("/")
        self.lake.filesystem.create_dir(self.lake.path(folder), recursive=True)
        pq.write_table(table, self.lake.path(folder, name), filesystem=self.lake.filesystem)


def silver_table(table, rows):
    """Rows with from_ms and to_ms, and whatever columns they have; the others are zero or empty."""
    columns = []
    for field in SILVER[table]:
        if field.name in ("valid_from", "valid_to"):
            source = {"valid_from": "from_ms", "valid_to": "to_ms"}[field.name]
            values = [None if row[source] is None else row[source] * 1000 for row in rows]
            columns.append(pa.array(values, pa.int64()).cast(MOMENT))
            continue
        zero = None if field.nullable else "" if field.type == pa.string() else 0
        columns.append(pa.array([row.get(field.name, zero) for row in rows], field.type))
    return pa.Table.from_arrays(columns, schema=SILVER[table])
