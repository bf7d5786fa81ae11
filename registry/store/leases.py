"""Runs the scripts for worker leases and channels, and those that remove brokers without heartbeat or worker."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from .route_writes import TOPICS_AT_ONCE
from .store import Store

# Renewed every second; a worker that is silent this long counts as dead.
LEASE_MS = 5000
RENEW_EVERY_S = 1.0

# A channel's front end with this prefix is a broker's own process, which writes to Redis itself: the end of its lease
# is the end of the broker's connection (reap_worker).
DIRECT = "direct:"

# A clock that also runs while the machine sleeps; outside Linux, the closest one available.
_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_PAIRS_PER_CALL = 500
_RELEASES_PER_CALL = 500

# A call of tidy_topics takes about 4 ms of Redis; all sweepers together make one such call in TIDY_PAUSE_MS.
_SETS_PER_CALL = 1000
TIDY_PAUSE_MS = 10


def opened_now() -> str:
    """The last part of a channel value, for lua/include/liveness: the time at which its connection was opened.

    All workers of a front end are on one machine. The time since its boot, which wall clock changes do not move, shows
    which of two connections of one broker is the younger.
    """
    return f"@b{time.clock_gettime_ns(_CLOCK) // 1_000_000}"


class Renewal(NamedTuple):
    """The state of the registry, as a lease renewal returns it."""

    epoch: str
    seq: int
    config_rev: int
    up_since_ms: int  # when brokers could be heard again after the last gap (lua/include/seen), by Redis' clock
    now_ms: int  # Redis' clock
    lost: bool  # the lease had run out, or is new: the caller attaches its channels again
    first_deadline_ms: int | None = None  # when the next broker is overdue; None: there is no broker
    auth_revision: int = 0  # of the policy in Redis (PolicyStore.read); 0: there is none
    chain: str = ""  # of the event seq
    lost_ms: int = 0  # when Redis came back with less than before, or was made anew and may have been emptied; 0: never
    losses: int = 0  # how often front ends noticed such a loss

    @property
    def overdue_ms(self) -> int:
        """How long the first overdue broker has been overdue; 0: none is. More than some seconds: no sweeper runs."""
        return 0 if self.first_deadline_ms is None else max(0, self.now_ms - self.first_deadline_ms)


class Expired(NamedTuple):
    """One batch of the sweep: the brokers that were removed, and when to look again (None: there is no broker)."""

    whos: list[str]
    next_deadline_ms: int | None
    now_ms: int
    heard: bool = True  # False when no process that hears brokers renews its lease: no broker is removed until one does
    # call again: a limit of one call was reached, and more brokers are due, or topics of a removed broker are left
    more: bool = False
    # the first ``reaped`` of whos had lost their last connection with a process that ended; the others fell silent
    reaped: int = 0


class LeaseStore:
    """Leases and channels of workers, and the removal of brokers without them."""

    def __init__(self, store: Store) -> None:
        self._call = store.call

    async def renew(
        self, incarnation: str, lease_ms: int = LEASE_MS, *, process: bytes = b"", peers: bytes = b""
    ) -> Renewal:
        """Renew the lease of this worker, which hears brokers, for ``lease_ms``.

        Args:
            process: its status (:class:`mqregistry.store.processes.WorkerFacts` as JSON).
            peers: the addresses of its brokers' connections (``encode_peers`` there). Empty: as it was.
        """
        epoch, seq, config_rev, up_since, now, lost, first, auth_revision, chain, *losses = await self._call(
            "renew_lease", incarnation, lease_ms, process, peers
        )
        return Renewal(
            epoch.decode(), seq, int(config_rev), int(up_since), int(now), bool(lost), int(first) if first else None,
            int(auth_revision), chain.decode(), *map(int, losses),
        )  # fmt: skip

    async def attach(self, front_end: str, channels: Sequence[tuple[str, str]]) -> None:
        """Take channels again, (who, channel value) each; brokers that are not known are left out."""
        for first in range(0, len(channels), _PAIRS_PER_CALL):
            flat = [part for pair in channels[first : first + _PAIRS_PER_CALL] for part in pair]
            await self._call("attach_channels", front_end, *flat)

    async def release(self, incarnation: str, *, ends: bool = True) -> None:
        """Give up every channel of this worker, its lease and its status; for a sweeper, only its status.

        This removes no broker. A broker without any channel, of which a connection was closed since its last heartbeat,
        has the time for one heartbeat before it is removed. ends: False: the worker keeps its lease and status.
        """
        while (await self._call("release_channels", incarnation, _RELEASES_PER_CALL, int(ends)))[1]:
            pass

    async def expire(self, limit: int, topics: int = TOPICS_AT_ONCE) -> Expired:
        """Remove up to ``limit`` overdue brokers, and the write permission of at most ``topics`` of their topics.

        A broker with more topics is removed at once; later calls take the write permission of its other topics.
        """
        _, deadline, now, heard, more, reaped, *names = await self._call("expire_brokers", limit, topics)
        next_deadline_ms = int(deadline) if deadline else None
        return Expired([name.decode() for name in names], next_deadline_ms, int(now), bool(heard), bool(more), reaped)

    async def reap(self, limit: int, *, sweeper: str = "", process: bytes = b"") -> tuple[int, bool]:
        """Delete the channel entries of dead workers, ``limit`` a call; returns how many, and whether there are more.

        Args:
            sweeper: the id of the caller, if it writes a status.
            process: the status of that sweeper (:class:`mqregistry.store.processes.SweeperFacts` as JSON).
        """
        _, more, entries = await self._call("reap_worker", limit, sweeper, process)
        return entries, bool(more)

    async def tidy_topics(self, topics: int = _SETS_PER_CALL, pause_ms: int = TIDY_PAUSE_MS) -> tuple[bool, int]:
        """Enter topics that brokerNames gained or lost into the sets of topics (lua/tidy_topics).

        Returns whether there is more to do now, and how many entries of these sets were wrong and were mended.
        """
        _, more, mended = await self._call("tidy_topics", topics, pause_ms)
        return bool(more), int(mended)
