"""The HTTP server of a front end: /metrics, /healthz, /readyz, and where the other front ends are."""

from __future__ import annotations

import contextlib
import errno
import http.server
import json
import logging
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from io import BufferedReader
from typing import Any, Final, cast

from ...errors import StartError
from .known_fleet import KnownFleet
from .metrics import Shows, exposition
from .port.sockets import PortTaken

logger = logging.getLogger(__name__)

_CLIENT_TIMEOUT_S: Final = 5.0
_MAX_CONNECTIONS: Final = 64
# When all threads are in use, the oldest connection is closed, and a new client waits at most this long for its thread.
_PLACE_S: Final = 1.0


class _Handler(http.server.BaseHTTPRequestHandler):
    server: HttpServer
    server_version = "mqregistry"
    sys_version = ""
    timeout = _CLIENT_TIMEOUT_S  # a client that sends nothing does not keep its thread

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/healthz":
            why = self.server.hangs()
            status = HTTPStatus.SERVICE_UNAVAILABLE if why else HTTPStatus.OK
            self._answer(status, f"{why or 'ok'}\n".encode())
        elif path == "/readyz":
            reasons = self.server.fleet.not_ready()
            status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
            told: dict[str, object] = {"ready": not reasons, "reasons": reasons}
            if warnings := [*self.server.fleet.warnings(), *self.server.known.warnings()]:
                told["warnings"] = warnings
            self._answer(status, json.dumps(told).encode() + b"\n", "application/json")
        elif path == "/metrics":
            body, content_type = exposition(self.server.fleet, self.headers.get("Accept", ""))
            self._answer(HTTPStatus.OK, body, content_type)
        elif path == "/rocketmq/nsaddr":
            if addresses := self.server.known.addresses():
                self._answer(HTTPStatus.OK, addresses)  # without a line end
            else:  # RocketMQ's clients then keep the addresses that they have
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE, b"no front end is ready\n")
        elif path == "/http_sd":
            self._answer(HTTPStatus.OK, self.server.known.targets, "application/json")
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"try /metrics, /healthz, /readyz, /rocketmq/nsaddr or /http_sd\n")

    do_HEAD = do_GET

    def handle_one_request(self) -> None:
        """Answer a request; a RocketMQ client that uses this port by mistake gets an error, instead of no answer."""
        try:
            is_frame = cast(BufferedReader, self.rfile).peek(1)[:1] == b"\0"
        except OSError:
            is_frame = False  # the base class handles the error
        if is_frame:
            self.close_connection = True
            self.wfile.write(b"HTTP/1.0 400 this is an HTTP port, not that of the name server\r\n\r\n")
        else:
            super().handle_one_request()

    def _answer(self, status: HTTPStatus, body: bytes, content_type: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        logger.debug("%s " + format, self.address_string(), *args)


class HttpServer(http.server.ThreadingHTTPServer):
    """Answers each client in a thread of its own, so that a slow client delays no other."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        host: str,
        port: int,
        fleet: Shows,
        known: KnownFleet | None = None,
        *,
        flag: str = "--http-port",
        hangs: Callable[[], str] = str,
    ) -> None:
        """Bind and begin to answer.

        Args:
            hangs: gives the reason why this process must be restarted, for /healthz; "" = it works.
            flag: the command line's flag for the port, for the error message.

        Raises:
            StartError: the port is taken (PortTaken) or may not be used.
        """
        self.fleet = fleet
        self.hangs = hangs
        self.known = known or KnownFleet("", "")
        self._free = threading.BoundedSemaphore(_MAX_CONNECTIONS)
        self._open: dict[socket.socket, None] = {}  # the oldest first
        self._open_lock = threading.Lock()
        try:
            self.address_family = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM)[0][0]
            super().__init__((host, port), _Handler)
        except (OSError, UnicodeError) as error:  # UnicodeError: a part of the host's name is too long or empty
            text = (
                f"cannot serve metrics on {host}:{port}: {getattr(error, 'strerror', None) or error}; "
                f"choose another port with {flag}, or 0 for none"
            )
            taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
            raise (PortTaken(text, port) if taken else StartError(text)) from error
        self._thread = threading.Thread(target=self.serve_forever, name="http", args=(0.1,), daemon=True)
        self._thread.start()

    def server_bind(self) -> None:
        """Bind the port; the base class would also ask DNS for this machine's name, which may take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "mqregistry", self.server_address[1]

    def verify_request(self, request: Any, client_address: object) -> bool:
        """Limit the number of threads: a new client replaces the oldest one, which most likely hangs."""
        if not self._free.acquire(blocking=False):
            with self._open_lock:
                oldest = next(iter(self._open), None)
            if oldest is not None:
                with contextlib.suppress(OSError):  # it has just been closed
                    oldest.shutdown(socket.SHUT_RDWR)
            if not self._free.acquire(timeout=_PLACE_S):
                return False
        with self._open_lock:
            self._open[request] = None
        return True

    def process_request_thread(self, request: Any, client_address: object) -> None:
        """Serve one connection in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._open_lock:
                self._open.pop(request, None)
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Log an error only at DEBUG: clients may close their connection at any time."""
        logger.debug("an HTTP client went away", exc_info=True)

    def close(self) -> None:
        """Stop answering, and close the port."""
        self.shutdown()
        self._thread.join()
        self.server_close()
