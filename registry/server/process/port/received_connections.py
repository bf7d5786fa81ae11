"""The connections that a worker receives from the parent, which accepts for several workers.

The other side is :mod:`mqregistry.server.process.port.acceptor`.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Sized
from typing import Final

logger = logging.getLogger(__name__)

# Connections in one message; the kernel allows 253.
AT_ONCE: Final = 64
_TELL_EVERY_S: Final = 0.1
_FD_BYTES: Final = array.array("i").itemsize


class ReceivedConnections:
    """Serves the connections that come over the worker's channel, in place of an ``asyncio.Server``.

    Args:
        factory: makes the protocol of a connection.
        open_now: the open connections, to report how many have closed.
    """

    def __init__(self, channel: socket.socket, factory: Callable[[], asyncio.BaseProtocol], open_now: Sized) -> None:
        self._loop = asyncio.get_running_loop()
        self._channel, self._factory, self._open_now = channel, factory, open_now
        self._channel.setblocking(False)
        self._taken = self._told = 0
        self._opening: set[asyncio.Task[None]] = set()
        self._teller = asyncio.create_task(self._tell())
        self._loop.add_reader(channel, self._take)

    def close(self) -> None:
        """Receive no more connections; the parent gives the rest to other workers."""
        self._loop.remove_reader(self._channel)
        self._teller.cancel()
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_RD)

    def _take(self) -> None:
        try:
            expected, files = receive(self._channel)
        except OSError:  # there is no message
            return
        if not expected:  # the parent is gone
            self._loop.remove_reader(self._channel)
        if len(files) < expected:
            logger.error("%d connections are lost: no more open files are permitted", expected - len(files))
        self._taken += expected - len(files)
        for file in files:
            task = self._loop.create_task(self._open(socket.socket(fileno=file)))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._factory, connection)
        except OSError:  # the client has closed it already
            connection.close()
        self._taken += 1

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(_TELL_EVERY_S)
            over = self._taken - self._told - len(self._open_now)
            if over > 0:
                with contextlib.suppress(OSError):
                    self._told += self._channel.send(bytes(over))


def receive(channel: socket.socket) -> tuple[int, list[int]]:
    """Read one message: how many connections were sent, and the file descriptors that arrived; (0, []) at the end.

    Raises:
        BlockingIOError: there is no message.
    """
    files = array.array("i")
    room = socket.CMSG_SPACE(AT_ONCE * _FD_BYTES)
    said, ancillary, _, _ = channel.recvmsg(1, room, socket.MSG_CMSG_CLOEXEC)
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            files.frombytes(data[: len(data) - len(data) % _FD_BYTES])
    return said[0] if said else 0, list(files)
