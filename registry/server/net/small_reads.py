"""Reads connections in small pieces, except for large frames whose turn has come.

By default an event loop reads up to 256 KiB of a socket at a time. When thousands of brokers send a registration at the
same moment, it would read more bytes than a worker may hold before the worker sees the first registration. A small
piece shows that a large frame begins; the rest of the frame stays in the socket until its turn comes.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Any, Final

from .connection_interface import OpenConnection

SMALL_READ_BYTES: Final = 8 << 10
_LARGE_READ_BYTES: Final = 256 << 10
# One buffer for the whole process: its bytes are copied before the next read.
_LARGE = memoryview(bytearray(_LARGE_READ_BYTES))
_SMALL = _LARGE[:SMALL_READ_BYTES]


class SmallReads(asyncio.BufferedProtocol):
    """A protocol that reads its socket in small pieces, unless it :attr:`reads_much`."""

    __slots__ = ()

    @property
    def reads_much(self) -> bool:
        """Whether the next piece may be large."""
        return False

    @abstractmethod
    def data_received(self, data: bytes) -> None:
        """Take the next piece of what the peer sent."""

    def get_buffer(self, sizehint: int) -> memoryview:
        """Called by the event loop before it reads."""
        return _LARGE if self.reads_much else _SMALL

    def buffer_updated(self, nbytes: int) -> None:
        """Called by the event loop when it has read ``nbytes``."""
        self.data_received(bytes(_LARGE[:nbytes]))


class LargeFrameSender(SmallReads):
    """The protocol object of a connection once it has sent a large frame; until then reading costs less without it."""

    __slots__ = ("_reader",)

    def __init__(self, reader: OpenConnection) -> None:
        self._reader = reader

    @property
    def reads_much(self) -> bool:
        """Whether the next piece may be large."""
        return self._reader.reads_much

    def data_received(self, data: bytes) -> None:
        """Take the next piece of what the peer sent."""
        self._reader.data_received(data)

    def pause_writing(self) -> None:
        """Called by the event loop."""
        self._reader.pause_writing()

    def resume_writing(self) -> None:
        """Called by the event loop."""
        self._reader.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """Called by the event loop."""
        self._reader.connection_lost(error)


def switch_protocol(transport: Any, protocol: asyncio.BaseProtocol) -> None:
    """Let this protocol get what the transport reads from now on; the transport must be reading."""
    transport.pause_reading()  # when reading begins, the transport looks at the type of its protocol
    transport.set_protocol(protocol)
    transport.resume_reading()
