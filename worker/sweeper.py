"""The sweeper: removes brokers that fell silent, cleans up after dead front-end workers, and trims the streams.

Any number may run, anywhere, with no leader: each sleeps until the earliest deadline, takes bounded batches, and
the script looks again before it removes. Redis keeps the clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable
from typing import Final

from registry.config import Settings, with_shared
from registry.errors import RegistryError, StoreError, StoreUnavailable
from registry.store.leases import LeaseStore
from registry.store.snapshot import read_section
from registry.store.store import Store
from registry.store.streams import Alarm, StreamStore
from worker.trim import trim

logger = logging.getLogger(__name__)

# One script removes at most so many brokers: each may have thousands of topics, and Redis does nothing else then.
BROKERS_PER_CALL: Final = 50
REAP_EVERY_S: Final = 1.0
CONFIG_EVERY_S: Final = 10.0
TRIM_EVERY_S: Final = 5.0
# Between two calls of the trim while there is more to trim: each takes a millisecond of Redis.
_TRIM_PAUSE_S: Final = 0.02
_RETRY_FIRST_S: Final = 0.2
_RETRY_MOST_S: Final = 5.0
# After a deadline, so that many sweepers do not all come in the same millisecond.
_JITTER_S: Final = 0.05


class Sweeper:
    """One sweeper; ``expired`` and ``reaped`` count the brokers that it removed."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        removed: Callable[[int, int], None] | None = None,
        alarmed: Callable[[Alarm], None] = lambda alarm: None,
    ) -> None:
        """``removed`` is told of every batch: how many expired, how many were reaped; ``alarmed`` of every alarm."""
        self._store = store
        self._leases = LeaseStore(store)
        self._own_settings = settings
        self._settings = settings
        self._streams = StreamStore(store)
        self._removed = removed
        self._alarmed = alarmed
        self.expired = 0
        self.reaped = 0
        self._reap_at = 0.0
        self._config_at = 0.0
        self._trim_at = 0.0

    async def run(self, stop: asyncio.Event) -> None:
        """Sweep until ``stop`` is set. Redis away is waited out; nothing ends this early."""
        retry_s = _RETRY_FIRST_S
        away = False
        while not stop.is_set():
            try:
                pause_s = await self.sweep()
            except StoreUnavailable as error:
                if not away:
                    logger.warning("%s; nothing is removed until it is back", error)
                away = True
                pause_s, retry_s = retry_s, min(_RETRY_MOST_S, retry_s * 2)
            except RegistryError as error:
                logger.error("the sweep failed, and is tried again: %s", error)
                pause_s, retry_s = retry_s, min(_RETRY_MOST_S, retry_s * 2)
            except Exception:  # a fault of ours must not end a front end, nor this loop
                logger.exception("the sweep failed, and is tried again")
                pause_s, retry_s = retry_s, min(_RETRY_MOST_S, retry_s * 2)
            else:
                if away:
                    logger.warning("Redis is back")
                away, retry_s = False, _RETRY_FIRST_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await stop.wait()

    async def sweep(self) -> float:
        """One pass; returns the seconds until the next one is due.

        Raises:
            StoreUnavailable, StoreError: Redis; what is due stays due.
        """
        now = time.monotonic()
        if now >= self._config_at:
            try:
                await self._read_config()
            except StoreError as error:  # it only sets the pace: brokers expire all the same
                logger.error("the shared configuration cannot be read: %s", error)
            self._config_at = now + CONFIG_EVERY_S
        due = await self._leases.expire(BROKERS_PER_CALL)
        for who in due.whos:
            cluster, _, addr = who.partition("|")
            logger.info("the broker channel expired: %s of cluster %s sent no heartbeat in time", addr, cluster)
        self._count(len(due.whos), 0)
        if len(due.whos) == BROKERS_PER_CALL:
            return 0.0
        if now >= self._reap_at:
            more = True
            while more:
                reaped, more = await self._leases.reap(BROKERS_PER_CALL)
                for who in reaped:
                    cluster, _, addr = who.partition("|")
                    logger.info("broker %s of cluster %s had lost its last channel to a dead front end", addr, cluster)
                self._count(0, len(reaped))
            self._reap_at = now + REAP_EVERY_S * random.uniform(0.8, 1.2)
        if now >= self._trim_at:
            await self._trim(now)
        wait_s = min(
            self._settings.scan_not_active_broker_interval_ms / 1000 * random.uniform(0.8, 1.0),
            max(0.0, self._reap_at - time.monotonic()),
            max(0.0, self._trim_at - time.monotonic()),
        )
        if due.next_deadline_ms is not None:
            until_s = max(0, due.next_deadline_ms - due.now_ms) / 1000
            wait_s = min(wait_s, until_s + random.uniform(0.001, _JITTER_S))
        return wait_s

    async def _trim(self, now: float) -> None:
        more = False
        try:
            more, alarms = await trim(self._streams, self._settings)
        except StoreError as error:  # a stream that is none must not keep brokers in the tables
            logger.error("the streams cannot be trimmed, and may outgrow their limits: %s", error)
        else:
            for alarm in alarms:
                self._alarmed(alarm)
        self._trim_at = now + (_TRIM_PAUSE_S if more else TRIM_EVERY_S * random.uniform(0.8, 1.2))

    async def _read_config(self) -> None:
        async for _, flat in read_section(self._store, "config"):
            shared = {
                key.decode(): value.decode("utf-8", "replace") for key, value in zip(flat[::2], flat[1::2], strict=True)
            }
            self._settings = with_shared(self._own_settings, shared)

    def _count(self, expired: int, reaped: int) -> None:
        self.expired += expired
        self.reaped += reaped
        if self._removed is not None and (expired or reaped):
            self._removed(expired, reaped)
