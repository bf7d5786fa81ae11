"""An asynchronous client of the RocketMQ protocol that knows when its connection was closed, and by whom."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

from mqregistry.protocol.command import Command, decode_command, encode_command
from mqregistry.protocol.frame import FrameReader

ANSWER_S = 20.0
"""Longer than any answer may take while its front end runs: a request that waits for Redis has bounds of its own."""


class HungUp(OSError):
    """The other side closed the connection."""


class Wire(asyncio.Protocol):
    """One connection. closed_at: when the server closed it (time.monotonic)."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.opened_at = time.monotonic()
        self.closed_at: float | None = None
        self.closed_by_us = False
        self.sent_away = False
        self._reader = FrameReader()
        self._waiting: dict[int, asyncio.Future[Command]] = {}
        self._opaque = 0

    @classmethod
    async def open(cls, port: int, *, timeout_s: float = 5.0) -> Wire:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(timeout_s):
            _, wire = await loop.create_connection(cls, "127.0.0.1", port)
        return wire

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for frame in self._reader.feed(data):
            command = decode_command(frame)
            future = self._waiting.pop(command.opaque or 0, None)
            if future is not None and not future.done():
                future.set_result(command)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.closed_by_us:
            self.closed_at = time.monotonic()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(HungUp("hung up"))
        self._waiting.clear()

    @property
    def is_open(self) -> bool:
        return self.closed_at is None and not self.closed_by_us

    def post(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> asyncio.Future[Command]:
        """Send a request; its answer comes with the future."""
        if not self.is_open or self.transport is None:
            raise HungUp("closed")
        self._opaque += 1
        future = asyncio.get_running_loop().create_future()
        self._waiting[self._opaque] = future
        command = Command(code=code, opaque=self._opaque, version=479, ext_fields=ext, body=body)
        self.transport.write(encode_command(command))
        return future

    async def ask(
        self, code: int, ext: dict[str, str] | None = None, body: bytes = b"", *, timeout_s: float = ANSWER_S
    ) -> Command:
        """Send a request and wait for its answer.

        Raises:
            HungUp: the connection was closed. TimeoutError: no answer.
        """
        future = self.post(code, ext, body)
        async with asyncio.timeout(timeout_s):
            answer = await future
        if answer.code == 1500:
            self.sent_away = True
        return answer

    def close(self) -> None:
        if self.is_open:
            self.closed_by_us = True
            if self.transport is not None:
                self.transport.close()

    def drop(self) -> None:
        """Close it with a reset."""
        if self.is_open:
            self.closed_by_us = True
            if self.transport is not None:
                self.transport.abort()


@contextlib.asynccontextmanager
async def connected(port: int):
    wire = await Wire.open(port)
    try:
        yield wire
    finally:
        wire.close()
