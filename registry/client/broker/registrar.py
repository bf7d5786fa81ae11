"""BrokerRegistrar: what a Java broker has inside it to be known at its name servers.

    table = TopicTable([TopicConfig("orders", 8, 8, 6), TopicConfig("bills", 4, 4, 6)])
    config = BrokerConfig(broker_name="broker-a", broker_addr="10.0.0.1:10911")
    async with BrokerRegistrar(config, table, "10.0.0.8:9876;10.0.0.9:9876") as registrar:
        table.put_topic("refunds")          # registered at once, everywhere
        print(registrar.results)

Source of the behaviour: BrokerController and BrokerOuterAPI (rocketmq 4.8 to 5.x).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, Self

import msgspec

from registry.client.addresses import Address, Addresses, Given
from registry.client.broker.config import BrokerConfig, Pace
from registry.client.broker.lane import Lane
from registry.client.broker.redis import RedisServer, RedisWriter
from registry.client.broker.server import Answer, Refused, Server, ServerResult
from registry.client.broker.topics import TopicTable
from registry.client.broker.update import Updates
from registry.client.broker.wire import WireServer
from registry.errors import ConfigError, PeerUnavailable, RegistryError
from registry.protocol.codes import VERSION_V5_0_0
from registry.tasks import cancelled, pause

logger = logging.getLogger(__name__)

__all__ = ["Answer", "BrokerConfig", "BrokerRegistrar", "Pace", "RedisWriter", "ServerResult", "TopicTable"]

_IDENTITY: Final = ("broker_name", "broker_addr", "cluster_name")


class BrokerRegistrar:
    """Keeps one broker registered at every name server while its ``async with`` lasts.

    Entering it registers once, everywhere at the same time, and returns when every server has answered or had its
    time (register_broker_timeout_ms); a server that is away raises nothing: ``results`` shows it, and it is tried
    again until it is back. From then on each server has its own turn, and none waits for another.

    Leaving it says goodbye everywhere (104) unless ``unregister`` is false: then it hangs up, which name servers
    take for the broker's end all the same, but the others of a shared registry need not.

    Args:
        config: who the broker is.
        topics: its table; change it at any time.
        name_servers: as :class:`Addresses` takes them; None: NAMESRV_ADDR. New addresses are registered at when they
            are found, and those that are gone from the list are hung up on.
        transport: ``redis`` runs the registry's scripts on Redis itself, without a name server.
        redis: its URL, or the RedisWriter that several registrars of a process share; namespace: with a URL.
        tls: to speak TLS with name servers.
        pace: for tests and drills; None: as a Java broker.
        on_result: told of every registration; what it raises is logged.

    Raises:
        ConfigError: a setting that no name server takes.
    """

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicTable,
        name_servers: Given | Addresses = None,
        *,
        transport: Literal["wire", "redis"] = "wire",
        redis: str | RedisWriter | None = None,
        namespace: str = "default",
        tls: ssl.SSLContext | None = None,
        pace: Pace | None = None,
        unregister: bool = True,
        on_result: Callable[[ServerResult], None] | None = None,
    ) -> None:
        config.check()
        self.topics = topics
        self.unregistered: dict[str, str] = {}
        """After the exit: server -> what went wrong with its goodbye, "" = nothing."""
        self._config = config
        self._addresses: Addresses | None = None
        self._redis: tuple[str | RedisWriter, str] | None = None
        if transport == "redis":
            if redis is None or name_servers is not None:
                raise ConfigError("transport 'redis' takes redis=URL or a RedisWriter, and no name servers")
            self._redis = redis, namespace
        else:
            if redis is not None:
                raise ConfigError("redis is given, but the transport is 'wire': say transport='redis'")
            self._addresses = name_servers if isinstance(name_servers, Addresses) else Addresses(name_servers)
        self._tls = tls
        self._pace = pace
        self._says_goodbye = unregister
        self._on_result = on_result
        self._updates = Updates(topics, config)
        self._lanes: dict[str, tuple[Lane, list[asyncio.Task[None]]]] = {}
        self._follower: asyncio.Task[None] | None = None
        self._results: dict[str, ServerResult] = {}
        self._unsubscribe: Callable[[], None] | None = None

    async def __aenter__(self) -> Self:
        if self._unsubscribe is not None:
            raise RuntimeError("this registrar runs already")
        self._unsubscribe = self.topics.subscribe(self._on_change)
        try:
            if self._redis is not None:
                given, namespace = self._redis
                writer = RedisWriter(given, namespace) if isinstance(given, str) else given
                self._add(RedisServer(writer, self._current_config, owned=writer is not given))
            elif self._addresses is not None:
                with contextlib.suppress(PeerUnavailable):  # none is known yet: it was logged, and is looked up again
                    await self._addresses.refresh()
                self._use(self._addresses.current)
                self._follower = asyncio.create_task(self._follow(self._addresses), name="registrar follows addresses")
            await self.register_now()
        except BaseException:
            await self._leave(goodbye=False)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._leave(goodbye=self._says_goodbye)

    @property
    def config(self) -> BrokerConfig:
        """The settings as they stand."""
        return self._config

    @property
    def results(self) -> Mapping[str, ServerResult]:
        """Server -> how the last registration there went."""
        return dict(self._results)

    @property
    def master_addr(self) -> str:
        """The address of this slave's master, as the newest answer that names one has it; "" = none does."""
        return next((answer.master_addr for answer in self._answers() if answer.master_addr), "")

    @property
    def ha_server_addr(self) -> str:
        """Where this slave replicates from, as ``master_addr``."""
        return next((answer.ha_server_addr for answer in self._answers() if answer.ha_server_addr), "")

    @property
    def order_topic_config(self) -> dict[str, str]:
        """The order configuration of all topics, as the name servers have it."""
        merged: dict[str, str] = {}
        for answer in reversed(self._answers()):
            merged.update(answer.order_topic_config or {})
        return merged

    async def register_now(self) -> Mapping[str, ServerResult]:
        """Register the whole table everywhere, and wait for what comes of it."""
        asked = [lane.ask() for lane, _ in self._lanes.values()]
        if asked:
            await asyncio.wait(asked)
        return self.results

    def change(self, **fields: Any) -> None:
        """Other settings from now on, e.g. ``change(broker_id=0)`` for a slave that becomes the master; registers.

        Raises:
            ConfigError: a setting that no name server takes, or one that makes another broker of this.
        """
        for name in _IDENTITY:
            if fields.get(name, getattr(self._config, name)) != getattr(self._config, name):
                raise ConfigError(f"{name} is what a broker is known by: leave this registrar and enter another")
        config = msgspec.structs.replace(self._config, **fields)
        config.check()
        if config.broker_permission != self._config.broker_permission:
            self.topics.advance()  # or servers would not look at permissions of topics that they know
        self._config = config
        self._updates.use(config)
        self._on_change(None)

    def use_name_servers(self, name_servers: Given) -> None:
        """Another list from now on.

        Raises:
            ConfigError: it is none, or the transport is Redis.
        """
        if self._addresses is None:
            raise ConfigError("this registrar writes to Redis: it has no name servers")
        self._addresses.replace(name_servers)

    async def _follow(self, addresses: Addresses) -> None:
        while not cancelled():
            try:
                await addresses.follow(self._use)
            except Exception:
                logger.exception("following the addresses of name servers")
                await pause(1.0)

    def _use(self, addresses: Iterable[Address]) -> None:
        """Register at new ones at once, and hang up on those that are gone."""
        wanted = {str(address): address for address in addresses}
        for name in [name for name in self._lanes if name not in wanted]:
            lane, tasks = self._lanes.pop(name)
            self._results.pop(name, None)
            for task in tasks:
                task.cancel()
            lane.stop()
            lane.server.abort()
        for name, address in wanted.items():
            if name not in self._lanes:
                self._add(WireServer(address, self._current_config, tls=self._tls))

    def _current_config(self) -> BrokerConfig:
        return self._config

    def _add(self, server: Server) -> None:
        lane = Lane(server, self._updates, self._current_config, self._pace_now, self._learn)
        tasks = [asyncio.create_task(lane.run(), name=f"registrar at {server.name}")]
        if self._config.enable_slave_acting_master:
            tasks.append(asyncio.create_task(lane.beat(), name=f"registrar beats at {server.name}"))
        self._lanes[server.name] = (lane, tasks)

    def _pace_now(self) -> Pace:
        return self._pace or Pace.of(self._config)

    def _on_change(self, names: frozenset[str] | None) -> None:
        for lane, _ in self._lanes.values():
            lane.change(names)

    def _learn(self, result: ServerResult) -> None:
        if result.server not in self._lanes:
            return
        self._results[result.server] = result
        if self._addresses is not None and not any(result.ok for result in self._results.values()):
            self._addresses.look_again_soon()
        if result.status == "registered" and result.answer.order_topic_config is not None:
            self.topics.set_order_topics(self.order_topic_config, only_add=self._config.version >= VERSION_V5_0_0)
        if self._on_result is not None:
            self._on_result(result)

    def _answers(self) -> list[Answer]:
        """The newest first."""
        newest = sorted(self._results.values(), key=lambda result: result.at, reverse=True)
        return [result.answer for result in newest if result.ok]

    async def _leave(self, *, goodbye: bool) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        lanes, self._lanes = self._lanes, {}
        try:
            tasks = [task for _, tasks in lanes.values() for task in tasks]
            if self._follower is not None:
                tasks.append(self._follower)
            for task in tasks:
                task.cancel()
            for lane, _ in lanes.values():
                lane.stop()
            if tasks:
                await asyncio.wait(tasks)
            await asyncio.gather(*(self._part(lane.server, goodbye) for lane, _ in lanes.values()))
        finally:
            for lane, _ in lanes.values():
                lane.server.abort()

    async def _part(self, server: Server, goodbye: bool) -> None:
        """Say goodbye, if the server may know the broker at all, and hang up."""
        if goodbye and server.generation > 0:
            error = ""
            timeout_s = self._config.unregister_timeout_ms / 1000
            try:
                async with asyncio.timeout(timeout_s):
                    await server.open()
                    await server.unregister()
            except Refused as refused:
                error = f"{server.name}: {refused}"
            except TimeoutError:
                error = f"{server.name}: no answer within {timeout_s:g} s"
            except RegistryError as failed:
                error = str(failed)
            if error:
                logger.warning("%s could not say goodbye: %s", self._config.broker_name, error)
            self.unregistered[server.name] = error
        with contextlib.suppress(RegistryError):
            await server.close()
