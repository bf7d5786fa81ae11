"""Reduces the large inputs to what hours are made of in this process, while they are small enough; see ``on_spark``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqregistry.events.changes import StreamAlarm
from mqregistry.events.journal import decode_heartbeat, decode_lookups

from ..garbage import collection_paused
from ..lake.files import File
from ..silver.next_changes import STEP_MS
from . import beats, queues
from .brokers import EVENTS
from .inputs import Inputs
from .spans import HOUR_MS, NEVER, Periods
from .topics import LOOKUPS

# at_ms: the hour's start. Of brokers' events, and of alarms, whose other columns they have.
CHANGES: Final = pa.schema(
    [
        ("seq", pa.int64()),
        ("ms", pa.int64()),
        ("at_ms", pa.int64()),
        ("type", pa.string()),
        *((name, pa.string()) for name in ("name", "cluster", "alarm", "reader", "stream")),
    ]
)
_NAME: Final = pa.dictionary(pa.int32(), pa.string())
_NO_BEATS: Final = pa.schema(
    [("who", _NAME), ("front_end", _NAME), ("kind", _NAME), ("broker_name", _NAME),
     ("interval_ms", pa.int64()), ("ms", pa.int64()), ("id_ms", pa.int64()), ("id_n", pa.int64())]
).empty_table()  # fmt: skip


class Hours(NamedTuple):
    """What the figures of hours and days are made of; each row is of an hour (at_ms).

    queues: RESULT rows of mqregistry.pipeline.gold.queues. lookups: LOOKUPS. beats: HOURS of
    mqregistry.pipeline.gold.beats. changes: CHANGES.
    """

    queues: pa.Table
    lookups: pa.Table
    beats: pa.Table
    changes: pa.Table

    def since(self, first: int, end: int = NEVER) -> Hours:
        """Those in ``[first, end)``."""
        return Hours(
            *(_between(rows, first, end).combine_chunks() for rows in self)
        )  # else each refresh leaves a chunk


def _between(rows: pa.Table, first: int, end: int) -> pa.Table:
    """Mostly all of them: a filter copies the texts one by one."""
    wanted = pc.and_(pc.greater_equal(rows["at_ms"], first), pc.less(rows["at_ms"], end))
    return rows if pc.all(wanted).as_py() else rows.filter(wanted)


class _Lookups(NamedTuple):
    """Rows of LOOKUPS, and the ids of the entries that they are made of."""

    hours: pa.Table
    ids: set[tuple[int, int]]


class _Change(msgspec.Struct, gc=False):
    """What gold needs of a broker's event, or of an alarm; the rest of it is not decoded."""

    broker_name: str = ""
    cluster: str | None = None
    alarm: str | None = None
    reader: str | None = None
    stream: str | None = None


_decode_change = msgspec.json.Decoder(_Change).decode


class InProcess:
    """Works out hours."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs

    def lookups(self, when: Periods) -> pa.Table:
        """What was looked up: LOOKUPS rows."""
        first, now = when.first, when.now
        files = self._inputs.entry_files("lookups", first, now)
        # an entry of later than now is not to count yet
        over = [file for file in files if file.high["ms"] <= now]
        parts = self._inputs.kept("lookups", over, first, lambda file: self._lookups([file], first))
        parts += [self._lookups([file], first, now) for file in files if file.high["ms"] > now]
        if sum(len(part.ids) for part in parts) != len(set().union(*(part.ids for part in parts))):
            parts = [self._lookups(files, first, now)]  # an entry is there twice
        rows = pa.concat_tables([LOOKUPS.empty_table(), *(part.hours for part in parts)])
        rows = rows.filter(pc.field("at_ms") >= first).group_by(LOOKUPS.names[:2])
        return rows.aggregate([("found", "sum"), ("missing", "sum")]).rename_columns(LOOKUPS.names)

    def _lookups(self, files: list[File], since: int, now: int = NEVER) -> _Lookups:
        """The lookups of some entries, each id once, by topic and hour."""
        found: Counter[tuple[str, int]] = Counter()
        missing: Counter[tuple[str, int]] = Counter()
        ids: set[tuple[int, int]] = set()
        for batch in self._inputs.entries(files, "lookups", since, now, ["id_ms", "id_n", "e"]):
            pairs = zip(batch["id_ms"].to_pylist(), batch["id_n"].to_pylist(), strict=True)
            for entry_id, entry in zip(pairs, _texts(batch), strict=True):
                if entry_id in ids:
                    continue
                ids.add(entry_id)
                lookups = decode_lookups(entry)
                at_ms = lookups.ms // HOUR_MS * HOUR_MS
                for counter, counts in ((found, lookups.found), (missing, lookups.missing)):
                    for topic, count in counts.items():
                        counter[topic, at_ms] += count
        rows = [(*key, found[key], missing[key]) for key in {*found, *missing}]
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(LOOKUPS)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, LOOKUPS, strict=True)]
        return _Lookups(pa.Table.from_arrays(arrays, schema=LOOKUPS), ids)

    def queues(self, known: queues.Brokers, when: Periods, since: int, snapshots: Sequence[int]) -> pa.Table:
        """RESULT rows of mqregistry.pipeline.gold.queues."""
        return pa.concat_tables(
            queues.figures(
                self._inputs.rows("queue_data", when.first, when.now, queues.COLUMNS, buckets=buckets),
                known, when, since, snapshots,
            )
            for buckets in self._inputs.buckets("queue_data")
        )  # fmt: skip

    def beats(self, when: Periods) -> pa.Table:
        """HOURS rows of mqregistry.pipeline.gold.beats."""
        since = when.first - beats.LOOK_BACK_MS
        files = self._inputs.entry_files("heartbeats", since, when.now)
        rows = pa.concat_tables(
            [_NO_BEATS, *self._inputs.kept("heartbeats", files, since, lambda file: self._beats(file, since))]
        )
        rows = rows.filter((pc.field("ms") >= since) & (pc.field("ms") <= when.now))
        return beats.hours(rows, when, self._inputs.lost_beats)

    def _beats(self, file: File, since: int) -> pa.Table:
        found = [_NO_BEATS]
        for batch in self._inputs.entries([file], "heartbeats", since, NEVER, ["ms", "id_ms", "id_n", "e"]):
            entries = [decode_heartbeat(entry) for entry in _texts(batch)]
            texts = {name: [getattr(entry, name) for entry in entries] for name in ("who", "front_end", "kind")}
            texts["broker_name"] = [entry.broker_name or None for entry in entries]
            arrays = [pa.array(values, pa.string()).dictionary_encode() for values in texts.values()]
            arrays.append(pa.array([entry.interval_ms for entry in entries], pa.int64()))
            found.append(pa.Table.from_arrays([*arrays, *batch.columns[:3]], schema=_NO_BEATS.schema))
        return pa.concat_tables(found).unify_dictionaries().combine_chunks()

    def changes(self, since: int, now: int) -> pa.Table:
        """Brokers' events and alarms that silver has come to, each once: CHANGES rows."""
        seq, steps = self._inputs.tables.content.seq, self._inputs.tables.content.steps
        files = self._inputs.entry_files("changes", since, max([now, *(ahead_ms for _, ahead_ms, _ in steps)]))
        parts = self._inputs.kept("changes", files, since, lambda file: self._changes(file, since))
        rows = _set_back(pa.concat_tables([CHANGES.empty_table(), *parts]), steps)
        rows = rows.filter((pc.field("ms") >= since) & (pc.field("ms") <= now) & (pc.field("seq") <= seq))
        _, first = np.unique(rows["seq"].to_numpy(), return_index=True)
        return rows.take(pa.array(first))

    def _changes(self, file: File, since: int) -> pa.Table:
        wanted = pc.field("type").isin([*EVENTS, StreamAlarm.type]) & (pc.field("part") == 1)
        batches = self._inputs.entries([file], "changes", since, NEVER, ["seq", "ms", "type", "e"], wanted)
        return pa.Table.from_batches(_decoded(batches), schema=CHANGES)


def _decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        with collection_paused():
            events = [_decode_change(entry) for entry in _texts(batch)]
            of: dict[str, list[Any]] = {
                "name": [event.broker_name for event in events],
                "cluster": [event.cluster or "" for event in events],
                **{name: [getattr(event, name) for event in events] for name in ("alarm", "reader", "stream")},
            }
        hour = pc.multiply(pc.divide(batch["ms"], HOUR_MS), HOUR_MS)
        texts = [pa.array(values, pa.string()) for values in of.values()]
        yield pa.RecordBatch.from_arrays([batch["seq"], batch["ms"], hour, batch["type"], *texts], schema=CHANGES)


def _set_back(rows: pa.Table, steps: Sequence[tuple[int, int, int]]) -> pa.Table:
    """CHANGES rows, of which those that a clock ahead wrote count as of the moment that it was set back to."""
    seq, ms = rows["seq"].to_numpy(), rows["ms"].to_numpy()
    for behind, _, to_ms in steps:
        ms = np.where((seq < behind) & (ms - to_ms > STEP_MS), to_ms, ms)
    for name, values in (("ms", ms), ("at_ms", ms // HOUR_MS * HOUR_MS)) if steps else ():
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(values))
    return rows


def _texts(batch: pa.RecordBatch) -> list[bytes]:
    texts: list[bytes] = batch["e"].cast(pa.binary()).to_pylist()
    return texts
