"""Times some lookups a second, while all others pass without a look at a clock.

Twice a second some connections get a :class:`Sample` in the place of their lookup cache. It takes the time of the next
bytes that come, puts the cache back, and leaves everything to it. The time ends with the turn of the event loop in
which the bytes came: the answer has then gone to the socket, and so have those of all other connections of this turn.
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
_MAX_FRAME_BYTES: Final = 4096  # longer ones are no lookups worth a second decoding


class KnownLookups(Protocol):
    """What answers the lookups of a connection that are known by their bytes."""

    def answer(self, data: bytes, asked: Callable[[Any], object]) -> bytes | None:
        """The answer to one whole frame; None: it is not known."""

    def answer_several(self, data: bytes, out: list[bytes], max_bytes: int, asked: Callable[[Any], object]) -> int:
        """Answer the frames at the beginning; returns their size."""


class Sampled(Protocol):
    """A connection, as far as it is sampled."""

    known: KnownLookups


class Sample:
    """Stands once for the lookup cache of a connection."""

    __slots__ = ("_connection", "_counters", "_known")

    def __init__(self, connection: Sampled, counters: Counters) -> None:
        self._connection = connection
        self._counters = counters
        self._known = connection.known

    def answer(self, data: bytes, asked: Callable[[Any], object]) -> bytes | None:
        """Begin to measure, and answer as ever."""
        since_s = perf_counter()
        if self._connection.known is self:
            self._connection.known = self._known
        asyncio.get_running_loop().call_soon(self._done, data, since_s)
        return self._known.answer(data, asked)

    def answer_several(self, data: bytes, out: list[bytes], max_bytes: int, asked: Callable[[Any], object]) -> int:
        """As ever; these frames are not measured."""
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
    """Measure what comes next over a connection, unless that is to be done already."""
    if not isinstance(connection.known, Sample):
        connection.known = Sample(connection, counters)
