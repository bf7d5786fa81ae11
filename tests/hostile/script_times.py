"""How long the slowest script kept Redis from everybody else."""

from __future__ import annotations

from typing import NamedTuple

import psutil
import redis

LOGGED_FROM_US = 1_000
MOST_LOGGED = 1000


class Slowest(NamedTuple):
    """The slowest command since the last look, in ms of Redis' time, and its first words."""

    took_ms: float
    command: str


class ScriptTimes:
    """Reads SLOWLOG of a Redis that does nothing else.

    SLOWLOG has the time that passed, also while other processes had the processor. No command took more processor
    time than the whole server did between two looks, so a look gives the smaller of both.
    """

    def __init__(self, url: str, pid: int) -> None:
        self._url, self._process = url, psutil.Process(pid)
        with redis.Redis.from_url(url, protocol=2) as client:
            client.config_set("slowlog-log-slower-than", LOGGED_FROM_US)
            client.config_set("slowlog-max-len", MOST_LOGGED)
            client.slowlog_reset()
        self._cpu_ms = self._spent_ms()

    def look(self) -> Slowest:
        """The slowest command since the last look; 0 ms when none took one."""
        with redis.Redis.from_url(self._url, protocol=2) as client:
            entries = client.slowlog_get(MOST_LOGGED)
            client.slowlog_reset()
        before, self._cpu_ms = self._cpu_ms, self._spent_ms()
        slowest = max(entries, key=lambda entry: entry["duration"], default=None)
        if slowest is None:
            return Slowest(0.0, "")
        most_ms = self._cpu_ms - before
        return Slowest(min(slowest["duration"] / 1000, most_ms), slowest["command"][:200].decode(errors="replace"))

    def _spent_ms(self) -> float:
        times = self._process.cpu_times()
        return 1000 * float(times.user + times.system)
