"""Loops end soon after they were asked to, also when something swallowed it."""

from __future__ import annotations

import asyncio
import contextlib

from mqregistry.tasks import cancelled, pause


async def test_a_pause_is_none_for_who_was_asked_to_end() -> None:
    rounds = 0
    begun = asyncio.Event()

    async def loop() -> None:
        nonlocal rounds
        while not cancelled():
            rounds += 1
            begun.set()
            with contextlib.suppress(asyncio.CancelledError):  # as a timeout of a library may
                await asyncio.sleep(600)
            await pause(600)

    task = asyncio.create_task(loop())
    await begun.wait()
    task.cancel()
    async with asyncio.timeout(20):
        await task
    assert rounds == 1


async def test_a_pause_that_is_cut_short_ends_the_task() -> None:
    task = asyncio.create_task(pause(600))
    await asyncio.sleep(0)
    task.cancel()
    async with asyncio.timeout(20):
        await asyncio.wait([task])
    assert task.cancelled()
