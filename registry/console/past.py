"""Gives the tables of a past instant: those of a checkpoint, with the later changes applied (a replay).

Events hold only new values, so a replay goes forward from complete tables: those of a checkpoint, or the empty tables
before change 1 while the stream still has change 1. The console writes a checkpoint when it starts, each hour, and
after each 20,000 changes of a replay. The lake, if the console has one, gives an older past, and the past before Redis
was emptied.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from ..errors import RegistryError
from ..events.by import By
from ..events.changes import BrokerChange, Change
from ..follow.follow import Follow, StreamGap
from ..operators.language import marked, say
from ..operators.words import moment
from ..store.change_reader import ChangeReader, find_change, last_change_id, read_first
from ..store.connection.url import without_password
from ..store.snapshot import read_head
from ..store.store import Store
from ..tables.tables import Tables
from ..tasks import cancelled, pause, wait_within
from .checkpoints import Checkpoints, StreamPlace, encode_tables
from .state import State

logger = logging.getLogger(__name__)

_EVERY_S: Final = 3600
_REPLAYED_EVERY: Final = 20_000
_KEPT: Final = 2
_LAKE: Final = marked(
    "'mqregistry pipeline run' keeps changes longer, in a lake: the console shows them with --lake, and 'mqregistry "
    "route TOPIC --at TIME' shows them, too"
)
_ASK_AGAIN_S: Final = 60.0


class NotKnown(RegistryError):
    """The tables of that instant are not known any more; the message says since when they are."""


class NotYet(NotKnown):
    """That instant has not come."""


class KnownPast(NamedTuple):
    """Since when the past is known. whole: since the namespace's first change. places: of checkpoints since then."""

    since_ms: int
    whole: bool
    places: list[StreamPlace]


class Beginning(NamedTuple):
    """Tables from which a replay goes forward. place: of their last change. since_ms: all is known from then on."""

    tables: Tables
    place: StreamPlace
    since_ms: int


class Then(NamedTuple):
    """The tables of an instant."""

    at_ms: int
    seq: int  # the last change in them
    ms: int  # when it was made
    tables: Tables
    # brokerName -> the time and the author of the last change of its row that the replay saw
    since: dict[str, tuple[int, By | None]]
    of_lake: bool = False  # the tables come from the lake, which does not know seq and ms


class PastRoutes(Protocol):
    """The past that the lake has. Each method may take a second, and runs in a thread."""

    def since_ms(self) -> int | None:
        """The first instant whose tables are known; None: there is none, or the lake cannot be read."""

    def at(self, at_ms: int) -> Then:
        """The tables of an instant; RegistryError: they are not known."""

    def report(self) -> tuple[str, int]:
        """The pipeline's report as HTML, and the end of the time that it covers (ms). RegistryError: there is none."""


class Past:
    """The past of the namespace that a state follows.

    ``folder``: for the checkpoints. ``lake``: has an older past; None: no lake.
    """

    def __init__(self, state: State, folder: Path, lake: PastRoutes | None = None) -> None:
        self._state = state
        self._folder = folder
        self._lake = lake
        self._lake_ms: tuple[float, int | None] = -_ASK_AGAIN_S, None
        self._found: OrderedDict[tuple[str, int], Then] = OrderedDict()
        self._busy = asyncio.Lock()  # one replay at a time: each may hold a copy of all tables
        self._due = asyncio.Event()
        state.on_load.append(self._due.set)

    @property
    def folder(self) -> Path:
        """The folder of the console's files for this namespace."""
        return self._checkpoints().folder

    def _checkpoints(self) -> Checkpoints:
        store = self._state.store
        return Checkpoints(self._folder, without_password(store.url), store.namespace, self._state.epoch)

    async def keep(self) -> None:
        """Write a checkpoint each time that the tables were read, and each hour. Runs until cancelled."""
        while not cancelled():
            await wait_within(self._due, _EVERY_S)
            self._due.clear()
            try:
                while not await self.write_now():
                    await pause(0.1)
            except (OSError, RegistryError) as error:
                logger.warning("no checkpoint for time travel was written to %s: %s", self._folder, error)
                await pause(1.0)

    async def write_now(self) -> bool:
        """Write a checkpoint of the tables now if their last change has none; remove unfit ones.

        Unfit are those before the stream's begin or after its end. Returns False if the tables lack parts of a change.
        """
        state = self._state
        if not state.is_whole:
            return False
        if state.last_id == "0-0" or state.seq == 0:
            return True
        # all values are of the same change, because no await is between
        checkpoints, seq, last_id, data = self._checkpoints(), state.seq, state.last_id, encode_tables(state.tables)
        latest_ms = state.latest_ms
        found = await find_change(state.store, seq)
        if found is None:  # the change was trimmed, or lost, meanwhile
            return True
        # The time is not before any change in the tables, even if the clock was set back: stream ids never go back.
        known = checkpoints.places()
        id_ms = int(last_id.partition("-")[0])
        ms = max(found[1][-1].ms, latest_ms, id_ms, *(one.ms for one in known if one.seq < seq))
        place = StreamPlace(ms, seq, last_id)
        first = await read_first(state.store)
        for old in known:
            if first is None or old.seq < first.seq - 1 or old.seq > place.seq:
                checkpoints.remove(old)
        if place not in checkpoints.places():
            await asyncio.to_thread(checkpoints.write, place, data)
        return True

    async def lake_since_ms(self) -> int | None:
        """The first instant that the lake knows; None: there is no lake, or it knows nothing."""
        asked, found = self._lake_ms
        if self._lake is not None and found is None and time.monotonic() - asked >= _ASK_AGAIN_S:
            found = await asyncio.to_thread(self._lake.since_ms)
            self._lake_ms = time.monotonic(), found
        return found

    async def reach(self) -> KnownPast | None:
        """Since when the past is known; None: there was never a change."""
        state = self._state
        first = await read_first(state.store)
        if first is None:
            return None
        places = [place for place in self._checkpoints().places() if place.seq >= first.seq - 1]
        if first.seq == 1:
            return KnownPast(first.ms, True, places)
        while places and await _has_vanished(state.tail_store, places[0]):
            self._checkpoints().remove(places.pop(0))
        return KnownPast(places[0].ms if places else round(time.time() * 1000), False, places)

    async def at(self, at_ms: int) -> Then:
        """The tables of an instant. NotKnown: the stream with its checkpoints and the lake begin later."""
        async with self._busy:
            epoch = self._state.epoch
            found = self._found.get((epoch, at_ms))
            if found is None:
                try:
                    found = await self._replay(at_ms)
                except NotKnown as error:
                    found = await self._of_lake(at_ms, error)
                if at_ms < time.time() * 1000 - 10_000:  # no later change can be before it
                    self._found[epoch, at_ms] = found
                    while len(self._found) > _KEPT:
                        self._found.popitem(last=False)
            return found

    async def _of_lake(self, at_ms: int, unknown: NotKnown) -> Then:
        """The tables from the lake, for an instant before the stream."""
        if self._lake is None or isinstance(unknown, NotYet):
            raise unknown
        try:
            return await asyncio.to_thread(self._lake.at, at_ms)
        except RegistryError as error:
            text = str(unknown).removesuffix(say(_LAKE)) + say("The lake does not know it: {error}", error=error)
            raise NotKnown(text) from error

    async def _replay(self, at_ms: int) -> Then:
        reach = await self.reach()
        head = await read_head(self._state.store)
        if at_ms > head.now_ms + 1000:
            raise NotYet(say("{time} has not come yet: it is {now}", time=moment(at_ms), now=moment(head.now_ms)))
        if reach is None:
            raise NotKnown(say("nothing was changed yet: the stream of changes is empty"))
        if at_ms < reach.since_ms:
            why = (
                say("the first change of this namespace was made then, or Redis was emptied before")
                if reach.whole
                else say("the stream does not hold every earlier change any more, and no checkpoint is older")
            )
            text = say(
                "{time} is before {since}, and the past is known since then: {why}. ", time=moment(at_ms),
                since=moment(reach.since_ms), why=why,
            )  # fmt: skip
            raise NotKnown(text + say(_LAKE))
        begin = await self._begin(reach, at_ms)
        if begin is None:
            raise NotKnown(say("no checkpoint before {time} can be read: choose a later instant", time=moment(at_ms)))
        return await self._forward(begin.tables, begin.place, at_ms)

    async def begin(self, at_ms: int) -> Beginning | None:
        """The beginning of a replay from an instant on, or from when the past is known; None: nothing is known."""
        async with self._busy:
            reach = await self.reach()
            if reach is None:
                return None
            begin = await self._begin(reach, max(at_ms, reach.since_ms))
            return None if begin is None else begin._replace(since_ms=max(at_ms, begin.since_ms))

    async def _begin(self, reach: KnownPast, at_ms: int) -> Beginning | None:
        """The last checkpoint before an instant, or the empty tables before change 1."""
        checkpoints = self._checkpoints()
        for place in reversed([one for one in reach.places if one.ms <= at_ms]):
            gone = await _has_vanished(self._state.tail_store, place)  # Redis lost changes, and got other ones since
            tables = None if gone else await asyncio.to_thread(checkpoints.read, place)
            if tables is not None:
                return Beginning(tables, place, place.ms)
            checkpoints.remove(place)
        return Beginning(Tables(), StreamPlace(0, 0, "0-0"), reach.since_ms) if reach.whole else None

    async def _forward(self, tables: Tables, place: StreamPlace, at_ms: int) -> Then:
        """Apply the changes after a place, up to an instant."""
        follow = Follow(self._state.tail_store, seq=place.seq, last_id=place.last_id)
        seq, ms, latest_ms, count = place.seq, place.ms, place.ms, 0
        since = dict[str, tuple[int, By | None]]()
        while changes := await _next(follow):
            for change in changes:
                if change.ms > at_ms:
                    return Then(at_ms, seq, ms, tables, since)
                for whole in follow.whole(change):
                    tables.apply(whole)
                    seq, ms, latest_ms = whole.seq, whole.ms, max(latest_ms, whole.ms)
                    if isinstance(whole, BrokerChange) and whole.broker_name:
                        since[whole.broker_name] = whole.ms, whole.by
                    count += 1
            if count >= _REPLAYED_EVERY and seq == changes[-1].seq:
                count = 0
                self._write_of_replay(tables, StreamPlace(latest_ms, seq, follow.last_id))
            await asyncio.sleep(0)
        return Then(at_ms, seq, ms, tables, since)

    def _write_of_replay(self, tables: Tables, place: StreamPlace) -> None:
        """Write a checkpoint within a replay: the next replay to a time near it is then short."""
        try:
            self._checkpoints().write(place, encode_tables(tables))
        except OSError as error:
            logger.warning("no checkpoint for time travel was written to %s: %s", self._folder, error)


async def _next(follow: Follow) -> list[Change]:
    try:
        return await follow.read(block_ms=0)
    except StreamGap as gap:
        raise NotKnown(say("{error}; choose a later instant", error=gap)) from gap


async def _has_vanished(tail_store: Store, place: StreamPlace) -> bool:
    """Whether Redis has lost the change of a place. If it was only trimmed, the next change has a higher number."""
    if await last_change_id(tail_store) == place.last_id:
        return False  # if the stream has no entry, only this id shows that nothing was lost
    ms, _, number = place.last_id.partition("-")
    before = f"{ms}-{int(number) - 1}" if int(number) else f"{int(ms) - 1}-{2**64 - 1}"
    reader = ChangeReader(tail_store, before)
    changes = await reader.read(block_ms=0, count=1)
    if not changes:
        return True
    if reader.last_id == place.last_id:
        return changes[0].seq != place.seq
    return changes[0].seq <= place.seq
