"""Registration without a name server: a broker's process runs the registry's scripts on Redis itself.

It does what a front end does for a broker, with the same scripts: the heartbeat that asks whether anything is new,
the comparison, the write that only counts if nothing moved in between. And it holds a lease as a front end's worker
does: when the process dies, its brokers are gone within the lease time, as if a connection had been closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import secrets
import time
from collections.abc import Callable
from typing import Final

import msgspec
import xxhash

from registry.client.broker.config import BrokerConfig
from registry.client.broker.server import Answer, Refused
from registry.client.broker.update import Update
from registry.errors import RegistryError, StoreUnavailable
from registry.model import DEFAULT_HEARTBEAT_TIMEOUT_MS, DataVersion, Registration
from registry.protocol.codes import VERSION_V5_0_0, ResponseCode
from registry.protocol.register_body import RegisterBody
from registry.registration import compare
from registry.store.address import without_password
from registry.store.brokers import BrokerView, read_broker
from registry.store.leases import DIRECT, LEASE_MS, RENEW_EVERY_S, LeaseStore
from registry.store.routes import Channel, Registered, RegistrationDiff, RouteStore
from registry.store.store import Store
from registry.tasks import cancelled, pause

logger = logging.getLogger(__name__)

# Somebody else changed the brokerName between comparing and writing, this many times in a row.
_ATTEMPTS: Final = 10
_GOODBYE_S: Final = 3.0
_tasks: set[asyncio.Task[None]] = set()


class RedisWriter:
    """A process that writes to Redis itself: one lease, for all its registrars.

    Args:
        url: as ``--redis`` takes it. namespace, compat: of the registry, as its front ends have them.
        timeout_ms: of one call.
        lease_ms: for tests.

    Raises:
        ConfigError: the URL cannot be read.
    """

    def __init__(
        self, url: str, namespace: str = "default", *, compat: str = "5.x", timeout_ms: int = 2000,
        lease_ms: int = LEASE_MS,
    ) -> None:  # fmt: skip
        self._store = Store(url, namespace, timeout_ms=timeout_ms, compat=compat)
        # The lease must not wait behind a thousand registrations for a connection.
        self._lease_store = Store(url, namespace, timeout_ms=timeout_ms, compat=compat, max_connections=2)
        self._leases = LeaseStore(self._lease_store)
        self._lease_ms = lease_ms
        self.store = self._store
        self.routes = RouteStore(self._store)
        self.name = f"{without_password(url)} namespace {namespace}"
        self.generation = 0
        self.incarnation = secrets.token_hex(8)
        self._channels = itertools.count(1)
        self._places: set[RedisServer] = set()
        self._gone: set[tuple[str, Channel]] = set()  # brokers whose channel closed, as Redis is to hear
        self._stands_at: tuple[str, int] = ("", 0)
        self._opening = asyncio.Lock()
        self._keeper: asyncio.Task[None] | None = None
        self._end: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Check the Redis, take the lease and keep it; nothing if that is done.

        Raises:
            StoreUnavailable, StoreError: it cannot be used; try again.
        """
        async with self._opening:
            if self._end is not None:
                raise StoreUnavailable(f"{self.name}: this writer was closed")
            if self._keeper is None:
                await self._store.connect()
                await self._renew()
                self._keeper = asyncio.create_task(self._keep(), name="registrar keeps its lease")

    def new_channel(self) -> Channel:
        """What stands for a connection: each place has its own, so that a late close meets no newer one."""
        opened_ms = int(time.time() * 1000)
        return Channel(f"{DIRECT}{self.incarnation}", f"{self.incarnation}/{next(self._channels)}@{opened_ms}")

    def enter(self, place: RedisServer) -> None:
        """Tell ``place`` when the lease was lost."""
        self._places.add(place)

    def leave(self, place: RedisServer, broker: str, channel: Channel) -> None:
        """``place`` ends, and with it the broker's channel, if it has one: Redis is told with the next renewal."""
        self._places.discard(place)
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
            except Exception:
                logger.exception("renewing the lease of this process")
            await pause(max(0.05, RENEW_EVERY_S - (time.monotonic() - began)))

    async def _renew(self) -> None:
        """Also notices when what was registered may be gone: the lease ran out, or Redis came back with less."""
        renewal = await self._leases.renew(self.incarnation, self._lease_ms)
        before, self._stands_at = self._stands_at, (renewal.epoch, renewal.seq)
        if renewal.lost or before[0] != renewal.epoch or renewal.seq < before[1]:
            self.generation += 1
            for place in list(self._places):
                place.on_lost()

    async def _tell_gone(self) -> None:
        while self._gone:
            closed = next(iter(self._gone))
            await self.routes.channel_destroyed(*closed)
            self._gone.discard(closed)

    async def close(self) -> None:
        """Give the lease up; brokers that did not say goodbye are taken for gone. It is not open any more, for good.

        Who is cancelled meanwhile does not stop it: it goes on by itself, for a few seconds at most.
        """
        await asyncio.shield(self.abort())

    def abort(self) -> asyncio.Task[None]:
        """The same behind the caller's back."""
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
                    async with asyncio.timeout(_GOODBYE_S):
                        await self._tell_gone()
                        await self._leases.release(self.incarnation)
        finally:
            try:
                await self._store.close()
            finally:
                await self._lease_store.close()

    async def __aenter__(self) -> RedisWriter:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class RedisServer:
    """Redis, as one broker's place to register at.

    Args:
        writer: whose lease it is; ``owned``: it has no other user, and ends with this.
        config: asked anew for each registration.
    """

    def __init__(self, writer: RedisWriter, config: Callable[[], BrokerConfig], *, owned: bool) -> None:
        self.name = writer.name
        self.on_lost: Callable[[], None] = lambda: None
        self._writer = writer
        self._channel = writer.new_channel()
        self._config = config
        self._owned = owned
        self._registered = ""  # who has a channel here
        self._prepared: tuple[Update, list[tuple[Registration, str]]] | None = None

    @property
    def generation(self) -> int:
        """The writer's: it grows when the lease was lost."""
        return self._writer.generation

    async def open(self) -> None:
        """The writer's lease."""
        await self._writer.open()
        self._writer.enter(self)

    async def register(self, update: Update) -> Answer:
        """What a front end does for a 103 with this update."""
        answer = Answer()
        for registration, digest in self._prepare(update):
            answer = await self._register(registration, digest)
        return answer

    def _prepare(self, update: Update) -> list[tuple[Registration, str]]:
        """The update as registrations with their digests; the last one is kept, as it mostly comes again."""
        if self._prepared is None or self._prepared[0] is not update:
            registrations = [_registration(self._config(), body) for body in update.bodies]
            encoded = map(msgspec.json.encode, registrations)
            digests = [xxhash.xxh3_128_hexdigest(b"direct" + text) for text in encoded]
            self._prepared = update, list(zip(registrations, digests, strict=True))
        return self._prepared[1]

    async def _register(self, r: Registration, digest: str) -> Answer:
        behaviour = self._writer.routes.behaviour
        r, self._registered = behaviour.seen(r), behaviour.who(r.cluster, r.broker_addr)
        beat = await self._writer.routes.heartbeat(
            r.cluster, r.broker_name, r.broker_id, r.broker_addr, digest, self._channel
        )
        if beat.same:
            view = await read_broker(self._writer.store, r.broker_name)
            return Answer(beat.master_addr, beat.ha_server_addr, view.order_topic_config)
        n, known = beat.n, beat.data_version
        for _ in range(_ATTEMPTS):
            view, result = await self._write(r, digest, n, known)
            if result.status == "REFUSED_ONE_TOPIC":
                raise Refused(ResponseCode.SYSTEM_ERROR, "one topic before the first full registration")
            if result.status == "REFUSED_STATE":
                raise Refused(
                    ResponseCode.SYSTEM_ERROR, f"another address holds id {r.broker_id} with a higher stateVersion"
                )
            if result.status != "RETRY":
                return Answer(result.master_addr, result.ha_server_addr, view.order_topic_config)
            n, known = result.n, result.data_version
        raise StoreUnavailable(f"{r.broker_name} is being changed from elsewhere all the time")

    async def _write(
        self, r: Registration, digest: str, n: str, known: DataVersion | None
    ) -> tuple[BrokerView, Registered]:
        """Compare with what Redis has now, and write the difference if it still has that."""
        mappings = [(topic, mapped_name) for topic, (mapped_name, _) in r.mappings.items()]
        view = await read_broker(self._writer.store, r.broker_name, list(r.topics), mappings)
        behaviour, key = self._writer.routes.behaviour, "deleteTopicWithBrokerRegistration"
        drops = view.config.get(key, "").lower() == "true" and key not in behaviour.ignored_settings
        if drops:
            view = await read_broker(self._writer.store, r.broker_name, list(r.topics), mappings, all_topics=True)
        changes = compare(
            r,
            known,
            view.tables,
            delete_missing_topics=drops,
            restore_missing_topics=behaviour.restores_deleted_topics,
        )
        diff = RegistrationDiff(view.epoch, view.row.rev if view.row else 0, n, view.config_rev, *changes)
        timeout_ms = view.config.get("brokerChannelExpiredTimeMs", "")
        result = await self._writer.routes.register_broker(
            r, diff, digest=digest, channel=self._channel,
            default_timeout_ms=int(timeout_ms) if timeout_ms.isdecimal() else DEFAULT_HEARTBEAT_TIMEOUT_MS,
        )  # fmt: skip
        return view, result

    async def is_changed(self, version: DataVersion) -> bool:
        """322."""
        return await self._touch() != self._writer.routes.behaviour.seen_version(version)

    async def heartbeat(self, version: DataVersion) -> None:
        """904."""
        await self._touch()

    async def _touch(self) -> DataVersion | None:
        config = self._config()
        touched = await self._writer.routes.touch_broker(
            config.cluster_name, config.broker_addr, self._channel
        )  # fmt: skip
        return touched.data_version

    async def unregister(self) -> None:
        """104."""
        config = self._config()
        await self._writer.routes.unregister_broker(
            config.cluster_name, config.broker_addr, config.broker_name, config.broker_id
        )
        self._registered = ""

    def reset(self) -> None:
        """Nothing: redis-py connects anew by itself."""

    async def close(self) -> None:
        """The broker's channel is closed; the lease too, if it has no other user."""
        if self._leave():
            await self._writer.close()

    def abort(self) -> None:
        """The same without waiting."""
        if self._leave():
            self._writer.abort()

    def _leave(self) -> bool:
        """Let go of the channel; whether the writer is to be ended with it."""
        broker, self._registered = self._registered, ""
        self._writer.leave(self, broker, self._channel)
        ends, self._owned = self._owned, False
        return ends


def _registration(config: BrokerConfig, body: RegisterBody) -> Registration:
    return Registration(
        cluster=config.cluster_name,
        broker_name=config.broker_name,
        broker_id=config.broker_id,
        broker_addr=config.broker_addr,
        ha_server_addr=config.ha_server_addr,
        zone_name=config.zone_name,
        enable_acting_master=config.enable_slave_acting_master if config.version >= VERSION_V5_0_0 else None,
        heartbeat_timeout_ms=config.heartbeat_timeout_ms,
        data_version=body.data_version,
        topics=body.topics,
        mappings=body.stored_mappings(config.broker_name),
        filter_servers=body.filter_servers,
    )
