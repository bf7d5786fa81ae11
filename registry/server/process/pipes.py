"""The pipes through which a worker sends its status and its log to the supervisor, line by line."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from typing import Final

_MAX_LINE_BYTES: Final = 1024 * 1024


class LineWriter:
    """Writes lines to a pipe without waiting; the pipe's reader gets only whole lines, however late it reads.

    A full pipe may accept a part of a line: the rest is written before the next line. Lines are dropped while the pipe
    is full or has no reader.

    Args:
        fd: the pipe's end, which does not block.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._left = b""

    def write(self, line: bytes) -> None:
        """Write a line, which is given without its line end."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            for text in (self._left, line + b"\n"):
                self._left = text[os.write(self._fd, text) :] if text else b""
                if self._left:
                    return


@contextlib.asynccontextmanager
async def open_pipe() -> AsyncIterator[tuple[asyncio.StreamReader, int]]:
    """A pipe: its reader, and the worker's end, which the caller must close. OSError: too many files are open.

    The reader is closed at the end of the context.
    """
    read_fd, write_fd = os.pipe()
    reader = asyncio.StreamReader(limit=_MAX_LINE_BYTES)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_fd, "rb", 0)
    )
    try:
        yield reader, write_fd
    finally:
        transport.close()


async def lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The lines that come through a pipe, without line ends; lines that are too long are left out."""
    while True:
        try:
            line = await reader.readline()
        except ValueError:
            continue
        if not line:
            return
        yield line.rstrip(b"\r\n")
