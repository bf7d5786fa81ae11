"""Cancels a coroutine at each of its awaits in turn, and looks whether anything is left."""

from __future__ import annotations

import asyncio
import gc
import os
import types
from collections.abc import Awaitable, Callable, Coroutine

from tests.waiting import until


@types.coroutine
def _cancelled_at(coroutine, step, steps):
    """Drive it; when it waits for the ``step``-th time its task is cancelled. ``steps`` has an entry for each wait."""
    error = None
    while True:
        try:
            waits_for = coroutine.send(None) if error is None else coroutine.throw(error)
        except StopIteration as end:
            return end.value
        steps.append(True)
        if len(steps) == step:
            asyncio.current_task().cancel()
        try:
            yield waits_for
            error = None
        except BaseException as caught:  # noqa: BLE001 - the coroutine gets it
            error = caught


async def _wrapped(coroutine, step, steps):
    return await _cancelled_at(coroutine, step, steps)


def sockets() -> int:
    """Open sockets of this process."""
    count = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")
        except OSError:
            continue
    return count


async def cancel_at_each_await(
    scenario: Callable[[], Coroutine[object, object, object]],
    *,
    most: int = 400,
    settled: Callable[[], Awaitable[object]] | None = None,
) -> int:
    """Run the scenario once for each of its awaits, cancelled there; the number of awaits it has.

    After each run no task that it started is left, and no socket more than before. A scenario that does not end by
    itself is cancelled at its first ``most`` awaits.
    """
    gc.collect()
    for step in range(1, most + 1):
        before, tasks = sockets(), asyncio.all_tasks()
        steps: list[bool] = []
        task = asyncio.create_task(_wrapped(scenario(), step, steps))
        tasks.add(task)
        async with asyncio.timeout(60):
            (found,) = await asyncio.gather(task, return_exceptions=True)
        ended = len(steps) < step
        assert ended or isinstance(found, asyncio.CancelledError), f"cancelled at await {step}, it went on: {found!r}"
        if ended and isinstance(found, BaseException):
            raise found
        if settled is not None:
            await settled()
        await until(lambda tasks=tasks: asyncio.all_tasks() <= tasks, f"cancelled at await {step}: a task is left")
        await until(lambda before=before: sockets() <= before, f"cancelled at await {step}: a socket is left")
        if ended:
            return step - 1
    return most
