"""Reduces the large inputs to figures in this process, while they are small enough; see ``on_spark``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqregistry.events.changes import StreamAlarm
from mqregistry.events.journal import decode_heartbeat, decode_lookups

from ..garbage import collection_paused
from ..lake.files import File
from ..lake.schema import GOLD, MOMENT
from . import beats, queues
from .brokers import EVENTS
from .inputs import Inputs
from .spans import NEVER, Periods
from .tables import GRAINS

Write = Callable[[str, pa.Table], None]

_HOURS: Final = pa.schema(
    [("topic", pa.string()), ("at_ms", pa.int64()), ("found", pa.int64()), ("missing", pa.int64())]
)
# at_ms: the hour's start
BROKER_EVENTS: Final = pa.schema(
    [
        ("name", pa.string()),
        ("cluster", pa.string()),
        ("type", pa.string()),
        ("at_ms", pa.int64()),
        ("seq", pa.int64()),
        ("ms", pa.int64()),
    ]
)
_NAME: Final = pa.dictionary(pa.int32(), pa.string())
_NO_BEATS: Final = pa.schema(
    [("who", _NAME), ("front_end", _NAME), ("kind", _NAME), ("broker_name", _NAME),
     ("interval_ms", pa.int64()), ("ms", pa.int64()), ("id_ms", pa.int64()), ("id_n", pa.int64())]
).empty_table()  # fmt: skip
ALARMS: Final = pa.schema(
    [("ms", pa.int64()), *((field.name, field.type) for field in GOLD["alarm"] if field.name != "at")]
)
_PERIOD: Final = ["topic", "grain", "at_ms"]


_Decoded = TypeVar("_Decoded")


class _Lookups(NamedTuple):
    """Rows of _HOURS, and the ids of the entries that they are made of."""

    hours: pa.Table
    ids: set[tuple[int, int]]


class _BrokerEvent(msgspec.Struct, gc=False):
    """What gold needs of a broker's event; the rest of it is not decoded."""

    broker_name: str = ""
    cluster: str | None = None


_decode_broker_event = msgspec.json.Decoder(_BrokerEvent).decode
_decode_alarm = msgspec.json.Decoder(StreamAlarm).decode


class InProcess:
    """Makes the figures that a refresh needs of the large inputs."""

    def __init__(self, inputs: Inputs, write: Write) -> None:
        self._inputs = inputs
        self._write = write

    def counts(self, grains: dict[str, Periods], now: int) -> pa.Table:
        """Lookups per topic and period: topic, grain, at_ms, found, missing."""
        files = self._inputs.entry_files("lookups", grains["day"].first, now)
        # an entry of later than now is not to count yet
        parts = self._kept("lookups", [file for file in files if file.high["ms"] <= now], self._hours)
        parts += [self._hours(file, now) for file in files if file.high["ms"] > now]
        if sum(len(part.ids) for part in parts) != len(set().union(*(part.ids for part in parts))):
            parts = [self._hours(files, now)]  # an entry is there twice
        rows = pa.concat_tables([_HOURS.empty_table(), *(part.hours for part in parts)])
        counted_by_grain = []
        for grain, when in grains.items():
            start = pc.multiply(pc.divide(rows["at_ms"], when.step), when.step)
            of_grain = rows.set_column(1, "at_ms", start).append_column("grain", pa.repeat(grain, rows.num_rows))
            of_grain = of_grain.filter(pc.greater_equal(of_grain["at_ms"], when.first))
            counted = of_grain.group_by(_PERIOD).aggregate([("found", "sum"), ("missing", "sum")])
            names = [name.removesuffix("_sum") for name in counted.column_names]
            counted_by_grain.append(counted.rename_columns(names))
        return pa.concat_tables(counted_by_grain)

    def _hours(self, of: File | list[File], now: int = NEVER) -> _Lookups:
        """The lookups of some entries, each id once, by topic and hour."""
        found: Counter[tuple[str, int]] = Counter()
        missing: Counter[tuple[str, int]] = Counter()
        ids: set[tuple[int, int]] = set()
        files = of if isinstance(of, list) else [of]
        for batch in self._inputs.entries(files, "lookups", 0, now, ["id_ms", "id_n", "e"]):
            pairs = zip(batch["id_ms"].to_pylist(), batch["id_n"].to_pylist(), strict=True)
            for entry_id, entry in zip(pairs, _texts(batch), strict=True):
                if entry_id in ids:
                    continue
                ids.add(entry_id)
                lookups = decode_lookups(entry)
                at_ms = lookups.ms // GRAINS["hour"] * GRAINS["hour"]
                for counter, counts in ((found, lookups.found), (missing, lookups.missing)):
                    for topic, count in counts.items():
                        counter[topic, at_ms] += count
        hours = [(*key, found[key], missing[key]) for key in sorted({*found, *missing})]
        return _Lookups(_table(hours, _HOURS), ids)

    def queue_parts(
        self, known: queues.Brokers, grains: dict[str, Periods], since: int, now: int, snapshots: Sequence[int]
    ) -> pa.Table:
        """RESULT rows of mqregistry.pipeline.gold.queues."""
        none: list[int | None] = [None]
        return pa.concat_tables(
            queues.figures(
                self._inputs.rows("queue_data", grains["day"].first, now, bucket=bucket, columns=queues.COLUMNS),
                known, grains, since, snapshots,
            )
            for bucket in self._inputs.buckets("queue_data") or none
        )  # fmt: skip

    def deltas(self, parts: Any) -> pa.Table:
        """How each broker's number of writable queue data changes: name, at_ms, delta."""
        return parts.filter(pc.equal(parts["kind"], queues.DELTA)).select(["name", "at_ms", "delta"])

    def cluster_sums(self, parts: Any) -> tuple[pa.Table, pa.Table]:
        """As mqregistry.pipeline.gold.clusters takes it."""
        period = ["cluster", "grain", "at_ms"]
        rows = parts.filter(pc.equal(parts["kind"], queues.BROKER)).group_by([*period, "name", "present"])
        rows = rows.aggregate([("write_queues", "sum"), ("changes", "sum")])
        rows = rows.rename_columns([name.removesuffix("_sum") for name in rows.column_names])
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

    def write_topics(self, parts: Any, counts: pa.Table) -> None:
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
        self._finish("topic", topics)
        self._finish("unused_topic", topics.filter(unused))
        self._write_missing(counts)

    def _write_missing(self, counts: pa.Table) -> None:
        missing = counts.filter(pc.greater(counts["missing"], 0))
        self._finish("missing_topic", missing.append_column("lookups", missing["missing"]))

    def write_beats(self, grains: dict[str, Periods], since: int, now: int) -> None:
        """The table heartbeat; grains: its periods; since: LOOK_BACK_MS before the first."""
        files = sorted(self._inputs.entry_files("heartbeats", since, now), key=lambda file: file.low["id_ms"])
        rows = pa.concat_tables([_NO_BEATS, *self._kept("heartbeats", files, self._beats)])
        moment = pc.and_(pc.greater_equal(rows["ms"], since), pc.less_equal(rows["ms"], now))
        self._finish("heartbeat", beats.figures(rows.filter(moment), grains, self._inputs.lost_beats))

    def _beats(self, file: File) -> pa.Table:
        found = [_NO_BEATS]
        for batch in self._inputs.entries([file], "heartbeats", 0, NEVER, ["ms", "id_ms", "id_n", "e"]):
            entries = [decode_heartbeat(entry) for entry in _texts(batch)]
            texts = {name: [getattr(entry, name) for entry in entries] for name in ("who", "front_end", "kind")}
            texts["broker_name"] = [entry.broker_name or None for entry in entries]
            arrays = [pa.array(values, pa.string()).dictionary_encode() for values in texts.values()]
            arrays.append(pa.array([entry.interval_ms for entry in entries], pa.int64()))
            found.append(pa.Table.from_arrays([*arrays, *batch.columns[:3]], schema=_NO_BEATS.schema))
        return pa.concat_tables(found).unify_dictionaries().combine_chunks()

    def events(self, since: int, now: int) -> pa.Table:
        """Broker events that silver has: name, cluster, type, at_ms (the hour's start), n."""
        events = self._changes("events", since, now, BROKER_EVENTS, self._events)
        _, first = np.unique(events["seq"].to_numpy(), return_index=True)
        columns = [name for name in BROKER_EVENTS.names if name not in ("seq", "ms")]
        count = events.take(pa.array(first)).group_by(columns).aggregate([("seq", "count")])
        return count.rename_columns([*columns, "n"])

    def _events(self, file: File) -> pa.Table:
        wanted = pc.field("type").isin(list(EVENTS)) & (pc.field("part") == 1)
        columns = ["ms", "seq", "type", "e"]
        batches = self._inputs.entries([file], "changes", 0, NEVER, columns, wanted)
        return pa.Table.from_batches(broker_events(batches), schema=BROKER_EVENTS)

    def alarms(self, since: int, now: int) -> pa.Table:
        """stream_alarm events: ms, seq, alarm, reader, stream."""
        alarms = self._changes("alarms", since, now, ALARMS, self._alarms)
        _, first = np.unique(alarms["seq"].to_numpy(), return_index=True)
        return alarms.take(pa.array(first))

    def _alarms(self, file: File) -> pa.Table:
        wanted = pc.field("type") == StreamAlarm.type
        found: list[StreamAlarm] = []
        for batch in self._inputs.entries([file], "changes", 0, NEVER, ["e"], wanted):
            found.extend(map(_decode_alarm, _texts(batch)))
        return _table([(c.ms, c.seq, c.alarm, c.reader, c.stream) for c in found], ALARMS)

    def _changes(
        self, what: str, since: int, now: int, schema: pa.Schema, decode: Callable[[File], pa.Table]
    ) -> pa.Table:
        """What changes of this time that silver has come to; a change may come twice."""
        files = self._inputs.entry_files("changes", since, now)
        rows = pa.concat_tables([schema.empty_table(), *self._kept(what, files, decode)])
        seq = self._inputs.tables.content.seq
        wanted = (pc.field("ms") >= since) & (pc.field("ms") <= now) & (pc.field("seq") <= seq)
        return rows.filter(wanted)

    def _kept(self, what: str, files: Sequence[File], decode: Callable[[File], _Decoded]) -> list[_Decoded]:
        """What files give, which is kept for the next refresh: a file never changes."""
        key = (what, *self._inputs.place)
        before = self._inputs.lake.kept.get(key, {})
        now = {file.path: before[file.path] if file.path in before else decode(file) for file in files}
        self._inputs.lake.kept[key] = now
        return list(now.values())

    def close(self, parts: Any) -> None:
        """Nothing to drop: unlike Spark, this keeps nothing."""

    def _finish(self, table: str, rows: pa.Table) -> None:
        names = GOLD[table].names
        moment = pc.multiply(rows["at_ms"], 1000).cast(MOMENT)
        rows = rows.append_column("period_start", moment).select(names)
        self._write(table, rows.sort_by([(name, "ascending") for name in names[:3]]))


def broker_events(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Brokers' events (columns ms, seq, type, e) to BROKER_EVENTS rows."""
    for batch in batches:
        with collection_paused():
            events = [_decode_broker_event(entry) for entry in _texts(batch)]
            names = pa.array([event.broker_name for event in events], pa.string())
            clusters = pa.array([event.cluster or "" for event in events], pa.string())
        hour = pc.multiply(pc.divide(batch["ms"], 3_600_000), 3_600_000)
        yield pa.RecordBatch.from_arrays(
            [names, clusters, batch["type"], hour, batch["seq"], batch["ms"]], schema=BROKER_EVENTS
        )


def _texts(batch: pa.RecordBatch) -> list[bytes]:
    texts: list[bytes] = batch["e"].cast(pa.binary()).to_pylist()
    return texts


def _table(rows: list[Any], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
