"""Open pages are told a few at a time."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from mqregistry.console.state import OpenPage, State


async def test_pages_are_told_two_at_a_time_and_once_for_all_that_is_new():
    state, loop = State(None, None), asyncio.get_running_loop()
    told = []

    async def read(page):
        await page.wait(10)
        told.append(loop.time())

    pages = [OpenPage(state) for _ in range(10)]
    for _ in range(3):
        for page in pages:
            page.note()
    await asyncio.gather(*map(read, pages))
    assert len(told) == 10
    assert all(after - before >= 0.001 for before, after in pairwise(told[::2]))
    assert not state.pace._due, "each was woken once for all that was new"
    begun = loop.time()
    pages[0].note()
    await pages[0].wait(10)
    assert loop.time() - begun < 5
    await pages[1].wait(0.01)
