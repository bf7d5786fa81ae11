"""A name server in the test's own event loop that answers, or misbehaves, as the test says."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec

from mqregistry.model import BrokerRow, QueueData, TopicRoute
from mqregistry.protocol.bodies.route import encode_route
from mqregistry.protocol.command import Command, decode_command, encode_command
from mqregistry.protocol.frame import FrameReader

from .ports import reserved_port


def route_of(*names, queues=4, perm=6, addrs=None, **fields):
    """A route with these broker names, a master each."""
    return TopicRoute(
        {name: QueueData(queues, queues, perm) for name in names},
        {name: BrokerRow("c1", addrs or {0: f"10.0.0.{number}:10911"}) for number, name in enumerate(names, 1)},
        {},
        **fields,
    )


class FakeNameServer:
    """`async with`; `routes` is what it answers 105 from; `answer` may be replaced by a coroutine function that
    returns a Command or None (no answer)."""

    def __init__(self, routes: dict[str, TopicRoute] | None = None, *, quoted_keys: bool = False) -> None:
        self.routes = routes if routes is not None else {}
        self.quoted_keys = quoted_keys
        self.requests: list[Command] = []
        self.connections: set[asyncio.StreamWriter] = set()
        self.accepted = 0
        self.port = 0
        self.answer = self.usual_answer
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self):
        await self.start()
        return self

    async def __aexit__(self, *_):
        await self.stop()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen, on the same port as before."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port or reserved_port())
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Hang up on everybody, and listen no more."""
        if self._server is None:
            return
        self._server.close()
        for writer in list(self.connections):
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    def asked(self, code: int = 105) -> list[str]:
        """The topics of the requests that came."""
        return [(one.ext_fields or {}).get("topic", "") for one in self.requests if one.code == code]

    async def usual_answer(self, request: Command) -> Command | None:
        if request.code == 105:
            route = self.routes.get((request.ext_fields or {}).get("topic", ""))
            if route is None:
                return Command(code=17, remark="No topic route info")
            return Command(code=0, body=encode_route(route, quoted_keys=self.quoted_keys))
        return Command(code=3, remark=f" request type {request.code} not supported")

    async def _serve(self, reader, writer) -> None:
        self.connections.add(writer)
        self.accepted += 1
        frames = FrameReader()
        try:
            while data := await reader.read(65536):
                for frame in frames.feed(data):
                    request = decode_command(frame)
                    self.requests.append(request)
                    task = asyncio.create_task(self._answer(request, writer))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self.connections.discard(writer)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, request: Command, writer) -> None:
        reply = await self.answer(request)
        if reply is not None and not writer.is_closing():
            writer.write(encode_command(msgspec.structs.replace(reply, opaque=request.opaque, flag=1)))


async def never(_):
    """An `answer` that does not come."""
