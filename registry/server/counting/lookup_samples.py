"""Times a few lookups each second; all other lookups are answered without reading a clock.

Twice a second some connections get a :class:`Sample` in place of their lookup cache. When the next bytes come, the
sample starts a timer, puts the cache back, and lets the cache answer. The timer stops at the end of this turn of the
event loop, when all answers of the turn, also those of other connections, are in their sockets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final, Protocol

from ...errors import RemoteProtocolError
from ...protocol.codes import FLAG_RESPONSE, RequestCode
from ...protocol.command import decode_command
from ...protocol.frame import is_frame
from .counters import Counters

AT_A_TIME: Final = 32
"""At most this many connections are sampled, twice a second."""
_LOOKUP: Final = int(RequestCode.GET_ROUTEINFO_BY_TOPIC)
_MAX_FRAME_BYTES: Final = 4096  # longer frames are not decoded a second time


class KnownLookups(Protocol):
    """Answers lookups whose bytes it has seen before, and calls ``asked`` with each kept answer that it used."""

    def answer(self, data: bytes, asked: Callable[[Any], object]) -> bytes | None:
        """The answer to one whole frame; None: the frame is not known."""

    def answer_several(self, data: bytes, out: list[bytes], max_bytes: int, asked: Callable[[Any], object]) -> int:
        """Answer the known frames at the start of data into ``out``; returns how many bytes these frames have."""


class Sampled(Protocol):
    """The part of a connection that sampling needs."""

    known: KnownLookups


class Sample:
    """Takes the place of a connection's lookup cache for one measurement."""

    __slots__ = ("_connection", "_counters", "_known")

    def __init__(self, connection: Sampled, counters: Counters) -> None:
        self._connection = connection
        self._counters = counters
        self._known = connection.known

    def answer(self, data: bytes, asked: Callable[[Any], object]) -> bytes | None:
        """Begin to measure, and answer as the cache does."""
        since_s = perf_counter()
        if self._connection.known is self:
            self._connection.known = self._known
        asyncio.get_running_loop().call_soon(self._done, data, since_s)
        return self._known.answer(data, asked)

    def answer_several(self, data: bytes, out: list[bytes], max_bytes: int, asked: Callable[[Any], object]) -> int:
        """Answer as the cache does; these frames are not measured."""
        return self._known.answer_several(data, out, max_bytes, asked)

    def _done(self, data: bytes, since_s: float) -> None:
        now_s = perf_counter()
        if len(data) <= _MAX_FRAME_BYTES and is_frame(data):
            try:
                command = decode_command(data[4:])
            except RemoteProtocolError:
                return
            if command.code == _LOOKUP and not command.flag & FLAG_RESPONSE:
                self._counters.durations["lookup"].add(now_s - since_s)


def sample_next(connection: Sampled, counters: Counters) -> None:
    """Measure the next bytes of a connection, unless a measurement is prepared already."""
    if not isinstance(connection.known, Sample):
        connection.known = Sample(connection, counters)
