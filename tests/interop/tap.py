"""A proxy between a peer and its name server that keeps every frame; like wire.py it shares no code with ours."""

import contextlib
import json
import select
import socket
import struct
import threading
import time
import zlib
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from .wire import parse_json

RESPONSE, ONEWAY = 1, 2


@dataclass(frozen=True)
class Frame:
    """One command as it went over the wire, with a JSON header."""

    at: float
    """Monotonic seconds."""
    connection: int
    of_peer: bool
    header: dict[str, Any]
    body: bytes

    @property
    def code(self) -> int:
        return int(self.header["code"])

    @property
    def ext(self) -> dict[str, str]:
        return dict(self.header.get("extFields") or {})

    @property
    def is_response(self) -> bool:
        return bool(self.header["flag"] & RESPONSE)

    @property
    def is_oneway(self) -> bool:
        return bool(self.header["flag"] & ONEWAY)

    def json(self) -> Any:
        return parse_json(self.body)

    def registration(self) -> Any:
        """The body of a registration (103), compressed or not, in one form."""
        if self.body[:1] == b"{":
            return self.json()
        data = zlib.decompress(self.body)
        at = 0

        def number() -> int:
            nonlocal at
            at += 4
            return int(struct.unpack_from(">i", data, at - 4)[0])

        def text() -> str:
            nonlocal at
            size = number()
            at += size
            return data[at - size : at].decode()

        version = parse_json(text())
        lines = [text() for _ in range(number())]
        return {
            "dataVersion": version,
            "topics": sorted(lines),
            "filterServers": parse_json(text()),
            # Brokers of 4.8 end here.
            "mappings": [parse_json(text()) for _ in range(number())] if at < len(data) else None,
        }


class Tap:
    """Listens on loopback and passes everything on to `port`, while the block runs."""

    def __init__(self, port: int) -> None:
        self._upstream = port
        self._frames: list[Frame] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.1)
        self.port = int(self._listener.getsockname()[1])
        self.faults: list[str] = []

    @property
    def addr(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(10)
        self._listener.close()
        if kind is None:
            assert not self.faults, self.faults

    def frames(self, code: int | None = None) -> list[Frame]:
        """What the peer sent so far, or what of it has this code."""
        with self._lock:
            return [frame for frame in self._frames if frame.of_peer and code in (None, frame.code)]

    def answer(self, asked: Frame) -> Frame | None:
        """The answer to a frame of the peer."""
        with self._lock:
            for frame in self._frames:
                same = frame.connection == asked.connection and frame.header["opaque"] == asked.header["opaque"]
                if same and frame.is_response and not frame.of_peer:
                    return frame
        return None

    def _start(self, target: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        number = 0
        while not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                peer, _ = self._listener.accept()
                number += 1
                try:
                    server = socket.create_connection(("127.0.0.1", self._upstream), 5)
                except OSError:
                    peer.close()  # as if nobody listened
                    continue
                self._start(self._pass, number, peer, server)

    def _pass(self, number: int, peer: socket.socket, server: socket.socket) -> None:
        """Both directions of one connection, until either side hangs up."""
        held = {peer: bytearray(), server: bytearray()}
        with peer, server, contextlib.suppress(OSError):
            while not self._stop.is_set():
                for source in select.select([peer, server], [], [], 0.1)[0]:
                    data = source.recv(1 << 16)
                    if not data:
                        return
                    held[source] += data
                    self._keep(number, source is peer, held[source])
                    (server if source is peer else peer).sendall(data)

    def _keep(self, number: int, of_peer: bool, held: bytearray) -> None:
        while len(held) >= 8:
            length, form_and_size = struct.unpack_from(">iI", held)
            if len(held) < 4 + length:
                return
            raw = bytes(held[8 : 4 + length])
            del held[: 4 + length]
            if form_and_size >> 24:
                self.faults.append(f"a header that is not JSON: {raw[:80]!r}")
                continue
            header, body = raw[: form_and_size & 0xFF_FFFF], raw[form_and_size & 0xFF_FFFF :]
            with self._lock:
                self._frames.append(Frame(time.monotonic(), number, of_peer, json.loads(header), body))
