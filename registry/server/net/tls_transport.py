"""Encrypts and decrypts one connection: a protocol towards its socket, a transport towards the connection.

The event loop's own TLS cannot be used: the first bytes, which show that a client starts TLS, have been read already,
and only :class:`ssl.MemoryBIO` can be given them.
"""

from __future__ import annotations

import contextlib
import logging
import ssl
from collections.abc import Callable
from typing import Any, Final

from ...errors import RemoteProtocolError
from ..counting.counters import Closed
from .connection import ServerConnection
from .small_reads import SmallReads
from .x509 import read_certificate

logger = logging.getLogger(__name__)

# One TLS record holds no more than this.
_RECORD_BYTES: Final = 1 << 14


class TlsTransport(SmallReads):
    """TLS of one connection. All plain bytes of one socket read are passed on together, as without TLS.

    Args:
        transport: the socket's transport.
        connection: receives the plain bytes, and writes its answers to this transport.
        context: used for the whole life of the connection, also after a reload.
        opened: called when the handshake is complete, or when the connection is lost before its end.
    """

    def __init__(
        self,
        transport: Any,
        connection: ServerConnection,
        context: ssl.SSLContext,
        opened: Callable[[ServerConnection], None],
    ) -> None:
        self._transport = transport
        self._connection = connection
        self._opened = opened
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_open = False
        self.set_write_buffer_limits = transport.set_write_buffer_limits
        self.get_write_buffer_size = transport.get_write_buffer_size
        self.get_extra_info = transport.get_extra_info
        self.pause_reading, self.resume_reading = transport.pause_reading, transport.resume_reading
        self.abort = transport.abort
        connection.use_transport(self)

    # towards the socket: asyncio.BufferedProtocol

    @property
    def reads_much(self) -> bool:
        """Whether the next piece may be large."""
        return self._connection.reads_much

    def data_received(self, data: bytes) -> None:
        """Decrypt every complete record; keep the rest."""
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
            # OpenSSL consumes a whole record before it returns any plain byte of it
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
        """Nothing to do at the end of the stream: the socket's transport closes itself."""

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read its answers."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """Read again: the client has read its answers."""
        self._connection.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """Tell the connection that the socket is closed."""
        self._opened(self._connection)
        self._connection.connection_lost(error)

    # towards the connection: the methods of asyncio.Transport that it uses; the others are the socket's

    def write(self, data: bytes) -> None:
        """Encrypt the bytes and send them."""
        if self._transport.is_closing():
            return
        try:
            with memoryview(data) as view:
                sent = 0
                while sent < len(view):
                    sent += self._tls.write(view[sent:])
        except ssl.SSLError as error:
            self._connection.abort(Closed.TLS, f"TLS: {_reason(error)}")
            return
        self._flush()

    def close(self) -> None:
        """Send close_notify and close once all written bytes are sent; the client's close_notify is not awaited."""
        if self._transport.is_closing():
            return
        if self._is_open:
            with contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()
            self._flush()
        self._transport.close()

    def _shake_hands(self) -> None:
        self._tls.do_handshake()
        self._is_open = True
        self._connection.is_tls = True
        shown, der = self._tls.getpeercert(), self._tls.getpeercert(binary_form=True)
        if shown and der:  # "shown" is empty unless the certificate was verified
            self._connection.certificate = read_certificate(shown, der)
        self._opened(self._connection)
        logger.debug("%s speaks %s, %s", self._connection.address, self._tls.version(), self._tls.cipher())

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._transport.write(self._outgoing.read())

    def _fail(self, error: ssl.SSLError) -> None:
        during = "TLS" if self._is_open else "TLS handshake"
        self._connection.refuse(RemoteProtocolError(f"{during}: {_reason(error)}", closes=True), Closed.TLS)


def _reason(error: ssl.SSLError) -> str:
    verify_message = getattr(error, "verify_message", "")
    return f"{error.reason or error}{f' ({verify_message})' if verify_message else ''}"
