"""TLS between a socket's transport and a connection: the protocol of the one and the transport of the other.

The bytes that told that a connection speaks TLS have been read by then, and the event loop's own TLS cannot be given
them; with :class:`ssl.MemoryBIO` it is ours where the bytes come from.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable
from typing import Any, Final

from registry.errors import RemoteProtocolError
from registry.server.connection import Connection

logger = logging.getLogger(__name__)

# One TLS record holds no more than this.
_RECORD_BYTES: Final = 1 << 14


class TlsTransport(asyncio.Protocol):
    """One connection's TLS. What one read of the socket brought goes on as one piece, as without TLS.

    Args:
        transport: the socket's.
        connection: gets the plain bytes, and writes its answers here.
        context: what the handshake is made with, and good for as long as the connection lives.
        opened: called when the handshake is done, or never will be.
    """

    def __init__(
        self, transport: Any, connection: Connection, context: ssl.SSLContext, opened: Callable[[Connection], None]
    ) -> None:
        self._transport = transport
        self._connection = connection
        self._opened = opened
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_open = False
        connection.use_transport(self)

    # towards the socket: asyncio.Protocol

    def data_received(self, data: bytes) -> None:
        """Decrypt what is whole; keep the rest."""
        connection = self._connection
        if connection.closing:
            return
        self._incoming.write(data)
        plain: list[bytes] = []
        ended = False
        failure: ssl.SSLError | None = None
        try:
            if not self._is_open:
                self._shake_hands()
            # OpenSSL takes all of a record from the first buffer before it gives any of it out of the second
            while (self._incoming.pending or self._tls.pending()) and not ended:
                piece = self._tls.read(_RECORD_BYTES)
                plain.append(piece)
                ended = not piece
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            ended = True
        except ssl.SSLError as error:
            failure = error
        self._flush()
        if plain:
            connection.data_received(b"".join(plain))
        if failure is not None:
            self._fail(failure)
        elif ended:
            self.close()

    def eof_received(self) -> None:
        """The end, with or without a farewell: the socket's transport closes itself."""

    def pause_writing(self) -> None:
        """The client does not read."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """It reads again."""
        self._connection.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """Gone."""
        self._opened(self._connection)
        self._connection.connection_lost(error)

    # towards the connection: as much of asyncio.Transport as it uses

    def write(self, data: bytes) -> None:
        """Encrypt and send."""
        if self._transport.is_closing():
            return
        try:
            with memoryview(data) as view:
                sent = 0
                while sent < len(view):
                    sent += self._tls.write(view[sent:])
        except ssl.SSLError as error:
            self._connection.abort(f"TLS: {_reason(error)}")
            return
        self._flush()

    def close(self) -> None:
        """Hang up after what is written has gone out, and say so; the answer to that is not waited for."""
        if self._transport.is_closing():
            return
        if self._is_open:
            with contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()
            self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Hang up now."""
        self._transport.abort()

    def pause_reading(self) -> None:
        """Take nothing more from the socket."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Go on."""
        self._transport.resume_reading()

    def _shake_hands(self) -> None:
        self._tls.do_handshake()
        self._is_open = True
        self._opened(self._connection)
        logger.debug("%s speaks %s, %s", self._connection.address, self._tls.version(), self._tls.cipher())

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._transport.write(self._outgoing.read())

    def _fail(self, error: ssl.SSLError) -> None:
        during = "TLS" if self._is_open else "TLS handshake"
        self._connection.refuse(RemoteProtocolError(f"{during}: {_reason(error)}", closes=True))


def _reason(error: ssl.SSLError) -> str:
    verify_message = getattr(error, "verify_message", "")
    return f"{error.reason or error}{f' ({verify_message})' if verify_message else ''}"
