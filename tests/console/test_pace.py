"""Open pages are told a few at a time."""

from __future__ import annotations

import asyncio

from mqregistry.console.state import Pace


async def test_pages_are_told_a_few_at_a_time_and_a_single_one_at_once():
    pace, loop = Pace(), asyncio.get_running_loop()
    told = []

    async def tell(page):
        await pace.turn()
        told.append((page, loop.time()))

    began = loop.time()
    await asyncio.gather(*map(tell, range(10)))
    assert sorted(page for page, _ in told) == list(range(10))
    assert all(at - began >= 0.001 * (number // 4) for number, (_, at) in enumerate(told))
    await asyncio.sleep(0.005)
    turn = pace.turn()
    try:
        turn.send(None)  # it would wait
    except StopIteration:
        pass
    else:
        raise AssertionError("nobody else was told for 5 ms")
