"""Helps a loop that runs until it is cancelled to notice the cancellation."""

from __future__ import annotations

import asyncio
import contextlib


def cancelled() -> bool:
    """Whether this task was asked to end.

    For ``while not cancelled()``: redis-py's timeouts can swallow a CancelledError that comes in the same moment,
    and the loop must end anyway.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def pause(seconds: float) -> None:
    """Sleep, unless this task was asked to end: a swallowed cancellation must not cost a whole pause."""
    if not cancelled():
        await asyncio.sleep(seconds)


async def wait_within(event: asyncio.Event, seconds: float | None) -> None:
    """Wait for an event, for this time at most; None: as long as it takes."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
