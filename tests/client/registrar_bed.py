"""What the registrar's tests work with: a broker, a short pace, and name servers that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from mqregistry.client.broker.registrar import BrokerConfig, Pace, TopicTable
from mqregistry.model import QueueData, TopicConfig
from mqregistry.protocol.bodies.register_content import RegisterBody
from mqregistry.protocol.bodies.route import decode_cluster_info, decode_route
from mqregistry.protocol.codes import RequestCode
from mqregistry.protocol.command import Command, decode_command, encode_command
from mqregistry.protocol.frame import FrameReader
from mqregistry.protocol.headers import RegisterBroker
from tests.protocol.at_once import decode_register_body
from tests.server.harness import Client

from .ports import reserved_port

# Nothing happens by itself in a test that does not wait for it.
NEVER = Pace(3600.0, 3600.0, 3600.0)
SHORT = Pace(0.05, 0.05, 0.02)


def broker(**fields: Any) -> BrokerConfig:
    return BrokerConfig(
        **{
            "broker_name": "broker-a",
            "broker_addr": "127.0.0.1:10911",
            "cluster_name": "c1",
            "ha_server_addr": "127.0.0.1:10912",
            **fields,
        }
    )


def table(*names: str) -> TopicTable:
    return TopicTable(TopicConfig(name, 8, 8, 6) for name in names or ("t1", "t2"))


def queue_datas(topics: TopicTable) -> dict[str, QueueData]:
    """What a registration says of these topics."""
    return {name: topic.queue_data() for name, topic in topics.items()}


def brokers_at(port: int) -> dict[str, dict[int, str]]:
    """brokerName -> addresses, as 106 tells."""
    with Client(port) as client:
        rows, _ = decode_cluster_info(client.request(RequestCode.GET_BROKER_CLUSTER_INFO).body)
        return {name: row.broker_addrs for name, row in rows.items()}


def queues_at(port: int, topic: str) -> dict[str, tuple[int, int, int]]:
    """brokerName -> read queues, write queues, permission of a topic; {} when there is no route."""
    with Client(port) as client:
        answer = client.route(topic)
        if answer.code != 0:
            return {}
        return {
            name: (data.read_queue_nums, data.write_queue_nums, data.perm)
            for name, data in decode_route(answer.body).queue_datas.items()
        }


class FakeNameServer:
    """Answers what ``reply`` returns; None = no answer. Keeps every request in ``came``.

    ``reply`` may await, hang up (``raise ConnectionError``), or be replaced while it runs.
    """

    def __init__(self) -> None:
        self.came: list[Command] = []
        self.connections = 0
        self.reply: Callable[[Command], Awaitable[Command | None]] = self.accept
        self.port = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def accept(self, command: Command) -> Command | None:
        return Command(ext_fields={})

    def closed(self) -> None:
        """A connection is gone."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def requests(self, code: int) -> list[Command]:
        return [command for command in self.came if command.code == code]

    @property
    def registrations(self) -> list[tuple[RegisterBroker, RegisterBody]]:
        found = []
        for command in self.requests(RequestCode.REGISTER_BROKER):
            header = RegisterBroker.from_ext_fields(command.ext_fields)
            body = decode_register_body(command.body, compressed=header.compressed, version=command.version)
            found.append((header, body))
        return found

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port or self.port or reserved_port())
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and hang up on everybody; start() may follow."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.hang_up()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for _ in range(10):  # a connection that was accepted already takes some steps to come
            await asyncio.sleep(0)

    def hang_up(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:  # it came as we stopped
            writer.transport.abort()
            return
        self.connections += 1
        self._writers.add(writer)
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)

        def end(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            self._writers.discard(writer)
            writer.transport.abort()
            self.closed()

        task.add_done_callback(end)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = FrameReader()
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            while data := await reader.read(65536):
                for frame in frames.feed(data):
                    command = decode_command(frame)
                    assert command is not None
                    self.came.append(command)
                    answer = await self.reply(command)
                    if answer is not None and not command.is_oneway:
                        answer.opaque, answer.flag = command.opaque, 1
                        writer.write(encode_command(answer))


@contextlib.asynccontextmanager
async def name_servers(count: int) -> AsyncIterator[list[FakeNameServer]]:
    servers = [FakeNameServer() for _ in range(count)]
    for server in servers:
        await server.start()
    try:
        yield servers
    finally:
        for server in servers:
            await server.stop()
