"""Helpers for tasks of asyncio: whether a task was cancelled, and waits that end early."""

from __future__ import annotations

import asyncio
import contextlib
import signal


def cancelled() -> bool:
    """Whether this task was asked to end.

    Loops use it as ``while not cancelled()``: if a timeout of redis-py ends at the moment of a cancellation, redis-py
    can swallow the CancelledError, and the loop must end anyway.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def pause(seconds: float) -> None:
    """Sleep, unless this task was asked to end (:func:`cancelled`)."""
    if not cancelled():
        await asyncio.sleep(seconds)


def set_by_signals() -> asyncio.Event:
    """An event that SIGINT and SIGTERM set."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def wait_within(event: asyncio.Event, seconds: float | None) -> None:
    """Wait for an event, at most ``seconds``; None: without a limit."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
