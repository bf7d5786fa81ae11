"""One broker process on the wire, as name servers see it: a connection to each, registrations and heartbeats."""

from __future__ import annotations

import asyncio
from typing import Final

from pipeline.simulate.shape import Kind, Member
from registry.client.connection import Connection
from registry.errors import PeerUnavailable, RegistryError
from registry.model import DataVersion, TopicConfig
from registry.protocol import headers
from registry.protocol.bodies import (
    RegisterBody,
    body_crc32,
    decode_cluster_info,
    encode_data_version,
    encode_register_body,
)
from registry.protocol.codes import VERSION_V4_8_0, VERSION_V5_5_0, RequestCode, ResponseCode
from registry.protocol.command import Command

REQUEST_TIMEOUT_S: Final = 10.0

Server = tuple[str, int]
"""Host and port of a name server."""


class NotAsPlanned(RegistryError):
    """A name server answered something else than the plan says, or the tables did not follow."""


def expect_success(answer: Command, asked: str) -> None:
    """Raise NotAsPlanned unless it is code 0."""
    if answer.code != ResponseCode.SUCCESS:
        raise NotAsPlanned(f"{asked}: answer {answer.code} ({answer.remark}), expected 0")


class Table:
    """The topics of one brokerName, and their version: what its processes register."""

    def __init__(self, topics: dict[str, tuple[int, int, int]], timestamp: int) -> None:
        self.topics = dict(topics)
        self.version = DataVersion(1, timestamp, 0)

    def changed(self) -> None:
        """The next registration says so."""
        self.version = DataVersion(self.version.counter + 1, self.version.timestamp, 0)

    def body(self, version: int) -> bytes:
        """As a broker of this release sends it."""
        topics = {name: TopicConfig(name, *queues) for name, queues in self.topics.items()}
        return encode_register_body(RegisterBody(self.version, topics), version=version)


class Process:
    """A broker process; what it says is one request at a time, as its caller sees to."""

    def __init__(self, member: Member, table: Table, servers: list[Server]) -> None:
        self.member = member
        self._table = table
        self._servers = servers
        self._connections: dict[int, Connection] = {}
        self._release = VERSION_V5_5_0 if member.acting else VERSION_V4_8_0
        self._header: dict[str, str] = {}
        self._body = b""
        self._version = b""
        self.is_registered = False

    async def start(self) -> None:
        """Connect and register everywhere."""
        self.abort()
        await asyncio.gather(*(self._connect(server) for server in range(len(self._servers))))
        await self.register()
        self.is_registered = True

    async def register(self) -> None:
        """With the table as it is now, at all servers at the same time."""
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
        await self.beat(Kind.BEAT)

    async def beat(self, kind: Kind) -> None:
        """The same registration once more, or 322, or 904 (which is asked for an answer here: brokers want none)."""
        member = self.member
        if kind is Kind.BEAT:
            await self._everywhere(RequestCode.REGISTER_BROKER, self._header, self._body)
        elif kind is Kind.ASK:
            ask = headers.QueryDataVersion(member.broker, member.addr, member.cluster, member.id)
            for answer in await self._everywhere(RequestCode.QUERY_DATA_VERSION, ask.to_ext_fields(), self._version):
                if headers.QueryDataVersionReply.from_ext_fields(answer.ext_fields).changed is not False:
                    raise NotAsPlanned(f"{self.name}: 322 says that its table is another one")
        else:
            touch = headers.BrokerHeartbeat(member.cluster, member.addr, member.broker)
            await self._everywhere(RequestCode.BROKER_HEARTBEAT, touch.to_ext_fields())

    async def leave(self) -> None:
        """104 everywhere, and hang up."""
        member = self.member
        header = headers.UnregisterBroker(member.broker, member.addr, member.cluster, member.id)
        try:
            await self._everywhere(RequestCode.UNREGISTER_BROKER, header.to_ext_fields())
        finally:
            self.is_registered = False
            await self.close()

    async def close(self) -> None:
        """Hang up everywhere."""
        self.is_registered = False
        connections, self._connections = self._connections, {}
        await asyncio.gather(*(connection.close() for connection in connections.values()))

    async def unlink(self, server: int) -> None:
        """Hang up at one."""
        connection = self._connections.pop(server, None)
        if connection is not None:
            await connection.close()

    async def relink(self, server: int) -> None:
        """Connect and register there again."""
        await self._connect(server)
        await self._ask(server, RequestCode.REGISTER_BROKER, self._header, self._body)

    def abort(self) -> None:
        """Hang up without waiting."""
        for connection in self._connections.values():
            connection.abort()
        self._connections.clear()

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.member.broker}/{self.member.id}"

    async def _connect(self, server: int) -> None:
        host, port = self._servers[server]
        self._connections[server] = await Connection.connect(host, port, timeout_s=REQUEST_TIMEOUT_S)

    async def _everywhere(self, code: int, ext_fields: dict[str, str], body: bytes = b"") -> list[Command]:
        return await asyncio.gather(*(self._ask(server, code, ext_fields, body) for server in list(self._connections)))

    async def _ask(self, server: int, code: int, ext_fields: dict[str, str], body: bytes = b"") -> Command:
        connection = self._connections[server]
        if connection.is_closed:  # not planned: said once, then it is as a broker does it
            await self._connect(server)
            await self._ask(server, RequestCode.REGISTER_BROKER, self._header, self._body)
            raise NotAsPlanned(f"{self.name}: {connection.peer} had closed its connection")
        answer = await connection.request(code, ext_fields, body, timeout_s=REQUEST_TIMEOUT_S, version=self._release)
        expect_success(answer, f"{self.name}: request {code} at {connection.peer}")
        return answer


class Watcher:
    """Looks at the tables of all name servers, over connections of its own; makes the administrator's requests."""

    def __init__(self, servers: list[Server]) -> None:
        self._servers = servers
        self._connections: list[Connection] = []

    async def open(self) -> None:
        """Connect to all.

        Raises:
            PeerUnavailable: to one of them it cannot.
        """
        self._connections = [
            await Connection.connect(host, port, timeout_s=REQUEST_TIMEOUT_S) for host, port in self._servers
        ]

    async def close(self) -> None:
        """Hang up."""
        await asyncio.gather(*(connection.close() for connection in self._connections))

    async def administer(self, code: int, ext_fields: dict[str, str]) -> None:
        """At every name server, one after the other, as administrators' tools do."""
        for connection in self._connections:
            answer = await connection.request(code, ext_fields, timeout_s=REQUEST_TIMEOUT_S)
            expect_success(answer, f"request {code} {ext_fields} at {connection.peer}")

    async def until_gone(self, member: Member, within_s: float) -> None:
        """Until no name server shows the process.

        Raises:
            NotAsPlanned: one still does after ``within_s``.
        """
        for connection in self._connections:
            try:
                async with asyncio.timeout(within_s):
                    while await self._shows(connection, member):  # noqa: ASYNC110 - there is no event to wait for
                        await asyncio.sleep(0.01)
            except TimeoutError:
                raise NotAsPlanned(
                    f"{member.broker}/{member.id} is still at {connection.peer} {within_s:g} s after it went"
                ) from None

    async def _shows(self, connection: Connection, member: Member) -> bool:
        answer = await connection.request(RequestCode.GET_BROKER_CLUSTER_INFO, timeout_s=REQUEST_TIMEOUT_S)
        expect_success(answer, f"request 106 at {connection.peer}")
        rows, _ = decode_cluster_info(answer.body)
        row = rows.get(member.broker)
        return row is not None and row.broker_addrs.get(member.id) == member.addr


class Client:
    """An application that looks up topics at one name server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._connection: Connection | None = None

    async def look_up(self, topic: str) -> bool:
        """105: whether there is a route.

        Raises:
            NotAsPlanned: the answer is neither a route nor code 17.
        """
        if self._connection is None or not self._connection.is_usable:
            self._connection = await Connection.connect(*self._server, timeout_s=REQUEST_TIMEOUT_S)
        answer = await self._connection.request(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, timeout_s=REQUEST_TIMEOUT_S
        )
        if answer.code not in (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST):
            raise NotAsPlanned(f"lookup of {topic}: answer {answer.code} ({answer.remark}), expected 0 or 17")
        return answer.code == ResponseCode.SUCCESS

    async def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            await self._connection.close()


__all__ = ["Client", "NotAsPlanned", "PeerUnavailable", "Process", "Server", "Table", "Watcher"]
