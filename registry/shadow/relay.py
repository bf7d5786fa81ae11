"""Passes connections through to a name server, byte for byte, and lets somebody listen to them.

Bytes are passed on before anybody else sees them, and a listener cannot hold them up: it gets copies, is called
without waiting, and is no longer called once it fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final, Protocol, Self, cast

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S: Final = 3.0


class RelayListener(Protocol):
    """Listens to one connection. What it raises ends its listening, not the connection."""

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
        self._here = host, port
        self.to = to_host, to_port
        self.listener = listener
        self.open: set[_FromClient] = set()
        self.accepted = 0
        self.refused = 0
        """Connections that the server did not take."""
        self.deaf = 0
        """Connections on which the listener failed."""
        self._server: asyncio.Server | None = None
        self.connecting: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def __aenter__(self) -> Self:
        """Raises OSError: it cannot listen there."""
        self._server = await asyncio.get_running_loop().create_server(lambda: _FromClient(self), *self._here)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self.connecting:
            task.cancel()
        for connection in list(self.open):
            connection.end()
        await asyncio.gather(*self.connecting, return_exceptions=True)
        await self._server.wait_closed()


class _End(asyncio.Protocol):
    """One end of a connection that is passed through; what comes here goes out at the other end."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: _End | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop: the other end closes, too, after what is still to be written there."""
        if self.other is not None and self.other.transport is not None:
            if exc is None:
                self.other.transport.close()
            else:
                self.other.transport.abort()

    def pause_writing(self) -> None:
        """Called by the event loop: the peer here reads slower than the other one writes."""
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        """Called by the event loop."""
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()


class _FromClient(_End):
    """The client's end. Nothing is read from it until the server has taken the connection."""

    def __init__(self, relay: Relay) -> None:
        super().__init__()
        self._relay = relay
        self._listener: RelayListener | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        super().connection_made(transport)
        assert self.transport is not None
        self.transport.pause_reading()
        relay = self._relay
        relay.accepted += 1
        relay.open.add(self)
        self._listener = relay.listener()
        task = asyncio.get_running_loop().create_task(self._connect())
        relay.connecting.add(task)
        task.add_done_callback(relay.connecting.discard)

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await asyncio.get_running_loop().create_connection(lambda: _FromServer(self), *self._relay.to)
        except OSError as error:  # TimeoutError is one
            host, port = self._relay.to
            logger.warning("%s:%d does not take a connection: %s", host, port, error or "no answer")
            self._relay.refused += 1
            self.end()
            return
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()
        elif self.other is not None and self.other.transport is not None:
            self.other.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        super().data_received(data)
        self.listen("sent", data)

    def listen(self, method: str, data: bytes) -> None:
        """Let the listener have what was passed on."""
        if self._listener is None:
            return
        try:
            getattr(self._listener, method)(data)
        except Exception:  # a defect in comparing: what is passed through must not notice
            logger.exception("the reads of a connection are not repeated any more; it goes on")
            self._listener = None
            self._relay.deaf += 1

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._relay.open.discard(self)
        super().connection_lost(exc)

    def end(self) -> None:
        """Hang up on both sides."""
        for one in (self, self.other):
            if one is not None and one.transport is not None:
                with contextlib.suppress(RuntimeError):
                    one.transport.abort()


class _FromServer(_End):
    """The server's end."""

    def __init__(self, client: _FromClient) -> None:
        super().__init__()
        self.other = self._client = client
        client.other = self

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        super().data_received(data)
        self._client.listen("answered", data)
