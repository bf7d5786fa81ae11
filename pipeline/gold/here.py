"""The large inputs without Spark, while they are small: the same arithmetic, in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.gold import beats, queues
from pipeline.gold.brokers import EVENTS
from pipeline.gold.inputs import Inputs
from pipeline.gold.spans import Periods
from pipeline.gold.tables import GRAINS
from pipeline.schema import GOLD, MOMENT
from registry.change import STREAM_ALARM, decode_change
from registry.journal import decode_heartbeat, decode_lookups

Write = Callable[[str, pa.Table], None]
Batches = tuple[int, int]

COUNTS: Final = pa.schema(
    [("topic", pa.string()), ("grain", pa.string()), ("at_ms", pa.int64()), ("found", pa.int64()),
     ("missing", pa.int64())]
)  # fmt: skip
EVENT_COUNTS: Final = pa.schema(
    [("name", pa.string()), ("cluster", pa.string()), ("type", pa.string()), ("at_ms", pa.int64()), ("n", pa.int64())]
)
ALARMS: Final = pa.schema(
    [("ms", pa.int64()), *((field.name, field.type) for field in GOLD["alarm"] if field.name != "at")]
)
_PERIOD: Final = ["topic", "grain", "at_ms"]


class Here:
    """What a refresh needs of the large inputs."""

    def __init__(self, inputs: Inputs, write: Write) -> None:
        self._inputs = inputs
        self._write = write

    def counts(self, since: int, now: int, batches: Batches) -> pa.Table:
        """Lookups per topic and period."""
        found: Counter[tuple[str, str, int]] = Counter()
        missing: Counter[tuple[str, str, int]] = Counter()
        for entry in self._once("lookups", since, now, batches)["e"].to_pylist():
            lookups = decode_lookups(entry.encode())
            for counter, counts in ((found, lookups.found), (missing, lookups.missing)):
                for topic, count in counts.items():
                    for grain, step in GRAINS.items():
                        counter[topic, grain, lookups.ms // step * step] += count
        rows = [(*key, found[key], missing[key]) for key in sorted({*found, *missing})]
        return _table(rows, COUNTS)

    def queue_parts(
        self, known: queues.Brokers, grains: dict[str, Periods], since: int, now: int, snapshots: Sequence[int]
    ) -> pa.Table:
        """RESULT rows of pipeline.gold.queues."""
        rows = self._inputs.rows("queue_data", grains["day"].first, now)
        return queues.figures(rows, known, grains, since, snapshots)

    def deltas(self, parts: pa.Table) -> pa.Table:
        """How each broker's number of writable queue data changes: name, at_ms, delta."""
        return parts.filter(pc.equal(parts["kind"], queues.DELTA)).select(["name", "at_ms", "delta"])

    def cluster_sums(self, parts: pa.Table) -> tuple[pa.Table, pa.Table]:
        """As pipeline.gold.clusters takes it."""
        period = ["cluster", "grain", "at_ms"]
        rows = parts.filter(pc.equal(parts["kind"], queues.BROKER))
        queue_sum = pc.if_else(rows["present"], rows["write_queues"], 0)
        rows = rows.append_column("squares", pc.multiply(queue_sum, queue_sum)).set_column(
            rows.schema.get_field_index("write_queues"), "write_queues", queue_sum
        )
        sums = rows.append_column("most", queue_sum).group_by(period).aggregate(
            [("write_queues", "sum"), ("squares", "sum"), ("most", "max"), ("changes", "sum")]
        )  # fmt: skip
        topics = parts.filter(pc.equal(parts["kind"], queues.CLUSTER)).group_by(period)
        return (
            sums.rename_columns([name.removesuffix("_sum").removesuffix("_max") for name in sums.schema.names]),
            topics.aggregate([("brokers", "sum")]).rename_columns([*period, "topics"]),
        )

    def write_topics(self, parts: pa.Table, counts: pa.Table) -> None:
        """The tables topic, unused_topic and missing_topic."""
        topics = parts.filter(pc.equal(parts["kind"], queues.TOPIC)).rename_columns(
            ["topic" if name == "name" else name for name in parts.schema.names]
        )
        lookups = counts.select([*_PERIOD, "found"]).rename_columns([*_PERIOD, "lookups"])
        topics = topics.join(lookups, _PERIOD, join_type="left outer")
        topics = topics.set_column(
            topics.schema.get_field_index("lookups"), "lookups", pc.fill_null(topics["lookups"], 0)
        )
        unused = pc.and_(pc.equal(topics["lookups"], 0), pc.greater(topics["routable_ms"], 0))
        missing = counts.filter(pc.greater(counts["missing"], 0))
        self._finish("topic", topics)
        self._finish("unused_topic", topics.filter(unused))
        self._finish("missing_topic", missing.append_column("lookups", missing["missing"]))

    def write_beats(self, grains: dict[str, Periods], since: int, now: int, batches: Batches) -> None:
        """The table heartbeat; grains: its periods; since: earlier by what a beat looks back."""
        rows = self._inputs.entries("heartbeats", batches, since, now)
        entries = [decode_heartbeat(entry.encode()) for entry in rows["e"].to_pylist()]
        told = {
            name: pa.array([getattr(entry, name) for entry in entries], kind)
            for name, kind in (
                ("who", pa.string()), ("front_end", pa.string()), ("kind", pa.string()), ("interval_ms", pa.int64()),
            )
        } | {"broker_name": pa.array([entry.broker_name or None for entry in entries], pa.string())}  # fmt: skip
        table = pa.table({**told, **{name: rows[name] for name in ("ms", "id_ms", "id_n")}})
        self._finish("heartbeat", beats.figures(table, grains))

    def events(self, since: int, now: int, batches: Batches) -> pa.Table:
        """Broker events that silver has: name, cluster, type, at_ms (the hour's start), n."""
        count: Counter[tuple[str, str, str, int]] = Counter()
        for change in self._changes(since, now, batches, list(EVENTS)):
            if change.part == 1:
                count[change.broker_name, change.cluster or "", change.type, change.ms // 3_600_000 * 3_600_000] += 1
        return _table([(*key, n) for key, n in sorted(count.items())], EVENT_COUNTS)

    def alarms(self, since: int, now: int, batches: Batches) -> pa.Table:
        """stream_alarm events: ms, seq, alarm, reader, stream."""
        found = self._changes(since, now, batches, [STREAM_ALARM])
        return _table([(c.ms, c.seq, c.alarm, c.reader, c.stream) for c in found], ALARMS)

    def close(self, *parts: Any) -> None:
        """Nothing is held."""

    def _once(self, stream: str, since: int, now: int, batches: Batches) -> pa.Table:
        """Entries, each id once."""
        rows = self._inputs.entries(stream, batches, since, now).sort_by(
            [("id_ms", "ascending"), ("id_n", "ascending")]
        )
        ids, numbers = rows["id_ms"].to_numpy(), rows["id_n"].to_numpy()
        first = np.ones(len(ids), dtype=bool)
        first[1:] = (np.diff(ids) != 0) | (np.diff(numbers) != 0)
        return rows.filter(pa.array(first))

    def _changes(self, since: int, now: int, batches: Batches, types: list[str]) -> list[Any]:
        rows = self._inputs.entries("changes", batches, since, now)
        wanted = pc.and_(pc.is_in(rows["type"], pa.array(types)), pc.less_equal(rows["seq"], self._inputs.manifest.seq))
        once = {row["seq"]: row["e"] for row in rows.filter(wanted).select(["seq", "e"]).to_pylist()}
        return [decode_change(once[seq].encode()) for seq in sorted(once)]

    def _finish(self, table: str, rows: pa.Table) -> None:
        names = GOLD[table].names
        moment = pc.multiply(rows["at_ms"], 1000).cast(MOMENT)
        rows = rows.append_column("period_start", moment).select(names)
        self._write(table, rows.sort_by([(name, "ascending") for name in names[:3]]))


def _table(rows: list[Any], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
