"""Open pages are told a few at a time."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from mqregistry.console.state import Listener, State


async def test_pages_are_told_two_at_a_time_and_all_that_is_new_at_once():
    state, loop = State(None, None), asyncio.get_running_loop()
    told = []

    async def read(page):
        found = await page.take(10)
        told.append((loop.time(), len(found)))

    pages = [Listener(state) for _ in range(10)]
    for _ in range(3):
        for page in pages:
            page.put(None)
    await asyncio.gather(*map(read, pages))
    assert [found for _, found in told] == [3] * 10
    assert all(after[0] - before[0] >= 0.001 for before, after in pairwise(told[::2]))
    pages[0].put(None)
    assert await pages[0].take(10) == [None]
    assert await pages[1].take(0.01) == []
