"""Registers a broker at one server, again and again until cancelled; there is one loop for each server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable

from ...errors import PeerGoesAway, RegistryError
from ...model import DataVersion
from ...protocol.codes import ResponseCode
from ...tasks import cancelled, wait_within
from .config import BrokerConfig
from .name_server_target import NameServerTarget
from .pace import Pace, jittered
from .payload import PayloadBuilder, RegistrationPayload
from .redis_target import RedisTarget
from .target import RegistrationAnswer, RegistrationRefused, RegistrationResult, RegistrationStatus

logger = logging.getLogger(__name__)

RegistrationTarget = NameServerTarget | RedisTarget
"""A server to register at. One call at a time, except heartbeats; each call raises RegistryError or TimeoutError."""


class RegistrationLoop:
    """Decides what to send to one server, and when.

    It sends the whole table at the start, each period, over each new connection, and after any error. It sends only
    the changed topics if the server accepted all earlier registrations over the same connection: otherwise the server
    could miss an earlier change, and the new DataVersion would hide that.

    Args:
        target: the server.
        payloads: makes the registrations.
        config, pace: return the present settings.
        on_result: called after each registration.
    Source of the behaviour: BrokerController.registerBrokerAll and doRegisterBrokerAll (rocketmq 4.8 to 5.x). After a
    failure Java waits for the next period; this loop retries sooner.
    """

    def __init__(
        self,
        target: RegistrationTarget,
        payloads: PayloadBuilder,
        config: Callable[[], BrokerConfig],
        pace: Callable[[], Pace],
        on_result: Callable[[RegistrationResult], None],
    ) -> None:
        self.target = target
        self._payloads = payloads
        self._config = config
        self._pace = pace
        self._on_result = on_result
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._wake = asyncio.Event()
        self._waiting: list[asyncio.Future[RegistrationResult]] = []
        self._changed: set[str] = set()
        self._owes_all = True
        self._at_once = True
        self._due = 0.0
        self._generation = -1  # the target's generation at the last registration that it accepted
        self._failures = 0
        self._last = RegistrationResult(target.name, "failed", 0.0, 0.0, "not tried yet")
        target.on_lost = self._lost

    def change(self, names: frozenset[str] | None) -> None:
        """Register these changed topics; None: register the whole table.

        The thread that changes the table calls this under the table's lock: so no registration sends the new version
        without these topics.
        """
        if names is None:
            self._owes_all = True
        else:
            self._changed |= names
        if not self._failures:  # after a failure the next attempt sends the whole table anyway
            self._at_once = True
            if threading.get_ident() == self._thread:
                self._wake.set()
            else:
                with contextlib.suppress(RuntimeError):  # the loop has ended
                    self._loop.call_soon_threadsafe(self._wake.set)

    def ask(self) -> asyncio.Future[RegistrationResult]:
        """Register everything now; the future has the result of the first registration that begins after this."""
        waiter: asyncio.Future[RegistrationResult] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._owes_all = self._at_once = True
        self._wake.set()
        return waiter

    def _lost(self) -> None:
        """Register again soon, after the connection was lost: most servers then remove the broker."""
        self._owes_all = True
        soon = asyncio.get_running_loop().time() + self._pace().retry_after_s(max(1, self._failures))
        self._due = min(self._due, soon)
        self._wake.set()

    async def run(self) -> None:
        """Register until cancelled; no error ends it."""
        loop = asyncio.get_running_loop()
        pause_s = self._pace().first_s
        while not cancelled():
            self._wake.clear()
            if not self._at_once and loop.time() < self._due:
                await wait_within(self._wake, self._due - loop.time())
                continue
            self._at_once = False
            result, alone = await self._round()
            if not result.ok:
                self._due = loop.time() + self._pace().retry_after_s(self._failures)
                continue
            self._at_once = self._at_once or bool(self._changed)  # changed during this registration or after failures
            if self._owes_all:  # the connection was lost just after the answer
                self._due = loop.time() + self._pace().retry_after_s(1)
            elif not alone:
                self._due = loop.time() + jittered(pause_s)
                pause_s = self._pace().period_s

    async def _round(self) -> tuple[RegistrationResult, bool]:
        """Register once; returns the result, and whether only changed topics were due. Raises only CancelledError."""
        waiting, self._waiting = self._waiting, []
        with self._payloads.table.lock:
            asked, self._owes_all = self._owes_all, False
            alone = bool(self._changed) and not asked and self._config().incremental_register
        timeout_s = self._config().register_broker_timeout_ms / 1000
        began = time.perf_counter()
        status: RegistrationStatus = "failed"
        error, answer, version = "", self._last.answer, self._last.data_version
        try:
            async with asyncio.timeout(timeout_s):
                status, answer, version = await self._attempt(alone, asked)
        except RegistrationRefused as refused:
            status, error = "refused", f"{self.target.name}: {refused}"
        except TimeoutError:
            error = f"{self.target.name}: no answer within {timeout_s:g} s"
        except RegistryError as failed:
            error = str(failed)
        except asyncio.CancelledError:
            for waiter in waiting:
                waiter.cancel()
            raise
        except Exception as fault:  # a defect, here or in objects of the application, must not end the loop
            logger.exception("registration at %s", self.target.name)
            error = f"{self.target.name}: {fault!r}"
        if error:
            self._owes_all = True
        if status == "failed":
            self.target.reset()  # perhaps only the connection is broken
        self._failures = self._failures + 1 if error else 0
        result = RegistrationResult(
            self.target.name, status, time.time(), (time.perf_counter() - began) * 1000, error, self._failures,
            answer, version,
        )  # fmt: skip
        self._tell(result, waiting)
        return result, alone

    async def _attempt(self, alone: bool, asked: bool) -> tuple[RegistrationStatus, RegistrationAnswer, DataVersion]:
        """Connect and register: only changed topics if ``alone`` and the connection is old, else the whole table."""
        target, config = self.target, self._config()
        await target.open()
        fresh = target.generation != self._generation
        with self._payloads.table.lock:
            # This payload has all changes until now. If somebody called ask() meanwhile, another registration follows.
            changed, self._changed = self._changed, set()
            asked = asked or self._owes_all
            alone = alone and not fresh and not asked
            self._owes_all = self._at_once = bool(self._waiting)
            payload = self._payloads.increment(changed) if alone else self._payloads.whole()
        if not alone:
            asks_first = not (config.force_register or config.enable_split_registration or asked or fresh)
            if asks_first and not await target.is_changed(payload.data_version):
                return "unchanged", self._last.answer, payload.data_version
        answer = await self._register(payload, whole=not alone)
        self._generation = target.generation
        if answer is None:
            return "sent", self._last.answer if alone else RegistrationAnswer(), payload.data_version
        return "registered", answer, payload.data_version

    async def _register(self, payload: RegistrationPayload, *, whole: bool) -> RegistrationAnswer | None:
        """Register; after two sorts of refusal retry at once (a Java broker waits for its next period)."""
        try:
            return await self.target.register(payload)
        except PeerGoesAway:  # another server may listen at the same address
            self.target.reset()
            await self.target.open()
            return await self.target.register(self._payloads.whole())
        except RegistrationRefused as refused:
            if whole and payload.has_one_topic and refused.code == ResponseCode.SYSTEM_ERROR:
                # A 5.x name server refuses a single topic from an unknown broker (docs/semantics.md 16).
                await self.target.register(payload.introduction())
                return await self.target.register(payload)
            raise

    def _tell(self, result: RegistrationResult, waiting: list[asyncio.Future[RegistrationResult]]) -> None:
        before, self._last = self._last, result
        if not result.ok and (before.ok or before.error == "not tried yet"):
            logger.warning("%s is not registered: %s; it is tried again", self._config().broker_name, result.error)
        elif result.ok and not before.ok:
            logger.info("%s is registered at %s", self._config().broker_name, result.server)
        try:
            self._on_result(result)
        except Exception:  # a defect of the application's function
            logger.exception("on_result of the registration at %s", result.server)
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(result)

    def stop(self) -> None:
        """Cancel the futures that ``ask`` returned."""
        for waiter in self._waiting:
            waiter.cancel()

    async def beat(self) -> None:
        """Send heartbeats until cancelled, for a broker with enable_slave_acting_master."""
        while not cancelled():
            interval_s = self._config().broker_heartbeat_interval_ms / 1000
            await asyncio.sleep(jittered(interval_s))
            if self._generation != self.target.generation:
                continue  # the server does not know the broker
            try:
                async with asyncio.timeout(max(interval_s, 1.0)):
                    await self.target.heartbeat(self._payloads.table.data_version)
            except (RegistryError, TimeoutError) as error:
                logger.debug("heartbeat to %s: %s", self.target.name, error)
            except Exception:  # a defect must not end the heartbeats
                logger.exception("heartbeat to %s", self.target.name)
