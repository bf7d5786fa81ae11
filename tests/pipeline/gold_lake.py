"""A lake as the earlier stages leave it, from rows and without Spark: for tests of gold and of the report."""

from __future__ import annotations

import json
import random
import shutil
from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from mqregistry.pipeline import gold
from mqregistry.pipeline.gold import refresh as work
from mqregistry.pipeline.lake.gold_schema import GOLD
from mqregistry.pipeline.lake.schema import SILVER
from tests.pipeline.plain_lake import EPOCH_START, put, put_entries

HOUR, DAY = 3_600_000, 86_400_000
NOON = 1_767_268_800_000  # 2026-01-01T12:00Z
TABLES = [table for table in GOLD if table not in ("audited", "refresh")]


TEMPLATE: list[str] = []
"""The lake of the fixture ``empty_tables``, once that has made it."""


class Written:
    """Silver and bronze of one epoch; each call replaces what a table has of it."""

    def __init__(self, lake, namespace="default", epoch="e1"):
        if TEMPLATE and not Path(lake.root).exists():
            shutil.copytree(TEMPLATE[0], lake.root)
        self.lake, self.place = lake, (namespace, epoch)
        self.namespace, self.epoch = self.place
        self._entries = {"changes": [], "heartbeats": [], "lookups": []}
        self.snapshot(0)

    def silver(self, number, *, seq, ms, begin_ms=0, gaps=(), steps=(), **tables):
        """Everything silver knows at a step: rows by table, with from_ms and to_ms; gaps: (stream, from ms, to ms)."""
        for table, rows in tables.items():
            put(self.lake, f"silver/{table}", *self.place, [silver_row(table, row) for row in rows])
        names = ("stream", "from_ms", "to_ms")
        put(self.lake, "silver/gap", *self.place, [dict(zip(names, gap, strict=True)) for gap in gaps])
        names = ("seq", "from_ms", "to_ms")
        put(self.lake, "silver/clock_step", *self.place, [dict(zip(names, step, strict=True)) for step in steps])
        progress = {"number": number, "kind": "changes", "seq": seq, "ms": ms, "begin_ms": begin_ms, "compat": "5.x"}
        put(self.lake, "silver/progress", *self.place, [progress])

    def snapshot(self, seq, ms=0):
        """The tables were read as of a change."""
        about = {"epoch": self.epoch, "seq": seq, "ms": ms, "last_id": "0-0", "rows": 0, "compat": "5.x"}
        begun = {"seq": seq, "ms": ms, "type": "snapshot", "part": 0, "parts": 0, "e": json.dumps(about)}
        put(self.lake, "bronze/snapshot", *self.place, [begun])

    def bronze(self, stream, entries):
        """Further entries of a stream as dicts; their ids are their ms, and they come in this order."""
        of_stream = self._entries[stream]
        for entry in entries:
            row = (entry["ms"], len(of_stream))
            if stream == "changes":
                row += (entry["seq"], entry["ms"], entry["type"], entry.get("part", 1), 1)
            else:
                row += (entry["ms"],)
            of_stream.append((*row, json.dumps(entry)))
        put_entries(self.lake, stream, *self.place, of_stream)


def silver_row(table, row):
    """Columns that it lacks are zero, empty or, where they may be, null."""
    found = {}
    for field in SILVER[table]:
        zero = None if field.nullable else {"string": "", "bool": False}.get(str(field.type), 0)
        found[field.name] = row.get(field.name, zero)
    for name, of in (("valid_from", "from_ms"), ("valid_to", "to_ms")):
        found[name] = None if row[of] is None else EPOCH_START + timedelta(milliseconds=row[of])
    found["to_seq"] = None if row["to_ms"] is None else row.get("to_seq", 0)
    return {**found, "current": found["to_seq"] is None}


def refresh(written, *, since_ms=None, **more):
    """On the session that the fixture ``spark`` has opened."""
    spark = SparkSession.builder.getOrCreate()
    return work.refresh(spark, written.lake, *written.place, since_ms=since_ms, **more)


def rows(written, table, grain=None):
    found = gold.read(written.lake, table, *written.place, grain=grain).to_pylist()
    return sorted(found, key=str)


def everything(written):
    return {table: rows(written, table) for table in TABLES}


def ms(moment):
    return round(moment.timestamp() * 1000)


def by_period(found, key):
    return {(ms(row["period_start"]), row[key]): row for row in found}


def addr(broker, start, end=None, *, broker_id=0, cluster="c1"):
    return {"broker_name": broker, "broker_id": broker_id, "cluster": cluster, "addr": f"{broker}:{broker_id}",
            "from_ms": start, "to_ms": end}  # fmt: skip


def queue(topic, broker, start, end=None, *, nums=8, perm=6, seq=5):
    return {"topic": topic, "broker_name": broker, "read_queue_nums": nums, "write_queue_nums": nums, "perm": perm,
            "from_ms": start, "to_ms": end, "from_seq": seq}  # fmt: skip


def event(seq, ms, kind, broker, **more):
    return {"seq": seq, "ms": ms, "type": kind, "broker_name": broker, "cluster": "c1", **more}


def beat(ms, who, *, interval_ms=30_000, kind="same", front_end="f1"):
    return {"ms": ms, "who": who, "front_end": front_end, "kind": kind, "interval_ms": interval_ms, "bytes": 9}


def a_past(seed, *, end):
    """Rows and entries of random lives of three brokers."""
    chance = random.Random(seed)
    addrs, queues, events, beats, lookups, seq = [], [], [], [], [], 10
    for broker in ("a", "b", "c"):
        at = NOON + chance.randrange(HOUR)
        while at < end:
            off = at + chance.choice([60_000, HOUR, 5 * HOUR, 14 * HOUR])
            off = None if off > end else off
            seq += 1
            cluster = "c2" if broker == "c" else "c1"
            addrs.append(addr(broker, at, off, cluster=cluster))
            events.append(event(seq, at, "broker_registered", broker))
            for topic in ("t1", "t2"):
                middle = chance.choice([None, at + 30_000])
                queues.append(queue(topic, broker, at, middle or off, nums=chance.randrange(1, 9), seq=seq))
                if middle:
                    queues.append(queue(topic, broker, middle, off, perm=chance.choice([4, 6]), seq=seq))
            previous = -1
            for ms_ in range(at, min(off or end, at + 3 * HOUR), 600_000):
                beats.append(beat(ms_, f"{cluster}|{broker}", interval_ms=previous))
                previous = 600_000
            if off is None:
                break
            seq += 1
            events.append(event(seq, off, chance.choice(["broker_expired", "broker_closed"]), broker))
            at = off + chance.choice([0, 1000, 400_000, 20 * HOUR])
    for ms_ in range(NOON + 10_000, end, 50 * 60_000):
        lookups.append({"ms": ms_, "since_ms": ms_ - 1, "front_end": "f1", "found": {"t1": 2}, "missing": {"typo": 1}})
    return addrs, queues, events, sorted(beats, key=lambda entry: entry["ms"]), lookups


def seen_by(of, upto):
    """Silver's rows as of a moment."""
    return [
        {**row, "to_ms": row["to_ms"] if row["to_ms"] is not None and row["to_ms"] <= upto else None}
        for row in of if row["from_ms"] <= upto
    ]  # fmt: skip
