"""Counts the lookups of each topic at one worker, and writes the counts to the stream ``lookups``.

A sample of the clients that asked for missing topics is written with them.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from ...errors import RegistryError, StoreUnavailable
from ...store.streams import StreamStore, lookup_entries
from ...tasks import cancelled, pause
from .route_answers import KeptAnswer

logger = logging.getLogger(__name__)

OTHERS: Final = "(others)"
"""Counts every topic beyond the bounds. No topic has this name, because of its parentheses; a client may ask for it."""

MAX_TOPICS: Final = 50_000
MAX_MISSING: Final = 10_000
MAX_NAMES_WITH_CLIENTS: Final = 1_000
CLIENTS_OF_NAME: Final = 3
"""How many clients of a missing name are reported: the first of each interval."""
# How many seconds a shutdown waits for the last report.
LAST_REPORT_S: Final = 2.0
# A topic's name has 127 characters at most, a retry topic's name 255. Longer names are counted as OTHERS.
_MAX_NAME_CHARS: Final = 255


class LookupCounts:
    """Counts of the answers to 105 since the last :meth:`drain`: routes by topic, and code 17 by missing name.

    ``in_vain``: the last missing name, until :meth:`asked_by` has noted its client; "" = none.

    Args:
        kept: the kept answers by topic; each has its own count.
        max_topics, max_missing: the most names with a count of their own; all others are counted together, as OTHERS.
    """

    def __init__(
        self, *kept: Mapping[str, KeptAnswer], max_topics: int = MAX_TOPICS, max_missing: int = MAX_MISSING
    ) -> None:
        self._kept = kept
        self._max_topics, self._max_missing = max_topics, max_missing
        self._found: dict[str, int] = {}
        self._missing: dict[str, int] = {}
        self._clients: dict[str, tuple[str, ...]] = {}
        self.in_vain = ""

    def found(self, topic: str, times: int = 1) -> None:
        """Count lookups that were answered with a route, but not by a kept answer."""
        _add(self._found, topic, times, self._max_topics)

    def missing(self, topic: str | None) -> None:
        """Count a lookup that was answered with code 17; topic None: the request named no topic."""
        if topic is None or len(topic) > _MAX_NAME_CHARS:
            topic = OTHERS
        else:
            self.in_vain = topic
        _add(self._missing, topic, 1, self._max_missing)

    def asked_by(self, host: str) -> None:
        """Note the address of the client that asked for the last missing name, if there is room."""
        name, self.in_vain = self.in_vain, ""
        hosts = self._clients.get(name, ())
        has_room = 0 < len(hosts) < CLIENTS_OF_NAME or (not hosts and len(self._clients) < MAX_NAMES_WITH_CLIENTS)
        if name and has_room and host not in hosts:
            self._clients[name] = (*hosts, host)

    def drain_clients(self) -> dict[str, tuple[str, ...]]:
        """Return missing name -> some of its clients since the last call."""
        clients, self._clients = self._clients, {}
        return clients

    def drain(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the counts since the last call without zeros: of routes by topic, and of missing names.

        Cost: O(kept answers), about 6 ms for 40,000.
        """
        found, self._found = self._found, {}
        missing, self._missing = self._missing, {}
        limit = self._max_topics
        for answers in self._kept:
            for topic, answer in answers.items():
                if asked := answer.asked:
                    answer.asked = 0
                    if topic in found or len(found) >= limit:
                        _add(found, topic, asked, limit)
                    else:
                        found[topic] = asked
        return found, missing


class _Report(NamedTuple):
    """A report that Redis may have written, or not; its number is never used for other counts."""

    number: int
    since: float
    entries: list[bytes]


class LookupJournal:
    """Writes the counts of one worker to the stream, every ``interval_s`` seconds.

    While Redis is away, the counts go on, and are written in one report when Redis is back. A report that Redis may
    have written is sent again unchanged; Redis then recognises its number. A worker that is killed loses the counts
    since its last report.
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
        self._reports = 0
        self._away = False

    async def run(self) -> None:
        """Write every ``interval_s``. Runs until cancelled."""
        # a random time, so that the workers of all front ends do not write at the same moment
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
        """Write the counts, if there are any.

        Raises:
            StoreUnavailable, StoreError: the report is kept, and is sent again before the next report.
        """
        if self._sent is not None:
            await self._send(self._sent)
        entries = lookup_entries(*self._counts.drain(), self._counts.drain_clients())
        since, self._since = self._since, time.monotonic()
        if not entries:
            return
        self._reports += 1
        await self._send(_Report(self._reports, since, entries))

    async def _send(self, report: _Report) -> None:
        self._sent = report
        during_ms = round((time.monotonic() - report.since) * 1000)
        await self._streams.write_lookups(self._front_end, self._incarnation, report.number, during_ms, report.entries)
        self._sent = None

    async def close(self) -> None:
        """Write the last report. If Redis does not take it within LAST_REPORT_S, log that it is lost."""
        try:
            async with asyncio.timeout(LAST_REPORT_S):
                await self.write()
        except (RegistryError, TimeoutError) as error:
            logger.warning("the last lookup counts of this worker are lost: %s", error or "Redis did not answer")


def _add(counts: dict[str, int], name: str, times: int, limit: int) -> None:
    if name not in counts and len(counts) >= limit:
        name = OTHERS
    counts[name] = counts.get(name, 0) + times
