"""Runs Spark's queries of one namespace: three write its streams to bronze; ``silver`` and ``gold`` follow bronze."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from mqregistry.errors import MissingRight, StoreError, StoreUnavailable
from mqregistry.events.journal import CHANGES, STREAMS
from mqregistry.events.journal import Stream as Name
from mqregistry.store.connection.url import without_password
from mqregistry.store.snapshot import NamespaceHead
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
_FOLLOW_S: Final = 10.0  # how often silver looks for new changes in bronze
_FIGURES: Final = 5  # gold is refreshed at every fifth interval: a refresh of few rows costs as much as one of many


class RunSettings(NamedTuple):
    """What a pipeline reads, and how.

    ``namespaces``: of one Redis. ``reader``: under this name Redis keeps the entries that this lake lacks.
    ``accept_gap``: go on from a new snapshot where entries are lost. ``limit``: most entries of a batch.
    """

    redis_url: str
    namespaces: Sequence[str] = ("default",)
    reader: str = "pipeline"
    accept_gap: bool = False
    limit: int = 250_000

    def __repr__(self) -> str:  # the URL may hold a password
        return f"RunSettings({without_password(self.redis_url)!r}, {list(self.namespaces)!r})"


class NamespaceRun:
    """Brings one namespace's part of the lake up to date.

    Args:
        interval_s: between two batches of a stream; None: each query ends when it has all that is there now.
        tell: called with a sentence about every step that is done.
        writing: a lock, held while silver or gold is written, so that tables are not maintained at the same time.

    Attributes:
        batches: how many entries the queries brought.
    """

    def __init__(
        self, spark: SparkSession, lake: Lake, settings: RunSettings, namespace: str, interval_s: float | None, *,
        tell: Callable[[str], None], progress: RunReport, writing: Turns, stop: threading.Event,
    ) -> None:  # fmt: skip
        self.batches = BatchReports(namespace, tell, progress)
        self._spark = spark
        self._lake = lake
        self._settings = settings
        self._namespace = namespace
        self._interval_s = interval_s
        self._tell = tell
        self._progress = progress
        self._writing = writing
        self._stop = stop
        self._login = Login(settings.redis_url)
        self._epoch = ""
        self._reader: str | None = settings.reader
        self._accept_gap = settings.accept_gap
        self._queries: dict[str, StreamingQuery] = {}
        self._raised: dict[str, Exception] = {}  # a query's name -> what one of its batches raised
        self._begun_seq: int | None = None  # the last change when this run began
        self._again_s = 0.0
        self._pause_s = _AGAIN_S / 2
        self._observe_s = 0.0

    def once(self) -> None:
        """Bring the tables up to what the streams hold now.

        Raises:
            StoreUnavailable: Redis is away.
            GapError, MissingChanges: something is missing; the message says what to do.
            Stopped: the run was asked to stop.
        """
        self._patiently(self._begin)
        head = self._head()
        for names in (STREAMS, (SILVER,)):
            self._follow(names)
        self._patiently(lambda: self._observe(head))
        self._follow((GOLD,))
        self._told_done()
        self._acknowledge()

    def _follow(self, names: Iterable[str]) -> None:
        """Start queries, and wait until they have taken all that is there now."""
        for name in names:
            self._start(name)
        while self._queries:
            self._look()
            if self._stop.wait(0.1):
                raise Stopped("stopped; the next run goes on from here")

    def go_on(self) -> None:
        """Start each query that does not run, and handle the queries that ended; the run calls this in a loop.

        Raises:
            As :meth:`once`, except StoreUnavailable.
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
                head = self._head()
                self._patiently(lambda: self._observe(head))
                self._told_done()
                self._observe_s = time.monotonic() + (self._interval_s or 0)
        except StoreUnavailable as error:
            self._progress.round_failed("redis_away")
            self._tell(f"{error}; again in {_AGAIN_S:g} s")
            self._again_s = time.monotonic() + _AGAIN_S

    def close(self) -> None:
        """End the queries; the next run reads the unfinished batches again."""
        jobs: Any = self._spark.sparkContext._jsc.sc()
        for started in self._queries.values():
            jobs.cancelJobGroupAndFutureJobs(str(started.runId))  # a batch of gold has many jobs
            started.stop()
        self._queries.clear()

    def _patiently(self, work: Callable[[], None]) -> None:
        """Repeat ``work`` while it fails with :class:`Passing`, a temporary failure."""
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
        with contextlib.closing(Stream(self._login, self._namespace, CHANGES)) as stream:
            self._epoch, _ = stream.epoch()
        self._acknowledge()  # before anything is read: from now on Redis keeps what the lake lacks
        taken = snapshot.snapshots(self._lake, *self._place)
        if not taken:
            self._take_snapshot()
        reached = last(self._lake, *self._place)
        # a new change starts the query of silver; a snapshot or a requarantine does not
        if reached is None or reached.seq < max(each.seq for each in taken) or reached.kind == "requarantine":
            self._catch_up()
        self._begun_seq = self._head().seq

    @property
    def _place(self) -> tuple[str, str]:
        return self._namespace, self._epoch

    def _head(self) -> NamespaceHead:
        return snapshot.head_of(self._settings.redis_url, self._namespace)

    def _take_snapshot(self, *, behind_gap: bool = False) -> None:
        """Write the tables as they are now into the lake."""
        for tried in range(_SNAPSHOT_TRIES):
            try:
                taken = snapshot.take(
                    self._spark, self._settings.redis_url, self._namespace, self._lake, behind_gap=behind_gap
                )
            except StoreUnavailable:
                raise
            except StoreError:  # the stream was trimmed while it was read
                if tried + 1 == _SNAPSHOT_TRIES:
                    raise
                continue
            if taken.epoch != self._epoch:
                raise GapError(f"the namespace was created again while it was read: {self._epoch} became {taken.epoch}")
            self._tell(f"snapshot of the tables as of change {taken.seq}")
            return

    def _acknowledge(self) -> None:
        """Tell Redis which entries the lake has."""
        positions: dict[str, str] = {name: str(query.last_entry(self._lake, *self._place, name)) for name in STREAMS}
        with contextlib.closing(self._login.connect()) as client:
            try:
                acknowledge_with(client, self._namespace, self._settings.reader, positions, epoch=self._epoch)
            except MissingRight as error:
                if self._reader is not None:
                    self._tell(
                        f"{error}; so Redis keeps no entries for this pipeline beyond their usual age: run it more "
                        "often than changesMaxAgeHours, or give its login the right (deploy/README.md, Redis users)"
                    )
                self._reader = None

    # queries

    def _start(self, name: str) -> None:
        interval_s = self._interval_s
        if interval_s is None:
            trigger: dict[str, Any] = {"availableNow": True}
        else:
            seconds = {SILVER: min(interval_s, _FOLLOW_S), GOLD: _FIGURES * interval_s}.get(name, interval_s)
            trigger = {"processingTime": f"{round(seconds * 1000)} milliseconds"}
        started = self._query_of(name, trigger)
        self._queries[name] = started
        self.batches.begin(name)
        # queries start one after the other: Spark gives the Python of a source ten seconds to start
        while started.isActive and started.status["message"] == "Initializing sources" and not self._stop.wait(0.1):
            pass

    def _query_of(self, name: str, trigger: dict[str, Any], starting_id: EntryId | None = None) -> StreamingQuery:
        if name in STREAMS:
            return query.start(
                self._spark, self._lake, self._place, name, trigger, url=self._settings.redis_url,
                reader=self._reader, limit=self._settings.limit, starting_id=starting_id,
            )  # fmt: skip
        news, work = (added.changes, self._silver_batch) if name == SILVER else (added.moments, self._gold_batch)
        rows = news(self._spark, self._lake, *self._place)
        checkpoint = query.checkpoint(self._lake, *self._place, name)
        added.forget_old(checkpoint)
        lake = Lake(self._lake.root)  # a Lake object is for one thread

        def batch(found: DataFrame, _: int) -> None:
            try:
                with plain_errors(), self._writing:
                    work(found, lake)
            except Exception as error:
                self._raised[name] = error
                raise

        return (
            rows.writeStream.foreachBatch(batch).queryName(f"{self._namespace} {name}").trigger(**trigger)
            .option("checkpointLocation", checkpoint).start()
        )  # fmt: skip

    def _silver_batch(self, changed: DataFrame, lake: Lake) -> None:
        # takes all new changes of bronze: a change of which this batch has the last part may begin in an earlier batch
        self._advance(changed.sparkSession, lake)

    def _gold_batch(self, touched: DataFrame, lake: Lake) -> None:
        [[since_ms]] = touched.agg(F.min("ms")).collect()
        if since_ms is None:
            return
        if refresh(touched.sparkSession, lake, *self._place, since_ms=since_ms):
            self._tell("figures brought up to date")
            self._progress.figures(lambda: last_hour(lake, *self._place), self._namespace)

    def _advance(self, spark: SparkSession, lake: Lake) -> None:
        for tried in (False, True):
            try:
                for step in Silver(spark, lake, *self._place).advance():
                    self._tell(f"tables as of change {step.seq}")
                return
            except ClockSetBack as step_back:
                if tried:
                    raise
                self._tell(f"{step_back}; that is done now")
                for _ in backfill(spark, lake, *self._place):
                    pass

    def _catch_up(self) -> None:
        """Bring silver up to date in the run's own thread; with accept_gap, go on after lost changes."""
        with self._writing:
            try:
                self._advance(self._spark, self._lake)
            except MissingChanges as hole:
                if not self._accept_gap:
                    raise
                self._tell(f"accepted: {hole}")
                # the next query begins after the snapshot: this one must not write the same changes, too
                if CHANGES in self._queries:
                    self._queries.pop(CHANGES).stop()
                self._take_snapshot(behind_gap=True)
                self._advance(self._spark, self._lake)

    def _observe(self, head: NamespaceHead) -> None:
        """If silver has all changes up to this head, record that no other change came before it."""
        with self._writing:
            Silver(self._spark, self._lake, *self._place).observe(head.seq, head.now_ms - 1)

    # reports

    def _look(self) -> None:
        """Report new batches, and handle the queries that ended."""
        for name, started in list(self._queries.items()):
            is_active = started.isActive  # asked first, so that all reports of an ended query are read
            if name in STREAMS:
                self.batches.read(name, started, has_ended=not is_active)
            if is_active or self._queries.get(name) is not started:
                continue
            del self._queries[name]
            failure = started.exception()
            if failure is not None:
                self._go_on_after(name, self._raised.pop(name) if name in self._raised else plain(failure))

    def _told_done(self) -> None:
        """Report how long the last batches of all queries took together, and how far silver is."""
        took_ms = sum(
            started.lastProgress["batchDuration"] for started in self._queries.values() if started.lastProgress
        )
        reached = last(self._lake, *self._place)
        self._progress.round_done(took_ms / 1000, reached.seq if reached else 0, self._namespace)
        read = all(name in self._queries and self._queries[name].lastProgress for name in STREAMS)
        if read and reached and self._begun_seq is not None and reached.seq >= self._begun_seq:
            self._accept_gap = False  # later gaps are errors
        self._pause_s = _AGAIN_S / 2

    def _go_on_after(self, name: str, error: Exception) -> None:
        """Restart a failed query if it may succeed now; else raise its error."""
        if isinstance(error, Passing):
            self._pause(error)
        elif isinstance(error, GapError) and name in STREAMS:
            self._patiently(lambda: self._accept(name, error))
        elif isinstance(error, MissingChanges) and self._accept_gap:
            self._patiently(self._catch_up)
        elif isinstance(error, StoreUnavailable) and self._interval_s is not None:
            raise error
        else:
            self._progress.round_failed("failed")
            raise error
        if name not in self._queries:
            self._start(name)

    def _accept(self, stream: Name, gap: GapError) -> None:
        """Go on after lost entries if accept_gap is set; else raise ``gap``."""
        with contextlib.closing(Stream(self._login, self._namespace, stream)) as lost:
            head = lost.head()
        if not self._accept_gap or head.epoch != self._epoch or isinstance(gap, OtherPast):
            raise gap
        self._tell(f"accepted: {gap}")
        if stream == CHANGES:
            self._take_snapshot(behind_gap=True)
            self._catch_up()
            return
        before = query.last_entry(self._lake, *self._place, stream)
        rewound = head.exists and head.last_generated < before
        first_ms = entry_id(head.first).ms if head.first is not None and not rewound else before.ms
        if rewound:  # before the row of silver/gap, which makes the new checkpoint count: a killed run repeats this
            trigger: dict[str, Any] = {"availableNow": True}
            self._query_of(stream, trigger, head.last_generated).awaitTermination()
        add_new(self._spark, self._lake, "silver/gap", self._place, [(stream, before.ms, max(before.ms, first_ms))])
        with self._writing:
            Silver(self._spark, self._lake, *self._place).tell("observed", touched_ms=before.ms)
