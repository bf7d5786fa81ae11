"""Holds the lease of a process that registers brokers in Redis itself, and reports closed channels of its brokers.

If the process dies, the lease runs out, and its brokers are removed as if their connections had closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import secrets
import time
from collections.abc import Callable
from typing import Final, Protocol

from ...errors import ConfigError, RegistryError, StoreUnavailable
from ...store.connection.url import without_password
from ...store.leases import DIRECT, LEASE_MS, RENEW_EVERY_S, LeaseStore, opened_now
from ...store.route_writes import Channel, RouteStore
from ...store.store import Store
from ...tasks import cancelled, pause
from ..checks import check_instance, check_name

logger = logging.getLogger(__name__)

_GIVE_UP_S: Final = 3.0
_tasks: set[asyncio.Task[None]] = set()


class LeaseUser(Protocol):
    """A broker that is registered under a writer's lease. The writer calls ``on_lost`` after a loss of the lease."""

    on_lost: Callable[[], None]


class RedisWriter:
    """One lease on a registry's Redis, for all the registrars of a process that write there without a name server.

    Args:
        url: of Redis, in a form that ``--redis`` takes.
        namespace, compat ("5.x" or "4.8"): the same as of the registry's front ends.
        timeout_ms: of one call to Redis.
        lease_ms: if this process does not renew its lease for this time, its brokers are removed.
        create_namespace: make the namespace if there is none. Clients need a front end that serves it.

    Raises:
        ConfigError: the URL cannot be read.
        TypeError, ValueError: the namespace is no name.
    """

    def __init__(
        self, url: str, namespace: str = "default", *, compat: str = "5.x", timeout_ms: int = 2000,
        lease_ms: int = LEASE_MS, create_namespace: bool = False,
    ) -> None:  # fmt: skip
        check_instance(url, str, "redis", "a URL, as redis://host:6379")
        check_name(namespace, "namespace")
        self.store = Store(url, namespace, timeout_ms=timeout_ms, compat=compat)
        # Connections of its own: a renewal must not wait for a connection behind a thousand registrations.
        self._lease_store = Store(url, namespace, timeout_ms=timeout_ms, compat=compat, max_connections=2)
        self._leases = LeaseStore(self._lease_store)
        self._lease_ms = lease_ms
        self._create_namespace = create_namespace
        self.namespace = namespace
        self.namespace_error = ""
        """The error message while Redis has no such namespace; else ""."""
        self.routes = RouteStore(self.store)
        self.name = f"{without_password(url)} namespace {namespace}"
        self.generation = 0
        self.incarnation = secrets.token_hex(8)
        self._channels = itertools.count(1)
        self._users: set[LeaseUser] = set()
        self._gone: set[tuple[str, Channel]] = set()  # brokers whose closed channel Redis does not know of yet
        self._position: tuple[str, int] = ("", 0)  # epoch and seq of the registry at the last renewal
        self._opening = asyncio.Lock()
        self._keeper: asyncio.Task[None] | None = None
        self._end: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Check the Redis and take the lease, which is renewed until ``close``; does nothing if the lease is taken.

        Raises:
            ConfigError: there is no such namespace, and ``create_namespace`` is false.
            StoreUnavailable, StoreError: Redis cannot be used; try again.
        """
        async with self._opening:
            if self._end is not None:
                raise StoreUnavailable(f"{self.name}: this writer was closed")
            if self._keeper is None:
                if not self._create_namespace and not await self.store.exists():
                    self.namespace_error = (
                        f"{self.name}: there is no such namespace, so no front end serves it: start one "
                        f"(mqregistry serve --namespace {self.namespace}), name another namespace, or set "
                        "create_namespace=True"
                    )
                    raise ConfigError(self.namespace_error)
                self.namespace_error = ""
                await self.store.connect()
                await self._renew()
                self._keeper = asyncio.create_task(self._keep(), name="registrar keeps its lease")

    def new_channel(self) -> Channel:
        """Make a channel: the value that stands for a broker's connection in Redis.

        Each registrar has its own channel, so a late close of one registrar does not close the channel of a later one.
        """
        return Channel(f"{DIRECT}{self.incarnation}", f"{self.incarnation}/{next(self._channels)}{opened_now()}")

    def enter(self, user: LeaseUser) -> None:
        """Call ``user.on_lost`` after each loss of the lease."""
        self._users.add(user)

    def leave(self, user: LeaseUser, broker: str, channel: Channel) -> None:
        """Call ``user.on_lost`` no more; after the next renewal, report to Redis that the broker's channel is closed.

        Args:
            broker: its who (``Behaviour.who``); "": no broker registered over the channel.
        """
        self._users.discard(user)
        if broker:
            self._gone.add((broker, channel))

    async def _keep(self) -> None:
        away = False
        while not cancelled():
            began = time.monotonic()
            try:
                await self._renew()
                await self._tell_gone()
                if away:
                    logger.warning("Redis is back")
                away = False
            except RegistryError as error:
                if not away:
                    logger.warning("%s; the lease of this process is not renewed meanwhile", error)
                away = True
            except Exception:  # a defect must not end the loop: without the lease all brokers here are removed
                logger.exception("renewing the lease of this process")
            await pause(max(0.05, RENEW_EVERY_S - (time.monotonic() - began)))

    async def _renew(self) -> None:
        """Renew the lease; if it had run out, or Redis lost changes, brokers may be removed: call ``on_lost``."""
        renewal = await self._leases.renew(self.incarnation, self._lease_ms)
        before, self._position = self._position, (renewal.epoch, renewal.seq)
        if renewal.lost or before[0] != renewal.epoch or renewal.seq < before[1]:
            self.generation += 1
            for user in list(self._users):
                user.on_lost()

    async def _tell_gone(self) -> None:
        while self._gone:
            closed = next(iter(self._gone))
            await self.routes.channel_destroyed(*closed)
            self._gone.discard(closed)

    async def close(self) -> None:
        """Give up the lease: brokers that did not unregister are then removed. The writer cannot be opened again.

        If the caller is cancelled, the close goes on in the background, for a few seconds at most.
        """
        await asyncio.shield(self.abort())

    def abort(self) -> asyncio.Task[None]:
        """Close without waiting; returns the task that closes."""
        if self._end is None:
            self._end = asyncio.get_running_loop().create_task(self._give_up(), name="registrar gives its lease up")
            _tasks.add(self._end)
            self._end.add_done_callback(_tasks.discard)
        return self._end

    async def _give_up(self) -> None:
        keeper, self._keeper = self._keeper, None
        try:
            if keeper is not None:
                keeper.cancel()
                await asyncio.wait([keeper])
                with contextlib.suppress(RegistryError, TimeoutError):
                    async with asyncio.timeout(_GIVE_UP_S):
                        await self._tell_gone()
                        await self._leases.release(self.incarnation)
        finally:
            try:
                await self.store.close()
            finally:
                await self._lease_store.close()

    async def __aenter__(self) -> RedisWriter:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
