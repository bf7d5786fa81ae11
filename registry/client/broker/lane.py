"""The registrations at one server, one after the other, for ever; other servers' do not wait for them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from registry.client.broker.config import BrokerConfig, Pace, jittered
from registry.client.broker.server import Answer, Refused, Server, ServerResult, Status
from registry.client.broker.update import Update, Updates
from registry.errors import PeerGoesAway, RegistryError
from registry.model import DataVersion
from registry.protocol.codes import ResponseCode
from registry.tasks import cancelled

logger = logging.getLogger(__name__)


class Lane:
    """One server's.

    The whole table goes out at the start, each period, over each new connection, and after anything went wrong;
    a change goes out alone only where all before it was accepted over the same connection, so that no change is
    ever missed behind a newer DataVersion.
    """

    def __init__(
        self,
        server: Server,
        updates: Updates,
        config: Callable[[], BrokerConfig],
        pace: Callable[[], Pace],
        on_result: Callable[[ServerResult], None],
    ) -> None:
        self.server = server
        self._updates = updates
        self._config = config
        self._pace = pace
        self._on_result = on_result
        self._wake = asyncio.Event()
        self._waiting: list[asyncio.Future[ServerResult]] = []
        self._changed: set[str] = set()
        self._owes_all = True
        self._at_once = True
        self._due = 0.0
        self._generation = -1  # of the server, when it last took the whole table
        self._failures = 0
        self._last = ServerResult(server.name, "failed", 0.0, 0.0, "not tried yet")
        server.on_lost = self._lost

    # what makes it go

    def change(self, names: frozenset[str] | None) -> None:
        """These topics changed; None: who knows."""
        if names is None:
            self._owes_all = True
        else:
            self._changed |= names
        if not self._failures:  # else the whole table goes out anyway, when it is time to try again
            self._at_once = True
            self._wake.set()

    def ask(self) -> asyncio.Future[ServerResult]:
        """Register everything now; the future is of the first registration that begins after this."""
        waiter: asyncio.Future[ServerResult] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._owes_all = self._at_once = True
        self._wake.set()
        return waiter

    def _lost(self) -> None:
        """The connection is gone, and with it, at most servers, the broker."""
        self._owes_all = True
        soon = asyncio.get_running_loop().time() + self._pace().retry_after_s(max(1, self._failures))
        self._due = min(self._due, soon)
        self._wake.set()

    # what it does

    async def run(self) -> None:
        """Register until cancelled; nothing else ends it."""
        loop = asyncio.get_running_loop()
        pause_s = self._pace().first_s
        while not cancelled():
            self._wake.clear()
            if not self._at_once and loop.time() < self._due:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(self._due):
                        await self._wake.wait()
                continue
            self._at_once = False
            alone = bool(self._changed) and not self._owes_all and self._config().incremental_register
            result = await self._round(alone)
            if not result.ok:
                self._due = loop.time() + self._pace().retry_after_s(self._failures)
                continue
            self._at_once = self._at_once or bool(self._changed)  # while it was under way, after failures
            if self._owes_all:  # the connection was lost as the answer came
                self._due = loop.time() + self._pace().retry_after_s(1)
            elif not alone:
                self._due = loop.time() + jittered(pause_s)
                pause_s = self._pace().period_s

    async def _round(self, alone: bool) -> ServerResult:
        """One registration, and what became of it; raises nothing but CancelledError."""
        waiting, self._waiting = self._waiting, []
        asked, self._owes_all = self._owes_all, False
        changed, self._changed = self._changed, set()
        timeout_s = self._config().register_broker_timeout_ms / 1000
        began = time.perf_counter()
        status: Status = "failed"
        error, answer, version = "", self._last.answer, self._last.data_version
        try:
            async with asyncio.timeout(timeout_s):
                status, answer, version = await self._attempt(changed if alone else None, asked)
        except Refused as refused:
            status, error = "refused", f"{self.server.name}: {refused}"
        except TimeoutError:
            error = f"{self.server.name}: no answer within {timeout_s:g} s"
        except RegistryError as failed:
            error = str(failed)
        except asyncio.CancelledError:
            for waiter in waiting:
                waiter.cancel()
            raise
        except Exception as fault:  # a fault of ours, or of what the caller gave us, must not end this
            logger.exception("registration at %s", self.server.name)
            error = f"{self.server.name}: {fault!r}"
        if error:
            self._owes_all = True
        if status == "failed":
            self.server.reset()  # it may be the connection that is no good
        self._failures = self._failures + 1 if error else 0
        result = ServerResult(
            self.server.name, status, time.time(), (time.perf_counter() - began) * 1000, error, self._failures,
            answer, version,
        )  # fmt: skip
        self._tell(result, waiting)
        return result

    async def _attempt(self, changed: set[str] | None, asked: bool) -> tuple[Status, Answer, DataVersion]:
        """Connect and register what changed (None: all), or all where the connection is a new one."""
        server, config = self.server, self._config()
        await server.open()
        fresh = server.generation != self._generation
        if changed is not None and not fresh:
            update = self._updates.increment(changed)
            answer = await self._register(update, whole=False)
            self._generation = server.generation
            return _status(answer), answer or self._last.answer, update.data_version
        update = self._updates.whole()
        asks_first = not (config.force_register or config.enable_split_registration or asked or fresh)
        if asks_first and not await server.is_changed(update.data_version):
            return "unchanged", self._last.answer, update.data_version
        answer = await self._register(update, whole=True)
        self._generation = server.generation
        return _status(answer), answer or Answer(), update.data_version

    async def _register(self, update: Update, *, whole: bool) -> Answer | None:
        """Register, in spite of two refusals that can be helped."""
        try:
            return await self.server.register(update)
        except PeerGoesAway:  # behind its address, others may serve on
            self.server.reset()
            await self.server.open()
            return await self.server.register(self._updates.whole())
        except Refused as refused:
            if whole and update.has_one_topic and refused.code == ResponseCode.SYSTEM_ERROR:
                # A 5.x name server takes no single topic from a broker that it does not know.
                await self.server.register(update.introduction())
                return await self.server.register(update)
            raise

    def _tell(self, result: ServerResult, waiting: list[asyncio.Future[ServerResult]]) -> None:
        before, self._last = self._last, result
        if not result.ok and (before.ok or before.error == "not tried yet"):
            logger.warning("%s is not registered: %s; it is tried again", self._config().broker_name, result.error)
        elif result.ok and not before.ok:
            logger.info("%s is registered at %s", self._config().broker_name, result.server)
        try:
            self._on_result(result)
        except Exception:
            logger.exception("on_result of the registration at %s", result.server)
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(result)

    def stop(self) -> None:
        """No more answers for whoever asked."""
        for waiter in self._waiting:
            waiter.cancel()

    async def beat(self) -> None:
        """Heartbeats of a broker that may become acting master, until cancelled."""
        while not cancelled():
            interval_s = self._config().broker_heartbeat_interval_ms / 1000
            await asyncio.sleep(jittered(interval_s))
            if self._generation != self.server.generation:
                continue  # there is nobody to keep alive
            try:
                async with asyncio.timeout(max(interval_s, 1.0)):
                    await self.server.heartbeat(self._updates.table.data_version)
            except (RegistryError, TimeoutError) as error:
                logger.debug("heartbeat to %s: %s", self.server.name, error)
            except Exception:
                logger.exception("heartbeat to %s", self.server.name)


def _status(answer: Answer | None) -> Status:
    return "sent" if answer is None else "registered"
