"""Worker leases, channel ownership and the removal of what fell silent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from registry.store.store import Store

# Renewed every second; a worker that is silent this long is taken for dead.
LEASE_MS = 5000
RENEW_EVERY_S = 1.0

# A channel's front end with this prefix is a broker's own process, which writes here itself: with its lease the
# broker's connection ends (reap_worker).
DIRECT = "direct:"

_PAIRS_PER_CALL = 500
_RELEASES_PER_CALL = 500


class Renewal(NamedTuple):
    """Where the registry stands, as each lease renewal learns it.

    up_since_ms: nobody is removed for silence before this plus its own timeout; lost: the lease had run out.
    """

    epoch: str
    seq: int
    config_rev: int
    up_since_ms: int
    now_ms: int
    lost: bool


class Expired(NamedTuple):
    """One batch of the sweep: who went, and when the next deadline is due (None: no broker)."""

    whos: list[str]
    next_deadline_ms: int | None
    now_ms: int


class LeaseStore:
    """Leases and their consequences."""

    def __init__(self, store: Store) -> None:
        self._call = store.call

    async def renew(self, incarnation: str, lease_ms: int = LEASE_MS) -> Renewal:
        """Say that this worker lives."""
        epoch, seq, config_rev, up_since, now, lost = await self._call("renew_lease", incarnation, lease_ms)
        return Renewal(epoch.decode(), seq, int(config_rev), int(up_since), int(now), bool(lost))

    async def attach(self, front_end: str, channels: Sequence[tuple[str, str]]) -> None:
        """Take channels again, (who, channel value) each; brokers that are not known are left out."""
        for first in range(0, len(channels), _PAIRS_PER_CALL):
            flat = [part for pair in channels[first : first + _PAIRS_PER_CALL] for part in pair]
            await self._call("attach_channels", front_end, *flat)

    async def release(self, incarnation: str) -> None:
        """Give up every channel of this worker without removing a broker, and its lease."""
        while (await self._call("release_channels", incarnation, _RELEASES_PER_CALL))[1]:
            pass

    async def expire(self, limit: int) -> Expired:
        """Remove up to ``limit`` brokers that are overdue."""
        _, deadline, now, *whos = await self._call("expire_brokers", limit)
        return Expired([name.decode() for name in whos], int(deadline) if deadline else None, int(now))

    async def reap(self, limit: int) -> tuple[list[str], bool]:
        """Clean up after dead workers; returns the brokers that went with them, and whether there is more."""
        _, more, _, *whos = await self._call("reap_worker", limit)
        return [name.decode() for name in whos], bool(more)
