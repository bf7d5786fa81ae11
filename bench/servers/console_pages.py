"""Starts a console process, and opens pages that are read again after each event, as in a browser."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterable
from functools import partial
from pathlib import Path

KV_NAMESPACE = "bench"
"""Pages note the changes of this KV namespace by their key, a number."""
_STREAM_BYTES = 1 << 22
_OPENS_WITHIN_S = 30.0
_ASK = b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
_ASK_PAGE = b"GET /changes HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class OpenConsole:
    """A running console. seen: key of a change -> when each page showed it (``time.monotonic``)."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port
        self.seen: dict[str, list[float]] = {}
        self._pages: list[asyncio.Task[None]] = []
        self._unread: list[socket.socket] = []
        self._came = asyncio.Event()

    async def open_pages(self, number: int) -> None:
        """Open this number of further pages, and wait until each has its first event."""
        ready = asyncio.Semaphore(0)
        self._pages += [asyncio.create_task(self._listen(ready)) for _ in range(number)]
        for _ in range(number):
            await ready.acquire()

    def open_unread_pages(self, number: int) -> None:
        """Open this number of further pages, which read nothing from their sockets until :meth:`read_all`.

        So they need no CPU time here, as if browsers on other machines showed them. Ten changes are 4 kB.
        """
        for _ in range(number):
            page = socket.socket()
            self._unread.append(page)
            page.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _STREAM_BYTES)
            page.settimeout(_OPENS_WITHIN_S)
            page.connect(("127.0.0.1", self.port))
            page.sendall(_ASK)
        for page in self._unread:
            page.recv(1)
            page.setblocking(False)

    def read_all(self) -> list[int]:
        """For each page, the number of its events since it was last read."""
        return [_unread(page).count(b"event: state") for page in self._unread]

    async def shown(self, keys: Iterable[str], pages: int) -> None:
        """Wait until this number of pages show each of these changes."""
        for key in keys:
            while len(self.seen.get(key, ())) < pages:
                self._came.clear()
                await self._came.wait()

    async def _listen(self, ready: asyncio.Semaphore) -> None:
        reader, sender = await asyncio.open_connection("127.0.0.1", self.port, limit=_STREAM_BYTES)
        page_reader, page_sender = await asyncio.open_connection("127.0.0.1", self.port, limit=_STREAM_BYTES)
        sender.write(_ASK)
        shown, told = set[bytes](), b""
        try:
            while line := await reader.readline():
                if not line.startswith(b"data: {") or line == told:
                    continue
                if not told:
                    ready.release()
                told = line
                page_sender.write(_ASK_PAGE)
                for key in set(re.findall(rb"bench/(\d+)", await _body(page_reader))) - shown:
                    shown.add(key)
                    self.seen.setdefault(key.decode(), []).append(time.monotonic())
                    self._came.set()
        finally:
            sender.close()
            page_sender.close()

    async def close(self) -> None:
        """Close the pages, and end the console."""
        for page in self._pages:
            page.cancel()
        await asyncio.gather(*self._pages, return_exceptions=True)
        for page in self._unread:
            page.close()
        self.process.terminate()
        await asyncio.to_thread(self.process.wait)
        assert self.process.stdout is not None
        self.process.stdout.close()


async def _body(reader: asyncio.StreamReader) -> bytes:
    """The body of the next answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    assert length is not None, head
    return await reader.readexactly(int(length[1]))


def _unread(page: socket.socket) -> bytes:
    """Read what has arrived in the buffer of a socket."""
    found = bytearray()
    with contextlib.suppress(BlockingIOError):
        while piece := page.recv(_STREAM_BYTES):
            found += piece
    return bytes(found)


@contextlib.asynccontextmanager
async def console(redis: str, namespace: str, folder: Path) -> AsyncIterator[OpenConsole]:
    """Start a console on a namespace, with its checkpoints in the folder."""
    start = partial(
        subprocess.Popen[str],
        [sys.executable, "-m", "mqregistry", "console", "--redis", redis, "--namespace", namespace, "--port", "0",
         "--checkpoints", str(folder)],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "HOME": str(folder)},
    )  # fmt: skip
    process = await asyncio.to_thread(start)
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
