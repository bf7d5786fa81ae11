"""Reads the frames of one connection that is passed through, and finds the answer to each read."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from ..compare.answers import ReadRequest, asked_of
from ..errors import RemoteProtocolError
from ..protocol.command import Command, decode_command
from ..protocol.frame import FrameReader
from .counts import Counts

_TLS_HANDSHAKE: Final = 0x16  # the first byte of a connection with TLS
_MOST_WAITING: Final = 256

Offer = Callable[[ReadRequest, Command, Command, float], object]
"""Called with a read, its request, the answer, and the seconds until the answer."""


class Tap:
    """Listens to one connection (:class:`.relay.RelayListener`), and offers each read that was answered."""

    def __init__(self, counts: Counts, offer: Offer) -> None:
        self._counts = counts
        self._offer = offer
        self._requests: FrameReader | None = FrameReader()  # None: the connection is not read
        self._answers = FrameReader()
        self._waiting: dict[int, tuple[ReadRequest, Command, float]] = {}
        self._begun = False

    def sent(self, data: bytes) -> None:
        """Take in bytes that the client sent."""
        if not self._begun:
            self._begun = True
            if data[0] == _TLS_HANDSHAKE:
                self._counts.tls_connections += 1
                self._requests = None
        if self._requests is None:
            return
        self._read(self._requests, data, self._asked)

    def answered(self, data: bytes) -> None:
        """Take in bytes that the server answered."""
        if self._requests is not None:
            self._read(self._answers, data, self._answer)

    def _read(self, frames: FrameReader, data: bytes, take: Callable[[Command], None]) -> None:
        try:
            for frame in frames.feed(data):
                take(decode_command(frame))
            if frames.error is not None:
                raise frames.error
        except RemoteProtocolError:  # not RocketMQ's protocol, or an invalid frame: read no more of this connection
            self._counts.unreadable_connections += 1
            self._requests = None
            self._waiting.clear()

    def _asked(self, request: Command) -> None:
        self._counts.requests += 1
        asked = asked_of(request)
        if asked is None or request.opaque is None:
            return
        if len(self._waiting) >= _MOST_WAITING:
            self._counts.skipped += 1
            return
        self._waiting[request.opaque] = asked, request, time.perf_counter()

    def _answer(self, answer: Command) -> None:
        if not answer.is_response or answer.opaque is None:
            return
        waiting = self._waiting.pop(answer.opaque, None)
        if waiting is not None:
            asked, request, began_s = waiting
            self._offer(asked, request, answer, time.perf_counter() - began_s)
