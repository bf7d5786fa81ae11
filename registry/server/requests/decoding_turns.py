"""Bounds how many bytes of registrations one worker holds decoded, and how long it decodes without a pause.

A large registration takes this process and Redis tens of milliseconds. If a whole fleet registered at once without a
bound, every request would exceed its timeout, heartbeats and lease renewals included. A decoded registration takes
several times the size of its text, and is held until Redis has answered.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic_ns
from typing import Final, TypeVar

from ...protocol.bodies.register_compressed import BodySize
from ...protocol.registration import LARGE_BYTES
from ...protocol.slices import Slices, finish

T = TypeVar("T")

# One large registration is decoded while Redis works on another.
LARGE_AT_ONCE: Final = 2
# The most memory of decoded registrations, large and small; with the chunks of chunk_cache 64 MiB.
LARGE_ROOM_BYTES: Final = 32 << 20
SMALL_ROOM_BYTES: Final = 8 << 20
_SMALL_AT_ONCE: Final = 1000
OBJECT_BYTES: Final = 256
"""About how many bytes a decoded topic takes besides its text."""
# A body that takes at most this much memory is decoded in less than a millisecond, so without a pause.
_AT_ONCE_BYTES: Final = 16 << 10


def decoded_bytes(size: BodySize) -> int:
    """About how much memory a body of this size takes when decoded."""
    return size.text_bytes + OBJECT_BYTES * size.objects


class _Room:
    """Bounds the number of registrations and the sum of their bytes; first come, first served.

    A registration larger than the whole room waits until the room is empty, and then has it alone.
    """

    def __init__(self, most_bytes: int, at_once: int) -> None:
        self._most_bytes = self._left_bytes = most_bytes
        self._left = at_once
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def enter(self, size_bytes: int) -> bool:
        """Wait until there is room, and take it; returns whether there was none at first."""
        size_bytes = min(size_bytes, self._most_bytes)
        if not self._waiting and self._take(size_bytes):
            return False
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((size_bytes, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._waiting = deque(one for one in self._waiting if one[1] is not turn)
                self._admit()
            else:  # its turn came at the same moment
                self.leave(size_bytes)
            raise
        return True

    def leave(self, size_bytes: int) -> None:
        """Give the room back."""
        self._left_bytes += min(size_bytes, self._most_bytes)
        self._left += 1
        self._admit()

    def _take(self, size_bytes: int) -> bool:
        if self._left == 0 or size_bytes > self._left_bytes:
            return False
        self._left_bytes -= size_bytes
        self._left -= 1
        return True

    def _admit(self) -> None:
        while self._waiting:
            size_bytes, turn = self._waiting[0]
            if turn.cancelled():  # the waiting task is cancelled, but has not run since
                self._waiting.popleft()
            elif self._take(size_bytes):
                self._waiting.popleft()
                turn.set_result(None)
            else:
                return


class DecodingTurns:
    """The turns of one worker's registrations; small ones do not wait for large ones."""

    def __init__(self) -> None:
        self.worked: Callable[[str, int], object] = lambda host, spent_ns: None  # called after each slice
        self._small = _Room(SMALL_ROOM_BYTES, _SMALL_AT_ONCE)
        self._large = _Room(LARGE_ROOM_BYTES, LARGE_AT_ONCE)
        self._slice = asyncio.Lock()

    @asynccontextmanager
    async def turn(self, size: BodySize) -> AsyncIterator[bool]:
        """Take a turn for a body of this size, and give it back at the end; yields whether it had to wait."""
        takes = decoded_bytes(size)
        room = self._large if size.text_bytes >= LARGE_BYTES else self._small
        waited = await room.enter(takes)
        try:
            yield waited
        finally:
            room.leave(takes)

    async def work(self, host: str, slices: Slices[T], size: BodySize | None = None) -> T:
        """Decode in slices; after each slice of any registration the event loop serves other requests.

        Args:
            size: the size of the body; None: not known. A small body is decoded without a pause.
        """
        if size is not None and decoded_bytes(size) <= _AT_ONCE_BYTES:
            return finish(slices)
        while True:
            async with self._slice:
                since_ns = monotonic_ns()
                try:
                    next(slices)
                except StopIteration as done:
                    result: T = done.value
                    return result
                finally:
                    self.worked(host, monotonic_ns() - since_ns)
                await asyncio.sleep(0)  # keep the lock, or every registration would do a slice before other requests
