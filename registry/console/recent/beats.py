"""Counts the heartbeats in each minute of the last hour, from the stream ``heartbeats``."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Final

import msgspec

from ...events.journal import HEARTBEATS
from ...store.snapshot import read_head
from ...store.streams import EntryReader
from ..state import MINUTE_MS, MINUTES, State
from .rereading import Rereading

_EVERY_S: Final = 2.0
_PAGE: Final = 500
_PAGE_PAUSE_S: Final = 0.005  # an hour of 3,000 brokers is a million entries; pages are answered in the pauses


class _Beat(msgspec.Struct):
    ms: int


_beat: Final = msgspec.json.Decoder(_Beat)


class Beats(Rereading):
    """The heartbeats of a namespace."""

    def __init__(self, state: State) -> None:
        super().__init__(state, HEARTBEATS, _EVERY_S)
        self._reader: EntryReader | None = None
        self.per_minute = Counter[int]()  # minute since 1970 -> heartbeats in it
        self.is_known = False  # whether the whole last hour was read

    async def read(self) -> None:
        """Count the new heartbeats; after a reload, those of the last hour."""
        store, reader = self._state.store, self._reader
        if reader is None or self._due.is_set():
            if not await store.exists():  # else the script of read_head would make the namespace
                return
            self._due.clear()
            begin_ms = (await read_head(store)).now_ms - MINUTES * MINUTE_MS
            reader = self._reader = EntryReader(store, HEARTBEATS, begin_ms)
            self.per_minute, self.is_known = Counter(), False
        while (entries := await reader.read(_PAGE)) and not self._due.is_set():
            self.per_minute.update(_beat.decode(entry).ms // MINUTE_MS for entry in entries)
            await asyncio.sleep(_PAGE_PAUSE_S)
        self.is_known = self.is_known or not self._due.is_set()
        oldest = max(self.per_minute, default=0) - MINUTES
        for minute in [one for one in self.per_minute if one <= oldest]:
            del self.per_minute[minute]

    def per_second(self) -> float | None:
        """Heartbeats per second in the last whole minute; None: not known yet."""
        if not self.is_known:
            return None
        return self.per_minute[int(time.time()) // 60 - 1] / 60
