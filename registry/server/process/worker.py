"""One worker process of a front end: serves the port alone, or the connections that the supervisor passes to it.

The supervisor starts it (:mod:`mqregistry.server.process.spawning`); :func:`main` takes the JSON of :class:`Spec`. A
worker writes JSON lines to its status pipe: ``ready`` once it answers from the route tables, ``status`` every second,
``failed`` with a reason before it exits with 253. SIGTERM drains it.
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
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import msgspec
import uvloop

from ...behaviour import behaviour_of
from ...config.in_force import own_values
from ...config.settings import DEFAULT, Settings, options
from ...embedded import end_with_parent
from ...errors import RegistryError, StoreUnavailable
from ...events.by import WORKER, front_end_name, this_process
from ...names import PrintableFormatter
from ...networks import Networks
from ...queued_output import queue_output
from ...store.config_writes import KvStore
from ...store.leases import LeaseStore
from ...store.processes import WorkerFacts
from ...store.processes import this_process as facts_of_this_process
from ...store.route_writes import RouteStore
from ...store.store import Store
from ...store.streams import StreamStore
from ...tasks import wait_within
from ..counting.counters import Closed, Counters
from ..net.connections import ConnectionLimits, Connections
from ..net.first_bytes import Doorway
from ..net.tls import Tls
from ..requests.context import RequestContext
from ..requests.early_lookups import EarlyLookups, answering_early
from ..view.channels import ChannelOwner
from ..view.follower import BLOCK_MS, Follower
from ..view.lease_loop import LeaseLoop
from ..view.lookup_counts import LookupJournal
from ..view.notify_min_broker_id import MinBrokerIdNotifier
from ..view.view import View
from .authentication import Authentication
from .figures.worker_figures import ChangeCounts, LoopDelays, UnwritableTopics
from .figures.worker_status import status
from .java_log import log_kv, log_removal
from .memory import freeze_after_long_collections, keep_large_blocks, trim_after_bursts
from .pipes import LineWriter
from .port.received_connections import ReceivedConnections
from .port.sockets import advertised

logger = logging.getLogger(__name__)

# The garbage collector is enabled when the worker serves, at the latest after this time.
_COLLECT_AFTER_S: Final = 10.0

EXIT_COULD_NOT_START = 253
# The KV configuration is logged as in the Java NameServer, first after a minute.
KV_PRINT_FIRST_S = 60.0
KV_PRINT_EVERY_S = 600.0
# A worker that drains still accepts connections for this time, and answers clients that know code 1500 with that code.
GO_AWAY_S = 1.0
_STATUS_EVERY_S: Final = 1.0
# How often a worker that has no tables yet tries Redis again.
_REACH_EVERY_S: Final = 0.25


Server = asyncio.Server | ReceivedConnections


class Spec(msgspec.Struct, frozen=True):
    """What a worker needs to start."""

    settings: Settings
    front_end: str  # the id of its front end
    index: int
    connections_fd: int  # the listening socket, or a channel of mqregistry.server.process.port.acceptor
    status_fd: int
    wait: bool = False  # whether it waits for a Redis that is away at the start: until then it answers with code 1
    parent: int = 0  # the supervisor's process id: if it ends without a drain, this process ends; 0: not watched
    fresh: bool = False  # whether nothing was ever in this Redis


class Worker:
    """Everything that one worker process runs."""

    def __init__(self, spec: Spec) -> None:
        settings = spec.settings
        self._spec = spec
        self._lines = LineWriter(spec.status_fd)
        self._settings = settings
        name = front_end_name(settings.listen_port)
        by = this_process(WORKER, front_end=name)
        store = partial(Store, settings.redis, settings.namespace, compat=settings.compat, by=by, fresh=spec.fresh)
        self._store = store(timeout_ms=settings.redis_timeout_ms)
        self._tail_store = store(timeout_ms=BLOCK_MS + 1000, max_connections=2)
        self._lease_store = store(timeout_ms=settings.redis_timeout_ms, max_connections=1)
        routes = RouteStore(self._store)
        self._channels = ChannelOwner(routes, spec.front_end, secrets.token_hex(8), name)
        behaviour = behaviour_of(settings.compat)
        self._proxy_protocol = settings.proxy_protocol and behaviour.proxy_protocol
        self._view = View()
        self._store.history = lambda: self._view.known
        self._counters = Counters()
        self._follower = Follower(self._store, self._tail_store, self._view)
        self._lease_loop = LeaseLoop(
            LeaseStore(self._lease_store), self._view, self._follower, self._channels,
            renewed=lambda renewal: self._authentication.renewed(renewal), process=self._facts,
            own_store=self._lease_store, other_stores=(self._tail_store, self._store),
        )  # fmt: skip
        self._context = RequestContext(
            settings, self._view, routes, KvStore(self._store), self._channels, self._counters, self._follower
        )
        self._view.subscribe(self._channels.applied, lambda *_: self._channels.replaced(has_lost=self._view.has_lost))
        self._authentication = Authentication(self._store, self._context, spec.front_end, warns=spec.index == 0)
        self._view.subscribe(self._authentication.applied)
        self._notifier = MinBrokerIdNotifier(lambda: self._context.settings.notify_min_broker_id_changed)
        self._changes = ChangeCounts()
        self._unwritable = UnwritableTopics(lambda: self._view.tables)
        self._loop_delays = LoopDelays()
        self._lookups = LookupJournal(
            self._context.lookup_counts, StreamStore(self._store), spec.front_end, self._channels.incarnation,
            interval_s=settings.lookup_counts_interval_ms / 1000,
        )  # fmt: skip
        if spec.index == 0:  # all workers have the same tables: one notifies brokers, counts changes and logs for all
            self._view.subscribe(self._notifier.applied)
            self._view.subscribe(self._changes.applied)
            self._view.subscribe(lambda applied: log_removal(applied, self._view.tables))
            for option in options().values():
                if option.key in behaviour.ignored_settings and settings.source(option.name) != DEFAULT:
                    logger.warning(
                        "%s (%s) has no effect: NameServer %s does not know it",
                        option.key, settings.source(option.name), behaviour.compat,
                    )  # fmt: skip
        self._stop = asyncio.Event()
        self._waits_for_redis = False
        self._connections: Connections | None = None
        self._server: Server | None = None
        self._answers = False
        address, http_address = advertised(settings)
        self._told = WorkerFacts(
            **facts_of_this_process(), front_end=spec.front_end, name=name, address=address,
            http_address=http_address, index=spec.index, workers=settings.workers,
            settings=own_values(settings) if spec.index == 0 else {},
        )  # fmt: skip

    def stop(self) -> None:
        """Make :meth:`run` drain and return."""
        self._stop.set()

    async def run(self, *, owns_process: bool = True) -> None:
        """Serve until :meth:`stop`, then drain.

        Args:
            owns_process: True: SIGTERM and SIGINT stop this worker, and it controls the garbage collector.

        Raises:
            RegistryError: the worker could not start.
        """
        loop = asyncio.get_running_loop()
        if owns_process:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.stop)
            loop.call_later(_COLLECT_AFTER_S, gc.enable)  # Redis may be away for long
        settings = self._settings
        tls = Tls(settings)
        connections = Connections(
            self._context,
            ConnectionLimits(
                idle_s=settings.server_channel_max_idle_time_seconds,
                slow_client_s=settings.slow_client_timeout_seconds,
                connections=settings.max_connections,
                in_flight=settings.max_in_flight,
                write_buffer_bytes=settings.write_buffer_high_water_mark_bytes,
            ),
        )
        self._connections = connections
        doorway = Doorway(
            connections,
            tls,
            proxy_protocol=self._proxy_protocol,
            believed_from=Networks.of_setting(settings.proxy_protocol_from),
            handshake_s=settings.handshake_timeout_ms / 1000,
        )
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(coroutine, name=name)
                for name, coroutine in (
                    ("tick", connections.tick()),
                    ("status", self._report(connections, tls)),
                    ("delays", self._loop_delays.run()),
                    ("doorway", doorway.tick()),
                    ("tls", tls.watch(connections.revoked)),
                )
            ]
            listening = partial(self._listening, doorway, connections)
            while not self._stop.is_set() and not await self._has_tables(connections, listening):
                await listening()
                await wait_within(self._stop, _REACH_EVERY_S)
            tasks += [
                group.create_task(coroutine, name=name)
                for name, coroutine in (
                    ("tail", self._follower.tail()),
                    ("lease", self._lease_loop.run()),
                    ("closes", self._channels.tell_closes()),
                    ("kv", self._print_kv()),
                    ("lookups", self._lookups.run()),
                    *self._authentication.tasks(),
                    ("notify", self._notifier.run()),
                    *((("unwritable", self._unwritable.run()),) if self._spec.index == 0 else ()),
                    ("memory", trim_after_bursts(lambda: self._counters.registrations_changed)),
                )
            ]
            # Unless reading the tables took long, the worker listens only now: connections were kept in the backlog.
            server = await listening()
            # The tables live long: the collector need not visit them, now or later.
            if owns_process:
                gc.freeze()
                gc.enable()  # it was disabled since the start of this process
                freeze_after_long_collections()
            if not self._stop.is_set():
                self._say({"event": "ready"})
                self._answers = True
                self._lease_loop.renew_soon()
            await self._stop.wait()
            self._lease_loop.renew_soon()
            await self._drain(server, connections)
            for task in tasks:
                task.cancel()
        await self._lookups.close()
        await self._authentication.close()
        with contextlib.suppress(RegistryError):
            await LeaseStore(self._store).release(self._channels.incarnation)
        await self._context.product.close()
        await self._store.close()
        await self._tail_store.close()
        await self._lease_store.close()

    async def _has_tables(self, connections: Connections, listening: Callable[[], Awaitable[Server]]) -> bool:
        """Connect to Redis and read the tables; False: Redis is away, and this worker waits for it.

        Args:
            listening: called if reading takes long, so that lookups are answered meanwhile.

        Raises:
            StoreUnavailable: Redis is away, and this worker must not wait.
            StoreError: Redis answers, but cannot be used (login, version, schema, eviction policy).
        """
        try:
            await self._store.connect()
            await self._authentication.start()
            async with answering_early(EarlyLookups(self._store, self._settings), connections.answering, listening):
                await self._follower.start()
                await self._lease_loop.renew()
        except StoreUnavailable as error:
            if not self._spec.wait:
                raise
            if not self._waits_for_redis:
                logger.warning("%s; every request is answered with an error until it is there", error)
            self._waits_for_redis = True
            return False
        self._waits_for_redis = False
        return True

    async def _listening(self, doorway: Doorway, connections: Connections) -> Server:
        if self._server is None:
            source = socket.socket(fileno=self._spec.connections_fd)
            if source.family == socket.AF_UNIX:
                self._server = ReceivedConnections(source, doorway, connections.all)
            else:
                self._server = await asyncio.get_running_loop().create_server(
                    doorway, sock=source, backlog=self._settings.server_socket_backlog
                )
        return self._server

    async def _drain(self, server: Server, connections: Connections) -> None:
        """Send clients away, stop accepting, finish the requests in flight; no broker is removed."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.shutdown_wait_time_seconds
        self._context.draining = self._settings.enable_shutdown_gracefully
        # Brokers that close their connection now were asked to: they are still alive.
        self._channels.stop_telling()
        logger.info("draining: %d connections", len(connections.all))
        if self._context.draining:
            self._context.watches.send_away()
        if connections.all and self._context.draining:
            await self._until(deadline, loop.time() + GO_AWAY_S, lambda: not connections.all)
            # As in Java: after GO_AWAY_S only clients that are too old for code 1500 are still waited for.
            await self._until(deadline, deadline, lambda: not connections.not_sent_away)
        server.close()
        await self._until(deadline, deadline, lambda: not self._context.in_flight)
        with contextlib.suppress(RegistryError, TimeoutError):
            async with asyncio.timeout(max(0.1, min(2.0, deadline - loop.time()))):
                await self._channels.closes_told()
        for connection in list(connections.all):
            connection.close(Closed.SHUTDOWN, "this front end is shutting down")
        logger.info("drained")

    async def _until(self, deadline: float, until: float, done: Any) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < min(deadline, until) and not done():  # noqa: ASYNC110 (two conditions, once a life)
            await asyncio.sleep(0.02)

    async def _print_kv(self) -> None:
        """Log the KV configuration every ten minutes; one worker of a front end does it for all."""
        await asyncio.sleep(KV_PRINT_FIRST_S)
        while self._spec.index == 0:
            await log_kv(self._view.tables.kv)
            await asyncio.sleep(KV_PRINT_EVERY_S)

    def _facts(self) -> bytes:
        """The facts about this worker that each renewal of its lease writes to Redis."""
        facts = msgspec.structs.replace(
            self._told, view=self._view.freshness.value, ready=self._answers, draining=self._stop.is_set(),
            seq=self._view.seq, connections=len(self._connections.all) if self._connections else 0,
            brokers=len(self._channels), unreachable=self._channels.unreachable(),
            drains=self._connections.drains.look() if self._connections else {},
        )  # fmt: skip
        return msgspec.json.encode(facts)

    def _say(self, line: dict[str, Any]) -> None:
        self._lines.write(msgspec.json.encode(line))

    async def _report(self, connections: Connections, tls: Tls) -> None:
        stores = (self._store, self._lease_store, self._tail_store)
        while True:
            await asyncio.sleep(_STATUS_EVERY_S)
            line = status(
                self._view, self._follower, self._lease_loop, self._context, connections, tls, self._authentication,
                stores, self._changes, self._unwritable, self._loop_delays, waits_for_redis=self._waits_for_redis,
            )  # fmt: skip
            self._say(line)


def main(spec_json: bytes | str) -> int:
    """Run a worker process; returns its exit status."""
    spec = msgspec.json.decode(spec_json, type=Spec)
    if spec.parent:
        end_with_parent(spec.parent)
    queue_output()  # a supervisor that is paused reads no log
    handler = logging.StreamHandler(sys.stderr)  # the supervisor logs these lines under the worker's name
    handler.setFormatter(PrintableFormatter("%(levelname)s %(name)s - %(message)s"))
    logging.basicConfig(level=spec.settings.log_level.upper(), handlers=[handler])
    keep_large_blocks()
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
