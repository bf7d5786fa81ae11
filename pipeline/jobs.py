"""Runs the whole pipeline in rounds: snapshot, bronze of three streams, silver, gold; then Redis may trim its streams.

Each step goes on from the lake's last commit, and repeats what the process had begun when it ended: a round may be
killed anywhere and run again. A second run on the same namespace takes turns with the first, or ends with an error
where both write at once; nothing is there twice.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from mqregistry.errors import MissingRight, RegistryError, StoreError, StoreUnavailable
from mqregistry.events.journal import CHANGES, STREAMS
from mqregistry.events.journal import Stream as Name
from mqregistry.store.connection.url import without_password
from mqregistry.store.streams import acknowledge_with

from . import gold
from .backfill import backfill
from .bronze.entries import BronzeBatch
from .bronze.log import last_position, restart
from .bronze.take import SPARK_FROM_ENTRIES, Access, query, take_here
from .lake import snapshot
from .lake.lake import Lake, whole_files
from .lake.maintain import Upkeep
from .progress import Progress, Unwatched
from .redis_stream.entries import entry_id
from .redis_stream.ranges import OLDEST, UNKNOWN, Position, parse_id
from .redis_stream.stream import GapError, Login, OtherPast, Stream
from .silver import SilverRun, load, observe
from .silver.next_changes import ClockSetBack, MissingChanges
from .spark.errors import WorkerLate, plain_errors

logger = logging.getLogger(__name__)

READER: Final = "pipeline"
_SNAPSHOT_TRIES: Final = 3
_WORKER_TRIES: Final = 6
_GOLD_S: Final = 60.0  # between two refreshes: each leaves files behind, and hours and days are what they are about
_GOLD_SHARE: Final = 0.02  # of one core


class PipelineSettings(NamedTuple):
    """What a pipeline reads, and how.

    reader: the name under which Redis keeps entries for this lake. accept_gap: go on from a new snapshot where entries
    are lost. limit: entries of a batch. spark_from: fewer entries than this are read without Spark.
    """

    redis_url: str
    namespace: str = "default"
    reader: str = READER
    accept_gap: bool = False
    limit: int = 250_000
    spark_from: int = SPARK_FROM_ENTRIES

    def __repr__(self) -> str:  # the URL may hold a password
        return f"PipelineSettings({without_password(self.redis_url)!r}, {self.namespace!r})"


class Done(NamedTuple):
    """What a round did: entries by stream, of them in quarantine, the last change that silver has."""

    entries: dict[str, int]
    quarantined: int
    seq: int


class Stopped(RegistryError):
    """The round ended early because its stop event was set."""


class Job:
    """One lake's pipeline.

    Args:
        spark: a session; None: everything is done in this process.
        tell: called with a sentence about every step that is done.
        stop: ends the round early when it is set; what is under way is then done again by the next one.
        progress: is told of every batch, and how far behind each stream is.
    """

    def __init__(
        self,
        spark: Any,
        lake: Lake,
        settings: PipelineSettings,
        *,
        tell: Callable[[str], None] = logger.info,
        stop: threading.Event | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.spark = spark
        self.lake = lake
        self.settings = settings
        self._tell = tell
        self._stop = stop or threading.Event()
        self._progress = progress or Unwatched()
        self._login = Login(settings.redis_url)
        self._may_not_acknowledge = False
        self._upkeep = Upkeep(lake)
        self._gold_due_s = 0.0

    def round(self) -> Done:
        """Take in everything that is there now.

        Raises:
            StoreUnavailable: Redis is away; what was committed counts.
            GapError, LakeError: something is missing; the message says what to do.
            OtherWriter: another run committed at the same time.
            WorkerLate: this machine is too busy for Spark.
            Stopped: the event was set.
        """
        with plain_errors():
            return self._round()

    def _round(self) -> Done:
        streams = {name: Stream(self._login, self.settings.namespace, name) for name in STREAMS}
        try:
            epoch, _ = streams[CHANGES].epoch()
            self._acknowledge(epoch)  # before anything is read: from now on Redis keeps it
            begin = self._snapshot(epoch)
            now_ms = snapshot.read_now(self.settings.redis_url, self.settings.namespace)
            entries: dict[str, int] = {}
            quarantined = 0
            for name, stream in streams.items():
                start = begin if name == CHANGES else Position(OLDEST)
                self._tell_behind(stream, epoch, start)
                batches = self._bronze(stream, epoch, start)
                self._tell_behind(stream, epoch, start)
                entries[name] = sum(batch.rows + batch.quarantined for batch in batches)
                quarantined += sum(batch.quarantined for batch in batches)
            if quarantined:
                where = self.lake.uri("quarantine")
                self._tell(f"{quarantined} entries could not be read: they are in {where}, with the reason")
            seq = self._silver(epoch)
            last = last_position(self.lake, CHANGES, self.settings.namespace, epoch)
            if last is None or (last.seq == seq and not last.unread):
                observe(self.lake, self.settings.namespace, epoch, seq, now_ms - 1)
            self._acknowledge(epoch)  # bronze has it; what silver and gold lack they find there
            with whole_files(self.lake):
                self._gold(epoch)
                self._upkeep.when_due()
        finally:
            for stream in streams.values():
                stream.close()
        return Done(entries, quarantined, seq)

    def _snapshot(self, epoch: str) -> Position:
        """The position after which the changes follow that are not in the first snapshot."""
        found = snapshot.first(self.lake, self.settings.namespace, epoch)
        if found is None:
            found = self._take_snapshot()
            if found.epoch != epoch:
                raise GapError(f"the namespace was created again while it was read: epoch {epoch} became {found.epoch}")
        return Position(parse_id(found.last_id), found.seq)

    def _take_snapshot(self, *, behind_gap: bool = False) -> snapshot.Snapshot:
        for tried in range(_SNAPSHOT_TRIES):
            try:
                taken = snapshot.take(
                    self.settings.redis_url, self.settings.namespace, self.lake, behind_gap=behind_gap
                )
            except StoreError:  # trimmed while it was read
                if tried + 1 == _SNAPSHOT_TRIES:
                    raise
                continue
            self._tell(f"snapshot of the tables as of change {taken.seq}")
            return taken
        raise AssertionError

    def _bronze(self, stream: Stream, epoch: str, begin: Position) -> list[BronzeBatch]:
        """Take everything that is new in one stream into bronze."""
        name, settings = stream.name, self.settings
        start = last_position(self.lake, name, settings.namespace, epoch) or begin
        head = stream.head()
        try:
            stream.check(start, epoch, head)
        except GapError as gap:
            self._may_accept(gap, head.epoch, epoch)
            rewound = head.exists and head.last_generated < start.id
            first_ms = entry_id(head.first).ms if head.first is not None and not rewound else None
            start = Position(head.last_generated) if rewound else Position(OLDEST)
            start = self._go_on_behind(name, epoch, start, first_ms)
        if not head.exists or head.last_generated <= start.id:
            return []
        batches: list[BronzeBatch] = []
        try:
            self._take(stream, epoch, start, batches)
        except GapError as gap:  # a hole in the middle, which only reading shows
            if name != CHANGES:
                raise
            self._may_accept(gap, stream.head().epoch, epoch)
            start = self._go_on_behind(name, epoch, start)
            if stream.head().last_generated > start.id:
                self._take(stream, epoch, start, batches)
        return batches

    def _may_accept(self, gap: GapError, epoch: str, wanted: str) -> None:
        if not self.settings.accept_gap or epoch != wanted or isinstance(gap, OtherPast):
            raise gap
        self._tell(f"accepted: {gap}")

    def _go_on_behind(self, name: Name, epoch: str, start: Position, first_ms: int | None = None) -> Position:
        """Begin again after a gap; for changes with a snapshot of the tables."""
        if name == CHANGES:
            taken = self._take_snapshot(behind_gap=True)
            start = Position(parse_id(taken.last_id), taken.seq)
        restart(self.lake, name, self.settings.namespace, epoch, start, first_ms=first_ms)
        return start

    def _take(self, stream: Stream, epoch: str, start: Position, batches: list[BronzeBatch]) -> None:
        """Few entries here, many on Spark."""
        name, settings = stream.name, self.settings

        def done(number: int, batch: BronzeBatch) -> None:
            batches.append(batch)
            self._progress.took(name, batch.rows, batch.quarantined)
            self._tell(f"{name}: batch {number}, {batch.rows:,} entries up to {batch.last}")

        little = min(settings.limit, settings.spark_from)
        if self.spark is None:
            little = settings.limit
        if take_here(self.lake, stream, settings.namespace, epoch, start, done, limit=little, alone=self.spark is None):
            return
        access = Access(settings.redis_url, settings.namespace, epoch)
        with plain_errors(), query(self.spark, self.lake, access, name, start, done, limit=settings.limit) as running:
            while not running.awaitTermination(1):
                self._check_stop()

    def _silver(self, epoch: str) -> int:
        """Bring the tables up to what bronze has; gives the last change."""
        namespace = self.settings.namespace
        for tried in (0, 1, 2):
            try:
                for step in SilverRun(self.spark, self.lake, namespace, epoch).steps():
                    self._tell(f"tables as of change {step.seq}, {step.rows:,} taken in")
                    self._check_stop()
                break
            except ClockSetBack as step_back:
                if tried:
                    raise
                self._tell(f"{step_back}; that is done now")
                for _ in backfill(self.spark, self.lake, namespace, epoch):
                    self._check_stop()
            except MissingChanges as hole:
                if tried == 2 or not self.settings.accept_gap:
                    raise GapError(str(hole)) from hole
                self._tell(f"accepted: {hole}")
                self._take_snapshot(behind_gap=True)
        tables = load(self.lake, namespace, epoch)
        return tables.content.seq if tables else UNKNOWN

    def _gold(self, epoch: str) -> None:
        """Bring the figures up to date: in the first round, and then once a minute, or as their cost allows."""
        begun_s, cpu_s = time.monotonic(), time.process_time()
        if begun_s < self._gold_due_s:
            return
        if gold.refresh(self.spark, self.lake, self.settings.namespace, epoch):
            self._tell("figures brought up to date")
        self._progress.figures(gold.last_hour(self.lake, self.settings.namespace, epoch))
        self._gold_due_s = begun_s + max(_GOLD_S, (time.process_time() - cpu_s) / _GOLD_SHARE)

    def _acknowledge(self, epoch: str) -> None:
        """Tell Redis which entries the lake has."""
        positions: dict[str, str] = {}
        for name in STREAMS:
            last = last_position(self.lake, name, self.settings.namespace, epoch)
            positions[name] = str(last.id if last else OLDEST)
        client = self._login.connect()
        try:
            acknowledge_with(client, self.settings.namespace, self.settings.reader, positions, epoch=epoch)
        except MissingRight as error:
            if not self._may_not_acknowledge:
                self._tell(
                    f"{error}; so Redis keeps no entries for this pipeline longer than for nobody: run it more often "
                    "than changesMaxAgeHours, or give its login the right (deploy/README.md, Redis users)"
                )
            self._may_not_acknowledge = True
        finally:
            client.close()

    def _tell_behind(self, stream: Stream, epoch: str, begin: Position) -> None:
        """How long before the stream's last entry the last one was written that the lake has."""
        at = (last_position(self.lake, stream.name, self.settings.namespace, epoch) or begin).id
        head = stream.head()
        missing = head.exists and head.last_generated > at
        since_ms = max(at.ms, entry_id(head.first).ms if head.first is not None else 0)
        self._progress.behind(stream.name, max(0, head.last_generated.ms - since_ms) / 1000 if missing else 0.0)

    def _check_stop(self) -> None:
        if self._stop.is_set():
            raise Stopped("stopped; the next run goes on from here")


def run(
    spark: Any,
    lake: Lake,
    settings: PipelineSettings,
    *,
    once: bool = False,
    interval_s: float = 10.0,
    tell: Callable[[str], None] = logger.info,
    stop: threading.Event | None = None,
    progress: Progress | None = None,
) -> Done | None:
    """Round after round, until ``stop`` is set; or one.

    Args:
        interval_s: between rounds.
        progress: is told of every round.

    Returns:
        What the last whole round did.

    Raises:
        As :meth:`Job.round`; but when Redis is away for a while, only with ``once``; and when the machine is busy, only
        after some tries.
    """
    stop = stop or threading.Event()
    progress = progress or Unwatched()
    job = Job(spark, lake, settings, tell=tell, stop=stop, progress=progress)
    done, late = None, 0
    while not stop.is_set():
        began_s = time.monotonic()
        try:
            done = job.round()
            late = 0
            progress.round_done(time.monotonic() - began_s, done.seq)
            job.settings = job.settings._replace(accept_gap=False)  # one gap was seen and accepted, not all to come
        except StoreUnavailable as error:
            progress.round_failed("redis_away")
            if once:
                raise
            tell(f"{error}; again in {interval_s:g} s")
        except WorkerLate as error:
            progress.round_failed("worker_late")
            late += 1
            if late == _WORKER_TRIES:
                raise
            tell(f"{error}; again")
            continue
        except Stopped:
            break
        except Exception:
            progress.round_failed("failed")
            raise
        if once:
            break
        stop.wait(interval_s)
    return done
