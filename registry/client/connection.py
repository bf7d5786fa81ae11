"""Connects to a name server or broker, sends requests, and gives each answer to the caller that waits for it.

``on_request`` answers requests of the peer (905 to a broker, 40 to a client).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import ssl
from collections.abc import Callable
from typing import Final, Self, TypedDict, cast

from ..errors import PeerGoesAway, PeerUnavailable, RemoteProtocolError
from ..protocol.codes import FLAG_ONEWAY, FLAG_RESPONSE, SERVER_VERSION, Encoding, RequestCode, ResponseCode, with_name
from ..protocol.command import Command, decode_command, encode_command
from ..protocol.frame import FrameReader
from .checks import check_callable, check_instance, check_optional, check_range

logger = logging.getLogger(__name__)

_HTTP: Final = (
    "it answers like an HTTP server: this seems to be the port of /metrics, not that of the name server, which is 9876 "
    "by default"
)

REQUEST_TIMEOUT_S: Final = 3.0
MAX_IN_FLIGHT: Final = 1024
_FLUSH_S: Final = 1.0

OnRequest = Callable[[Command], Command | None]
"""Answers a request of the peer: returns a Command with the answer's code, remark, fields and body; None: no answer."""


class ConnectionOptions(TypedDict, total=False):
    """Arguments of :meth:`PeerConnection.connect` that do not depend on the peer."""

    tls: ssl.SSLContext | None
    encoding: Encoding
    max_in_flight: int
    on_request: OnRequest | None


def check_connection_options(options: ConnectionOptions) -> None:
    """Check options that an application gave: their names, types and ranges."""
    if unknown := options.keys() - ConnectionOptions.__annotations__.keys():
        raise TypeError(f"unexpected keyword argument {min(unknown)!r}")
    check_optional(options.get("tls"), ssl.SSLContext, "tls")
    check_instance(options.get("encoding", Encoding.JSON), Encoding, "encoding", "an Encoding")
    max_in_flight = options.get("max_in_flight", MAX_IN_FLIGHT)
    check_instance(max_in_flight, int, "max_in_flight", "a number of requests")
    check_range(max_in_flight, 1, 2**31 - 1, "max_in_flight")
    if (on_request := options.get("on_request")) is not None:
        check_callable(on_request, "on_request")


class PeerConnection(asyncio.Protocol):
    """A connection to one peer, made by :meth:`connect`. Many requests may be under way at the same time.

    Every method that sends raises PeerUnavailable if the connection cannot be made or is closed, or the peer does not
    answer in time; RemoteProtocolError if the peer sends bytes that are no frame.

    A peer that shuts down answers 1500. Then the request raises PeerGoesAway: the peer has not executed it, and the
    caller can send it to another peer. The connection takes no more requests, as in a Java client.
    """

    def __init__(self) -> None:
        self._frames = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[int, asyncio.Future[Command]] = {}
        self._opaques = itertools.count(1)
        self._lost: Exception | None = None
        self._closed = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._encoding = Encoding.JSON
        self._slots = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._on_request: OnRequest | None = None
        self._retired = False
        self.peer = ""

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
        server_hostname: str | None = None,
        encoding: Encoding = Encoding.JSON,
        max_in_flight: int = MAX_IN_FLIGHT,
        on_request: OnRequest | None = None,
    ) -> Self:
        """Open a connection.

        Args:
            timeout_s: for the connection and the TLS handshake together.
            tls: use TLS; its verify mode and check_hostname decide how the server's certificate is checked.
            server_hostname: the name that the certificate must have; default: the host.
            encoding: of the headers of requests; the server chooses the encoding of its answers.
            max_in_flight: how many requests may be under way; more requests wait, within their own timeouts.
            on_request: called on the event loop for each request of the peer, so it must be quick. Without it the
                connection answers such a request with code 3, as a Java client answers an unknown request.

        Raises:
            PeerUnavailable: no server listens there or answers in time, or the TLS handshake failed.
        """
        connection = cls()
        connection.peer = f"{host}:{port}"
        connection._encoding = encoding
        connection._slots = asyncio.Semaphore(max_in_flight)
        connection._on_request = on_request
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.get_running_loop().create_connection(
                    lambda: connection, host, port, ssl=tls, server_hostname=(server_hostname or host) if tls else None
                )
        except (OSError, UnicodeError) as error:  # UnicodeError: a part of the host name is too long
            why: object = error
            if isinstance(error, TimeoutError):
                why = f"no connection within {timeout_s:g} s"
            elif isinstance(error, ConnectionRefusedError):
                why = "connection refused: nobody listens there"
            raise PeerUnavailable(f"{host}:{port}: {why}") from error
        return connection

    @property
    def is_usable(self) -> bool:
        """Whether it takes requests: it is neither closed nor retired."""
        return not self._retired and self._lost is None

    @property
    def is_closed(self) -> bool:
        """Whether either side has closed it."""
        return self._closed.is_set()

    async def request(
        self,
        code: int,
        ext_fields: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        version: int = SERVER_VERSION,
    ) -> Command:
        """Send one request and return its answer, which has any code except 1500; answers may come in any order.

        Args:
            timeout_s: until the answer, including the wait while max_in_flight requests are under way.
            version: the MQVersion number in the header.

        Raises:
            PeerUnavailable, PeerGoesAway, RemoteProtocolError: see the class.
        """
        try:
            async with asyncio.timeout(timeout_s), self._slots:
                command = Command(
                    code=code, opaque=self._next_opaque(), version=version, ext_fields=ext_fields or {}, body=body,
                    encoding=self._encoding,
                )  # fmt: skip
                answer = await self._ask(command)
        except TimeoutError as error:
            asked = with_name(code, RequestCode)
            raise PeerUnavailable(f"{self.peer}: no answer to request {asked} within {timeout_s:g} s") from error
        if answer.code == ResponseCode.GO_AWAY:
            raise PeerGoesAway(f"{self.peer} shuts down: {answer.remark}")
        return answer

    async def _ask(self, command: Command) -> Command:
        assert command.opaque is not None
        answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._waiting[command.opaque] = answer
        try:
            await self._send(command)
            return await answer
        finally:
            self._waiting.pop(command.opaque, None)
            if answer.done() and not answer.cancelled():
                answer.exception()  # else the loop logs it; the caller got it from _send
            self._close_if_over()

    async def oneway(
        self, code: int, ext_fields: dict[str, str] | None = None, body: bytes = b"", *, version: int = SERVER_VERSION
    ) -> None:
        """Send one request that is not answered."""
        await self._send(
            Command(
                code=code, opaque=self._next_opaque(), flag=FLAG_ONEWAY, version=version, ext_fields=ext_fields or {},
                body=body, encoding=self._encoding,
            )
        )  # fmt: skip

    def abort(self) -> None:
        """Close at once; bytes that were not written yet are lost."""
        if self._transport is not None:
            self._transport.abort()

    def retire(self) -> None:
        """Take no more requests, and close when the requests under way have ended; unwritten bytes are then lost."""
        self._retired = True
        self._close_if_over()

    def _close_if_over(self) -> None:
        if self._retired and not self._waiting and self._transport is not None:
            if self._transport.get_write_buffer_size():
                self._transport.abort()
            else:
                self._transport.close()

    async def close(self) -> None:
        """Close when all requests are written, after a second at the latest; requests under way fail."""
        if self._transport is None:
            return
        self._transport.close()
        try:
            async with asyncio.timeout(_FLUSH_S):
                await self._closed.wait()
        except TimeoutError:
            self._transport.abort()
            await self._closed.wait()

    async def wait_closed(self) -> None:
        """Wait until either side has closed it."""
        await self._closed.wait()

    def _next_opaque(self) -> int:
        return next(self._opaques) % 2**31

    async def _send(self, command: Command) -> None:
        await self._writable.wait()
        if self._lost is not None or self._transport is None:
            raise self._lost or PeerUnavailable(f"{self.peer}: the connection is closed")
        if self._retired:
            raise PeerGoesAway(f"{self.peer}: this connection takes no more requests")
        self._transport.write(encode_command(command))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is no subclass

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        try:
            for frame in self._frames.feed(data):
                command = decode_command(frame)
                if not command.is_response:
                    self._answer(command)
                elif command.opaque is not None:
                    answer = self._waiting.get(command.opaque)
                    if answer is not None and not answer.done():
                        answer.set_result(command)
                        if command.code == ResponseCode.GO_AWAY:
                            self._retired = True
            if self._frames.error is not None:
                raise self._frames.error
        except RemoteProtocolError as error:
            why = _HTTP if data.startswith(b"HTTP/") else error
            self._lost = RemoteProtocolError(f"{self.peer}: {why}", closes=True)
            if self._transport is not None:
                self._transport.abort()

    def _answer(self, request: Command) -> None:
        try:
            if self._on_request is None:
                reply: Command | None = Command(
                    code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f" request type {request.code} not supported"
                )
            else:
                reply = self._on_request(request)
        except Exception as error:  # a defect of the application's function must not fail the requests under way
            logger.exception("request %s of %s", with_name(request.code, RequestCode), self.peer)
            reply = Command(code=ResponseCode.SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}")
        if reply is not None and not request.is_oneway and self._transport is not None:
            reply.opaque, reply.flag, reply.version = request.opaque, FLAG_RESPONSE, SERVER_VERSION
            reply.encoding = self._encoding
            self._transport.write(encode_command(reply))

    def pause_writing(self) -> None:
        """Called by the event loop."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Called by the event loop."""
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        if self._lost is None:
            self._lost = PeerUnavailable(f"{self.peer}: the connection was closed{f': {exc}' if exc else ''}")
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self._lost)
        self._writable.set()
        self._closed.set()
