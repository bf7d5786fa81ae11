"""A lake as the earlier stages leave it, from rows: for tests and benches of gold."""

from __future__ import annotations

import json

import pyarrow as pa

from mqregistry.pipeline.lake.files import write_file
from mqregistry.pipeline.lake.lake import State, owner
from mqregistry.pipeline.lake.schema import BRONZE, MOMENT, SILVER
from mqregistry.pipeline.silver.tables import PART
from tests.pipeline.world import write_rows


class Written:
    """Writes silver and bronze by the same rules as the jobs do: files first, then the commit."""

    def __init__(self, lake, namespace="default", epoch="e1"):
        self.lake, self.namespace, self.epoch = lake, namespace, epoch
        self.owner = owner(namespace, epoch)

    def silver(self, number, *, seq, ms, begin_ms=0, holes=(), steps=(), backfills=0, **tables):
        """Everything silver knows at that commit: rows by table, with from_ms and to_ms."""
        for table, rows in tables.items():
            place = {**self.owner, "current": "false", "bucket": "0"}
            file = [write_file(self.lake, f"silver/{table}", silver_table(table, rows), place)] if rows else []
            app = f"silver/{self.namespace}/{self.epoch}"
            self.lake.table(f"silver/{table}").commit(file, app, number, replaced=self.owner, after=number - 1)
        content = {"seq": seq, "ms": ms, "begin_ms": begin_ms, "holes": [*holes], "steps": [*steps],
                   "backfills": backfills}  # fmt: skip
        self.lake.set_state(PART, self.namespace, self.epoch, State(number, content))

    def snapshot(self, seq, ms=0, rows=0):
        """The tables were read as of a change."""
        content = {"taken": [[self.epoch, seq, ms, "0-0", rows]]}
        self.lake.set_state("snapshot", self.namespace, self.epoch, State(0, content))

    def bronze(self, stream, number, entries, *, commit=True):
        """Entries of a stream as dicts; their ids are their ms."""
        rows = []
        for place, entry in enumerate(entries):
            row = {"id_ms": entry["ms"], "id_n": place, "ms": entry["ms"], "e": json.dumps(entry)}
            if stream == "changes":
                row |= {"seq": entry["seq"], "type": entry["type"], "part": entry.get("part", 1), "parts": 1}
            rows.append(tuple(row[name] for name in BRONZE[stream].names))
        write_rows(self.lake, stream, self.namespace, self.epoch, number, rows, commit=commit)


def silver_table(table, rows):
    """Rows with from_ms and to_ms, and whatever columns they have; the others are zero or empty."""
    columns = []
    for field in SILVER[table]:
        if field.name in ("valid_from", "valid_to"):
            source = {"valid_from": "from_ms", "valid_to": "to_ms"}[field.name]
            values = [None if row[source] is None else row[source] * 1000 for row in rows]
            columns.append(pa.array(values, pa.int64()).cast(MOMENT))
            continue
        if field.name == "to_seq":
            columns.append(pa.array([None if row["to_ms"] is None else 0 for row in rows], field.type))
            continue
        zero = None if field.nullable else "" if field.type == pa.string() else 0
        columns.append(pa.array([row.get(field.name, zero) for row in rows], field.type))
    return pa.Table.from_arrays(columns, schema=SILVER[table])
