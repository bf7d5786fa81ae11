"""Takes the streams of one namespace into bronze, round by round, beginning with a snapshot of the tables.

A stream that brings little is read in this process. One that brings much gets a query of Spark, which goes on from
round to round beside the others, until it brings little again.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from mqregistry.errors import RegistryError, StoreError
from mqregistry.events.journal import CHANGES, STREAMS
from mqregistry.events.journal import Stream as Name
from mqregistry.store.connection.url import without_password

from ..lake import snapshot
from ..lake.lake import Lake
from ..progress import Progress
from ..redis_stream.entries import entry_id
from ..redis_stream.ranges import OLDEST, Position, parse_id
from ..redis_stream.stream import GapError, OtherPast, Stream
from .entries import BronzeBatch
from .log import last_position, restart
from .take import SPARK_FROM_ENTRIES, Access, Pause, Query, take_here

READER: Final = "pipeline"
_SNAPSHOT_TRIES: Final = 3
_QUIET_S: Final = 60.0  # so long a query goes on that has no batch worth it


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


class Stopped(RegistryError):
    """The round ended early because its stop event was set."""


class Intake:
    """Bronze of one namespace.

    Args:
        spark: a session; None: everything is done in this process.
        tell: called with a sentence about every step that is done.
        stop: ends a wait when it is set.
        progress: is told of every batch, and how far behind each stream is.
        pause: of queries that go on between rounds; None: a round takes in what is there, and ends them.

    Attributes:
        beside: the streams that queries are at now.
    """

    def __init__(
        self, spark: Any, lake: Lake, settings: PipelineSettings, *, tell: Callable[[str], None],
        stop: threading.Event, progress: Progress, pause: Pause | None,
    ) -> None:  # fmt: skip
        self.spark = spark
        self.lake = lake
        self.settings = settings
        self._tell = tell
        self._stop = stop
        self._progress = progress
        self._pause = pause
        self._epoch = ""
        self.beside: dict[Name, Query] = {}
        self._taken: deque[tuple[Name, BronzeBatch]] = deque()  # since the last round

    def close(self) -> None:
        """End what goes on between rounds."""
        while self.beside:
            self.beside.popitem()[1].close()

    def take(self, streams: Mapping[Name, Stream], epoch: str, begin: Position) -> dict[str, int]:
        """Take in what is new, or let Spark do it meanwhile.

        Args:
            begin: the position of the first snapshot in the changes.

        Returns:
            How many entries there were since this was called last, by stream; and under ``quarantine`` how many of them
            cannot be read.
        """
        if epoch != self._epoch:
            self.close()
            self._epoch = epoch
        starts = {name: begin if name == CHANGES else Position(OLDEST) for name in STREAMS}
        for name, stream in streams.items():
            self._tell_behind(stream, epoch, starts[name])
            self._bronze(stream, epoch, starts[name])
        while self.beside and not self._pause:
            for name in list(self.beside):
                self._bronze(streams[name], epoch, starts[name])  # to its end
        for name, stream in streams.items():
            self._tell_behind(stream, epoch, starts[name])
        entries: dict[str, int] = {**dict.fromkeys(STREAMS, 0), "quarantine": 0}
        while self._taken:
            name, batch = self._taken.popleft()
            entries[name] += batch.rows + batch.quarantined
            entries["quarantine"] += batch.quarantined
        if bad := entries["quarantine"]:
            self._tell(f"{bad} entries could not be read: they are in {self.lake.uri('quarantine')}, with the reason")
        return entries

    def first_position(self, epoch: str) -> Position:
        """The position after which the changes follow that are not in the first snapshot."""
        found = snapshot.first(self.lake, self.settings.namespace, epoch)
        if found is None:
            found = self.take_snapshot()
            if found.epoch != epoch:
                raise GapError(f"the namespace was created again while it was read: epoch {epoch} became {found.epoch}")
        return Position(parse_id(found.last_id), found.seq)

    def take_snapshot(self, *, behind_gap: bool = False) -> snapshot.Snapshot:
        """Write the tables as they are now into the lake."""
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

    def _bronze(self, stream: Stream, epoch: str, begin: Position) -> None:
        """Take what is new in one stream into bronze, or let Spark do it meanwhile."""
        name, settings = stream.name, self.settings
        start = last_position(self.lake, name, settings.namespace, epoch) or begin
        head = stream.head()
        try:
            stream.check(start, epoch, head)
        except GapError as gap:
            self._end(name)
            self._may_accept(gap, head.epoch, epoch)
            rewound = head.exists and head.last_generated < start.id
            first_ms = entry_id(head.first).ms if head.first is not None and not rewound else None
            start = Position(head.last_generated) if rewound else Position(OLDEST)
            start = self._go_on_behind(name, epoch, start, first_ms)
        if name not in self.beside and (not head.exists or head.last_generated <= start.id):
            return
        try:
            self._take(stream, epoch, start)
        except GapError as gap:  # a hole in the middle, which only reading shows
            if name != CHANGES:
                raise
            self._may_accept(gap, stream.head().epoch, epoch)
            start = self._go_on_behind(name, epoch, start)
            if stream.head().last_generated > start.id:
                self._take(stream, epoch, start)

    def _may_accept(self, gap: GapError, epoch: str, wanted: str) -> None:
        if not self.settings.accept_gap or epoch != wanted or isinstance(gap, OtherPast):
            raise gap
        self._tell(f"accepted: {gap}")

    def _go_on_behind(self, name: Name, epoch: str, start: Position, first_ms: int | None = None) -> Position:
        """Begin again after a gap; for changes with a snapshot of the tables."""
        if name == CHANGES:
            taken = self.take_snapshot(behind_gap=True)
            start = Position(parse_id(taken.last_id), taken.seq)
        restart(self.lake, name, self.settings.namespace, epoch, start, first_ms=first_ms)
        return start

    def _take(self, stream: Stream, epoch: str, start: Position) -> None:
        """Few entries here, many on Spark, where a query may be at it."""
        name, settings = stream.name, self.settings

        def done(number: int, batch: BronzeBatch) -> None:
            self._taken.append((name, batch))
            self._progress.took(name, batch.rows, batch.quarantined)
            self._tell(f"{name}: batch {number}, {batch.rows:,} entries up to {batch.last}")

        if name in self.beside:
            self._look_after(name)
            if name in self.beside:
                return
        alone = self.spark is None
        little = settings.limit if alone else min(settings.limit, settings.spark_from)
        if not take_here(self.lake, stream, settings.namespace, epoch, start, done, limit=little, alone=alone):
            access = Access(settings.redis_url, settings.namespace, epoch)
            self.beside[name] = Query(
                self.spark, self.lake, access, name, start, done, limit=settings.limit, pause=self._pause
            )

    def _look_after(self, name: Name) -> None:
        """See whether a query still runs, and is worth it; one that does not go on is waited for."""
        query = self.beside[name]
        try:
            while not query.ended(0.001 if self._pause else 1):
                self.check_stop()
                if self._pause and time.monotonic() - query.busy_s < _QUIET_S:
                    return
                if self._pause:
                    break
        except BaseException:
            with contextlib.suppress(Exception):  # of what went wrong first
                self._end(name)
            raise
        self._end(name)

    def _end(self, name: Name) -> None:
        if name in self.beside:
            self.beside.pop(name).close()

    def _tell_behind(self, stream: Stream, epoch: str, begin: Position) -> None:
        """How long before the stream's last entry the last one was written that the lake has."""
        at = (last_position(self.lake, stream.name, self.settings.namespace, epoch) or begin).id
        head = stream.head()
        missing = head.exists and head.last_generated > at
        since_ms = max(at.ms, entry_id(head.first).ms if head.first is not None else 0)
        behind_s = max(0, head.last_generated.ms - since_ms) / 1000 if missing else 0.0
        self._progress.behind(stream.name, behind_s, self.settings.namespace)

    def check_stop(self) -> None:
        """Raise if the round is to end."""
        if self._stop.is_set():
            raise Stopped("stopped; the next run goes on from here")
