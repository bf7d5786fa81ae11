"""What happens to front ends, workers and sweepers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

import redis

from ..processes import Daemon
from .table import claimed, disturbed, operation, places_of

if TYPE_CHECKING:
    from ..world import World


@operation(1.5)
async def front_end_killed(world: World, rng: Random) -> None:
    """SIGKILL, and a new start."""
    front_end = rng.choice(world.front_ends)
    with claimed(world, front_end.name), disturbed(world, *places_of(front_end)):
        await restart(world, front_end, signal.SIGKILL, rng.choice((0.0, 1.0, 3.0)))


@operation(1.5)
async def front_end_drained(world: World, rng: Random) -> None:
    """SIGTERM, and a new start."""
    front_end = rng.choice(world.front_ends)
    with claimed(world, front_end.name), disturbed(world, *places_of(front_end)):
        await restart(world, front_end, signal.SIGTERM, rng.choice((0.0, 1.0)))


async def restart(world: World, daemon: Daemon, number: int, pause_s: float) -> None:
    daemon.signal_all(signal.SIGCONT)
    world.ended(daemon)
    wrong = await daemon.end(number)
    if wrong:
        world.judged([wrong])
    await asyncio.sleep(pause_s)
    daemon.start()
    await world.boot(daemon)
    world.ended(daemon)


@operation(2)
async def worker_killed(world: World, rng: Random) -> None:
    """SIGKILL of one worker; its supervisor starts another."""
    front_end = rng.choice(world.front_ends)
    with claimed(world, front_end.name), disturbed(world, front_end.name):
        workers = front_end.family()[1:]
        if not workers:
            return
        world.ended(front_end)
        front_end.killed_workers += 1
        with contextlib.suppress(ProcessLookupError):
            os.kill(rng.choice(workers).pid, signal.SIGKILL)
        answers = front_end.log.count(" answers\n") + front_end.log.count("boot success")
        end = time.monotonic() + 60
        while front_end.log.count(" answers\n") + front_end.log.count("boot success") == answers:
            if time.monotonic() > end:
                world.judged([f"a killed worker of {front_end.name} does not answer again within 60 s"])
                return
            await asyncio.sleep(0.1)
        world.ended(front_end)


@operation(0.4)
async def bad_byte(world: World, rng: Random) -> None:
    """A KV value that is not UTF-8, written by somebody else; then a worker starts and reads it (A12)."""

    def write(client: redis.Redis) -> None:
        if client.exists(f"{world.prefix}meta"):
            client.sadd(f"{world.prefix}kv", "foreign")
            client.hset(f"{world.prefix}kv:foreign", "bad", b"\xff\xfe")

    world.replayable = False
    await world.tell_redis(write)
    await worker_killed(world, rng)


@operation(2)
async def front_end_paused(world: World, rng: Random) -> None:
    """SIGSTOP of one worker, or of the whole front end; longer than a lease, or shorter."""
    front_end = rng.choice(world.front_ends)
    with claimed(world, front_end.name):
        family = front_end.family()
        chosen = [rng.choice(family[1:])] if len(family) > 1 and rng.random() < 0.5 else family
        with disturbed(world, *(places_of(front_end) if chosen is family else [front_end.name])):
            await stopped([process.pid for process in chosen], rng.choice((0.5, 2.5, 6.0, 12.0)))


@operation(1)
async def succeeded_while_a_front_end_is_paused(world: World, rng: Random) -> None:
    """A broker ends while a front end does not read what it sent; its successor has another address (A21)."""
    front_end = rng.choice(world.front_ends)
    host = world.add_host([world.broker(0)], (0, 1), apart=True)
    await asyncio.sleep(1.5)
    with claimed(world, front_end.name):
        pids = [process.pid for process in front_end.family()]
        with disturbed(world, *places_of(front_end)), standing(pids):
            await asyncio.sleep(2.0)  # it beats once a second
            await host.crash(reset=rng.random() < 0.5)
            await asyncio.sleep(0.5)
            successor = world.broker(0, name=host.members[0].state.name, cluster=host.members[0].state.cluster)
            world.add_host([successor], host.front_ends, name=host.name, apart=True)
            await asyncio.sleep(2.0)


async def stopped(pids: list[int], for_s: float) -> None:
    with standing(pids):
        await asyncio.sleep(for_s)


@contextlib.contextmanager
def standing(pids: list[int]) -> Iterator[None]:
    """These processes are stopped for the length of a block."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@operation(1.5)
async def front_ends_paused_together(world: World, rng: Random) -> None:
    """Nobody hears brokers, while a sweeper goes on (A2)."""
    names = [front_end.name for front_end in world.front_ends]
    with claimed(world, *names), disturbed(world, *places_of(*world.front_ends)):
        pids = [process.pid for front_end in world.front_ends for process in front_end.family()]
        await stopped(pids, rng.choice((2.5, 6.0, 13.0)))


@operation(1)
async def sweeper_restarted(world: World, rng: Random) -> None:
    """SIGKILL or SIGTERM, and a new start."""
    with claimed(world, "sweeper"), disturbed(world, "sweep"):
        number = rng.choice((signal.SIGKILL, signal.SIGTERM))
        await restart(world, world.sweeper, number, rng.choice((0.0, 2.0)))


@operation(0.7)
async def sweeper_paused(world: World, rng: Random) -> None:
    """SIGSTOP."""
    with claimed(world, "sweeper"), disturbed(world, "sweep"):
        await stopped([process.pid for process in world.sweeper.family()], rng.choice((1.0, 6.0)))


@operation(1)
async def wall_clock_stepped(world: World, rng: Random) -> None:
    """The wall clock of the front ends' machine steps; no deadline and no order of connections may depend on it."""
    world.clock.step(rng.choice((-3600.0, -5.0, 5.0, 3600.0)))
