"""Notices when the machine, and not the schedule, disturbs a round: this process, or Redis, had no processor time."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from mqregistry.tasks import cancelled, pause

from .timeline import Timeline

STALLED_S = 0.4
UNANSWERED_S = 0.2
"""A front end waits 0.5 s for Redis, and may have begun to wait before the next PING."""
PING_S = 0.05


class Stalls:
    """A timeline, and what it would lack: windows of stalls, also of what still goes on when something is judged.

    ``peers``: this process had no processor time, or its loop was blocked: brokers could not beat, links did not pass
    on. ``redis``: Redis did not answer a PING, and nothing that was done to it says why: it had no processor, or its
    disk did not take what it wrote. A script that held it up is found all the same, in its slow log (world).

    stalled_s: how long all of them were.
    """

    def __init__(self) -> None:
        self.timeline = Timeline(time.monotonic, self.look)
        self.stalled_s = 0.0
        self._ran_at: float | None = None
        self._asked_at: float | None = None
        self._silent: list[float] | None = None

    def look(self) -> None:
        """Add what goes on."""
        now = time.monotonic()
        if self._ran_at is not None and now - self._ran_at > STALLED_S:
            self.timeline.add("peers", self._ran_at, now)
            self.stalled_s += now - self._ran_at
            self._ran_at = now
        if self._silent is not None:
            self._silent[1] = now
        elif self._asked_at is not None and now - self._asked_at > UNANSWERED_S:
            self._silent = self.timeline.add("redis", self._asked_at, now)

    async def watch_this_process(self) -> None:
        """Runs until cancelled."""
        while True:
            self.look()
            self._ran_at = time.monotonic()
            await asyncio.sleep(PING_S)

    async def watch_redis(self, path: Path) -> None:
        """Runs until cancelled. path: the server's socket; a server that is gone is not waited for."""
        async with Redis(
            unix_socket_path=str(path), protocol=2, socket_timeout=5.0, retry=Retry(NoBackoff(), 0)
        ) as client:  # fmt: skip
            while not cancelled():
                self._asked_at = time.monotonic()
                with contextlib.suppress(RedisError, OSError):
                    await client.ping()
                self.look()
                if self._silent is not None:
                    self.stalled_s += self._silent[1] - self._silent[0]
                self._asked_at = self._silent = None
                await pause(PING_S)
