"""Simulates broker processes and an administrator, over real connections."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final, NamedTuple

from ..client.addresses import NameServerAddress
from ..client.connection import PeerConnection
from ..client.questions import ask_clusters
from ..client.reconnecting import ReconnectingConnection
from ..errors import RegistryError
from ..model import DataVersion, QueueData
from ..protocol import headers
from ..protocol.bodies.crc32 import body_crc32
from ..protocol.bodies.register import encode_register_body
from ..protocol.bodies.register_content import RegisterBody
from ..protocol.bodies.wire_json import encode_data_version
from ..protocol.codes import VERSION_V4_8_0, VERSION_V5_5_0, RequestCode, ResponseCode, with_name
from ..protocol.command import Command
from .day import Member, Op, OpKind

REQUEST_TIMEOUT_S: Final = 10.0
_EFFECT_WITHIN_S: Final = 15.0
_SUCCESS: Final = with_name(ResponseCode.SUCCESS, ResponseCode)


class SimulatedServer(NamedTuple):
    """A name server; ``tls``: the context for connections with TLS."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None


class NotAsPlanned(RegistryError):
    """A name server's answer differs from the plan, or it did not apply a change in time."""


def _expect_success(answer: Command, asked: str) -> None:
    if answer.code != ResponseCode.SUCCESS:
        answered = with_name(answer.code, ResponseCode)
        raise NotAsPlanned(f"{asked}: the answer is code {answered}: {answer.remark}; expected {_SUCCESS}")


class Table:
    """The topics of one brokerName and their data version (timestamp in ms): what its processes register."""

    def __init__(self, topics: dict[str, tuple[int, int, int]], timestamp: int) -> None:
        self.topics = dict(topics)  # topic -> read queues, write queues, permission
        self.version = DataVersion(1, timestamp, 0)

    def change(self, op: Op) -> None:
        """Set or drop a topic (PUT_TOPIC, DROP_TOPIC), and give the table its next data version."""
        if op.kind is OpKind.PUT_TOPIC:
            assert op.queues is not None
            self.topics[op.topic] = op.queues
        else:
            del self.topics[op.topic]
        self.version = DataVersion(self.version.counter + 1, self.version.timestamp, 0)

    def body(self, version: int) -> bytes:
        """The body of a registration; ``version``: the number that the protocol has for the broker's release."""
        topics = {name: QueueData(*queues) for name, queues in self.topics.items()}
        return encode_register_body(RegisterBody(self.version, topics), version=version)


class BrokerProcess:
    """One broker process: a connection to each name server, registrations and heartbeats.

    The caller awaits each method before it calls the next.
    """

    def __init__(self, member: Member, table: Table, servers: list[SimulatedServer]) -> None:
        self.member = member
        self._table = table
        self._servers = servers
        self._connections: dict[int, PeerConnection] = {}
        self._release = VERSION_V5_5_0 if member.acting else VERSION_V4_8_0
        self._header: dict[str, str] = {}
        self._body = b""
        self._version = b""
        self.is_registered = False

    async def start(self) -> None:
        """Connect to all name servers and register there."""
        self.abort()
        await asyncio.gather(*(self._connect(server) for server in range(len(self._servers))))
        await self.register()
        self.is_registered = True

    async def register(self) -> None:
        """Register the table as it is now, at all name servers at the same time."""
        member = self.member
        self._body = self._table.body(self._release)
        self._version = encode_data_version(self._table.version, state_version=member.acting)
        host, _, port = member.addr.rpartition(":")
        self._header = headers.RegisterBroker(
            broker_name=member.broker,
            broker_addr=member.addr,
            cluster_name=member.cluster,
            ha_server_addr=f"{host}:{int(port) + 1}",
            broker_id=member.id,
            heartbeat_timeout_millis=member.timeout_ms,
            enable_acting_master=True if member.acting else None,
            body_crc32=body_crc32(self._body),
        ).to_ext_fields()
        await self.beat(OpKind.BEAT)

    async def beat(self, kind: OpKind) -> None:
        """Send one sign of life to all name servers, which must accept it and know the same table.

        BEAT repeats the registration (103), ASK compares data versions (322), TOUCH is a heartbeat (904). Real brokers
        send 904 one-way; this one waits for the answer.
        """
        member = self.member
        if kind is OpKind.BEAT:
            await self._everywhere(RequestCode.REGISTER_BROKER, self._header, self._body)
        elif kind is OpKind.ASK:
            ask = headers.QueryDataVersion(member.broker, member.addr, member.cluster, member.id)
            for answer in await self._everywhere(RequestCode.QUERY_DATA_VERSION, ask.to_ext_fields(), self._version):
                if headers.QueryDataVersionReply.from_ext_fields(answer.ext_fields).changed is not False:
                    raise NotAsPlanned(f"{self.name}: 322 says that the table has changed")
        else:
            touch = headers.BrokerHeartbeat(member.cluster, member.addr, member.broker)
            await self._everywhere(RequestCode.BROKER_HEARTBEAT, touch.to_ext_fields())

    async def leave(self) -> None:
        """Unregister (104) at all name servers and close the connections."""
        member = self.member
        header = headers.UnregisterBroker(member.broker, member.addr, member.cluster, member.id)
        try:
            await self._everywhere(RequestCode.UNREGISTER_BROKER, header.to_ext_fields())
        finally:
            self.is_registered = False
            await self.close()

    async def close(self) -> None:
        """Close the connections to all name servers."""
        self.is_registered = False
        connections, self._connections = self._connections, {}
        await asyncio.gather(*(connection.close() for connection in connections.values()))

    async def unlink(self, server: int) -> None:
        """Close the connection to one name server."""
        connection = self._connections.pop(server, None)
        if connection is not None:
            await connection.close()

    async def relink(self, server: int) -> None:
        """Connect to one name server again and register there."""
        await self._connect(server)
        await self._ask(server, RequestCode.REGISTER_BROKER, self._header, self._body)

    def abort(self) -> None:
        """Close all connections without waiting."""
        for connection in self._connections.values():
            connection.abort()
        self._connections.clear()

    @property
    def name(self) -> str:
        """BrokerName and id, for messages."""
        return f"{self.member.broker}/{self.member.id}"

    async def _connect(self, server: int) -> None:
        host, port, tls = SimulatedServer(*self._servers[server])
        self._connections[server] = await PeerConnection.connect(host, port, tls=tls, timeout_s=REQUEST_TIMEOUT_S)

    async def _everywhere(self, code: int, ext_fields: dict[str, str], body: bytes = b"") -> list[Command]:
        return await asyncio.gather(*(self._ask(server, code, ext_fields, body) for server in list(self._connections)))

    async def _ask(self, server: int, code: int, ext_fields: dict[str, str], body: bytes = b"") -> Command:
        connection = self._connections[server]
        if connection.is_closed:  # not planned: connect again as a broker does, and report the close once
            await self._connect(server)
            await self._ask(server, RequestCode.REGISTER_BROKER, self._header, self._body)
            raise NotAsPlanned(f"{self.name}: {connection.peer} had closed its connection")
        answer = await connection.request(code, ext_fields, body, timeout_s=REQUEST_TIMEOUT_S, version=self._release)
        _expect_success(answer, f"{self.name}: request {with_name(code, RequestCode)} at {connection.peer}")
        return answer


def reconnecting(server: SimulatedServer) -> ReconnectingConnection:
    """A connection that is made when it is needed, and made again if the server has closed it as idle."""
    host, port, tls = SimulatedServer(*server)
    return ReconnectingConnection(NameServerAddress(host, port, ""), connect_timeout_s=REQUEST_TIMEOUT_S, tls=tls)


class Administrator:
    """Reads the tables of all name servers and makes the administrator's requests, over connections of its own."""

    def __init__(self, servers: list[SimulatedServer]) -> None:
        self._connections = [reconnecting(server) for server in servers]

    async def open(self) -> None:
        """Connect to all name servers, or raise PeerUnavailable."""
        for connection in self._connections:
            await connection.connected(now=True)

    async def close(self) -> None:
        """Close the connections to all name servers."""
        await asyncio.gather(*(connection.close() for connection in self._connections))

    async def administer(self, code: int, ext_fields: dict[str, str]) -> None:
        """Make one request at each name server in turn, as mqadmin does; NotAsPlanned: the answer is not code 0."""
        for kept in self._connections:
            connection = await kept.connected(now=True)
            answer = await connection.request(code, ext_fields, timeout_s=REQUEST_TIMEOUT_S)
            _expect_success(answer, f"request {with_name(code, RequestCode)} {ext_fields} at {connection.peer}")

    async def until_gone(self, member: Member) -> None:
        """Wait until no name server shows the process; NotAsPlanned: one still shows it after 15 seconds."""
        for kept in self._connections:
            connection = await kept.connected(now=True)
            try:
                async with asyncio.timeout(_EFFECT_WITHIN_S):
                    while await self._shows(connection, member):  # noqa: ASYNC110 - there is no event to wait for
                        await asyncio.sleep(0.01)
            except TimeoutError:
                raise NotAsPlanned(
                    f"{member.broker}/{member.id} is still at {connection.peer} {_EFFECT_WITHIN_S:g} s after it went"
                ) from None

    async def _shows(self, connection: PeerConnection, member: Member) -> bool:
        row = (await ask_clusters(connection, timeout_s=REQUEST_TIMEOUT_S))[0].get(member.broker)
        return row is not None and row.broker_addrs.get(member.id) == member.addr
