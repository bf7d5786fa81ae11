"""What happens to Redis, and to its data."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from random import Random
from typing import TYPE_CHECKING

from ..variants import SINGLE
from .table import claimed, disturbed, operation

if TYPE_CHECKING:
    from ..world import World


@operation(3, only=SINGLE)
async def redis_paused(world: World, rng: Random) -> None:
    """SIGSTOP: connections stay, nothing is answered."""
    with claimed(world, "redis"), disturbed(world, "redis"):
        await pause_redis(world, rng.choice((0.6, 2.0, 3.5, 5.0, 8.0)))


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


async def flush(world: World) -> None:
    if await world.tell_redis(lambda client: client.flushall()):
        world.lost(0.0)


@operation(1.5, only=SINGLE)
async def redis_rolled_back(world: World, rng: Random) -> None:
    """It comes back with the data of some seconds ago, as a replica that lags does when it is promoted (A6, A18)."""
    with claimed(world, "redis"):
        files = list(world.redis.folder.glob("*.aof"))
        saved = {path: path.read_bytes() for path in files}
        since = time.monotonic()
        await asyncio.sleep(rng.uniform(0.5, 5))
        with disturbed(world, "redis"):
            world.redis.kill()
            for path, data in saved.items():
                path.write_bytes(data)
            await asyncio.sleep(rng.choice((0.0, 0.0, 1.0)))
            await asyncio.to_thread(world.redis.start)
            world.lost(since)


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
