"""Brokers' own ports, to which name servers connect: one that reads, one that resets, one that cannot be reached."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time


class Listener:
    """kind: ``reads``, ``reset`` (every connection, after its first bytes) or ``full`` (no connection is accepted).

    heard_at: when something was last read (time.monotonic).
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.heard_at = 0.0
        self._socket = socket.socket()
        self._fillers: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        self._socket.bind(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._socket.setblocking(False)
        if self.kind == "full":  # its queue is full: further connections wait for ever
            self._socket.listen(0)
            for _ in range(3):
                self._fillers.append(socket.socket())
                self._fillers[-1].setblocking(False)
                self._fillers[-1].connect_ex(("127.0.0.1", self.port))
        else:
            self._socket.listen(16)
            self._run(self._accept())

    def _run(self, coroutine) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self) -> None:
        while True:
            connection, _ = await asyncio.get_running_loop().sock_accept(self._socket)
            self._run(self._serve(connection))

    async def _serve(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with connection, contextlib.suppress(OSError):
            connection.setblocking(False)
            while await loop.sock_recv(connection, 4096):
                self.heard_at = time.monotonic()
                if self.kind == "reset":
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for one in (self._socket, *self._fillers):
            one.close()
