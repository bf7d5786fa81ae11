"""The sweeper: removes brokers that fell silent, cleans up after dead front-end workers, and trims the streams.

Any number of sweepers may run, without a leader: each sleeps until the earliest deadline, and then removes brokers in
small batches. The script checks each deadline by the clock of Redis.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
import time
from collections.abc import Callable
from typing import Final

import msgspec

from mqregistry.config.in_force import in_force
from mqregistry.config.settings import Settings
from mqregistry.errors import RegistryError, StoreError, StoreUnavailable
from mqregistry.store.leases import LEASE_MS, TIDY_PAUSE_MS, Expired, LeaseStore
from mqregistry.store.processes import SweeperFacts, this_process
from mqregistry.store.snapshot import read_shared_config
from mqregistry.store.store import Store
from mqregistry.store.streams import Alarm, StreamStore, Trimmed
from mqregistry.tasks import wait_within

from .trim import trim

logger = logging.getLogger(__name__)

# The most brokers that one call removes (with the write permission of at most TOPICS_AT_ONCE topics): during the call
# Redis does nothing else.
BROKERS_PER_CALL: Final = 50
# The most channel entries of dead workers that one call deletes.
ENTRIES_PER_CALL: Final = 500
# The pause between two such calls, for heartbeats, registrations and lease renewals.
_BATCH_PAUSE_S: Final = 0.01
REAP_EVERY_S: Final = 1.0
CONFIG_EVERY_S: Final = 10.0
TRIM_EVERY_S: Final = 5.0
FULL_TOLD_EVERY_S: Final = 60.0
# The pause between two calls of the trim while there is more to trim: each takes a millisecond of Redis.
_TRIM_PAUSE_S: Final = 0.02
_RETRY_FIRST_S: Final = 0.2
_RETRY_MOST_S: Final = 5.0
# The longest random delay after a deadline, so that sweepers do not run in the same millisecond.
_JITTER_S: Final = 0.05
# For this time after the start, or after Redis is back, missing front ends cause no warning: a front end may take its
# lease after the sweeper's first pass.
_PATIENCE_S: Final = LEASE_MS / 1000
_LEAVE_S: Final = 0.5


async def reach(store: Store, stop: asyncio.Event) -> bool:
    """Connect, or wait until Redis is there; False: ``stop`` was set first.

    Raises:
        StoreError: Redis answers, but cannot be used (login, version, schema, eviction policy).
    """
    retry_s, told = _RETRY_FIRST_S, False
    while not stop.is_set():
        try:
            await store.connect()
        except StoreUnavailable as error:
            if not told:
                logger.warning("%s; waiting until it is there", error)
            told = True
        else:
            return True
        await wait_within(stop, retry_s)
        retry_s = min(_RETRY_MOST_S, retry_s * 2)
    return False


class Sweeper:
    """One sweeper. ``expired``, ``reaped``: how many brokers it removed for silence, and after dead processes."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        removed: Callable[[int, int], None] = lambda expired, reaped: None,
        alarmed: Callable[[Alarm], None] = lambda alarm: None,
        swept: Callable[[], None] = lambda: None,
        passed: Callable[[float, bool], None] = lambda seconds, well: None,
        http_address: str = "",
    ) -> None:
        """Prepare a sweeper.

        Args:
            removed: called with the numbers of expired and reaped brokers of each batch. alarmed: with every alarm.
            swept: called after each cleanup of dead workers, about once a second.
            passed: called with the duration of each pass in seconds, and whether it succeeded.
            http_address: of this process's /metrics, ``host:port``; "" = it has none.
        """
        self._store = store
        self._leases = LeaseStore(store)
        self._own_settings = settings
        self._settings = in_force(settings, {})
        self._streams = StreamStore(store)
        self._removed = removed
        self._alarmed = alarmed
        self.expired = 0
        self.reaped = 0
        self._id = secrets.token_hex(8)
        self._facts = SweeperFacts(**this_process(), front_end=store.by.front_end or "", http_address=http_address)
        self._swept = swept
        self._passed = passed
        self._reap_at = 0.0
        self._config_at = 0.0
        self._trim_at = 0.0
        self._told_unheard = logging.NOTSET
        self._patient_until_s = time.monotonic() + _PATIENCE_S
        self._told_of_itself = False
        self._full_told_at: float | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Sweep until ``stop`` is set. While Redis is away it waits; no error ends it."""
        try:
            await self._sweep_until(stop)
        finally:
            if self._told_of_itself:  # delete the status, which readers would believe for ten more seconds
                self._told_of_itself = False
                with contextlib.suppress(RegistryError, TimeoutError):
                    async with asyncio.timeout(_LEAVE_S):
                        await self._leases.release(self._id)

    async def _sweep_until(self, stop: asyncio.Event) -> None:
        retry_s, away = _RETRY_FIRST_S, False
        while not stop.is_set():
            began_s, pause_s = time.monotonic(), None
            try:
                pause_s = await self.sweep()
            except StoreUnavailable as error:
                if not away:
                    logger.warning("%s; nothing is removed until it is back", error)
                away = True
            except RegistryError as error:
                logger.error("the sweep failed, and is tried again: %s", error)
            except Exception:  # a defect must not end this loop, nor a front end
                logger.exception("the sweep failed, and is tried again")
            else:
                if away:
                    logger.warning("Redis is back")
                    self._patient_until_s = time.monotonic() + _PATIENCE_S
                away, retry_s = False, _RETRY_FIRST_S
            self._passed(time.monotonic() - began_s, pause_s is not None)
            if pause_s is None:
                pause_s, retry_s = retry_s, min(_RETRY_MOST_S, retry_s * 2)
            await wait_within(stop, pause_s)

    async def sweep(self) -> float:
        """One pass; returns the seconds until the next pass is due. It raises the errors of the store."""
        now = time.monotonic()
        if now >= self._config_at:
            try:
                self._settings = in_force(self._own_settings, await read_shared_config(self._store))
            except StoreError as error:  # these settings are only intervals and limits: brokers expire without them
                logger.error("the shared configuration cannot be read: %s", error)
            self._config_at = now + CONFIG_EVERY_S
        if now >= self._trim_at:  # before all else: at maxmemory only a trim makes room
            await self._trim(now)
        due = await self._leases.expire(BROKERS_PER_CALL)
        self._tell_heard(due)
        for number, who in enumerate(due.whos):
            cluster, _, addr = who.partition("|")
            why = "lost its last channel" if number < due.reaped else "the broker channel expired"
            logger.info("%s: %s of cluster %s sent no heartbeat in time", why, addr, cluster)
        if due.whos:
            expired = len(due.whos) - due.reaped
            self.expired += expired
            self.reaped += due.reaped
            self._removed(expired, due.reaped)
        if due.more:
            return _BATCH_PAUSE_S
        if now >= self._reap_at:
            facts = msgspec.structs.replace(self._facts, expired=self.expired, reaped=self.reaped)
            entries, more = await self._leases.reap(
                ENTRIES_PER_CALL, sweeper=self._id, process=msgspec.json.encode(facts)
            )
            self._told_of_itself = True
            if not more:
                self._reap_at = now + REAP_EVERY_S * random.uniform(0.8, 1.2)
                self._swept()
            if entries:
                return _BATCH_PAUSE_S  # some brokers that lost these entries may be due now
        if await self._tidy():
            return TIDY_PAUSE_MS / 1000
        wait_s = min(
            self._settings.scan_not_active_broker_interval_ms / 1000 * random.uniform(0.8, 1.0),
            max(0.0, self._reap_at - time.monotonic()),
            max(0.0, self._trim_at - time.monotonic()),
        )
        if due.next_deadline_ms is not None:
            until_s = max(0, due.next_deadline_ms - due.now_ms) / 1000
            wait_s = min(wait_s, until_s + random.uniform(0.001, _JITTER_S))
        return wait_s

    async def _tidy(self) -> bool:
        """Keep the sets of topics up to date; returns whether there is more to do now."""
        try:
            more, mended = await self._leases.tidy_topics()
        except StoreError as error:  # only operators read these sets
            logger.error("the sets topics and topic:<topic> cannot be kept up to date: %s", error)
            return False
        if mended:
            logger.warning("%d entries of the sets topics and topic:<topic> were wrong, and were mended", mended)
        return more

    def _tell_heard(self, due: Expired) -> None:
        """Log once when no process receives heartbeats, and once when a process receives them again."""
        if due.next_deadline_ms is None:
            return
        if due.heard:
            if self._told_unheard:
                text = "a front end runs again: brokers that stay silent are removed after their timeouts"
                logger.log(self._told_unheard, text)
            self._told_unheard = logging.NOTSET
            return
        level = logging.INFO if time.monotonic() < self._patient_until_s else logging.WARNING
        if level > self._told_unheard:
            self._told_unheard = level
            logger.log(
                level,
                "no front end (and no broker that writes to Redis itself) has renewed its lease for 3 s: brokers "
                "cannot be heard, and none is removed until one runs",
            )

    async def _trim(self, now: float) -> None:
        more = False
        try:
            done = await trim(self._streams, self._settings)
        except StoreError as error:  # a stream's key of another type must not stop the removal of brokers
            logger.error("the streams cannot be trimmed, and may outgrow their limits: %s", error)
        else:
            more = done.more
            self._tell_full(done, now)
            for alarm in done.alarms:
                self._alarmed(alarm)
        self._trim_at = now + (_TRIM_PAUSE_S if more else TRIM_EVERY_S * random.uniform(0.8, 1.2))

    def _tell_full(self, done: Trimmed, now: float) -> None:
        if not done.full:
            if self._full_told_at is not None:
                logger.warning("Redis takes writes again")
            self._full_told_at = None
        elif self._full_told_at is None or now >= self._full_told_at + FULL_TOLD_EVERY_S:
            self._full_told_at = now
            logger.error(
                "Redis is at its maxmemory and refuses registrations and heartbeats: raise maxmemory (CONFIG SET "
                "maxmemory), or lower changesMaxMib, heartbeatsMaxEntries and lookupsMaxMib; what is beyond their "
                "limits is being trimmed"
            )
