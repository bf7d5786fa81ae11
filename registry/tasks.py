"""Helps a loop of asyncio to notice that it was cancelled, and to wait."""

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
    """Sleep, unless this task was asked to end: after a swallowed CancelledError the loop must end without a pause."""
    if not cancelled():
        await asyncio.sleep(seconds)


async def wait_within(event: asyncio.Event, seconds: float | None) -> None:
    """Wait for an event, at most ``seconds``; None: without a limit."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
