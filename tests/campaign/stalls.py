"""Notices when the machine, and not the schedule, disturbs a round: no processor for a process, no disk for Redis."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import deque
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
WAITED_S = 0.12
"""So long one process waited for a processor within half a second: a call from one to another may take too long."""
LATELY_S = 0.5
PING_S = 0.05


class Stalls:
    """A timeline, and what it would lack: windows of stalls, also of what still goes on when something is judged.

    ``peers``: this process had no processor time, or its loop was blocked: brokers could not beat, links did not pass
    on. ``waits``: one of all processes waited for a processor, so that Redis could seem away. ``redis``: Redis did not
    answer a PING, and nothing that was done to it says why: its disk did not take what it wrote. A script that held it
    up is found all the same, in its slow log (world).

    stalled_s: how long all of them were. pids: the processes of the registry, and Redis.
    """

    def __init__(self) -> None:
        self.timeline = Timeline(time.monotonic, self.look)
        self.stalled_s = 0.0
        self.pids: list[int] = []
        self._waits: deque[tuple[float, dict[int, float]]] = deque()
        self._waiting: list[float] | None = None
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
        if self._waits and now - self._waits[-1][0] > PING_S / 2:
            self._look_at_waits(now)

    def _look_at_waits(self, now: float) -> None:
        waits = {pid: waited_s(pid) for pid in (os.getpid(), *self.pids)}
        while len(self._waits) > 1 and self._waits[1][0] < now - LATELY_S:
            self._waits.popleft()
        if self._waits:
            since, before = self._waits[0]
            if any(wait - before.get(pid, wait) > WAITED_S for pid, wait in waits.items()):
                if self._waiting is None:
                    self._waiting = self.timeline.add("waits", since, now)
                self._waiting[1] = now
            elif self._waiting is not None:
                self.stalled_s += self._waiting[1] - self._waiting[0]
                self._waiting = None
        self._waits.append((now, waits))

    async def watch_processes(self) -> None:
        """Runs until cancelled."""
        self._look_at_waits(time.monotonic())
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


def waited_s(pid: int) -> float:
    """How long a process has waited for a processor so far (its first thread, as Linux counts it); 0: not known."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0
