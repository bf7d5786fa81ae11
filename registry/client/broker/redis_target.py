"""Registers a broker by running the registry's scripts on Redis itself, without a name server.

It does what a front end does, with the same scripts: the script heartbeat finds out whether the registration is new. A
new registration is compared with Redis, and the difference is written unless Redis has changed in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import xxhash

from ...errors import StoreUnavailable
from ...model import DEFAULT_HEARTBEAT_TIMEOUT_MS, DataVersion, Registration
from ...protocol.bodies.register_content import RegisterBody
from ...protocol.codes import VERSION_V5_0_0, ResponseCode
from ...store.read_broker import BrokerView, read_broker
from ...store.route_writes import HeartbeatReply, Registered
from ...tables.registration import compare
from .config import BrokerConfig
from .payload import RegistrationPayload
from .redis_writer import RedisWriter
from .target import RegistrationAnswer, RegistrationRefused

# How often comparing and writing are repeated, when another writer changes the brokerName in between.
_ATTEMPTS: Final = 10


class RedisTarget:
    """Registers one broker in Redis, under the lease of a writer.

    Args:
        writer: holds the lease.
        config: returns the broker's settings; called for each registration.
        owned: only this target uses the writer, and closes it.
    """

    def __init__(self, writer: RedisWriter, config: Callable[[], BrokerConfig], *, owned: bool) -> None:
        self.name = writer.name
        self.on_lost: Callable[[], None] = lambda: None
        self._writer = writer
        self._channel = writer.new_channel()
        self._config = config
        self._owned = owned
        self._registered = ""  # the who (Behaviour.who) that registered over the channel; "": none
        # the last payload as registrations with their digests: the next period mostly sends the same payload
        self._prepared: tuple[RegistrationPayload, list[tuple[Registration, str]]] | None = None

    @property
    def generation(self) -> int:
        """Grows with each loss of the lease: then Redis may have lost the registration."""
        return self._writer.generation

    async def open(self) -> None:
        """Make the writer take its lease, unless it has it already."""
        await self._writer.open()
        self._writer.enter(self)

    async def register(self, payload: RegistrationPayload) -> RegistrationAnswer:
        """Register each body of the payload, as a front end does for a request 103; returns the last answer."""
        if self._prepared is None or self._prepared[0] is not payload:
            registrations = [_registration(self._config(), body) for body in payload.bodies]
            encoded = map(msgspec.json.encode, registrations)
            digests = [xxhash.xxh3_128_hexdigest(b"direct" + text) for text in encoded]
            self._prepared = payload, list(zip(registrations, digests, strict=True))
        answer = RegistrationAnswer()
        for registration, digest in self._prepared[1]:
            answer = await self._register(registration, digest)
        return answer

    async def _register(self, r: Registration, digest: str) -> RegistrationAnswer:
        behaviour = self._writer.routes.behaviour
        r, self._registered = behaviour.seen(r), behaviour.who(r.cluster, r.broker_addr)
        beat = await self._writer.routes.heartbeat(
            r.cluster, r.broker_name, r.broker_id, r.broker_addr, digest, self._channel
        )
        if beat.same:
            view = await read_broker(self._writer.store, r.broker_name)
            return RegistrationAnswer(beat.master_addr, beat.ha_server_addr or "", view.order_topic_config)
        for _ in range(_ATTEMPTS):
            view, result = await self._write(r, digest, beat)
            if result.status == "REFUSED_ONE_TOPIC":
                raise RegistrationRefused(ResponseCode.SYSTEM_ERROR, "one topic before the first full registration")
            if result.status == "REFUSED_STATE":
                raise RegistrationRefused(
                    ResponseCode.SYSTEM_ERROR, f"another address holds id {r.broker_id} with a higher stateVersion"
                )
            if result.compare_with is None:
                return RegistrationAnswer(result.master_addr, result.ha_server_addr or "", view.order_topic_config)
            beat = result.compare_with
        raise StoreUnavailable(f"others keep changing {r.broker_name}")

    async def _write(self, r: Registration, digest: str, beat: HeartbeatReply) -> tuple[BrokerView, Registered]:
        """Compare with the tables in Redis, and write the difference unless Redis changes in between."""
        mappings = [(topic, mapped_name) for topic, (mapped_name, _) in r.mappings.items()]
        view = await read_broker(self._writer.store, r.broker_name, list(r.topics), mappings)
        behaviour, key = self._writer.routes.behaviour, "deleteTopicWithBrokerRegistration"
        drops = view.config.get(key, "").lower() == "true" and key not in behaviour.ignored_settings
        if drops:
            view = await read_broker(self._writer.store, r.broker_name, list(r.topics), mappings, all_topics=True)
        diff = compare(
            r,
            beat.data_version,
            view.tables,
            epoch=view.epoch,
            n=beat.n,
            delete_missing_topics=drops,
            stay_deleted=() if behaviour.restores_deleted_topics or beat.is_new_body else None,
            is_new_body=beat.is_new_body,
        )
        timeout_ms = view.config.get("brokerChannelExpiredTimeMs", "")
        result = await self._writer.routes.register_broker(
            r, diff, digest=digest, channel=self._channel,
            default_timeout_ms=int(timeout_ms) if timeout_ms.isdecimal() else DEFAULT_HEARTBEAT_TIMEOUT_MS,
        )  # fmt: skip
        return view, result

    async def is_changed(self, version: DataVersion) -> bool:
        """Whether Redis has another version of the broker; like request 322, this call counts as a heartbeat."""
        return await self._touch() != self._writer.routes.behaviour.seen_version(version)

    async def heartbeat(self, version: DataVersion) -> None:
        """Store a heartbeat of the broker, as request 904 does."""
        await self._touch()

    async def _touch(self) -> DataVersion | None:
        config = self._config()
        touched = await self._writer.routes.touch_broker(config.cluster_name, config.broker_addr, self._channel)
        return touched.data_version

    async def unregister(self) -> None:
        """Remove the broker, as request 104 does."""
        config = self._config()
        await self._writer.routes.unregister_broker(
            config.cluster_name, config.broker_addr, config.broker_name, config.broker_id
        )
        self._registered = ""

    def reset(self) -> None:
        """Do nothing: redis-py replaces its connections by itself."""

    async def close(self) -> None:
        """Close the broker's channel, and the writer if it is ``owned``."""
        if self._leave():
            await self._writer.close()

    def abort(self) -> None:
        """As ``close``, without waiting."""
        if self._leave():
            self._writer.abort()

    def _leave(self) -> bool:
        """Give up the channel; returns whether to close the writer."""
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
