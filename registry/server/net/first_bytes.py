"""Reads the first bytes of a new connection: an optional PROXY protocol header, then TLS or a plain frame.

Afterwards the transport's protocol is replaced: the bytes of a plain connection go directly to its
:class:`~mqregistry.server.net.connection.ServerConnection`.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from ...errors import RemoteProtocolError
from ...networks import Networks
from ..counting.counters import Closed
from .connection import ServerConnection
from .connections import Connections
from .proxy_protocol import FIRST_BYTES, V2_START, ProxyHeaderReader
from .small_reads import SmallReads, switch_protocol
from .tls import Tls
from .tls_transport import TlsTransport

# The content type of a TLS record with a handshake message. No frame begins with this byte: it would be too long.
_TLS_HANDSHAKE: Final = 0x16
# As in Java 5.x, nothing is answered before this many bytes have come: they tell whether a PROXY header comes first.
_AWAITED_BYTES: Final = len(V2_START)
_TICK_S: Final = 0.1


class Doorway:
    """Accepts the connections of a worker; drops those whose first bytes or TLS handshake take too long."""

    def __init__(
        self, connections: Connections, tls: Tls, *, proxy_protocol: bool, believed_from: Networks, handshake_s: float
    ) -> None:
        self.connections = connections
        self.tls = tls
        self.proxy_protocol = proxy_protocol  # whether PROXY headers are read
        self.believed_from = believed_from  # networks of the balancers whose headers are believed
        self._handshake_s = handshake_s
        # connection -> when its header or handshake must be complete; the earliest comes first
        self._pending: dict[ServerConnection, float] = {}

    def __call__(self) -> Opening:
        """Make the protocol object of a new connection, for ``loop.create_server``."""
        return Opening(self)

    def begun(self, connection: ServerConnection) -> None:
        """Start the time limit: the header or handshake has begun and is incomplete."""
        self._pending.setdefault(connection, asyncio.get_running_loop().time() + self._handshake_s)

    def settled(self, connection: ServerConnection) -> None:
        """End the time limit: the header and handshake are complete, or the connection is gone."""
        self._pending.pop(connection, None)

    async def tick(self) -> None:
        """Drop connections that exceed the time limit. Runs until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_TICK_S)
            now = loop.time()
            for connection, deadline_s in list(self._pending.items()):
                if deadline_s > now:
                    break
                del self._pending[connection]
                connection.abort(
                    Closed.HANDSHAKE,
                    f"its first {_AWAITED_BYTES} bytes, PROXY header or TLS handshake was incomplete after "
                    f"{self._handshake_s:g} s",
                )


class Opening(SmallReads):
    """The protocol object of a connection until it is known whether it uses TLS.

    Its :class:`ServerConnection` exists, and counts against maxConnections, from the start.
    """

    __slots__ = ("_believed", "_connection", "_doorway", "_header", "_header_may_come", "_held", "_transport")

    def __init__(self, doorway: Doorway) -> None:
        self._doorway = doorway
        self._connection = ServerConnection(doorway.connections)
        self._header: ProxyHeaderReader | None = None
        self._header_may_come = doorway.proxy_protocol
        self._believed = False
        self._held = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = transport
        connection, doorway = self._connection, self._doorway
        connection.connection_made(transport)
        self._believed = self._header_may_come and doorway.believed_from.has_host(connection.host)
        if not self._believed:  # a believed connection is counted when its PROXY header has named the client
            doorway.connections.count(connection)

    def data_received(self, data: bytes) -> None:
        """Find out from the first bytes what the client sends."""
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
                if self._believed:
                    self._doorway.connections.count(self._connection)
            if data and not self._connection.closing:
                self._open(data)
        except RemoteProtocolError as error:
            self._doorway.settled(self._connection)
            self._connection.refuse(error)

    def connection_lost(self, error: Exception | None) -> None:
        """Called by the event loop."""
        self._doorway.settled(self._connection)
        self._connection.connection_lost(error)

    def _read_header(self, data: bytes) -> bytes | None:
        """Return the bytes after the header, or all bytes when there is none; None while more bytes are needed."""
        if self._header is None:
            data = self._held = self._held + data
            if len(data) < _AWAITED_BYTES:
                return None
            self._held = b""
            if data[0] not in FIRST_BYTES:
                return data
            self._header = ProxyHeaderReader()
        rest = self._header.feed(data)
        if rest is not None:
            if self._header.address:
                self._connection.named_by_proxy(self._header.address, counts=self._believed)
            self._header = None
        return rest

    def _open(self, data: bytes) -> None:
        doorway, connection = self._doorway, self._connection
        tls = doorway.tls
        if data[0] == _TLS_HANDSHAKE:
            secured = TlsTransport(self._transport, connection, tls.context_for_new(), doorway.settled)
            doorway.begun(connection)
            switch_protocol(self._transport, secured)
            secured.data_received(data)
        elif tls.enforcing:
            raise RemoteProtocolError("not TLS, and tlsServerMode is enforcing", closes=True)
        else:
            switch_protocol(self._transport, connection)
            connection.data_received(data)
