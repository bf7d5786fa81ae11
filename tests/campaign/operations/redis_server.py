"""What happens to Redis, and to its data."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from redis import Redis

from ..variants import SINGLE
from .looks import all_answer_17
from .table import claimed, disturbed, everything_of, operation

if TYPE_CHECKING:
    from ..world import World

DENIED_S = 1.0
"""An unknown topic is denied again so soon after an outage."""


@operation(3, only=SINGLE)
async def redis_paused(world: World, rng: Random) -> None:
    """SIGSTOP: connections stay, nothing is answered."""
    with claimed(world, "redis"), disturbed(world, "redis"):
        await pause_redis(world, rng.choice((0.6, 2.0, 3.5, 5.0, 8.0)))


@operation(0.3, only=SINGLE)
async def redis_away_while_nobody_writes(world: World, rng: Random) -> None:
    """No change ends a read of the stream: unknown topics are denied soon after its return all the same (A20)."""
    took_s, began = [], time.monotonic()
    with claimed(world, *everything_of(world)), world.admin.held():
        for _ in range(3):
            with disturbed(world, "redis"):
                world.redis.kill()
                await asyncio.sleep(2.5)  # workers are to find out by their own timers
                await asyncio.to_thread(world.redis.start)
            back = time.monotonic()
            if not await world.until(lambda: all_answer_17(world), "unknown topics are denied again"):
                return
            took_s.append(time.monotonic() - back)
            await asyncio.sleep(0.5)
    places = ("clock", "peers", "loss", "load")
    if min(took_s) > DENIED_S and world.timeline.is_quiet(began - 3, time.monotonic(), places):
        told = ", ".join(f"{one:.1f}" for one in took_s)
        world.judged([f"unknown topics were denied {told} s after Redis was back; within {DENIED_S:g} s is promised"])


async def pause_redis(world: World, for_s: float) -> None:
    assert world.redis.pid is not None
    os.kill(world.redis.pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(for_s)
    finally:
        os.kill(world.redis.pid, signal.SIGCONT)


@operation(2, only=SINGLE)
async def redis_killed(world: World, rng: Random) -> None:
    """SIGKILL and a start from the append-only file: nothing that was acknowledged is lost."""
    with claimed(world, "redis"), disturbed(world, "redis"):
        world.redis.kill()
        await asyncio.sleep(rng.choice((0.0, 0.5, 2.0, 5.0)))
        await asyncio.to_thread(world.redis.start)


def remove_aof(world: World) -> None:
    for path in world.redis.folder.glob("*.aof"):
        path.unlink()
    shutil.rmtree(world.redis.folder / "appendonlydir", ignore_errors=True)


@operation(1.5, only=SINGLE)
async def redis_emptied(world: World, rng: Random) -> None:
    """It comes back without any data."""
    with claimed(world, "redis"), disturbed(world, "redis"):
        world.redis.kill()
        remove_aof(world)
        await asyncio.sleep(rng.choice((0.0, 0.5, 3.0)))
        await asyncio.to_thread(world.redis.start)
        world.lost(0.0)


@operation(1.5)
async def flushall(world: World, rng: Random) -> None:
    """Redis forgets everything, and goes on."""
    with claimed(world, "redis"):
        await flush(world)


async def flush(world: World, known_by: frozenset[int] | None = None) -> None:
    if await world.tell_redis(lambda client: client.flushall()):
        world.lost(0.0, known_by)


@operation(1.5, only=SINGLE)
async def redis_rolled_back(world: World, rng: Random) -> None:
    """It comes back with the data of some seconds ago, as a replica that lags does when it is promoted (A6, A18)."""
    with claimed(world, "redis"):
        keys = [f"rolled{number}" for number in range(3)]
        for key in keys:
            await world.admin.write_kv(rng.randrange(2), key, delete=False)
        saved, since = await saved_aof(world)
        for key in keys:
            await world.admin.write_kv(rng.randrange(2), key, delete=rng.random() < 0.7)
        await asyncio.sleep(rng.uniform(0.5, 5))
        with disturbed(world, "redis"):
            await rolled_back(world, saved, rng.choice((0.0, 0.0, 1.0)))
            world.lost(since)


async def saved_aof(world: World) -> tuple[dict[Path, bytes], float]:
    """The data of this moment, and from when on what is written may be missing in it.

    Redis writes behind a command, and while a disk is slow to sync up to two seconds later.
    """
    unwritten: list[int] = []

    def look(client: Redis) -> None:
        unwritten.append(client.info("persistence")["aof_buffer_length"])

    while True:
        since = time.monotonic()
        if await world.tell_redis(look) and unwritten[-1] == 0:
            return {path: path.read_bytes() for path in world.redis.folder.glob("*.aof")}, since
        await asyncio.sleep(0.05)


async def rolled_back(world: World, saved: dict[Path, bytes], after_s: float = 0.0) -> None:
    """Kill Redis, and start it with the data of an earlier moment."""
    world.redis.kill()
    for path, data in saved.items():
        path.write_bytes(data)
    await asyncio.sleep(after_s)
    await asyncio.to_thread(world.redis.start)


@operation(1)
async def redis_full(world: World, rng: Random) -> None:
    """maxmemory is reached: every write is refused."""
    with claimed(world, "redis"), disturbed(world, "redis"):
        await world.tell_redis(lambda client: client.config_set("maxmemory", 1 << 20))
        try:
            await asyncio.sleep(rng.choice((0.5, 2.0, 5.0)))
        finally:
            await world.tell_redis(lambda client: client.config_set("maxmemory", 0))


@operation(1.5)
async def clock_moved(world: World, rng: Random) -> None:
    """The clock of Redis steps, forwards or back."""
    with claimed(world, "redis"), disturbed(world, "clock"):
        by_ms = rng.choice((4000, 30_000, -4000, -30_000))
        await world.tell_redis(lambda client: client.hincrby(f"{world.prefix}meta", "clock_offset_ms", by_ms))
        await asyncio.sleep(1.5)  # until the front ends have noticed


@operation(1)
async def stream_trimmed(world: World, rng: Random) -> None:
    """Front ends that lag behind have a gap."""
    world.replayable = False
    left = rng.choice((0, 1, 5))
    await world.tell_redis(lambda client: client.xtrim(f"{world.prefix}changes", maxlen=left, approximate=False))
