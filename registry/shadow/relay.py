"""Passes connections through to a name server, byte for byte, and gives a listener the same bytes.

Bytes are passed on before the listener gets them. A listener that raises is not called again; the connection goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol, Self

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S: Final = 3.0
_PART_BYTES: Final = 1 << 16


class RelayListener(Protocol):
    """Gets the bytes of one connection."""

    def sent(self, data: bytes) -> None:
        """The client sent these bytes, and they were passed on."""

    def answered(self, data: bytes) -> None:
        """The server sent these bytes, and they were passed on."""


class Relay:
    """A port whose connections are passed through to one server; open during an ``async with``.

    Args:
        host, port: where it listens. to_host, to_port: the server.
        listener: called for each connection.
    """

    def __init__(self, host: str, port: int, to_host: str, to_port: int, listener: Callable[[], RelayListener]) -> None:
        self._here, self._to = (host, port), (to_host, to_port)
        self._listener = listener
        self.open: set[asyncio.StreamWriter] = set()  # to the clients that are connected
        self.refused = 0  # connections that the server did not accept
        self.deaf = 0  # connections on which the listener raised
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def __aenter__(self) -> Self:
        """Raises OSError: it cannot listen there."""
        self._server = await asyncio.start_server(self._accept, *self._here)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def _accept(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._pass_through(client, to_client))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pass_through(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        """Pass bytes on until one side closes; then write the rest to the other side, and close it."""
        self.open.add(to_client)
        ends = [to_client]
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                server, to_server = await asyncio.open_connection(*self._to)
            ends.append(to_server)
            listen = self._listening()
            pumps = [
                asyncio.create_task(_pump(client, to_server, lambda data: listen("sent", data))),
                asyncio.create_task(_pump(server, to_client, lambda data: listen("answered", data))),
            ]
            try:
                done, _ = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
            if not [pump for pump in done if pump.exception()]:
                for end in ends:
                    end.close()
                await asyncio.gather(*(end.wait_closed() for end in ends), return_exceptions=True)
        except OSError as error:  # includes TimeoutError
            logger.warning("%s:%d does not take a connection: %s", *self._to, error or "no answer")
            self.refused += 1
        finally:
            for end in ends:
                end.transport.abort()
            self.open.discard(to_client)

    def _listening(self) -> Callable[[str, bytes], None]:
        """Make a listener for a connection; returns a function that calls it until it raises."""
        listener: RelayListener | None = self._listener()

        def listen(method: str, data: bytes) -> None:
            nonlocal listener
            if listener is None:
                return
            try:
                getattr(listener, method)(data)
            except Exception:  # a defect in the comparison must not end the connection
                logger.exception("the reads of a connection are not repeated any more; the connection goes on")
                listener = None
                self.deaf += 1

        return listen


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter, listen: Callable[[bytes], None]) -> None:
    """Pass bytes on, not faster than the other end reads them."""
    while data := await source.read(_PART_BYTES):
        target.write(data)
        listen(data)
        await target.drain()
