"""Registers a broker at one name server, ours or Java's, by RocketMQ's requests."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import Final

from ...errors import LocalProtocolError, PeerUnavailable, RemoteProtocolError
from ...model import DataVersion
from ...protocol import headers
from ...protocol.bodies.crc32 import body_crc32
from ...protocol.bodies.tables import decode_kv_table
from ...protocol.bodies.wire_json import encode_data_version
from ...protocol.codes import VERSION_V5_0_0, RequestCode, ResponseCode
from ...protocol.command import Command
from ...protocol.frame import MAX_FRAME_BYTES
from ..addresses import NameServerAddress
from ..connection import PeerConnection
from .config import BrokerConfig
from .payload import RegistrationPayload
from .target import RegistrationAnswer, RegistrationRefused

# The rest of the frame is more than enough for the header.
_MOST_BODY_BYTES: Final = MAX_FRAME_BYTES - 64 * 1024


class NameServerTarget:
    """Registers one broker at one name server, over a connection of its own.

    Brokers cannot share a connection: when a connection closes, the name server removes the broker that it knows it by.

    Args:
        address: of the name server.
        config: returns the broker's settings; called for each request.
        tls: speak TLS, with this context.
    Source of the behaviour: BrokerOuterAPI (rocketmq 4.8 to 5.x).
    """

    def __init__(
        self, address: NameServerAddress, config: Callable[[], BrokerConfig], *, tls: ssl.SSLContext | None = None
    ) -> None:
        self.name = str(address)
        self.generation = 0
        """Grows with each new connection: then the server may have lost the registration."""
        self.on_lost: Callable[[], None] = lambda: None
        self._address = address
        self._config = config
        self._tls = tls
        self._connection: PeerConnection | None = None
        self._watcher: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect, unless there is a usable connection."""
        if self._connection is not None and self._connection.is_usable:
            return
        config = self._config()
        self._connection = await PeerConnection.connect(
            self._address.host, self._address.port, timeout_s=config.register_broker_timeout_ms / 1000, tls=self._tls,
            server_hostname=self._address.name, encoding=config.encoding,
        )  # fmt: skip
        self.generation += 1
        self._watcher = asyncio.create_task(self._watch(self._connection), name=f"registrar watches {self.name}")

    async def _watch(self, connection: PeerConnection) -> None:
        await connection.wait_closed()
        if connection is self._connection:
            self.on_lost()

    async def register(self, payload: RegistrationPayload) -> RegistrationAnswer | None:
        """Send a request 103 for each body of the payload; returns the last answer, None when ``oneway``."""
        config = self._config()
        answer: RegistrationAnswer | None = None
        for body in payload.encoded():
            if len(body) > _MOST_BODY_BYTES:
                raise LocalProtocolError(
                    f"{self.name}: a registration of {len(body)} bytes is more than name servers take in one frame "
                    f"({MAX_FRAME_BYTES}): set enable_split_registration"
                )
            header = headers.RegisterBroker(
                broker_name=config.broker_name,
                broker_addr=config.broker_addr,
                cluster_name=config.cluster_name,
                ha_server_addr=config.ha_server_addr,
                broker_id=config.broker_id,
                heartbeat_timeout_millis=config.heartbeat_timeout_ms,
                enable_acting_master=config.enable_slave_acting_master if config.version >= VERSION_V5_0_0 else None,
                compressed=config.compressed_register,
                body_crc32=body_crc32(body),
                zone_name=config.zone_name,
            )
            ext_fields = header.to_ext_fields()
            if config.oneway:
                await self._open_connection().oneway(
                    RequestCode.REGISTER_BROKER, ext_fields, body, version=config.version
                )
                continue
            response = await self._request(RequestCode.REGISTER_BROKER, ext_fields, body)
            answer = _answer(response)
        return answer

    async def is_changed(self, version: DataVersion) -> bool:
        """Ask by request 322 whether a registration is needed; also true if the server answers with an error."""
        response = await self._request(
            RequestCode.QUERY_DATA_VERSION, self._identity().to_ext_fields(), self._version_body(version)
        )
        reply = headers.QueryDataVersionReply.from_ext_fields(response.ext_fields)
        return response.code != ResponseCode.SUCCESS or reply.changed is not False

    async def heartbeat(self, version: DataVersion) -> None:
        """Send request 904 oneway; with compatible_with_old_name_srv send 322, for servers that do not know 904."""
        config, connection = self._config(), self._connection
        if connection is None or not connection.is_usable:
            return
        if config.compatible_with_old_name_srv:
            code, header, body = RequestCode.QUERY_DATA_VERSION, self._identity(), self._version_body(version)
            await connection.oneway(code, header.to_ext_fields(), body, version=config.version)
            return
        beat = headers.BrokerHeartbeat(config.cluster_name, config.broker_addr, config.broker_name)
        await connection.oneway(RequestCode.BROKER_HEARTBEAT, beat.to_ext_fields(), version=config.version)

    async def unregister(self) -> None:
        """Send request 104 for this broker."""
        config = self._config()
        header = headers.UnregisterBroker(config.broker_name, config.broker_addr, config.cluster_name, config.broker_id)
        response = await self._request(RequestCode.UNREGISTER_BROKER, header.to_ext_fields())
        if response.code != ResponseCode.SUCCESS:
            raise RegistrationRefused(response.code, response.remark or "")

    def reset(self) -> None:
        """Close the connection; the next ``open`` makes another."""
        self.abort()

    async def close(self) -> None:
        """Close the connection when all requests are written to it."""
        connection = self._forget()
        if connection is not None:
            await connection.close()

    def abort(self) -> None:
        """Close the connection without waiting."""
        connection = self._forget()
        if connection is not None:
            connection.abort()

    def _forget(self) -> PeerConnection | None:
        connection, self._connection = self._connection, None
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None
        return connection

    def _open_connection(self) -> PeerConnection:
        if self._connection is None:
            raise PeerUnavailable(f"{self.name}: not connected")
        return self._connection

    async def _request(self, code: int, ext_fields: dict[str, str], body: bytes = b"") -> Command:
        config = self._config()
        return await self._open_connection().request(
            code, ext_fields, body, timeout_s=config.register_broker_timeout_ms / 1000, version=config.version
        )

    def _identity(self) -> headers.QueryDataVersion:
        config = self._config()
        return headers.QueryDataVersion(config.broker_name, config.broker_addr, config.cluster_name, config.broker_id)

    def _version_body(self, version: DataVersion) -> bytes:
        return encode_data_version(version, state_version=self._config().version >= VERSION_V5_0_0)


def _answer(response: Command) -> RegistrationAnswer:
    if response.code != ResponseCode.SUCCESS:
        raise RegistrationRefused(response.code, response.remark or "")
    reply = headers.RegisterBrokerReply.from_ext_fields(response.ext_fields)
    order_topic_config = None
    if response.body:
        # The broker is registered even if the order configuration cannot be read.
        with contextlib.suppress(RemoteProtocolError):
            order_topic_config = decode_kv_table(response.body)
    return RegistrationAnswer(reply.master_addr or "", reply.ha_server_addr or "", order_topic_config)
