"""Asks a Redis that starts how much of its file it has loaded; it does not wait for the answer."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path
from typing import Final

_READ_BYTES: Final = 1 << 16


class Persistence:
    """Sends INFO persistence to the server's unix socket; Redis answers this even while it loads its file."""

    def __init__(self, socket_path: Path) -> None:
        self._path = socket_path
        self._socket: socket.socket | None = None
        self._got = b""

    def ask(self) -> dict[str, str] | None:
        """The fields of the answer; None: no answer has come yet, and the caller asks again later."""
        try:
            if self._socket is None:
                self._send(b"INFO persistence\r\n")
            assert self._socket is not None
            with contextlib.suppress(BlockingIOError):
                while part := self._socket.recv(_READ_BYTES):
                    self._got += part
                raise ConnectionResetError
        except OSError:
            self.close()
            return None
        head, _, body = self._got.partition(b"\r\n")
        if not head.startswith(b"$") or len(body) < int(head[1:]) + 2:
            return None
        self.close()
        return dict(line.split(":", 1) for line in body.decode().splitlines() if ":" in line)

    def tell(self, command: str) -> None:
        """Send a command without reading the answer."""
        with contextlib.suppress(OSError):
            self._send(command.encode() + b"\r\n")
        self.close()

    def close(self) -> None:
        """Close the connection to the server."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._got = None, b""

    def _send(self, request: bytes) -> None:
        self.close()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(self._path))  # a unix socket connects at once, or not at all
        self._socket.sendall(request)
        self._socket.setblocking(False)
