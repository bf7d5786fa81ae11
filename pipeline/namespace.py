"""The queries of one namespace: three take its streams into bronze, ``silver`` and ``gold`` follow what was written."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from mqregistry.errors import MissingRight, StoreError, StoreUnavailable
from mqregistry.events.journal import CHANGES, STREAMS
from mqregistry.events.journal import Stream as Name
from mqregistry.store.streams import acknowledge_with

from . import added
from .backfill import backfill
from .batch_reports import BatchReports
from .bronze import query, snapshot
from .gold import last_hour
from .gold.refresh import refresh
from .lake.lake import Lake
from .lake.tables import add_new
from .progress import RunReport
from .redis_stream.entries import entry_id
from .redis_stream.ranges import EntryId
from .redis_stream.stream import GapError, Login, OtherPast, Stream
from .silver.advance import Silver
from .silver.next_changes import ClockSetBack, MissingChanges
from .silver.progress import last
from .spark.errors import Passing, plain, plain_errors
from .turns import Stopped, Turns

SILVER: Final = "silver"
GOLD: Final = "gold"
_SNAPSHOT_TRIES: Final = 3
_AGAIN_S: Final = 5.0
_MOST_S: Final = 60.0
_FOLLOW_S: Final = 10.0  # how often silver looks for what bronze has
_FIGURES: Final = 5  # gold follows at every fifth interval: a refresh costs the same, however little came


class Plan(NamedTuple):
    """What is read, and how. interval_s: None: once, what is there now."""

    url: str
    namespace: str
    reader: str
    limit: int
    accept_gap: bool
    interval_s: float | None


class NamespaceRun:
    """Brings one namespace's part of the lake up to date.

    Args:
        tell: called with a sentence about every step that is done.
        writing: held while silver or gold is written: maintenance of the tables is in the way of neither.

    Attributes:
        batches: what they brought.
    """

    def __init__(
        self, spark: SparkSession, lake: Lake, plan: Plan, *, tell: Callable[[str], None], progress: RunReport,
        writing: Turns, stop: threading.Event,
    ) -> None:  # fmt: skip
        self.batches = BatchReports(plan.namespace, tell, progress)
        self._spark = spark
        self._lake = lake
        self._plan = plan
        self._tell = tell
        self._progress = progress
        self._writing = writing
        self._stop = stop
        self._login = Login(plan.url)
        self._epoch = ""
        self._reader: str | None = plan.reader
        self._accept_gap = plan.accept_gap
        self._queries: dict[str, StreamingQuery] = {}
        self._raised: dict[str, Exception] = {}  # in a batch, by the query's name
        self._begun_seq: int | None = None  # the last change when it began
        self._again_s = 0.0
        self._pause_s = _AGAIN_S / 2
        self._observe_s = 0.0

    def once(self) -> None:
        """Take in what is there now.

        Raises:
            StoreUnavailable: Redis is away.
            GapError, MissingChanges: something is missing; the message says what to do.
            Stopped: it was asked to stop.
        """
        self._patiently(self._begin)
        seq, now_ms = self._now()
        for names in (STREAMS, (SILVER,)):
            self._follow(names)
        self._patiently(lambda: self._observe(seq, now_ms))
        self._follow((GOLD,))
        self._told_done()
        self._acknowledge()

    def _follow(self, names: Iterable[str]) -> None:
        """Start queries, and wait until they have what is there now."""
        for name in names:
            self._start(name)
        while self._queries:
            self._look()
            if self._stop.wait(0.1):
                raise Stopped("stopped; the next run goes on from here")

    def go_on(self) -> None:
        """Start what does not run yet, and see after what does; called again and again.

        Raises:
            As :meth:`once`; but Redis may be away for as long as it likes.
        """
        if time.monotonic() < self._again_s:
            return
        try:
            if self._begun_seq is None:
                self._patiently(self._begin)
            for name in (*STREAMS, SILVER, GOLD):
                if name not in self._queries:
                    self._start(name)
            self._look()
            if time.monotonic() >= self._observe_s:
                now = self._now()
                self._patiently(lambda: self._observe(*now))
                self._told_done()
                self._observe_s = time.monotonic() + (self._plan.interval_s or 0)
        except StoreUnavailable as error:
            self._progress.round_failed("redis_away")
            self._tell(f"{error}; again in {_AGAIN_S:g} s")
            self._again_s = time.monotonic() + _AGAIN_S

    def close(self) -> None:
        """End the queries; a batch that was not written is read again by the next run."""
        jobs: Any = self._spark.sparkContext._jsc.sc()
        for started in self._queries.values():
            jobs.cancelJobGroupAndFutureJobs(str(started.runId))  # a batch of gold has many jobs
            started.stop()
        self._queries.clear()

    def _patiently(self, work: Callable[[], None]) -> None:
        """Call what may be called again, until it meets nothing that passes by itself."""
        while True:
            try:
                with plain_errors():
                    work()
                return
            except Passing as error:
                self._pause(error)
                if self._stop.is_set():
                    raise Stopped("stopped; the next run goes on from here") from None

    def _pause(self, error: Passing) -> None:
        self._progress.round_failed("worker_late")
        self._tell(f"{error}; again")
        self._pause_s = min(_MOST_S, 2 * self._pause_s)
        self._stop.wait(self._pause_s)

    # beginning

    def _begin(self) -> None:
        stream = Stream(self._login, self._plan.namespace, CHANGES)
        try:
            epoch, _ = stream.epoch()
        finally:
            stream.close()
        self._epoch = epoch
        self._acknowledge()  # before anything is read: from now on Redis keeps it
        taken = snapshot.snapshots(self._lake, self._plan.namespace, epoch)
        if not taken:
            self._take_snapshot()
        reached = last(self._lake, self._plan.namespace, epoch)
        # else there is nothing that the query does not see
        if reached is None or reached.seq < max(each.seq for each in taken) or reached.kind == "requarantine":
            self._catch_up()
        self._begun_seq, _ = self._now()

    def _now(self) -> tuple[int, int]:
        """The number of changes, and the time of Redis then (ms)."""
        return snapshot.read_now(self._plan.url, self._plan.namespace)

    def _take_snapshot(self, *, behind_gap: bool = False) -> None:
        """Write the tables as they are now into the lake."""
        for tried in range(_SNAPSHOT_TRIES):
            try:
                taken = snapshot.take(
                    self._spark, self._plan.url, self._plan.namespace, self._lake, behind_gap=behind_gap
                )
            except StoreUnavailable:
                raise
            except StoreError:  # trimmed while it was read
                if tried + 1 == _SNAPSHOT_TRIES:
                    raise
                continue
            if taken.epoch != self._epoch:
                raise GapError(f"the namespace was created again while it was read: {self._epoch} became {taken.epoch}")
            self._tell(f"snapshot of the tables as of change {taken.seq}")
            return

    def _acknowledge(self) -> None:
        """Tell Redis which entries the lake has."""
        place = self._plan.namespace, self._epoch
        positions: dict[str, str] = {name: str(query.last_entry(self._lake, *place, name)) for name in STREAMS}
        client = self._login.connect()
        try:
            acknowledge_with(client, self._plan.namespace, self._plan.reader, positions, epoch=self._epoch)
        except MissingRight as error:
            if self._reader is not None:
                self._tell(
                    f"{error}; so Redis keeps no entries for this pipeline longer than for nobody: run it more often "
                    "than changesMaxAgeHours, or give its login the right (deploy/README.md, Redis users)"
                )
            self._reader = None
        finally:
            client.close()

    # queries

    def _start(self, name: str) -> None:
        interval_s = self._plan.interval_s
        if interval_s is None:
            trigger: dict[str, Any] = {"availableNow": True}
        else:
            seconds = {SILVER: min(interval_s, _FOLLOW_S), GOLD: _FIGURES * interval_s}.get(name, interval_s)
            trigger = {"processingTime": f"{round(seconds * 1000)} milliseconds"}
        started = self._query_of(name, trigger)
        self._queries[name] = started
        self.batches.begin(name)
        # one at a time: Spark gives the Python of a source ten seconds to start
        while started.isActive and started.status["message"] == "Initializing sources" and not self._stop.wait(0.1):
            pass

    def _query_of(self, name: str, trigger: dict[str, Any], starting_id: EntryId | None = None) -> StreamingQuery:
        place = self._plan.namespace, self._epoch
        for stream in STREAMS:
            if stream == name:
                access = query.Access(self._plan.url, *place, self._reader, self._plan.limit)
                return query.start(self._spark, self._lake, access, stream, trigger, starting_id)
        news, work = (added.changes, self._silver_batch) if name == SILVER else (added.moments, self._gold_batch)
        rows = news(self._spark, self._lake, *place)
        checkpoint = query.checkpoint(self._lake, *place, name)
        added.forget_old(checkpoint)
        lake = Lake(self._lake.root)  # what one knows of its tables is for one thread

        def batch(found: DataFrame, _: int) -> None:
            try:
                with plain_errors(), self._writing:
                    work(found, lake)
            except Exception as error:
                self._raised[name] = error
                raise

        return (
            rows.writeStream.foreachBatch(batch).queryName(f"{place[0]} {name}").trigger(**trigger)
            .option("checkpointLocation", checkpoint).start()
        )  # fmt: skip

    def _silver_batch(self, changed: DataFrame, lake: Lake) -> None:
        """Take in what bronze has: by number, as a set of parts, or a hole, may begin in an earlier batch."""
        self._advance(changed.sparkSession, lake)

    def _gold_batch(self, touched: DataFrame, lake: Lake) -> None:
        [[since_ms]] = touched.agg(F.min("ms")).collect()
        if since_ms is None:
            return
        place = self._plan.namespace, self._epoch
        if refresh(touched.sparkSession, lake, *place, since_ms=since_ms):
            self._tell("figures brought up to date")
            self._progress.figures(lambda: last_hour(lake, *place), self._plan.namespace)

    def _advance(self, spark: SparkSession, lake: Lake) -> None:
        place = self._plan.namespace, self._epoch
        for tried in (False, True):
            try:
                for step in Silver(spark, lake, *place).advance():
                    self._tell(f"tables as of change {step.seq}")
                return
            except ClockSetBack as step_back:
                if tried:
                    raise
                self._tell(f"{step_back}; that is done now")
                for _ in backfill(spark, lake, *place):
                    pass

    def _catch_up(self) -> None:
        """Bring silver up to date, behind changes that are lost if that was asked for; for the run's own thread."""
        with self._writing:
            try:
                self._advance(self._spark, self._lake)
            except MissingChanges as hole:
                if not self._accept_gap:
                    raise
                self._tell(f"accepted: {hole}")
                # what it reads after the snapshot would be in bronze again, by the query that begins behind that
                if CHANGES in self._queries:
                    self._queries.pop(CHANGES).stop()
                self._take_snapshot(behind_gap=True)
                self._advance(self._spark, self._lake)

    def _observe(self, seq: int, now_ms: int) -> None:
        """Record that nothing followed ``seq`` up to now, if that is where silver is."""
        with self._writing:
            Silver(self._spark, self._lake, self._plan.namespace, self._epoch).observe(seq, now_ms - 1)

    # what the queries say

    def _look(self) -> None:
        """Tell of new batches, and see after queries that ended."""
        for name, started in list(self._queries.items()):
            is_active = started.isActive  # asked first: of one that ended all reports are read
            if name in STREAMS:
                self.batches.read(name, started, has_ended=not is_active)
            if is_active or self._queries.get(name) is not started:
                continue
            del self._queries[name]
            failure = started.exception()
            if failure is not None:
                self._go_on_after(name, self._raised.pop(name) if name in self._raised else plain(failure))

    def _told_done(self) -> None:
        """Tell that all queries go on, how long the last batches took together, and how far silver is."""
        took_ms = sum(
            started.lastProgress["batchDuration"] for started in self._queries.values() if started.lastProgress
        )
        reached = last(self._lake, self._plan.namespace, self._epoch)
        self._progress.round_done(took_ms / 1000, reached.seq if reached else 0, self._plan.namespace)
        read = all(name in self._queries and self._queries[name].lastProgress for name in STREAMS)
        if read and reached and self._begun_seq is not None and reached.seq >= self._begun_seq:
            self._accept_gap = False  # those that there were when it began, not all to come
        self._pause_s = _AGAIN_S / 2

    def _go_on_after(self, name: str, error: Exception) -> None:
        """Start a query again that failed, where that may help."""
        if isinstance(error, Passing):
            self._pause(error)
        elif isinstance(error, GapError) and name in STREAMS:
            self._patiently(lambda: self._accept(name, error))
        elif isinstance(error, MissingChanges) and self._accept_gap:
            self._patiently(self._catch_up)
        elif isinstance(error, StoreUnavailable) and self._plan.interval_s is not None:
            raise error
        else:
            self._progress.round_failed("failed")
            raise error
        if name not in self._queries:
            self._start(name)

    def _accept(self, stream: str, gap: GapError) -> None:
        """Go on behind entries that are lost, if that was asked for."""
        lost = Stream(self._login, self._plan.namespace, _named(stream))
        try:
            head = lost.head()
        finally:
            lost.close()
        if not self._accept_gap or head.epoch != self._epoch or isinstance(gap, OtherPast):
            raise gap
        self._tell(f"accepted: {gap}")
        if stream == CHANGES:
            self._take_snapshot(behind_gap=True)
            self._catch_up()
            return
        place = self._plan.namespace, self._epoch
        before = query.last_entry(self._lake, *place, _named(stream))
        rewound = head.exists and head.last_generated < before
        first_ms = entry_id(head.first).ms if head.first is not None and not rewound else before.ms
        if rewound:  # before the row that makes its checkpoint count: killed in between, this is done again
            trigger: dict[str, Any] = {"availableNow": True}
            self._query_of(stream, trigger, head.last_generated).awaitTermination()
        add_new(self._spark, self._lake, "silver/gap", place, [(stream, before.ms, max(before.ms, first_ms))])
        with self._writing:
            Silver(self._spark, self._lake, *place).tell("observed", touched_ms=before.ms)


def _named(name: str) -> Name:
    return next(stream for stream in STREAMS if stream == name)
