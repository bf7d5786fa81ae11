"""Cancels a scenario whenever it or a task that it started awaits, and looks for what is left behind.

Beside ``cancelling``, which counts the awaits of the scenario alone: here those of its background tasks count, too,
so that the scenario is cancelled in each state that they can be in.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
from collections.abc import Callable, Coroutine, Generator
from typing import Any

Scenario = Callable[[], Coroutine[Any, Any, None]]

# Looking for what nobody refers to costs more than a scenario.
_COLLECT_EACH = 20


class _Counted(Coroutine[Any, Any, Any]):
    """A coroutine whose awaits are counted."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], count: Callable[[], None]) -> None:
        self._coroutine = coroutine
        self._count = count

    def send(self, value: Any) -> Any:
        waits_for = self._coroutine.send(value)
        self._count()
        return waits_for

    def throw(self, *error: Any) -> Any:
        waits_for = self._coroutine.throw(*error)
        self._count()
        return waits_for

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()


class Interrupter:
    """Counts how often any task of the loop awaits, and cancels ``victim`` the given time."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.count = 0
        self.victim: asyncio.Task[Any] | None = None

    def make_task(
        self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
    ) -> asyncio.Task[Any]:
        return asyncio.Task(_Counted(coroutine, self._counts), loop=loop, **options)

    def _counts(self) -> None:
        self.count += 1
        if self.count == self.at and self.victim is not None:
            self.victim.cancel()


def sockets() -> set[str]:
    """The sockets that this process has open."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{number}")
            if target.startswith("socket:"):
                found.add(target)
    return found


async def interrupted_at_each_await(scenario: Scenario, *, most: int = 5000, patience_s: float = 5.0) -> int:
    """Run the scenario again and again, cancelled the first time any of its tasks awaits, the second time, ...

    Args:
        scenario: makes everything that it needs but servers, and ends by itself.
        most: more awaits than this are a scenario that does not end.
        patience_s: how long what is closing may take.

    Returns:
        how many awaits it has.

    Raises:
        AssertionError: it left a task, a socket or a complaint behind, or swallowed the cancellation.
    """
    loop = asyncio.get_running_loop()
    complaints: list[dict[str, Any]] = []
    handler, factory = loop.get_exception_handler(), loop.get_task_factory()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    try:
        await scenario()  # what is opened once and kept (the resolver's threads) is there now
        await asyncio.sleep(0)
        for at in range(1, most):
            tasks, open_before = asyncio.all_tasks(), sockets()
            interrupter = Interrupter(at)
            loop.set_task_factory(interrupter.make_task)
            interrupter.victim = victim = loop.create_task(scenario())
            try:
                await asyncio.wait([victim], timeout=60)
            finally:
                loop.set_task_factory(factory)
            assert victim.done(), f"cancelled at await {at}, and still not ended"
            if not victim.cancelled() and victim.exception() is not None:
                raise AssertionError(f"cancelled at await {at}: it raised something else") from victim.exception()
            swallowed = not victim.cancelled() and victim.cancelling() > 0
            await _gone(
                lambda known=tasks: asyncio.all_tasks() - known, f"cancelled at await {at}: tasks left", patience_s
            )
            await _gone(
                lambda known=open_before: sockets() - known, f"cancelled at await {at}: sockets left", patience_s
            )
            if at % _COLLECT_EACH == 0 or interrupter.count < at:
                gc.collect()
            assert not complaints, f"cancelled at await {at} or shortly before: {complaints}"
            if interrupter.count < at:
                return interrupter.count
            assert not swallowed, f"cancelled at await {at}: went on as if nothing had happened"
        raise AssertionError(f"a scenario of more than {most} awaits")
    finally:
        loop.set_exception_handler(handler)


async def _gone(left: Callable[[], set[Any]], what: str, patience_s: float) -> None:
    deadline = asyncio.get_running_loop().time() + patience_s
    while found := left():
        assert asyncio.get_running_loop().time() < deadline, f"{what}: {found}"
        await asyncio.sleep(0.001)
