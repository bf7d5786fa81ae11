"""One refresh: works out the hours that new input touches, from silver and bronze, and all figures from hours.

The hours of a day that were worked out before are in memory, so that a refresh costs what is new.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqregistry.events.changes import StreamAlarm
from mqregistry.events.journal import LOOKUPS, STREAMS

from ..lake.files import File, rows_in, write_partitions
from ..lake.lake import owner
from ..lake.schema import GOLD, MOMENT
from . import beats, brokers, clusters, queues, topics
from .in_process import Hours, InProcess
from .inputs import Inputs
from .spans import DAY_MS, HOUR_MS, NEVER, Periods, Spans, periods
from .tables import GRAINS, Content, read, touched, with_period

# Fewer rows than this are worked on in this process: a refresh on Spark takes 17 s of CPU if there is next to nothing
# to do, and for a day of 100 brokers ten times as much as here. An entry of lookups names up to 500 topics.
SPARK_FROM_ROWS: Final = 4_000_000
_ROWS_OF: Final = {LOOKUPS: 30}


class Span(NamedTuple):
    """The time that a refresh works out (ms)."""

    since: int
    now: int

    def periods(self, since: int) -> dict[str, Periods]:
        """The periods that what happened at ``since`` or later touches; of days that are over, all hours."""
        day = since // DAY_MS * DAY_MS
        since = day if day < self.open_day else since
        return {grain: periods(since, self.now, step) for grain, step in GRAINS.items()}

    @property
    def open_day(self) -> int:
        """The start of the last day."""
        return (self.now - 1) // DAY_MS * DAY_MS


class Remembered(NamedTuple):
    """What a refresh leaves for the next one in the same process.

    number: of the refresh. since: the start of the first day of which it has all hours. states: rows of the table
    broker_state, those of before back to when each broker was last writable.
    """

    number: int
    since: int
    hours: Hours
    states: pa.Table


Written = tuple[str, list[File], list[str]]


class GoldRun:
    """Works out a span of time, and writes files of every table, which do not count yet.

    Args:
        spark: None: everything is done in this process.
        before: what the last refresh saw; None: nothing of it is kept.
        memory: of the last refresh.

    Attributes:
        memory: for the next refresh, once all is written (its number is not known yet).
    """

    def __init__(
        self, spark: Any, inputs: Inputs, place: tuple[str, str], span: Span, content: Content, before: Content | None,
        memory: Remembered | None = None, spark_from_rows: int = SPARK_FROM_ROWS,
    ) -> None:  # fmt: skip
        self._inputs = inputs
        self._lake = inputs.lake
        self._place = place
        self._span = span
        self._content = content
        self._before = before
        self._holes = inputs.tables.content.holes
        self._files: dict[str, list[File]] = {}
        self._day = span.since // DAY_MS * DAY_MS
        self.memory = memory if memory is not None and memory.since <= self._day else None
        first = span.since // HOUR_MS * HOUR_MS if self.memory else self._day
        # what happens at the end of observation may be the beginning of an hour, of which no time has passed
        self._when = Periods(first, HOUR_MS, span.now // HOUR_MS - first // HOUR_MS + 1, span.now)
        self._engine = InProcess(inputs)
        self._setting: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        self.on_spark = spark is not None and self._rows() >= spark_from_rows
        if self.on_spark:
            from .on_spark import OnSpark, partitions

            self._engine, self._setting = OnSpark(spark, inputs), partitions(spark, self._rows())

    def _rows(self) -> int:
        """How many rows there are to read."""
        first, now = self._when.first, self._span.now
        return rows_in(self._inputs.files("queue_data", first)) + sum(
            rows_in(self._inputs.entry_files(stream, first, now)) * _ROWS_OF.get(stream, 1) for stream in STREAMS
        )

    def write(self) -> Iterator[Written]:
        """Each table, its new files, and the partitions that they take the place of."""
        for table, grains in self._write_all():
            yield table, self._files.get(table, []), touched(table, grains)

    def _write_all(self) -> Iterator[tuple[str, dict[str, Periods]]]:
        span, when = self._span, self._when
        addresses = brokers.BrokerAddresses.of(
            self._inputs.rows("broker_addr", 0, span.now, ["broker_name", "broker_id", "cluster"])
        )
        with self._setting:
            known = known_brokers(addresses, when, self._holes)
            of_queues = self._engine.queues(known, when, span.since, self._inputs.snapshots)
            spans = queues.writable_spans(of_queues, addresses.names)
            hours = Hours(
                of_queues.filter(pc.not_equal(of_queues["kind"], queues.SPAN)), self._engine.lookups(when),
                self._engine.beats(when), self._engine.changes(when.first, span.now),
            )  # fmt: skip
        if self.memory:
            earlier = self.memory.hours.since(self._day, when.first)
            hours = Hours(*(pa.concat_tables(both) for both in zip(earlier, hours, strict=True)))
        grains = span.periods(span.since)
        states = self._states(addresses, spans)
        since = brokers.reaches_back(states, span.since)
        reaching = span.periods(since)
        # who was gone for good and returned was unknown in the holes of that time
        anew = reaching if any(start < span.since and end > since for start, end in self._holes) else grains
        self._write("broker_state", self._new_states(states, addresses, anew["day"].first))
        yield "broker_state", anew
        self._write("broker", self._broker_figures(states, addresses, hours, reaching))
        yield "broker", reaching
        of_grains = {grain: (of, known_brokers(addresses, of, self._holes)) for grain, of in grains.items()}
        figures = {"cluster": clusters.figures(hours.queues, of_grains)}
        figures |= topics.figures(hours.queues, hours.lookups, grains)
        # all hours of a day are measured by that day's median
        figures["heartbeat"] = beats.figures(hours.beats, {**grains, "hour": periods(self._day, span.now, HOUR_MS)})
        alarms = hours.changes.filter(pc.field("type") == StreamAlarm.type)
        at = pc.multiply(alarms["ms"], 1000).cast(MOMENT)
        figures["alarm"] = alarms.append_column("at", at).select(GOLD["alarm"].names)
        for table, rows in figures.items():
            self._write(table, rows)
            yield table, grains
        since = (span.now - HOUR_MS) // DAY_MS * DAY_MS  # what comes late at midnight is of the day before
        since = max(since, self._day)
        kept = brokers.state_table(brokers.recent(states, since), addresses)
        self.memory = Remembered(-1, since, hours.since(since), kept)

    def _states(self, addresses: brokers.BrokerAddresses, spans: Spans) -> brokers.States:
        """The state of each broker, from when on it is needed."""

        def work_out(before: pa.Table) -> brokers.States:
            found = brokers.states(
                brokers.from_state_table(before, addresses.names), self._span.since, self._span.now,
                addresses.present(), addresses.masters(), spans,
            )  # fmt: skip
            return brokers.with_unknown(found, self._holes)

        if self.memory:
            found = work_out(self.memory.states)
            if brokers.reaches_back(found, self._span.since) >= self.memory.since:
                return found
        return work_out(self._all_states())

    def _new_states(self, states: brokers.States, addresses: brokers.BrokerAddresses, day_ms: int) -> pa.Table:
        """Their rows; what ended before that day stays as it is."""
        rows = brokers.state_table(states, addresses)
        if self._before:
            day = pa.scalar(day_ms * 1000).cast(MOMENT)
            rows = rows.filter(pc.fill_null(pc.greater_equal(rows["valid_to"], day), True))
        return rows

    def _broker_figures(
        self, states: brokers.States, addresses: brokers.BrokerAddresses, hours: Hours, grains: dict[str, Periods]
    ) -> pa.Table:
        first, keys = grains["day"].first, ["name", "cluster", "type", "at_ms"]
        changes = hours.changes if first >= self._day else self._engine.changes(first, self._span.now)
        events = changes.filter(pc.field("type") != StreamAlarm.type).group_by(keys).aggregate([("seq", "count")])
        return pa.concat_tables(
            brokers.figures(
                states, addresses, grain, when, self._content.flap_ms, events.rename_columns([*keys, "n"])
            )
            for grain, when in grains.items()
        )  # fmt: skip

    def _all_states(self) -> pa.Table:
        return read(self._lake, "broker_state", *self._place) if self._before else GOLD["broker_state"].empty_table()

    def _write(self, table: str, rows: pa.Table) -> None:
        if rows.num_rows:
            rows = rows.cast(GOLD[table]).sort_by([(name, "ascending") for name in GOLD[table].names[:3]])
            self._files[table] = write_partitions(
                self._lake, f"gold/{table}", with_period(table, rows, self._span.open_day), "period",
                owner(*self._place),
            )  # fmt: skip


def known_brokers(
    addresses: brokers.BrokerAddresses, when: Periods, holes: Sequence[tuple[int, int]] = ()
) -> queues.Brokers:
    """What the work on queue data needs to know of brokers."""
    known = len(addresses.names)
    present = addresses.present()
    broker = np.repeat(np.arange(known), when.count)
    last = np.tile(when.last, known)
    place = np.searchsorted(present.key * NEVER + present.start, broker * NEVER + last, side="right") - 1
    inside = place >= 0
    inside[inside] = (present.key[place[inside]] == broker[inside]) & (present.end[place[inside]] > last[inside])
    return queues.Brokers(
        addresses.names, addresses.masters(), addresses.clusters.to_pylist(),
        addresses.cluster_at(broker, last).reshape(known, when.count), inside.reshape(known, when.count), holes,
    )  # fmt: skip
