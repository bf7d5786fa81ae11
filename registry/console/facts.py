"""Reads the facts that pages show and no event has: deadlines, leases, streams and their readers, refused requests.

All open pages share the facts. They are read again when they are a second old, or after a change of the tables, but at
most ten times a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable
from typing import Final, NamedTuple

from ..auth.refused import RefusedSummary
from ..errors import RegistryError, StoreUnavailable
from ..operators.language import say
from ..store.auth.refusals import RefusalStore
from ..store.operator_reads import BrokerInfo, WorkerInfo, read_brokers, read_workers
from ..store.processes import Fleet, FrontEnd, read_fleet
from ..store.snapshot import NamespaceHead, read_head
from ..store.streams import StreamStore, Survey
from .state import State

_FOR_S: Final = 1.0
_LEAST_S: Final = 0.1
_NAMES: Final = 2000


class Facts(NamedTuple):
    """All facts, as of ``head.now_ms``. ``refused``: None if the console's Redis login may not read refusals."""

    head: NamespaceHead
    brokers: list[BrokerInfo]
    workers: list[WorkerInfo]
    fleet: Fleet
    survey: Survey
    refused: list[RefusedSummary] | None


class FactReader:
    """Reads the facts of a namespace; while Redis is away it gives the last ones."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._read_at, self._seq = 0.0, -1
        self._last: Facts | None = None
        self._names: dict[str, str] = {}
        self._busy = asyncio.Lock()

    async def now(self) -> Facts | None:
        """The facts of this second, or the last ones; None: Redis never answered."""
        state = self._state
        async with self._busy:
            age_s = time.monotonic() - self._read_at
            if state.stale_since_ms is None and (age_s > _FOR_S or self._seq != state.seq):
                await asyncio.sleep(max(0.0, _LEAST_S - age_s))
                seq = state.seq
                with contextlib.suppress(StoreUnavailable):
                    self._last = await self._read()
                self._read_at, self._seq = time.monotonic(), seq
        return self._last

    def front_end(self, front_end: str) -> str:
        """The name of a front end. If Redis forgot the name before this console started: a text with the id."""
        return self._names.get(front_end) or say("a front end that is gone (id {id})", id=front_end)

    def remember(self, front_ends: Iterable[FrontEnd]) -> None:
        """Keep names of front ends: Redis forgets them an hour after their end, streams have their ids for a day."""
        for one in front_ends:
            self._names.pop(one.id, None)
            self._names[one.id] = one.name
        while len(self._names) > _NAMES:
            del self._names[next(iter(self._names))]

    async def _read(self) -> Facts:
        store = self._state.store
        head = await read_head(store)
        brokers = await read_brokers(store)
        workers = await read_workers(store)
        fleet = await read_fleet(store)
        self.remember(fleet.front_ends)
        survey = await StreamStore(store).survey()
        refused: list[RefusedSummary] | None
        try:
            refused = await RefusalStore(store).summary()
        except StoreUnavailable:
            raise
        except RegistryError:  # this Redis login may not read what authentication keeps
            refused = None
        return Facts(head, brokers, workers, fleet, survey, refused)
