"""Writes down what this worker was asked for: the stream ``lookups``."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from registry.errors import RegistryError, StoreUnavailable
from registry.server.lookup_counts import MAX_MISSING, MAX_TOPICS, OTHERS, LookupCounts
from registry.store.streams import StreamStore, lookup_entries
from registry.tasks import cancelled, pause

logger = logging.getLogger(__name__)

# A drain does not wait longer for the last report.
LAST_REPORT_S: Final = 2.0


class _Report(NamedTuple):
    """Counts that are, or may have been, sent: the same number always stands for the same counts."""

    number: int
    since: float
    entries: list[bytes]


class LookupJournal:
    """Drains the counts of one worker into the stream, every ``interval_s``.

    While Redis is away the counts add up here, by name for as many topics as LookupCounts itself keeps, and come in one
    report when it is back: a report that may have been written is sent again as it was, and Redis knows its number.
    What a worker that is killed had not written is lost: at most ``interval_s`` while Redis is well.
    """

    def __init__(
        self, counts: LookupCounts, streams: StreamStore, front_end: str, incarnation: str, *, interval_s: float
    ) -> None:
        self._counts = counts
        self._streams = streams
        self._front_end = front_end
        self._incarnation = incarnation
        self._interval_s = interval_s
        self._since = time.monotonic()
        self._sent: _Report | None = None
        self._found: dict[str, int] = {}
        self._missing: dict[str, int] = {}
        self._reports = 0
        self._away = False

    async def run(self) -> None:
        """Write every ``interval_s``. Runs until cancelled."""
        # not all workers of a fleet in the same moment
        await asyncio.sleep(self._interval_s * random.uniform(0.5, 1.0))
        while not cancelled():
            started = time.monotonic()
            try:
                await self.write()
                self._away = False
            except StoreUnavailable as error:
                if not self._away:
                    logger.info("%s; lookup counts are written when Redis is back", error)
                self._away = True
            except RegistryError as error:
                logger.error("lookup counts cannot be written, and are tried again: %s", error)
            await pause(max(0.05, self._interval_s - (time.monotonic() - started)))

    async def write(self) -> None:
        """Write what was counted until now; nothing where there was nothing.

        Raises:
            StoreUnavailable, StoreError: it comes with the next report, once.
        """
        found, missing = self._counts.drain()
        _add(self._found, found, MAX_TOPICS)
        _add(self._missing, missing, MAX_MISSING)
        if self._sent is not None:
            await self._send(self._sent)
        entries = lookup_entries(self._found, self._missing)
        since, self._since = self._since, time.monotonic()
        if not entries:
            return
        self._reports += 1
        self._found, self._missing = {}, {}
        await self._send(_Report(self._reports, since, entries))

    async def _send(self, report: _Report) -> None:
        self._sent = report
        during_ms = round((time.monotonic() - report.since) * 1000)
        await self._streams.write_lookups(
            self._front_end, self._incarnation, report.number, during_ms, report.entries
        )  # fmt: skip
        self._sent = None

    async def close(self) -> None:
        """The last report, if Redis takes it now."""
        try:
            async with asyncio.timeout(LAST_REPORT_S):
                await self.write()
        except (RegistryError, TimeoutError) as error:
            logger.warning("the last lookup counts of this worker are lost: %s", error or "Redis did not answer")


def _add(counts: dict[str, int], more: Mapping[str, int], most: int) -> None:
    for topic, count in more.items():
        name = topic if topic in counts or len(counts) < most else OTHERS
        counts[name] = counts.get(name, 0) + count
