"""What happens to a master under Sentinel; what each failover lost is told by ``failovers.Failovers``."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

from bench.servers.redis_servers import RedisProcess

from ..failovers import LEAVES_S
from ..servers import follow
from ..variants import SENTINEL
from .table import claimed, disturbed, operation

if TYPE_CHECKING:
    from ..world import World


@operation(2, only=SENTINEL)
async def failover_planned(world: World, rng: Random) -> None:
    """SENTINEL FAILOVER; the old master is demoted by hand, or by the Sentinels ten seconds later."""
    with claimed(world, "redis"):
        await planned(world, rng)


async def planned(world: World, rng: Random) -> None:
    servers, found = world.redis, await world.failovers.whole()
    if found is None:
        return
    old, new = found
    with disturbed(world, "master"):
        await world.until(lambda: asyncio.to_thread(servers.ask_for_failover), "the Sentinels begin a failover")
        if await world.failovers.serves(new):
            await asyncio.sleep(LEAVES_S)
    await brought_back(world, old, by_hand=rng.random() < 0.5)


async def brought_back(world: World, old: RedisProcess, *, by_hand: bool) -> None:
    """The old master follows the new one: by hand at once, by the Sentinels later."""
    if by_hand and old is not world.failovers.master:
        await asyncio.to_thread(follow, old, world.failovers.master)
    await world.failovers.follows()


@operation(2, only=SENTINEL)
async def master_killed(world: World, rng: Random) -> None:
    """SIGKILL; it comes back empty, and becomes a replica."""
    with claimed(world, "redis"):
        await killed(world, rng)


async def killed(world: World, rng: Random) -> None:
    found = await world.failovers.whole()
    if found is None:
        return
    old, new = found
    with disturbed(world, "redis"):
        old.kill()
        await world.failovers.serves(new)
    await asyncio.sleep(rng.choice((0.0, 1.0, 4.0)))
    await asyncio.to_thread(old.start)
    await brought_back(world, old, by_hand=rng.random() < 0.5)


@operation(2, only=SENTINEL)
async def master_paused(world: World, rng: Random) -> None:
    """SIGSTOP until another one serves; then it goes on as a master, until the Sentinels tell it."""
    with claimed(world, "redis"):
        await paused(world, rng)


async def paused(world: World, rng: Random) -> None:
    found = await world.failovers.whole()
    if found is None:
        return
    old, new = found
    with disturbed(world, "redis"):
        old.pause()
        await world.failovers.serves(new)
    await asyncio.sleep(rng.choice((0.0, 1.0, 4.0)))
    old.go_on()
    await brought_back(world, old, by_hand=False)


@operation(2, only=SENTINEL)
async def failover_with_losses(world: World, rng: Random) -> None:
    """Replication has stopped for some seconds when the master is killed: what was written since is lost (A6, A20)."""
    with claimed(world, "redis"):
        found = await world.failovers.whole()
        if found is None:
            return
        old, new = found
        await asyncio.to_thread(world.redis.part)
        await asyncio.sleep(rng.uniform(0.5, 5))
        with disturbed(world, "redis"):
            old.kill()
            await world.failovers.serves(new)
        await asyncio.to_thread(world.redis.join, old)
        await brought_back(world, old, by_hand=rng.random() < 0.5)


@operation(0.7, only=SENTINEL)
async def master_restarted_empty(world: World, rng: Random) -> None:
    """It is back before its Sentinels notice, with nothing: its replica forgets everything, too."""
    with claimed(world, "redis"):
        found = await world.failovers.whole()
        if found is None:
            return
        with disturbed(world, "redis"):
            found[0].kill()
            await asyncio.to_thread(found[0].start)
            await asyncio.sleep(0.5)  # until that was seen
        await world.failovers.follows()


@operation(0.7, only=SENTINEL)
async def sentinel_paused(world: World, rng: Random) -> None:
    """SIGSTOP of the Sentinel that is asked first."""
    with claimed(world, "redis"):
        sentinel = world.redis.sentinels[0]
        sentinel.pause()
        try:
            await asyncio.sleep(rng.choice((1.0, 3.0, 6.0)))
        finally:
            sentinel.go_on()


@operation(0.6, only=SENTINEL)
async def failovers_in_a_row(world: World, rng: Random) -> None:
    """One after the other, of all sorts, while KV keys are deleted (A20)."""
    with claimed(world, "redis"):
        for _ in range(rng.choice((2, 3, 6))):
            for key in ("row0", "row1", "row2"):
                await world.admin.write_kv(rng.randrange(2), key, delete=False)
                await world.admin.write_kv(rng.randrange(2), key, delete=rng.random() < 0.7)
            await rng.choice((planned, killed, paused))(world, rng)
            if world.found.is_set():
                return
