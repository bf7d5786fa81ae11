"""Runs the whole pipeline in rounds: snapshot, bronze of three streams, silver, gold; then Redis may trim its streams.

Each step goes on from the lake's last commit, and repeats what the process had begun when it ended: a round may be
killed anywhere and run again. A second run on the same namespace takes turns with the first, or ends with an error
where both write at once; nothing is there twice.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from mqregistry.errors import MissingRight, RegistryError, StoreUnavailable
from mqregistry.events.journal import CHANGES, STREAMS
from mqregistry.store.streams import acknowledge_with

from . import gold
from .backfill import backfill
from .bronze.intake import READER, Intake, PipelineSettings, Stopped
from .bronze.log import last_position
from .bronze.take import Pause
from .lake import snapshot
from .lake.lake import Lake, whole_files
from .lake.maintain import Upkeep
from .progress import Progress, Unwatched
from .redis_stream.ranges import OLDEST, UNKNOWN
from .redis_stream.stream import GapError, Login, Stream
from .silver import SilverRun, load, observe
from .silver.next_changes import ClockSetBack, MissingChanges
from .spark.errors import WorkerLate, plain_errors

__all__ = ["READER", "Done", "Job", "PipelineSettings", "Stopped", "WorkerLate", "run"]

logger = logging.getLogger(__name__)

_WORKER_TRIES: Final = 6
_GOLD_S: Final = 60.0  # between two refreshes: each leaves files behind, and hours and days are what they are about
_GOLD_SHARE: Final = 0.02  # of one core


class Done(NamedTuple):
    """What was done since the round before: entries by stream, of them in quarantine, the last change of silver."""

    entries: dict[str, int]
    quarantined: int
    seq: int

    def together(self, other: Done) -> Done:
        """Of two namespaces."""
        entries = {name: count + other.entries[name] for name, count in self.entries.items()}
        return Done(entries, self.quarantined + other.quarantined, max(self.seq, other.seq))


class Job:
    """One lake's pipeline.

    Args:
        spark: a session; None: everything is done in this process.
        tell: called with a sentence about every step that is done.
        stop: ends the round early when it is set; what is under way is then done again by the next one.
        progress: is told of every batch, and how far behind each stream is.
        interval_s: between rounds, while which Spark's queries go on; None: a round takes in what is there, and ends
            them.
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
        interval_s: float | None = None,
    ) -> None:
        self.spark = spark
        self.lake = lake
        self._tell = tell
        self._login = Login(settings.redis_url)
        self._may_not_acknowledge = False
        self._upkeep = Upkeep(lake)
        self._gold_due_s = 0.0
        self._progress = progress or Unwatched()
        self._intake = Intake(
            spark, lake, settings, tell=tell, stop=stop or threading.Event(), progress=self._progress,
            pause=None if interval_s is None else Pause(settings.spark_from, interval_s),
        )  # fmt: skip

    def close(self) -> None:
        """End what goes on between rounds."""
        self._intake.close()

    @property
    def settings(self) -> PipelineSettings:
        """What is read, and how."""
        return self._intake.settings

    def accept_no_more_gaps(self) -> None:
        """One gap was seen and accepted, not all to come."""
        self._intake.settings = self.settings._replace(accept_gap=False)

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
            begin = self._intake.first_position(epoch)
            now_ms = snapshot.read_now(self.settings.redis_url, self.settings.namespace)
            entries = self._intake.take(streams, epoch, begin)
            last = last_position(self.lake, CHANGES, self.settings.namespace, epoch)
            beside = CHANGES in self._intake.beside  # which goes on: there is no end to what silver could take in
            seq = self._silver(epoch, last.seq if last and beside else None)
            if not beside and (last is None or (last.seq == seq and not last.unread)):
                observe(self.lake, self.settings.namespace, epoch, seq, now_ms - 1)
            self._acknowledge(epoch)  # bronze has it; what silver and gold lack they find there
            with whole_files(self.lake):
                self._gold(epoch)
                self._upkeep.when_due()
        finally:
            for stream in streams.values():
                stream.close()
        return Done(entries, entries.pop("quarantine"), seq)

    def _silver(self, epoch: str, upto_seq: int | None) -> int:
        """Bring the tables up to what bronze has, or had at a change; gives the last one."""
        namespace = self.settings.namespace
        for tried in (0, 1, 2):
            try:
                for step in SilverRun(self.spark, self.lake, namespace, epoch).steps(upto_seq=upto_seq):
                    self._tell(f"tables as of change {step.seq}, {step.rows:,} taken in")
                    self._intake.check_stop()
                break
            except ClockSetBack as step_back:
                if tried:
                    raise
                self._tell(f"{step_back}; that is done now")
                for _ in backfill(self.spark, self.lake, namespace, epoch):
                    self._intake.check_stop()
            except MissingChanges as hole:
                if tried == 2 or not self.settings.accept_gap:
                    raise GapError(str(hole)) from hole
                self._tell(f"accepted: {hole}")
                self._intake.take_snapshot(behind_gap=True)
        tables = load(self.lake, namespace, epoch)
        return tables.content.seq if tables else UNKNOWN

    def _gold(self, epoch: str) -> None:
        """Bring the figures up to date: in the first round, and then once a minute, or as their cost allows."""
        begun_s, cpu_s = time.monotonic(), time.process_time()
        if begun_s < self._gold_due_s:
            return
        namespace = self.settings.namespace
        refreshed = gold.refresh(self.spark, self.lake, namespace, epoch)
        if refreshed:
            self._tell("figures brought up to date")
        if refreshed or not self._gold_due_s:
            self._progress.figures(lambda: gold.last_hour(self.lake, namespace, epoch), namespace)
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


def run(
    spark: Any,
    lake: Lake,
    settings: PipelineSettings,
    *,
    others: Sequence[str] = (),
    once: bool = False,
    interval_s: float = 10.0,
    tell: Callable[[str], None] = logger.info,
    stop: threading.Event | None = None,
    progress: Progress | None = None,
) -> Done | None:
    """Round after round, until ``stop`` is set; or one.

    Args:
        others: further namespaces of the same Redis. One that fails does not stop the others.
        interval_s: between rounds.
        progress: is told of every round.

    Returns:
        What the last whole rounds did, of all namespaces together.

    Raises:
        As :meth:`Job.round`; but when Redis is away for a while, only with ``once``; and when the machine is busy, only
        after some tries. With several namespaces, at the end.
    """
    stop = stop or threading.Event()
    progress = progress or Unwatched()
    names = list(dict.fromkeys([settings.namespace, *others]))
    done: dict[str, Done] = {}
    failed: list[RegistryError] = []
    with contextlib.ExitStack() as closing:
        jobs = {}
        for name in names:
            told = tell if len(names) == 1 else functools.partial(_tell_of, tell, name)
            jobs[name] = Job(
                spark, lake, settings._replace(namespace=name), tell=told, stop=stop, progress=progress,
                interval_s=None if once else interval_s,
            )  # fmt: skip
            closing.callback(jobs[name].close)
        while jobs and not stop.is_set():
            for name, job in list(jobs.items()):
                try:
                    done[name] = _round(job, tell, stop, progress)
                except StoreUnavailable as error:
                    progress.round_failed("redis_away")
                    if once:
                        raise
                    tell(f"{error}; again in {interval_s:g} s")
                except Stopped:
                    break
                except Exception as error:
                    progress.round_failed("failed")
                    if len(names) == 1 or not isinstance(error, RegistryError):
                        raise
                    tell(f"namespace {name}: {error}")
                    failed.append(error)
                    jobs.pop(name).close()
            if once:
                break
            stop.wait(interval_s)
    if failed:
        raise failed[0]
    return functools.reduce(Done.together, done.values()) if done else None


def _tell_of(tell: Callable[[str], None], namespace: str, text: str) -> None:
    tell(f"namespace {namespace}: {text}")


def _round(job: Job, tell: Callable[[str], None], stop: threading.Event, progress: Progress) -> Done:
    """One round, tried again where the machine was too busy."""
    for left in reversed(range(_WORKER_TRIES)):
        began_s = time.monotonic()
        try:
            done = job.round()
        except WorkerLate as error:
            progress.round_failed("worker_late")
            if not left:
                raise
            tell(f"{error}; again")
            if stop.is_set():
                raise Stopped("stopped") from error
            continue
        progress.round_done(time.monotonic() - began_s, done.seq, job.settings.namespace)
        job.accept_no_more_gaps()
        return done
    raise AssertionError
