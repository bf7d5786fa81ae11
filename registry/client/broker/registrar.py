"""Keeps a broker registered at its name servers, as the registration code inside a Java broker does.

Source of the behaviour: BrokerController and BrokerOuterAPI (rocketmq 4.8 to 5.x).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, Self, get_args

import msgspec

from ...errors import ConfigError, PeerUnavailable, RegistryError
from ...model import TopicConfig
from ...protocol.codes import VERSION_V5_0_0
from ...tasks import cancelled, pause
from ..addresses import AddressSpec, NameServerAddress, NameServerAddresses
from ..checks import check_callable, check_instance, check_optional, check_seconds
from .config import BrokerConfig
from .name_server_target import NameServerTarget
from .pace import Pace
from .payload import PayloadBuilder
from .redis_target import RedisTarget
from .redis_writer import RedisWriter
from .registration_loop import RegistrationLoop, RegistrationTarget
from .target import RegistrationAnswer, RegistrationRefused, RegistrationResult
from .topic_table import TopicTable

logger = logging.getLogger(__name__)

__all__ = [
    "BrokerConfig", "BrokerRegistrar", "Pace", "RedisWriter", "RegistrationAnswer", "RegistrationResult", "TopicTable",
    "Transport",
]  # fmt: skip

DEFAULT_NAMESPACE: Final = "default"

Transport = Literal["wire", "redis"]
"""How a registrar registers: by requests at name servers, or by running the registry's scripts on Redis."""

_IDENTITY: Final = ("broker_name", "broker_addr", "cluster_name")


class BrokerRegistrar:
    """Keeps one broker registered at every name server while its ``async with`` lasts.

    Entering it registers at all servers at the same time, and returns after all answers or register_broker_timeout_ms.
    A server that does not answer raises no error: ``results`` shows it, and the registrar retries until the server
    answers. After that each server has its own schedule, so no server waits for another.

    Leaving it unregisters at all servers (104). If ``unregister`` is false, it only closes its connections: then a name
    server removes the broker, unless the broker is connected to another front end of the same registry.

    Args:
        config: the broker's identity and settings.
        topics: its topics, or a TopicTable, which any thread may change at any time: changes are registered at once.
        name_servers: as for :class:`NameServerAddresses`; None: NAMESRV_ADDR. When the list changes, the broker is
            registered at new addresses, and connections to removed addresses are closed.
        transport: ``wire`` registers at name servers; ``redis`` runs the registry's scripts on Redis itself.
        redis: with transport ``redis``, its URL, or the RedisWriter that several registrars of a process share.
        namespace: of the registry; only if redis is a URL.
        create_namespace: with a URL, make the namespace if there is none; clients need a front end that serves it.
        tls: use TLS with name servers, with this context.
        pace: how often it registers; None: the pace of a Java broker.
        unregister: whether leaving the ``async with`` unregisters the broker.
        on_result: called after every registration; its errors are logged.

    Raises:
        ConfigError: name servers, transport, Redis and namespace do not go together, or one cannot be read. Entering
            the ``async with`` raises ConfigError when Redis has no such namespace.
        TypeError, ValueError: an argument of the wrong type; a topic that :class:`TopicTable` refuses.
    """

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicTable | Iterable[TopicConfig] = (),
        name_servers: NameServerAddresses | AddressSpec = None,
        *,
        transport: Transport = "wire",
        redis: str | RedisWriter | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        create_namespace: bool = False,
        tls: ssl.SSLContext | None = None,
        pace: Pace | None = None,
        unregister: bool = True,
        on_result: Callable[[RegistrationResult], None] | None = None,
    ) -> None:
        check_instance(config, BrokerConfig, "config", "a BrokerConfig")
        check_optional(tls, ssl.SSLContext, "tls")
        check_optional(pace, Pace, "pace")
        if pace is not None:
            check_seconds(**msgspec.structs.asdict(pace))
        if on_result is not None:
            check_callable(on_result, "on_result")
        self.topics = topics if isinstance(topics, TopicTable) else TopicTable(topics)
        self.unregistered: dict[str, str] = {}
        """After the exit: server -> why unregistering failed there; "": it succeeded."""
        self._config = config
        self._addresses: NameServerAddresses | None = None
        self._writer: RedisWriter | None = None
        self._owns_writer = isinstance(redis, str)
        if transport not in get_args(Transport):
            raise ConfigError(f"transport is {transport!r}: expected 'wire' (name servers) or 'redis'")
        if transport == "redis":
            if redis is None or name_servers is not None:
                raise ConfigError("transport 'redis' takes redis=URL or a RedisWriter, and no name servers")
            self._writer = _writer(redis, namespace, create_namespace)
        else:
            if redis is not None or namespace != DEFAULT_NAMESPACE or create_namespace:
                raise ConfigError(
                    "redis, namespace or create_namespace is given, but the transport is 'wire': say transport='redis'"
                )
            self._addresses = (
                name_servers if isinstance(name_servers, NameServerAddresses) else NameServerAddresses(name_servers)
            )
        self._tls = tls
        self._pace = pace
        self.unregister = unregister
        """Whether leaving the ``async with`` unregisters the broker; a program may change it until then."""
        self._on_result = on_result
        self._payloads = PayloadBuilder(self.topics, config)
        self._loops: dict[str, tuple[RegistrationLoop, list[asyncio.Task[None]]]] = {}
        self._follower: asyncio.Task[None] | None = None
        self._results: dict[str, RegistrationResult] = {}
        self._unsubscribe: Callable[[], None] | None = None

    async def __aenter__(self) -> Self:
        if self._unsubscribe is not None:
            raise RuntimeError("this registrar runs already")
        self._unsubscribe = self.topics.subscribe(self._on_change)
        try:
            if self._writer is not None:
                self._add(RedisTarget(self._writer, self._current_config, owned=self._owns_writer))
            elif self._addresses is not None:
                with contextlib.suppress(PeerUnavailable):  # logged; the follower looks up again
                    await self._addresses.refresh()
                self._use(self._addresses.current)
                self._follower = asyncio.create_task(self._follow(self._addresses), name="registrar follows addresses")
            await self.register_now()
            if self._writer is not None and self._writer.namespace_error:
                raise ConfigError(self._writer.namespace_error)
        except BaseException:
            await self._leave(unregister=False)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._leave(unregister=self.unregister)

    @property
    def config(self) -> BrokerConfig:
        """The settings as they are now."""
        return self._config

    @property
    def results(self) -> Mapping[str, RegistrationResult]:
        """Server -> the result of the last registration. After a change, ``register_now`` waits for new results."""
        return dict(self._results)

    @property
    def master_addr(self) -> str:
        """The address of this slave's master, from the newest answer that has it; "" when no answer has it."""
        return next((answer.master_addr for answer in self._answers() if answer.master_addr), "")

    @property
    def ha_server_addr(self) -> str:
        """The address that this slave replicates from, in the newest answer that has it; "" when no answer has it."""
        return next((answer.ha_server_addr for answer in self._answers() if answer.ha_server_addr), "")

    @property
    def order_topic_config(self) -> dict[str, str]:
        """Topic -> order configuration, as the name servers have it."""
        merged: dict[str, str] = {}
        for answer in reversed(self._answers()):
            merged.update(answer.order_topic_config or {})
        return merged

    async def register_now(self) -> Mapping[str, RegistrationResult]:
        """Register the whole table at all servers; wait for all answers, or register_broker_timeout_ms.

        Returns:
            server -> the result there.
        """
        asked = [loop.ask() for loop, _ in self._loops.values()]
        if asked:
            await asyncio.wait(asked)
        return self.results

    def change(self, /, **fields: Any) -> None:
        """Use other settings from now on, e.g. ``broker_id=0`` for a slave that becomes the master, and register.

        Args:
            fields: those of :class:`BrokerConfig` that change.

        Raises:
            ConfigError: a value that no name server accepts, or a change of brokerName, brokerAddr or cluster.
            TypeError: BrokerConfig has no such field.
        """
        for name in _IDENTITY:
            if fields.get(name, getattr(self._config, name)) != getattr(self._config, name):
                raise ConfigError(f"{name} is what a broker is known by: leave this registrar and enter another")
        config = msgspec.structs.replace(self._config, **fields)
        if config.broker_permission != self._config.broker_permission:
            self.topics.advance()  # with the old version servers would ignore the new permissions
        self._config = config
        self._payloads.use(config)
        with self.topics.lock:
            self._on_change(None)

    def use_name_servers(self, name_servers: AddressSpec) -> None:
        """Register at the name servers of another list from now on.

        Raises:
            ConfigError: the argument is no list of addresses, or the transport is Redis.
        """
        if self._addresses is None:
            raise ConfigError("this registrar writes to Redis: it has no name servers")
        self._addresses.replace(name_servers)

    async def _follow(self, addresses: NameServerAddresses) -> None:
        while not cancelled():
            try:
                await addresses.follow(self._use)
            except Exception:  # a defect must not end the loop
                logger.exception("following the addresses of name servers")
                await pause(1.0)

    def _use(self, addresses: Iterable[NameServerAddress]) -> None:
        """Register at new name servers at once, and close the connections to removed name servers."""
        wanted = {str(address): address for address in addresses}
        for name in [name for name in self._loops if name not in wanted]:
            loop, tasks = self._loops.pop(name)
            self._results.pop(name, None)
            for task in tasks:
                task.cancel()
            loop.stop()
            loop.target.abort()
        for name, address in wanted.items():
            if name not in self._loops:
                self._add(NameServerTarget(address, self._current_config, tls=self._tls))

    def _current_config(self) -> BrokerConfig:
        return self._config

    def _add(self, target: RegistrationTarget) -> None:
        loop = RegistrationLoop(
            target, self._payloads, self._current_config, lambda: self._pace or Pace.of(self._config), self._take_result
        )
        tasks = [asyncio.create_task(loop.run(), name=f"registrar at {target.name}")]
        if self._config.enable_slave_acting_master:
            tasks.append(asyncio.create_task(loop.beat(), name=f"registrar beats at {target.name}"))
        self._loops[target.name] = (loop, tasks)

    def _on_change(self, names: frozenset[str] | None) -> None:
        """Register a change of the table; called in the thread that makes the change."""
        for loop, _ in list(self._loops.values()):
            loop.change(names)

    def _take_result(self, result: RegistrationResult) -> None:
        if result.server not in self._loops:
            return
        self._results[result.server] = result
        if self._addresses is not None and not any(result.ok for result in self._results.values()):
            self._addresses.look_again_soon()
        if result.status == "registered" and result.answer.order_topic_config is not None:
            self.topics.set_order_topics(self.order_topic_config, only_add=self._config.version >= VERSION_V5_0_0)
        if self._on_result is not None:
            self._on_result(result)

    def _answers(self) -> list[RegistrationAnswer]:
        """The answers to accepted registrations, the newest first."""
        newest = sorted(self._results.values(), key=lambda result: result.at, reverse=True)
        return [result.answer for result in newest if result.ok]

    async def _leave(self, *, unregister: bool) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        loops, self._loops = self._loops, {}
        try:
            tasks = [task for _, tasks in loops.values() for task in tasks]
            if self._follower is not None:
                tasks.append(self._follower)
            for task in tasks:
                task.cancel()
            for loop, _ in loops.values():
                loop.stop()
            if tasks:
                await asyncio.wait(tasks)
            await asyncio.gather(*(self._leave_target(loop.target, unregister) for loop, _ in loops.values()))
        finally:
            for loop, _ in loops.values():
                loop.target.abort()

    async def _leave_target(self, target: RegistrationTarget, unregister: bool) -> None:
        """Unregister, if the server may know the broker, and close the connection."""
        if unregister and target.generation > 0:
            error = ""
            timeout_s = self._config.unregister_timeout_ms / 1000
            try:
                async with asyncio.timeout(timeout_s):
                    await target.open()
                    await target.unregister()
            except RegistrationRefused as refused:
                error = f"{target.name}: {refused}"
            except TimeoutError:
                error = f"{target.name}: no answer within {timeout_s:g} s"
            except RegistryError as failed:
                error = str(failed)
            if error:
                logger.warning("%s could not be unregistered: %s", self._config.broker_name, error)
            self.unregistered[target.name] = error
        with contextlib.suppress(RegistryError):
            await target.close()


def _writer(redis: str | RedisWriter, namespace: str, create_namespace: bool) -> RedisWriter:
    if not isinstance(redis, RedisWriter):
        return RedisWriter(redis, namespace, create_namespace=create_namespace)
    if namespace not in (DEFAULT_NAMESPACE, redis.namespace) or create_namespace:
        raise ConfigError(
            f"namespace {namespace!r} and create_namespace={create_namespace} go with a URL: this RedisWriter has "
            f"namespace {redis.namespace!r}"
        )
    return redis
