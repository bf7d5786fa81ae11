"""Runs the scripts for worker leases and channels, and those that remove brokers that are silent or lost their worker.

A *channel* is a broker's connection to a front end, as Redis stores it. A worker's *lease* shows that it is alive.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from .route_writes import TOPICS_AT_ONCE
from .store import Store

# A worker that does not renew its lease for this long counts as dead.
LEASE_MS = 5000
RENEW_EVERY_S = 1.0

# A broker may write to Redis without a front end. In its channel, the id of the front end is this prefix and more. This
# broker has its own lease; when the lease ends, the broker's connection counts as closed (lua/include/give_up).
DIRECT = "direct:"

# A clock that also runs while the machine sleeps; outside Linux, the monotonic clock.
_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_PAIRS_PER_CALL = 500
_RELEASES_PER_CALL = 500

# A call of tidy_topics takes about 4 ms of Redis; all sweepers together make one call in TIDY_PAUSE_MS.
_SETS_PER_CALL = 1000
TIDY_PAUSE_MS = 10


def opened_now() -> str:
    """The last part of a channel value, for lua/include/liveness: the time at which its connection was opened.

    It is the time since the machine's boot. All workers of a front end share this clock, and nobody can set it, so it
    shows which of two connections of one broker is the younger.
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
    chain: str = ""  # of the event with this seq
    # when Redis last lost changes, or when the namespace was made in a Redis that may have lost an older one; 0: never
    lost_ms: int = 0
    losses: int = 0  # how often front ends noticed that Redis had lost changes

    @property
    def overdue_ms(self) -> int:
        """How long the first overdue broker has been overdue; 0: no broker is.

        More than a few seconds mean that no sweeper runs.
        """
        return 0 if self.first_deadline_ms is None else max(0, self.now_ms - self.first_deadline_ms)


class Expired(NamedTuple):
    """The result of one call of expire_brokers."""

    whos: list[str]  # the removed brokers
    next_deadline_ms: int | None  # when the next broker is due; None: there is no broker
    now_ms: int
    heard: bool = True  # False: no process that hears brokers has a lease, and so no broker is removed
    more: bool = False  # call again: more brokers are due, or topics of a removed broker are left
    # how many brokers, the first in whos, lost their last connection when a process ended; the others fell silent
    reaped: int = 0


class LeaseStore:
    """Renews, attaches, releases, expires and reaps: one method for each script."""

    def __init__(self, store: Store) -> None:
        self._call = store.call

    async def renew(
        self, incarnation: str, lease_ms: int = LEASE_MS, *, process: bytes = b"", peers: bytes = b""
    ) -> Renewal:
        """Renew the lease of this worker, which hears brokers, for ``lease_ms``.

        Args:
            process: its status (:class:`mqregistry.store.processes.WorkerFacts` as JSON).
            peers: the addresses of its brokers' connections (``processes.encode_peers``). Empty: Redis keeps the old.
        """
        epoch, seq, config_rev, up_since, now, lost, first, auth_revision, chain, *losses = await self._call(
            "renew_lease", incarnation, lease_ms, process, peers
        )
        return Renewal(
            epoch.decode(), seq, int(config_rev), int(up_since), int(now), bool(lost), int(first) if first else None,
            int(auth_revision), chain.decode(), *map(int, losses),
        )  # fmt: skip

    async def attach(self, front_end: str, channels: Sequence[tuple[str, str]]) -> None:
        """Enter the worker's channels into Redis again, (who, channel value) each; unknown brokers are ignored."""
        for first in range(0, len(channels), _PAIRS_PER_CALL):
            flat = [part for pair in channels[first : first + _PAIRS_PER_CALL] for part in pair]
            await self._call("attach_channels", front_end, *flat)

    async def release(self, incarnation: str, *, ends: bool = True) -> None:
        """Give up every channel of this worker, its lease and its status; for a sweeper, only its status.

        This removes no broker (lua/include/disconnected says when a broker without channel is removed).
        ``ends``: False: the worker keeps its lease and status.
        """
        while (await self._call("release_channels", incarnation, _RELEASES_PER_CALL, int(ends)))[1]:
            pass

    async def expire(self, limit: int, topics: int = TOPICS_AT_ONCE) -> Expired:
        """Remove up to ``limit`` overdue brokers, and take the write permission of up to ``topics`` topics of these.

        A broker with more topics is removed by the first call; later calls take the write permission of the rest.
        """
        _, deadline, now, heard, more, reaped, *names = await self._call("expire_brokers", limit, topics)
        next_deadline_ms = int(deadline) if deadline else None
        return Expired([name.decode() for name in names], next_deadline_ms, int(now), bool(heard), bool(more), reaped)

    async def reap(self, limit: int, *, sweeper: str = "", process: bytes = b"") -> tuple[int, bool]:
        """Delete at most ``limit`` channel entries of dead workers; returns how many, and whether there are more.

        Args:
            sweeper: the id of the caller, if it writes a status.
            process: the status of that sweeper (:class:`mqregistry.store.processes.SweeperFacts` as JSON).
        """
        _, more, entries = await self._call("reap_worker", limit, sweeper, process)
        return entries, bool(more)

    async def tidy_topics(self, topics: int = _SETS_PER_CALL, pause_ms: int = TIDY_PAUSE_MS) -> tuple[bool, int]:
        """Bring the sets of topics in line with the topics that brokerNames gained or lost (lua/tidy_topics).

        Returns whether there is more to do now, and how many wrong entries of these sets were corrected.
        """
        _, more, mended = await self._call("tidy_topics", topics, pause_ms)
        return bool(more), int(mended)
