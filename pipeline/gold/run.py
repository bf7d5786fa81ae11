"""One refresh: the large inputs are reduced in ``in_process`` or ``on_spark``, brokers and clusters are done here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mqregistry.events.journal import LOOKUPS

from ..lake.schema import GOLD, MOMENT
from . import beats, brokers, clusters, queues
from .in_process import InProcess
from .inputs import Inputs
from .spans import NEVER, Periods, ints, periods
from .tables import GRAINS, Commit, GoldBatch, folder, read

# Fewer rows than this are worked on in this process, in a few seconds: a refresh on Spark takes 17 s of CPU if there is
# next to nothing to do. An entry of lookups names up to 500 topics.
SPARK_FROM_ROWS: Final = 1_000_000
_ROWS_OF: Final = {LOOKUPS: 100}


class Span(NamedTuple):
    """The time that a refresh works out (ms)."""

    since: int
    now: int

    def periods(self, since: int) -> dict[str, Periods]:
        """The periods that what happened at ``since`` or later touches.

        Hours go back to the beginning of their day when another day has begun, so that what is left of a day that is
        over is one batch.
        """
        day = periods(since, self.now, GRAINS["day"])
        hours_since = day.first if day.count > 1 else since
        return {"hour": periods(hours_since, self.now, GRAINS["hour"]), "day": day}

    def batch(self, number: int, since: int) -> GoldBatch:
        """From when on what is written for ``since`` counts."""
        return GoldBatch(number, *(when.first for when in self.periods(since).values()))


class GoldRun:
    """Writes the batch ``number`` of every table.

    Args:
        spark: None: everything is done in this process.
    """

    def __init__(
        self, spark: Any, inputs: Inputs, place: tuple[str, str], number: int, span: Span, commit: Commit,
        before: Commit | None, spark_from_rows: int = SPARK_FROM_ROWS,
    ) -> None:  # fmt: skip
        self._inputs = inputs
        self._lake = inputs.lake
        self._place = place
        self._number = number
        self._span = span
        self._commit = commit
        self._before = before
        self._engine: Any = InProcess(inputs, self._write)
        self._setting: Any = contextlib.nullcontext()
        if spark is not None and self._rows() >= spark_from_rows:
            from .on_spark import OnSpark, partitions

            self._engine = OnSpark(spark, inputs, lambda table: self._lake.uri(self._folder(table)))
            self._setting = partitions(spark, self._rows())

    def _rows(self) -> int:
        """How many rows there are to read."""
        day = self._span.periods(self._span.since)["day"].first
        return self._inputs.files("queue_data", day)[1] + sum(
            self._inputs.folders(stream, *self._batches(stream, day))[1] * _ROWS_OF.get(stream, 1)
            for stream in self._commit.bronze
        )

    def write(self) -> Iterator[tuple[str, GoldBatch]]:
        """Each table that was written, and from when on it counts."""
        with self._setting:
            yield from self._write_all()

    def _write_all(self) -> Iterator[tuple[str, GoldBatch]]:
        span, grains, engine = self._span, self._span.periods(self._span.since), self._engine
        day, touched = grains["day"].first, self._span.batch(self._number, self._span.since)
        addresses = brokers.BrokerAddresses.of(self._inputs.rows("broker_addr", 0, span.now))
        known = known_brokers(addresses, grains)
        counts = engine.counts(day, span.now, self._batches("lookups", day))
        parts = engine.queue_parts(known, grains, span.since, span.now, self._inputs.snapshots())
        try:
            yield from self._write_brokers(addresses, engine.deltas(parts))
            self._write("cluster", clusters.figures(known, grains, *engine.cluster_sums(parts)))
            engine.write_topics(parts, counts)
            yield from ((table, touched) for table in ("cluster", "topic", "unused_topic", "missing_topic"))
        finally:
            engine.close(parts, counts)
        # all hours of a day are measured by that day's median
        whole_days = {**grains, "hour": periods(day, span.now, GRAINS["hour"])}
        back = day - beats.LOOK_BACK_MS
        engine.write_beats(whole_days, back, span.now, self._batches("heartbeats", back))
        yield "heartbeat", GoldBatch(self._number, day, day)
        alarms = engine.alarms(day, span.now, self._batches("changes", day))
        at = pc.multiply(alarms["ms"], 1000).cast(MOMENT)
        self._write("alarm", pa.Table.from_arrays([at, *alarms.columns[1:]], names=GOLD["alarm"].names))
        yield "alarm", touched

    def _write_brokers(self, addresses: brokers.BrokerAddresses, deltas: pa.Table) -> Iterator[tuple[str, GoldBatch]]:
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
        self._write("broker_state", brokers.state_table(found, addresses))
        yield "broker_state", GoldBatch(self._number, 0, 0)
        back = brokers.reaches_back(found, span.since)
        grains = span.periods(back)
        day = grains["day"].first
        events = self._engine.events(day, span.now, self._batches("changes", day))
        figures = [
            brokers.figures(found, addresses, grain, when, self._commit.flap_ms, events)
            for grain, when in grains.items()
        ]
        self._write("broker", pa.concat_tables(figures))
        yield "broker", span.batch(self._number, back)

    def _batches(self, stream: str, since: int) -> tuple[int, int]:
        """The batches that may have entries of ``since`` or later: after the first, up to the second."""
        days = self._commit.days.get(stream, {})
        first = [batch for day, batch in days.items() if day + GRAINS["day"] > since]
        return min(first, default=self._commit.bronze[stream] + 1) - 1, self._commit.bronze[stream]

    def _folder(self, table: str) -> str:
        return folder(table, *self._place, self._number)

    def _write(self, table: str, rows: pa.Table) -> None:
        place = self._folder(table)
        self._lake.remove(place)
        self._lake.filesystem.create_dir(self._lake.path(place), recursive=True)
        pq.write_table(rows.cast(GOLD[table]), self._lake.path(place, "part.parquet"), filesystem=self._lake.filesystem)


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
