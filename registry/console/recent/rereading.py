"""Keeps counts from a stream up to date: reads new entries every few seconds, and all entries after a reload."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod

from ...errors import RegistryError
from ...events.journal import Stream
from ...tasks import cancelled, pause, wait_within
from ..state import State

logger = logging.getLogger(__name__)

_RETRY_S = 1.0


class Rereading(ABC):
    """Counts from a stream of a namespace; ``every_s``: how long new entries may wait."""

    def __init__(self, state: State, stream: Stream, every_s: float) -> None:
        self._state = state
        self._stream = stream
        self._every_s = every_s
        self._due = asyncio.Event()  # set when the tables were read again, perhaps from another Redis
        state.on_load.append(self._due.set)

    @abstractmethod
    async def read(self) -> None:
        """Read new entries; all entries, after the tables were read again."""

    async def keep(self) -> None:
        """Read the stream every few seconds. Runs until cancelled."""
        while not cancelled():
            try:
                if self._state.loaded:
                    await self.read()
            except RegistryError as error:
                logger.info("the stream %s is read later: %s", self._stream, error)
            if self._due.is_set():  # the namespace is gone, or was read again meanwhile
                await pause(_RETRY_S)
            if cancelled():  # a read may have swallowed the cancellation: do not wait
                return
            await wait_within(self._due, self._every_s)
