"""One worker process of a front end: made by the supervisor (:mod:`registry.server.processes`), serves the port
alone, or what the supervisor hands over to it.

:func:`main` takes the JSON of :class:`Spec`. It writes JSON lines to
its status pipe: ``ready`` once it answers, ``status`` every second, ``failed`` with a reason before it exits
with 253. SIGTERM drains it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec
import uvloop

from registry.behaviour import behaviour_of
from registry.change import Change
from registry.config import DEFAULT, Settings, options
from registry.errors import RegistryError
from registry.model import BrokerRow
from registry.server.channels import ChannelOwner
from registry.server.connection import Connections, Limits
from registry.server.counters import Counters
from registry.server.follower import BLOCK_MS, Follower
from registry.server.front_end import FrontEnd
from registry.server.handed import Taken
from registry.server.lookups import LookupJournal
from registry.server.memory import give_back_after_storms, keep_buffers
from registry.server.notify import Notifier
from registry.server.opening import Doorway
from registry.server.tls import Tls
from registry.server.view import View
from registry.store.kvconfig import KvStore
from registry.store.leases import LeaseStore
from registry.store.routes import RouteStore
from registry.store.store import Store
from registry.store.streams import StreamStore

logger = logging.getLogger(__name__)

# The collector starts when the worker serves, at the latest after so long.
_COLLECT_AFTER_S: Final = 10.0

EXIT_COULD_NOT_START = 253
# As the Java NameServer does: every key of the KV configuration is logged, first after a minute.
KV_PRINT_FIRST_S = 60.0
KV_PRINT_EVERY_S = 600.0
# How long clients that know it are sent away with 1500 before this worker stops accepting.
GO_AWAY_S = 1.0


class Spec(msgspec.Struct, frozen=True):
    """What a worker is told: its settings, the front end it belongs to, where its connections come from (the listening
    socket, or a channel of :mod:`registry.server.handover`), and its status pipe.
    """

    settings: Settings
    front_end: str
    index: int
    entrance_fd: int
    status_fd: int


class Worker:
    """Everything that one worker process runs."""

    def __init__(self, spec: Spec) -> None:
        settings = spec.settings
        self._spec = spec
        self._settings = settings
        store = partial(Store, settings.redis, settings.namespace, compat=settings.compat)
        self._store = store(timeout_ms=settings.redis_timeout_ms)
        self._tail_store = store(timeout_ms=BLOCK_MS + 1000, max_connections=2)
        self._lease_store = store(timeout_ms=settings.redis_timeout_ms, max_connections=1)
        routes = RouteStore(self._store)
        self._channels = ChannelOwner(routes, spec.front_end, secrets.token_hex(8))
        behaviour = behaviour_of(settings.compat)
        self._proxy_protocol = settings.proxy_protocol and behaviour.proxy_protocol
        self._view = View(behaviour)
        self._counters = Counters()
        self._follower = Follower(
            self._store,
            self._tail_store,
            self._view,
            self._channels,
            lease_store=self._lease_store,
            grace_ms=lambda: self._front_end.settings.broker_channel_expired_time_ms,
            on_config=self._use_shared,
            on_row=self._on_row,
            sent=routes.sent,
        )
        self._notifier = Notifier()
        self._front_end = FrontEnd(
            settings, self._view, routes, KvStore(self._store), self._channels, self._counters, self._follower
        )
        self._lookups = LookupJournal(
            self._front_end.lookup_counts, StreamStore(self._store), spec.front_end, self._channels.incarnation,
            interval_s=settings.lookup_counts_interval_ms / 1000,
        )  # fmt: skip
        if spec.index == 0:
            for option in options().values():
                if option.key in behaviour.ignored_settings and settings.source(option.name) != DEFAULT:
                    logger.warning(
                        "%s (%s) has no effect: NameServer %s does not know it",
                        option.key, settings.source(option.name), behaviour.compat,
                    )  # fmt: skip
        self._stop = asyncio.Event()

    def _use_shared(self, shared: Mapping[str, str]) -> None:
        self._front_end.use_shared(shared)

    def _on_row(self, before: BrokerRow | None, change: Change) -> None:
        if self._spec.index == 0 and self._front_end.settings.notify_min_broker_id_changed:
            self._notifier.tell(before, change)

    async def run(self) -> None:
        """Serve until SIGTERM, then drain.

        Raises:
            RegistryError: it could not start.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        loop.call_later(_COLLECT_AFTER_S, gc.enable)  # Redis may keep us waiting
        settings = self._settings
        tls = Tls(settings)
        await self._store.connect()
        await self._follower.load()
        await self._follower.renew()
        connections = Connections(
            self._front_end,
            Limits(
                idle_s=settings.server_channel_max_idle_time_seconds,
                slow_client_s=settings.slow_client_timeout_seconds,
                connections=settings.max_connections,
                in_flight=settings.max_in_flight,
                write_buffer_bytes=settings.write_buffer_high_water_mark_bytes,
            ),
        )
        doorway = Doorway(
            connections,
            tls,
            proxy_protocol=self._proxy_protocol,
            handshake_s=settings.handshake_timeout_ms / 1000,
        )
        entrance = socket.socket(fileno=self._spec.entrance_fd)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(coroutine, name=name)
                for name, coroutine in (
                    ("tail", self._follower.tail()),
                    ("lease", self._follower.keep_lease()),
                    ("closes", self._channels.tell_closes()),
                    ("tick", connections.tick()),
                    ("status", self._report(connections)),
                    ("kv", self._print_kv()),
                    ("lookups", self._lookups.run()),
                    ("notify", self._notifier.run()),
                    ("doorway", doorway.tick()),
                    ("tls", tls.watch()),
                    ("memory", give_back_after_storms(lambda: self._counters.registrations_changed)),
                )
            ]
            server: asyncio.Server | Taken
            if entrance.family == socket.AF_UNIX:
                server = Taken(entrance, doorway, connections.all)
            else:
                server = await loop.create_server(doorway, sock=entrance, backlog=settings.server_socket_backlog)
            # The tables are long-lived: the collector need not look at them again and again, nor once now.
            gc.freeze()
            gc.enable()  # it rested since this process was made
            self._say({"event": "ready"})
            await self._stop.wait()
            await self._drain(server, connections)
            for task in tasks:
                task.cancel()
        await self._lookups.close()
        with contextlib.suppress(RegistryError):
            await LeaseStore(self._store).release(self._channels.incarnation)
        await self._front_end.product.close()
        await self._store.close()
        await self._tail_store.close()
        await self._lease_store.close()

    async def _drain(self, server: asyncio.Server | Taken, connections: Connections) -> None:
        """Send clients away, stop accepting, finish what is in flight; no broker is removed."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.shutdown_wait_time_seconds
        self._front_end.draining = self._settings.enable_shutdown_gracefully
        # Brokers that go away now go because we send them: that says nothing about their life.
        self._channels.stop_telling()
        logger.info("draining: %d connections", len(connections.all))
        if self._front_end.draining:
            self._view.watches.send_away()
        if connections.all and self._front_end.draining:
            await self._until(deadline, loop.time() + GO_AWAY_S, lambda: not connections.all)
        server.close()
        await self._until(deadline, deadline, lambda: not connections.busy)
        with contextlib.suppress(RegistryError, TimeoutError):
            async with asyncio.timeout(max(0.1, min(2.0, deadline - loop.time()))):
                await self._channels.closes_told()
        for connection in list(connections.all):
            connection.close("this front end is shutting down")
        logger.info("drained")

    async def _until(self, deadline: float, until: float, done: Any) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < min(deadline, until) and not done():  # noqa: ASYNC110 (two conditions, once a life)
            await asyncio.sleep(0.02)

    async def _print_kv(self) -> None:
        """Log all KV configuration every ten minutes; one worker of a front end does it for all."""
        await asyncio.sleep(KV_PRINT_FIRST_S)
        while self._spec.index == 0:
            for namespace, table in sorted(self._view.served.kv.items()):
                for key, value in sorted(table.items()):
                    logger.info("KV config: namespace %s key %s value %s", namespace, key, value)
            await asyncio.sleep(KV_PRINT_EVERY_S)

    # telling the supervisor

    def _say(self, line: dict[str, Any]) -> None:
        # The pipe holds a few dozen lines; a supervisor that does not read them any more is gone.
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._spec.status_fd, msgspec.json.encode(line) + b"\n")

    async def _report(self, connections: Connections) -> None:
        while True:
            await asyncio.sleep(1.0)
            self._say(self.status(connections))

    def status(self, connections: Connections) -> dict[str, Any]:
        """What ``/metrics`` and ``/readyz`` are made of."""
        view, renewal = self._view, self._follower.renewal
        grace = renewal is not None and (
            renewal.now_ms < renewal.up_since_ms + self._front_end.settings.broker_channel_expired_time_ms
        )
        times = self._store.times
        return {
            "event": "status",
            "ready": view.loaded,
            "stale": not view.fresh,
            "draining": self._front_end.draining,
            "epoch": view.epoch,
            "seq": view.seq,
            "lag_ms": self._follower.lag_ms,
            "grace": grace,
            "redis_away": self._follower.away,
            "connections": len(connections.all),
            "held_bytes": connections.held_bytes,
            "channels": len(self._channels),
            "closes_pending": self._channels.closes_pending,
            "brokers": sum(len(row.broker_addrs) for row in view.served.brokers.values()),
            "topics": len(view.served.topics),
            "rebuilds": self._follower.rebuilds,
            "counters": self._counters.report(),
            "script_times": {name: (times.count[name], times.total_ms[name]) for name in times.count},
        }


def main(spec_json: bytes | str) -> int:
    """The worker process; returns its exit status."""
    spec = msgspec.json.decode(spec_json, type=Spec)
    configure_logging(spec)
    keep_buffers()
    os.set_blocking(spec.status_fd, False)
    started = time.monotonic()

    async def serve() -> None:
        await Worker(spec).run()

    reason = ""
    try:
        uvloop.run(serve())
    except* RegistryError as errors:
        reason = "; ".join(str(error) for error in errors.exceptions)
    if reason:
        logger.error("%s", reason)
        os.write(spec.status_fd, msgspec.json.encode({"event": "failed", "reason": reason}) + b"\n")
        return EXIT_COULD_NOT_START
    logger.info("served for %.1f s", time.monotonic() - started)
    return 0


def configure_logging(spec: Spec) -> None:
    """Lines on stderr, which the supervisor prefixes."""
    logging.basicConfig(
        level=spec.settings.log_level.upper(), stream=sys.stderr, format="%(levelname)s %(name)s - %(message)s"
    )
