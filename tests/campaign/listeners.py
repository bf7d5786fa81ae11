"""Brokers' own ports, to which name servers connect: one that reads, one that resets, one that says nothing."""

from __future__ import annotations

import asyncio
import contextlib


class Listener:
    """kind: ``reads``, ``reset`` (after the first bytes, and after each further connection) or ``silent``."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.heard = 0
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            if self.kind == "silent":
                await asyncio.sleep(3600)
            while data := await reader.read(4096):
                self.heard += len(data)
                if self.kind == "reset":
                    break
        self._writers.discard(writer)
        writer.transport.abort()

    async def close(self) -> None:
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
