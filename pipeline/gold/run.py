"""One refresh: the large inputs are reduced in ``in_process`` or ``on_spark``, brokers and clusters are done here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqregistry.events.journal import LOOKUPS, STREAMS

from ..lake.files import File, rows_in, write_partitions
from ..lake.lake import owner
from ..lake.schema import GOLD, MOMENT
from . import beats, brokers, clusters, queues
from .in_process import InProcess
from .inputs import Inputs
from .spans import NEVER, Periods, ints, periods
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
        """The periods that what happened at ``since`` or later touches."""
        return {grain: periods(since, self.now, step) for grain, step in GRAINS.items()}


Written = tuple[str, list[File], list[str]]


class GoldRun:
    """Works out a span of time, and writes files of every table, which do not count yet.

    Args:
        spark: None: everything is done in this process.
        before: what the last refresh saw; None: nothing of it is kept.
    """

    def __init__(
        self, spark: Any, inputs: Inputs, place: tuple[str, str], span: Span, content: Content, before: Content | None,
        spark_from_rows: int = SPARK_FROM_ROWS,
    ) -> None:  # fmt: skip
        self._inputs = inputs
        self._lake = inputs.lake
        self._place = place
        self._span = span
        self._content = content
        self._before = before
        self._holes = inputs.tables.content.holes
        self._files: dict[str, list[File]] = {}
        self._engine: Any = InProcess(inputs, self._write)
        self._setting: Any = contextlib.nullcontext()
        if spark is not None and self._rows() >= spark_from_rows:
            from .on_spark import OnSpark, partitions

            self._engine = OnSpark(spark, inputs, self._write, place, self._files)
            self._setting = partitions(spark, self._rows())

    def _rows(self) -> int:
        """How many rows there are to read."""
        day, now = self._span.periods(self._span.since)["day"].first, self._span.now
        return rows_in(self._inputs.files("queue_data", day)) + sum(
            rows_in(self._inputs.entry_files(stream, day, now)) * _ROWS_OF.get(stream, 1) for stream in STREAMS
        )

    def write(self) -> Iterator[Written]:
        """Each table, its new files, and the partitions that they take the place of."""
        with self._setting:
            for table, grains in self._write_all():
                yield table, self._files.get(table, []), touched(table, grains)

    def _write_all(self) -> Iterator[tuple[str, dict[str, Periods]]]:
        span, grains, engine = self._span, self._span.periods(self._span.since), self._engine
        day = grains["day"].first
        addresses = brokers.BrokerAddresses.of(self._inputs.rows("broker_addr", 0, span.now))
        known = known_brokers(addresses, grains)._replace(holes=self._holes)
        counts = engine.counts(grains, span.now)
        parts = engine.queue_parts(known, grains, span.since, span.now, self._inputs.snapshots)
        try:
            yield from self._write_brokers(addresses, engine.deltas(parts))
            self._write("cluster", clusters.figures(known, grains, *engine.cluster_sums(parts)))
            engine.write_topics(parts, counts)
            yield from ((table, grains) for table in ("cluster", "topic", "unused_topic", "missing_topic"))
        finally:
            engine.close(parts)
        # all hours of a day are measured by that day's median
        whole_days = {**grains, "hour": periods(day, span.now, GRAINS["hour"])}
        engine.write_beats(whole_days, day - beats.LOOK_BACK_MS, span.now)
        yield "heartbeat", grains
        alarms = engine.alarms(day, span.now)
        at = pc.multiply(alarms["ms"], 1000).cast(MOMENT)
        self._write("alarm", pa.Table.from_arrays([at, *alarms.columns[1:]], names=GOLD["alarm"].names))
        yield "alarm", grains

    def _write_brokers(
        self, addresses: brokers.BrokerAddresses, deltas: pa.Table
    ) -> Iterator[tuple[str, dict[str, Periods]]]:
        span = self._span
        before = GOLD["broker_state"].empty_table()
        if self._before:
            before = read(self._lake, "broker_state", *self._place)
        broker = ints(pc.index_in(deltas["name"], addresses.names).to_numpy())
        queue_spans = queues.writable_spans(broker, deltas["at_ms"].to_numpy(), deltas["delta"].to_numpy())
        found = brokers.states(
            brokers.from_state_table(before, addresses.names), span.since, span.now, addresses.present(),
            addresses.masters(), queue_spans,
        )  # fmt: skip
        found = brokers.with_unknown(found, self._holes)
        grains = span.periods(span.since)
        states = brokers.state_table(found, addresses)
        if self._before:  # what ended on a day before stays as it is
            day = pa.scalar(grains["day"].first * 1000).cast(MOMENT)
            states = states.filter(pc.fill_null(pc.greater_equal(states["valid_to"], day), True))
        self._write("broker_state", states)
        yield "broker_state", grains
        grains = span.periods(brokers.reaches_back(found, span.since))
        day = grains["day"].first
        events = self._engine.events(day, span.now)
        figures = [
            brokers.figures(found, addresses, grain, when, self._content.flap_ms, events)
            for grain, when in grains.items()
        ]
        self._write("broker", pa.concat_tables(figures))
        yield "broker", grains

    def _write(self, table: str, rows: pa.Table) -> None:
        if rows.num_rows:
            rows = with_period(table, rows.cast(GOLD[table]))
            self._files[table] = write_partitions(
                self._lake, f"gold/{table}", rows, "period", owner(*self._place)
            )  # fmt: skip


def known_brokers(addresses: brokers.BrokerAddresses, grains: dict[str, Periods]) -> queues.Brokers:
    """What the work on queue data needs to know of brokers."""
    known = len(addresses.names)
    present = addresses.present()
    cluster, there = {}, {}
    for grain, when in grains.items():
        broker = np.repeat(np.arange(known), when.count)
        last = np.tile(when.last, known)
        cluster[grain] = addresses.cluster_at(broker, last).reshape(known, when.count)
        place = np.searchsorted(present.key * NEVER + present.start, broker * NEVER + last, side="right") - 1
        inside = place >= 0
        inside[inside] = (present.key[place[inside]] == broker[inside]) & (present.end[place[inside]] > last[inside])
        there[grain] = inside.reshape(known, when.count)
    return queues.Brokers(addresses.names, addresses.masters(), addresses.clusters.to_pylist(), cluster, there)
