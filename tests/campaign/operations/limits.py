"""Sequences at the limits of Redis: its time, its memory, its absence."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from random import Random
from typing import TYPE_CHECKING

from ..variants import SINGLE
from ..wire import connected
from .looks import both_write, new_host
from .table import claimed, disturbed, everything_of, operation, places_of

if TYPE_CHECKING:
    from ..world import World


@operation(0.3)
async def many_topics_fall_silent(world: World, rng: Random) -> None:
    """Many brokers of many topics expire at the same moment: no script holds up Redis (A3)."""
    count, topics = rng.choice(((16, 5000), (24, 4000)))
    with claimed(world, "big"), disturbed(world, "load"):
        hosts = []
        for _ in range(count):
            members = [world.broker(0, topics=topics, timeout_s=9.0)]
            hosts.append(world.add_host(members, (0, 1), period_s=3.0))
            await asyncio.sleep(0.15)
        await world.waited(lambda: all(host.members[0].state.lives for host in hosts), 20)
        for host in hosts:
            host.members[0].fall_silent()
        await asyncio.sleep(13)


@operation(0.3)
async def long_names(world: World, rng: Random) -> None:
    """A broker of many topics whose names differ only in some characters is wiped, and leaves or expires (A5)."""
    with claimed(world, "big"), disturbed(world, "load"):
        prefix = "x" * 75
        member = world.broker(0, topics=12_000, prefix=prefix, timeout_s=9.0)
        host = world.add_host([member], (0, 1), period_s=3.0)
        await world.waited(lambda: member.state.lives, 20)
        await world.admin.ask(0, 205, {"brokerName": member.state.name})
        choice = rng.randrange(3)
        if choice == 0:
            await host.leave()
        elif choice == 1:
            await host.crash()
        else:
            member.fall_silent()
            await asyncio.sleep(11)


@operation(0.5)
async def full_until_trimmed(world: World, rng: Random) -> None:
    """Redis is at its maxmemory, and what the streams hold beyond their limits is all that can go (A15)."""
    entry = b'{"who":"c1|1.1.1.1:1","pad":"' + b"x" * 400 + b'"}'

    def fill(client) -> None:
        if not client.exists(f"{world.prefix}meta"):
            return
        most = client.info("memory")["used_memory"] + (3 << 20)
        pipeline = client.pipeline(transaction=True)  # a heartbeat that came between would trim its stream itself
        for _ in range(20_000):
            pipeline.xadd(f"{world.prefix}heartbeats", {"e": entry})
        pipeline.config_set("maxmemory", most)
        pipeline.execute()

    with claimed(world, *everything_of(world)):
        host = await new_host(world, (0, 1), timeout_s=8.0)
        if host is None:
            return
        host.members[0].fall_silent()
        with disturbed(world, "redis", "load"):
            await world.tell_redis(fill)
            what = "writes are taken again at maxmemory, once the streams are trimmed"
            if await world.until(lambda: both_write(world), what, 20):
                logs = world.front_ends[1].log + world.sweeper.log
                if "Redis is at its maxmemory" not in logs:
                    world.judged(["Redis was at its maxmemory, and no sweeper said so"])
            await world.tell_redis(lambda client: client.config_set("maxmemory", 0))


@operation(0.6, only=SINGLE)
async def started_while_redis_is_away(world: World, rng: Random) -> None:
    """A front end and a sweeper start while Redis is away, and serve when it is back (A19)."""
    front_end = rng.choice(world.front_ends)
    with claimed(world, *everything_of(world)), disturbed(world, "redis", "sweep", *places_of(front_end)):
        full = rng.random() < 0.3
        if full:
            await world.tell_redis(lambda client: client.config_set("maxmemory", 1 << 20))
        else:
            world.redis.kill()
        world.ended(front_end)
        for daemon in (front_end, world.sweeper):
            await daemon.end(signal.SIGKILL)
            daemon.start()
        await asyncio.sleep(rng.choice((3.0, 6.0)))
        with contextlib.suppress(OSError, TimeoutError):
            async with connected(front_end.port) as wire:
                code = (await wire.ask(105, {"topic": "common"}, timeout_s=3)).code
                if code == 17:
                    world.judged([f"{front_end.name}, started while Redis was away, answers 17"])
        if full:
            await world.tell_redis(lambda client: client.config_set("maxmemory", 0))
        else:
            await asyncio.to_thread(world.redis.start)
        for daemon in (front_end, world.sweeper):
            await world.boot(daemon, 30)
        world.ended(front_end)
