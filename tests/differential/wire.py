"""The remoting protocol, once more and independently of the project: frames in both header encodings.

It shares no code with what is under test, or a mistake made on both sides would go unseen.
"""

from __future__ import annotations

import json
import socket
import struct
from dataclasses import dataclass

ONEWAY = 2
TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Answer:
    """What came back; ext is None where the header had no extFields."""

    code: int
    remark: str | None
    ext: dict[str, str] | None
    body: bytes
    flag: int
    encoding: int


def encode(
    code: int,
    opaque: int,
    ext: dict[str, str] | None = None,
    body: bytes = b"",
    *,
    flag: int = 0,
    version: int = 479,
    binary: bool = False,
) -> bytes:
    """One request as it goes over the wire."""
    if binary:
        entries = b"".join(
            struct.pack(">h", len(key.encode()))
            + key.encode()
            + struct.pack(">i", len(value.encode()))
            + value.encode()
            for key, value in (ext or {}).items()
        )
        header = struct.pack(">hbhiii", code, 0, version, opaque, flag, 0) + struct.pack(">i", len(entries)) + entries
    else:
        fields: dict[str, object] = {
            "code": code, "flag": flag, "language": "JAVA", "opaque": opaque,
            "serializeTypeCurrentRPC": "JSON", "version": version,
        }  # fmt: skip
        if ext is not None:
            fields["extFields"] = ext
        header = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    return struct.pack(">iI", 4 + len(header) + len(body), binary << 24 | len(header)) + header + body


class Connection:
    """One blocking connection; requests are answered one at a time."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, frame: bytes) -> None:
        self.socket.sendall(frame)

    def receive(self, opaque: int) -> Answer | None:
        """The answer to this request; None when the server hung up."""
        while True:
            try:
                head = self._read(8)
                length, mark = struct.unpack(">iI", head)
                rest = self._read(length - 4)
            except ConnectionError:
                return None
            size = mark & 0xFF_FFFF
            header = json.loads(rest[:size])
            if header["opaque"] != opaque:
                continue
            return Answer(
                header["code"], header.get("remark"), header.get("extFields"), rest[size:], header["flag"], mark >> 24
            )

    def hang_up(self) -> None:
        """Close, and return once the server has closed its end too."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
            while self.socket.recv(1 << 16):
                pass
        except OSError:
            pass
        self.socket.close()

    def _read(self, size: int) -> bytes:
        chunks = bytearray()
        while len(chunks) < size:
            chunk = self.socket.recv(size - len(chunks))
            if not chunk:
                raise ConnectionError("the server closed the connection")
            chunks += chunk
        return bytes(chunks)
