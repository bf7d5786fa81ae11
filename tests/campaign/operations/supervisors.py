"""Parents of workers that are killed or stand still, and logs that nobody reads."""

from __future__ import annotations

import asyncio
import contextlib
import time
from random import Random
from typing import TYPE_CHECKING

import psutil

from ..wire import HungUp, Wire
from .processes import standing
from .table import claimed, disturbed, operation, places_of

if TYPE_CHECKING:
    from ..processes import FrontEnd
    from ..world import World

AT_ONCE_S = 0.7
"""A worker whose supervisor died ends within this; a drain takes a second at least."""
LINES = 500
"""Lines of a worker's log, each of which has a key of 200 bytes: more than a pipe takes."""
HEARD_S = 6.0


@operation(0.8)
async def supervisor_killed(world: World, rng: Random) -> None:
    """SIGKILL of the parent alone, as the OOM killer does, and a new start at once, on the same port."""
    front_end = rng.choice(world.front_ends)
    with claimed(world, front_end.name), disturbed(world, *places_of(front_end)):
        world.ended(front_end)
        family = front_end.family()
        if not family:
            return
        front_end.asked_to_end = True
        family[0].kill()
        assert front_end.process is not None
        await asyncio.to_thread(front_end.process.wait)
        killed = time.monotonic()
        front_end.start()
        while left := [process.pid for process in family[1:] if _runs(process)]:
            if time.monotonic() > killed + AT_ONCE_S:
                if world.timeline.is_quiet(killed - 1, time.monotonic(), ("peers",)):
                    world.judged([f"workers {left} of {front_end.name} live on {AT_ONCE_S:g} s after their supervisor"])
                break
            await asyncio.sleep(0.02)
        await world.boot(front_end)
        world.ended(front_end)


def _runs(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


@operation(0.4)
async def log_not_read(world: World, rng: Random) -> None:
    """Nobody reads what a front end logs, for longer than a lease, while it has much to say: nobody may notice."""
    front_end = rng.choice(world.front_ends)
    with claimed(world, front_end.name):
        front_end.log_is_read.clear()
        try:
            await _say_much(world, front_end)
            await asyncio.sleep(rng.choice((0.5, 8.0)))
            await _say_much(world, front_end)
        finally:
            front_end.log_is_read.set()


@operation(0.4)
async def supervisor_paused(world: World, rng: Random) -> None:
    """SIGSTOP of the parent alone, while its worker has much to say: the worker goes on all the same."""
    front_end = world.front_ends[0]  # whose worker accepts connections itself
    with claimed(world, front_end.name):
        family = front_end.family()
        if len(family) != 2:
            return
        with standing([family[0].pid]):
            await _say_much(world, front_end)
            await asyncio.sleep(rng.choice((0.5, 7.0)))
            await _say_much(world, front_end)


async def _say_much(world: World, front_end: FrontEnd) -> None:
    """Let a worker log many lines."""
    began = time.monotonic()
    quiet = lambda: world.timeline.is_quiet(began - 6, time.monotonic(), ("redis", "master", "peers", front_end.name))  # noqa: E731
    with contextlib.suppress(OSError, HungUp):
        wire = await Wire.open(front_end.port, timeout_s=3)
        try:
            for number in range(LINES):
                ext = {"namespace": "said", "key": f"{number % 3}-" + 200 * "k", "value": str(number)}
                await wire.ask(100, ext, timeout_s=HEARD_S)
                if world.found.is_set() or wire.sent_away:
                    return
        except TimeoutError:
            if quiet():
                world.judged([f"{front_end.name} does not answer within {HEARD_S:g} s while nobody reads its log"])
        finally:
            wire.close()
