"""Bounds how much of registrations one worker has decoded at a time.

Each large one takes this process and Redis tens of milliseconds. When a whole fleet comes at once, all of them together
would outlast every timeout, their own and those of heartbeats and lease renewals between them. And each is held until
Redis has answered, decoded, which is several times the size of its text.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from ...protocol.registration import LARGE_BYTES

# One is decoded while Redis works on another's.
LARGE_AT_ONCE: Final = 2
# Of texts below LARGE_BYTES: 16 MiB together.
SMALL_AT_ONCE: Final = 256
# The largest text that another large one may be decoded beside: no more than 64 MiB in all.
_HUGE_BYTES: Final = 24 << 20


class DecodingTurns:
    """The turns of one worker's registrations; small ones do not wait for large ones."""

    def __init__(self) -> None:
        self._small = asyncio.Semaphore(SMALL_AT_ONCE)
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)
        self._huge = asyncio.Lock()

    @asynccontextmanager
    async def turn(self, size: int) -> AsyncIterator[bool]:
        """Wait for a turn and keep it.

        Args:
            size: of the body's text in bytes, after inflating.

        Returns:
            whether there was none at once.
        """
        places = self._large if size >= LARGE_BYTES else self._small
        waits = places.locked()
        async with AsyncExitStack() as stack:
            if size > _HUGE_BYTES:  # takes every place; one at a time, so that no two wait for each other's
                await stack.enter_async_context(self._huge)
                for _ in range(LARGE_AT_ONCE - 1):
                    await stack.enter_async_context(places)
            await stack.enter_async_context(places)
            yield waits
