"""Lets a request wait until this worker's view shows the change that it made."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable

from ...errors import ChangesLost, StoreUnavailable
from .view import Applied, View


class Effects:
    """The requests that wait for their changes, in the order of seq; listens to the view."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._seq = -1
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._waiters = 0
        self._other_tables = asyncio.Event()

    async def wait_for(self, seq: int, timeout_s: float) -> None:
        """Return once every change up to ``seq`` is in the view.

        Raises:
            StoreUnavailable: the change does not come within timeout_s seconds.
            ChangesLost: Redis lost the change meanwhile.
        """
        if seq <= self._seq:
            return
        future = asyncio.get_running_loop().create_future()
        self._waiters += 1
        heapq.heappush(self._waiting, (seq, self._waiters, future))
        await _within(timeout_s, future, f"the change with seq {seq} was made, but its event did not come")

    async def wait_for_other_tables(self, timeout_s: float) -> None:
        """Return once the view has loaded the tables again; StoreUnavailable: not within timeout_s seconds."""
        await _within(timeout_s, self._other_tables.wait(), "the tables were not read again")

    def applied(self, applied: Applied) -> None:
        """Wake the requests that wait for this change: the view has it."""
        self._seq = applied.change.seq
        if self._waiting:
            self._wake()

    def replaced(self, epoch: str, seq: int) -> None:
        """Wake the requests whose changes the view has now; if Redis had lost changes, fail all requests."""
        if self._view.has_lost:
            waiting, self._waiting = self._waiting, []
            for _, _, future in waiting:
                if not future.done():
                    future.set_exception(ChangesLost("Redis came back without this change; repeat it"))
        self._seq = seq
        self._wake()
        self._other_tables.set()
        self._other_tables = asyncio.Event()

    def _wake(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._seq:
            future = heapq.heappop(self._waiting)[2]
            if not future.done():
                future.set_result(None)


async def _within(timeout_s: float, awaited: Awaitable[object], otherwise: str) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await awaited
    except TimeoutError:
        raise StoreUnavailable(f"{otherwise} in {timeout_s} s") from None
