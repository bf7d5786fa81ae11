"""A console as its own process, and open pages of it: event streams that note when each change came."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import Executor
from functools import partial
from pathlib import Path

KV_NAMESPACE = "bench"
"""Changes of this KV namespace are noted, by their key: a number."""
_STREAM_BYTES = 1 << 22
_ASK = b"GET /events?changes=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class _Dropped(asyncio.Protocol):
    """Drops what comes; tells when the first of it does."""

    def __init__(self, ready: asyncio.Semaphore) -> None:
        self._ready: asyncio.Semaphore | None = ready

    def data_received(self, data: bytes) -> None:
        if self._ready is not None:
            self._ready.release()
            self._ready = None


class OpenConsole:
    """A console that answers. seen: key of a change -> when it stood in each page, by ``time.monotonic``."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port
        self.seen: dict[str, list[float]] = {}
        self._pages: list[asyncio.Task[None]] = []
        self._came = asyncio.Event()

    async def open_pages(self, number: int, *, noting: bool = True) -> None:
        """Open so many pages more, and wait until each has its first event.

        Args:
            noting: note in ``seen`` when each change came; else what comes is read and dropped, which costs least.
        """
        ready = asyncio.Semaphore(0)
        listen = self._listen if noting else self._read
        self._pages += [asyncio.create_task(listen(ready)) for _ in range(number)]
        for _ in range(number):
            await ready.acquire()

    async def shown(self, keys: Iterable[str], pages: int) -> None:
        """Wait until each of these changes stands in so many pages."""
        for key in keys:
            while len(self.seen.get(key, ())) < pages:
                self._came.clear()
                await self._came.wait()

    async def _listen(self, ready: asyncio.Semaphore) -> None:
        reader, sender = await asyncio.open_connection("127.0.0.1", self.port, limit=_STREAM_BYTES)
        sender.write(_ASK)
        try:
            while line := await reader.readline():
                if b"event: status" in line:
                    ready.release()
                for key in re.findall(rb"bench/(\d+)", line):
                    self.seen.setdefault(key.decode(), []).append(time.monotonic())
                    self._came.set()
        finally:
            sender.close()

    async def _read(self, ready: asyncio.Semaphore) -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(lambda: _Dropped(ready), "127.0.0.1", self.port)
        transport.write(_ASK)
        try:
            await loop.create_future()
        finally:
            transport.close()

    async def close(self) -> None:
        """Close the pages, and end the console."""
        for page in self._pages:
            page.cancel()
        await asyncio.gather(*self._pages, return_exceptions=True)
        self.process.terminate()
        await asyncio.to_thread(self.process.wait)
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextlib.asynccontextmanager
async def console(
    redis: str, namespace: str, folder: Path, starter: Executor | None = None
) -> AsyncIterator[OpenConsole]:
    """Start a console on a namespace; it keeps what it keeps in the folder.

    Args:
        starter: whose priority it gets; default: that of some other thread of this process.
    """
    command = [sys.executable, "-m", "mqregistry", "console", "--redis", redis, "--namespace", namespace]
    start = partial(
        subprocess.Popen[str], [*command, "--port", "0", "--checkpoints", str(folder)], stdout=subprocess.PIPE,
        text=True, env={**os.environ, "HOME": str(folder)},
    )  # fmt: skip
    process = await asyncio.get_running_loop().run_in_executor(starter, start)
    assert process.stdout is not None
    said = await asyncio.to_thread(process.stdout.readline)
    found = re.search(r":(\d+)/", said)
    if found is None:
        process.kill()
        raise SystemExit(f"the console did not start: {said!r}")
    opened = OpenConsole(process, int(found[1]))
    try:
        yield opened
    finally:
        await opened.close()
