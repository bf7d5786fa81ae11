"""A TCP proxy before Redis, one for each process: it delays, cuts, half-opens, and cuts where a script is called."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

CHUNK_BYTES = 1 << 16


class Link:
    """One process's way to Redis.

    delay_s: each read of either direction waits so long. held: bytes do not pass, and nothing is closed. cut:
    connections are reset at once, new ones too. trips: SHA-1 of a script, or the name of a command -> how many
    calls of it are answered with a reset, before Redis has seen them.
    """

    def __init__(self) -> None:
        self.target: Path | tuple[str, int] = Path()
        self.port = 0
        self.delay_s = 0.0
        self.cut = False
        self.trips: dict[bytes, int] = {}
        self.tripped = 0
        self._open = asyncio.Event()
        self._open.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, target: Path | tuple[str, int]) -> None:
        self.target = target
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def hold(self) -> None:
        """Half-open: from now on nothing passes, and nobody is told."""
        self._open.clear()

    def release(self) -> None:
        """What was held back arrives now."""
        self._open.set()

    def reset(self) -> None:
        """Every connection is gone."""
        for writer in list(self._writers):
            writer.transport.abort()

    def heal(self) -> None:
        self.cut, self.delay_s = False, 0.0
        self.trips.clear()
        self.release()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        other: asyncio.StreamWriter | None = None
        try:
            if self.cut:
                return
            await self._open.wait()
            if isinstance(self.target, Path):
                back, other = await asyncio.open_unix_connection(str(self.target))
            else:
                back, other = await asyncio.open_connection(*self.target)
            self._writers.add(other)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass_on(reader, other, calls=True))
                group.create_task(self._pass_on(back, writer, calls=False))
        except* (OSError, RuntimeError, asyncio.CancelledError):  # uvloop: "the handler is closed"
            pass
        finally:
            self._tasks.discard(task)
            for end in (writer, other):
                if end is not None:
                    self._writers.discard(end)
                    end.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, calls: bool) -> None:
        while data := await reader.read(CHUNK_BYTES):
            if calls and self.trips and self._trips(data):
                raise ConnectionResetError
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            await self._open.wait()
            if self.cut:
                raise ConnectionResetError
            if writer.transport.is_closing():
                raise ConnectionResetError
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError  # one side ended: both do

    def _trips(self, data: bytes) -> bool:
        for sha, count in self.trips.items():
            if count and sha in data:
                self.trips[sha] = count - 1
                self.tripped += 1
                return True
        return False

    async def close(self) -> None:
        self._server.close()
        self.release()
        self.reset()
        for task in list(self._tasks):
            task.cancel()
        with contextlib.suppress(Exception):
            await asyncio.gather(*self._tasks, return_exceptions=True)
