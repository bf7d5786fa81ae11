"""The first bytes of a connection: a PROXY protocol header or none, then TLS or not; after that it is on its own.

A plain connection's bytes go straight to it from then on: it costs nothing that this looked at the first ones.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from registry.errors import RemoteProtocolError
from registry.server.connection import Connection, Connections
from registry.server.proxy_protocol import FIRST_BYTES, ProxyHeaderReader
from registry.server.tls import Tls
from registry.server.tls_transport import TlsTransport

# The content type of a TLS record that holds a handshake message. A frame that began with it would be too long.
_TLS_HANDSHAKE: Final = 0x16
_TICK_S: Final = 0.1


class Doorway:
    """Every connection of a worker comes in here; those that take too long to open are dropped."""

    def __init__(self, connections: Connections, tls: Tls, *, proxy_protocol: bool, handshake_s: float) -> None:
        self.connections = connections
        self.tls = tls
        self.proxy_protocol = proxy_protocol
        self._handshake_s = handshake_s
        # connection -> when it must have opened, in this order
        self._pending: dict[Connection, float] = {}

    def __call__(self) -> Opening:
        """A protocol factory, as ``loop.create_server`` wants it."""
        return Opening(self)

    @property
    def pending(self) -> int:
        """How many are half open."""
        return len(self._pending)

    def begun(self, connection: Connection) -> None:
        """Its header or handshake began and is not whole."""
        self._pending.setdefault(connection, asyncio.get_running_loop().time() + self._handshake_s)

    def settled(self, connection: Connection) -> None:
        """Nothing is awaited of it, or nothing any more."""
        self._pending.pop(connection, None)

    async def tick(self) -> None:
        """Drop what does not open in time. Runs for ever."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_TICK_S)
            now = loop.time()
            for connection, deadline_s in list(self._pending.items()):
                if deadline_s > now:
                    break
                del self._pending[connection]
                connection.abort(f"its PROXY header or TLS handshake was not whole after {self._handshake_s:g} s")


class Opening(asyncio.Protocol):
    """The protocol object of a connection until it is clear what it speaks.

    Counts against the same limits as every other: its :class:`Connection` is there from the first moment.
    """

    __slots__ = ("_connection", "_doorway", "_header", "_header_may_come", "_transport")

    def __init__(self, doorway: Doorway) -> None:
        self._doorway = doorway
        self._connection = doorway.connections()
        self._header: ProxyHeaderReader | None = None
        self._header_may_come = doorway.proxy_protocol
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = transport
        self._connection.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        if self._connection.closing:
            return
        self._connection.active_at_s = self._doorway.connections.clock_s
        try:
            if self._header_may_come:
                rest = self._read_header(data)
                if rest is None:
                    self._doorway.begun(self._connection)
                    return
                self._doorway.settled(self._connection)
                self._header_may_come, data = False, rest
            if data:
                self._open(data)
        except RemoteProtocolError as error:
            self._doorway.settled(self._connection)
            self._connection.refuse(error)

    def connection_lost(self, error: Exception | None) -> None:
        """Called by the event loop."""
        self._doorway.settled(self._connection)
        self._connection.connection_lost(error)

    def _read_header(self, data: bytes) -> bytes | None:
        """What follows the header, if there is one; None: more of it has to come."""
        if self._header is None:
            if data[0] not in FIRST_BYTES:
                return data
            self._header = ProxyHeaderReader()
        rest = self._header.feed(data)
        if rest is not None:
            self._connection.address = self._header.address or self._connection.address
            self._header = None
        return rest

    def _open(self, data: bytes) -> None:
        doorway, connection = self._doorway, self._connection
        tls = doorway.tls
        if data[0] == _TLS_HANDSHAKE:
            secured = TlsTransport(self._transport, connection, tls.context_for_new(), doorway.settled)
            doorway.begun(connection)
            self._transport.set_protocol(secured)
            secured.data_received(data)
        elif tls.enforcing:
            raise RemoteProtocolError("not TLS, and tlsServerMode is enforcing", closes=True)
        else:
            self._transport.set_protocol(connection)
            connection.data_received(data)
