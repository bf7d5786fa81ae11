"""Silver by a plain replay in dicts, and lakes that are written of it without Spark: for tests of what reads them.

What an event does to cells is the pipeline's own meaning of it; how cells become rows is not: silver's SQL is compared
with this, row by row.
"""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import msgspec
import pyarrow as pa
from deltalake import write_deltalake

from mqregistry.events.cells import Operation
from mqregistry.events.changes import decode_change
from mqregistry.pipeline.lake.schema import BRONZE, SILVER, SILVER_KEYS, SILVER_VALUES, TABLES
from mqregistry.pipeline.silver import cells, head

EPOCH_START = datetime.fromtimestamp(0, UTC)
_decode = msgspec.msgpack.Decoder(list[Operation]).decode


class PlainSilver:
    """Tables as lists of rows: of a past that begins with nothing, no clock set back by much, no gaps."""

    def __init__(self, *, begin_ms=0, compat="5.x"):
        self.rows = {table: [] for table in SILVER}
        self.seq, self.begin_ms, self.ms, self.compat = 0, begin_ms, begin_ms, compat
        self._held = {table: {} for table in SILVER}
        self._head = head.HeadReplay(live_by_cluster=compat == "5.x")

    def take(self, texts):
        """Events in their order, as JSON."""
        for text in texts:
            change = decode_change(text.encode())
            self.ms = max(self.ms, change.ms)
            spans = [(change.seq, change.seq, self.ms)]
            for row in cells._of_event(spans, False, change.seq, change.ms, change.part, text.encode()):
                self._take(dict(zip(cells.CELLS.names, row, strict=True)))
            self.seq = change.seq

    def _take(self, cell):
        if cell["target"] == cells.HEAD:
            for operation in _decode(cell["operations"]):
                self._head.apply(operation, tuple(cell[name] for name in cells.AT[1:]))
            done, self._head.cells = self._head.cells, []
            for row in done:
                self._set(dict(zip(head.HEAD_CELLS.names, row, strict=True)))
        elif cell["topic"] is None:
            for topic, name in [key for key in self._held["queue_data"] if key[1] == cell["broker_name"]]:
                self._set({**cell, "topic": topic, "broker_name": name})
        else:
            self._set(cell)

    def _set(self, cell):
        table, at = cell["target"], EPOCH_START + timedelta(milliseconds=cell["ms"])
        key = tuple(cell[name] for name in SILVER_KEYS[table])
        values = {name: cell[name] for name in SILVER_VALUES[table]}
        old = self._held[table].get(key)
        if old is not None and not cell["gone"] and all(old[name] == value for name, value in values.items()):
            return
        if old is not None:
            del self._held[table][key]
            if old["from_seq"] == cell["seq"]:
                self.rows[table].remove(old)
            else:
                old |= {"valid_to": at, "to_seq": cell["seq"], "ended_by": cell["kind"], "to_by": cell["by"]}
        if not cell["gone"]:
            row = {**dict.fromkeys(SILVER[table].names), **values, "valid_from": at, "from_seq": cell["seq"]}
            row["from_by"] = cell["by"]
            self._held[table][key] = row
            self.rows[table].append(row)

    def write(self, lake, namespace, epoch, *, number=0, observed_ms=None):
        """Put them in the place of all that a lake has of this epoch."""
        for table, rows in self.rows.items():
            every = [{**row, "current": row["to_seq"] is None} for row in rows]
            put(lake, f"silver/{table}", namespace, epoch, every)
        progress = {"number": number, "kind": "changes", "seq": self.seq, "ms": self.ms, "begin_ms": self.begin_ms,
                    "compat": self.compat, "observed_ms": observed_ms, "touched_ms": self.begin_ms}  # fmt: skip
        put(lake, "silver/progress", namespace, epoch, [progress])
        begun = {"seq": 0, "ms": self.begin_ms, "type": "snapshot", "part": 0, "parts": 0}
        about = {"epoch": epoch, "seq": 0, "ms": self.begin_ms, "last_id": "0-0", "rows": 0, "compat": self.compat}
        put(lake, "bronze/snapshot", namespace, epoch, [{**begun, "e": msgspec.json.encode(about).decode()}])


def put(lake, name, namespace, epoch, rows):
    """Rows in the place of all that a table has of an epoch."""
    schema, partitions = TABLES[name]
    every = [{"namespace": namespace, "epoch": epoch, **row} for row in rows]
    if not every and lake.delta(name) is None:
        return
    write_deltalake(
        lake.path(name), pa.Table.from_pylist(every, schema=schema), mode="overwrite", partition_by=list(partitions),
        predicate=f"namespace = '{namespace}' AND epoch = '{epoch}'" if lake.delta(name) is not None else None,
    )  # fmt: skip


def put_entries(lake, stream, namespace, epoch, rows):
    """Entries of a stream, in the place of all; the rows have the columns of ``BRONZE[stream]`` up to e."""
    found = []
    for row in rows:
        named = dict(itertools.zip_longest(BRONZE[stream].names, row))
        found.append({**named, "day": str((EPOCH_START + timedelta(milliseconds=named["ms"])).date())})
    put(lake, f"bronze/{stream}", namespace, epoch, found)


def put_changes(lake, namespace, epoch, found):
    """Changes, as (id, e) of the stream."""
    rows = []
    for entry_id, e in found:
        change = decode_change(e.encode())
        ms, n = entry_id.split("-")
        rows.append((int(ms), int(n), change.seq, change.ms, change.type, change.part, change.parts, e))
    put_entries(lake, "changes", namespace, epoch, rows)
