"""Sequences at the limits of Redis: its time, its memory, its absence."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import time
from random import Random
from typing import TYPE_CHECKING

from ..variants import SINGLE
from ..wire import connected
from .looks import both_write, is_at_maxmemory, is_gone, new_host
from .processes import restart, standing, stopped
from .table import claimed, disturbed, everything_of, operation, places_of

if TYPE_CHECKING:
    from ..hosts import Host
    from ..world import World


FAILED = re.compile("its memory is full.*; nothing is removed until it is back")
"""What a sweeper logs when it cannot remove a broker for want of memory."""
READS = {105: {"topic": "common"}, 106: {}, 206: {}}
GONE_S = 10.0
"""Brokers that are overdue all at once are gone within this time, however many topics they have."""
REAPED_S = 20.0
"""A lease runs out, and no sooner than 10 s after a gap somebody cleans up after its worker."""
GONE_AFTER_GAP_S = 4.0
"""The same of some with few topics, when brokers can be heard again after a gap that is longer than this."""


async def crowd(world: World, count: int, topics: int, *, timeout_s: float = 9.0) -> list[Host]:
    """Many brokers of many topics, registered everywhere; no other operation does anything to them."""
    hosts = []
    for _ in range(count):
        member = world.broker(0, topics=topics, timeout_s=timeout_s)
        hosts.append(world.add_host([member], (0, 1), period_s=3.0, apart=True))
        await asyncio.sleep(0.15)
    await world.waited(lambda: all(host.members[0].state.lives and len(host.wires) == 2 for host in hosts), 20)
    return hosts


async def slaves_of(world: World, hosts: list[Host]) -> list[Host]:
    """A slave of each: the group that loses its master loses its write permission, for all of its topics."""
    slaves = []
    for host in hosts:
        state = host.members[0].state
        member = world.broker(1, name=state.name, cluster=state.cluster, topics=0, timeout_s=60.0)
        slaves.append(world.add_host([member], (0, 1), period_s=3.0, apart=True))
    await world.waited(lambda: all(slave.members[0].state.lives and len(slave.wires) == 2 for slave in slaves), 20)
    return slaves


async def all_gone(world: World, hosts: list[Host], within_s: float, when: str) -> None:
    """None of them is in the tables after so much time, in which nothing else is disturbed."""
    whos = [host.members[0].state.who for host in hosts]
    began = time.monotonic()
    left = whos
    while left and not world.found.is_set() and time.monotonic() < began + within_s + 20:
        left = [who for who in left if not await is_gone(world, who)]
        await asyncio.sleep(0.1)
    took_s = time.monotonic() - began
    still = f", {', '.join(left[:3])} still there" if left else ""
    if took_s > within_s and world.timeline.is_quiet(began, time.monotonic(), ("redis", "clock", "peers", "loss")):
        text = f"{len(whos)} brokers that {when} were gone {took_s:.1f} s later, not within {within_s:g} s{still}"
        world.judged([text])


def sweepers_of(world: World) -> list[int]:
    """The processes in which a sweeper runs."""
    return [process.pid for daemon in (world.front_ends[1], world.sweeper) for process in daemon.family()[:1]]


@operation(0.3)
async def many_topics_fall_silent(world: World, rng: Random) -> None:
    """Many brokers of many topics expire one after the other: no script holds up Redis (A3)."""
    with claimed(world, "big"), disturbed(world, "load"):
        for host in await crowd(world, *rng.choice(((16, 5000), (24, 4000)))):
            host.members[0].fall_silent()
        await asyncio.sleep(13)


@operation(0.2)
async def many_topics_overdue_at_once(world: World, rng: Random) -> None:
    """Many masters of many topics are overdue when sweepers go on: no script holds up Redis, and all go soon (A3)."""
    with claimed(world, "big", *everything_of(world)), disturbed(world, "load"):
        hosts = await crowd(world, 24, 6000)
        slaves = await slaves_of(world, hosts)
        for host in hosts:
            host.members[0].fall_silent()
        with disturbed(world, "sweep", world.front_ends[1].name):
            await stopped(sweepers_of(world), 10.0)
        await all_gone(world, hosts, GONE_S, "were overdue when sweepers went on")
        for slave in slaves:
            await slave.leave()


@operation(0.2)
async def many_topics_lose_their_connections(world: World, rng: Random) -> None:
    """Many masters of many topics close one connection, and the other one's front end ends: no long script (A3)."""
    # the first one has all of them in one worker
    ends, other = world.front_ends if rng.random() < 0.75 else reversed(world.front_ends)
    with claimed(world, "big", *everything_of(world)), disturbed(world, "load"):
        hosts = await crowd(world, 24, 6000, timeout_s=60.0)
        slaves = await slaves_of(world, hosts)
        for host in hosts:
            host.held |= {0, 1}
        await world.waited(lambda: not any(member.in_flight for host in hosts for member in host.members), 3)
        for host in hosts:
            host.members[0].state.end(time.monotonic(), "silent")
            host.close(other.index)
        await asyncio.sleep(1.0)
        with disturbed(world, *places_of(ends)):
            await restart(world, ends, rng.choice((signal.SIGTERM, signal.SIGKILL)), 0.0)
        await all_gone(world, hosts, GONE_S + REAPED_S, f"closed one connection, and had the other one to {ends.name}")
        for host in hosts:
            await host.stop()
        for slave in slaves:
            await slave.leave()


@operation(0.3)
async def overdue_before_a_gap(world: World, rng: Random) -> None:
    """Brokers are overdue, then nobody hears brokers for a while: that gives them no more time (A3)."""
    with claimed(world, "big", *everything_of(world)):
        hosts = await crowd(world, 6, 20)
        for host in hosts:
            host.members[0].fall_silent()
        everybody = [process.pid for front_end in world.front_ends for process in front_end.family()]
        with disturbed(world, "sweep", world.front_ends[1].name):
            sweepers = asyncio.create_task(stopped(sweepers_of(world), 9.6 + 7.5))
            await asyncio.sleep(9.6)
            with disturbed(world, *places_of(*world.front_ends)):
                await stopped([pid for pid in everybody if pid not in sweepers_of(world)], 7.0)
            await sweepers
        await all_gone(world, hosts, GONE_AFTER_GAP_S, "were overdue before a gap of 7 s")


@operation(0.3)
async def long_names(world: World, rng: Random) -> None:
    """A broker of many topics whose names have few hashes in Lua, or one, is wiped, and leaves or expires (A5).

    Lua looks at every eighth character of a name of 224 to 255, from its end on, and so at no digit of the last kind.
    """
    with claimed(world, "big"), disturbed(world, "load"):
        names = rng.choice(({"prefix": "x" * 75}, {"prefix": "x" * 215, "suffix": "x"}))
        member = world.broker(0, topics=16_000, timeout_s=9.0, **names)
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

    one_trim = rng.random() < 0.7  # makes enough room
    count, share = (8000, 0.8) if one_trim else (20_000, 0.3)

    def fill(client) -> None:
        if not client.exists(f"{world.prefix}meta"):
            return
        most = int(client.info("memory")["used_memory"] + count * len(entry) * share)
        pipeline = client.pipeline(transaction=True)  # a heartbeat that came between would trim its stream itself
        for _ in range(count):
            pipeline.xadd(f"{world.prefix}heartbeats", {"e": entry})
        pipeline.config_set("maxmemory", most)
        pipeline.execute()

    with claimed(world, *everything_of(world)):
        host = await new_host(world, (0, 1), topics=3200, timeout_s=4.0)
        if host is None:
            return
        host.members[0].fall_silent()
        with disturbed(world, "redis", "load", "sweep"):
            # It is overdue, and a trim due, at the first sweep. With more than 3,000 topics its removal needs memory.
            with standing(sweepers_of(world)):
                await asyncio.sleep(6.5)
                failed = len(FAILED.findall(world.sweeper.log))
                await world.tell_redis(fill)
                is_full = await is_at_maxmemory(world)
            what = "writes are taken again at maxmemory, once the streams are trimmed"
            if await world.until(lambda: both_write(world), what, 20) and is_full:
                logs = world.front_ends[1].log + world.sweeper.log
                if "Redis is at its maxmemory" not in logs:
                    world.judged(["Redis was at its maxmemory, and no sweeper said so"])
                # one that was stopped in a pass, behind its trim, fails once, and then begins with another trim
                if one_trim and len(FAILED.findall(world.sweeper.log)) > failed + 1:
                    world.judged(["the sweeper failed to remove a broker before it trimmed the streams"])
            await world.tell_redis(lambda client: client.config_set("maxmemory", 0))


@operation(0.6, only=SINGLE)
async def started_while_redis_is_away(world: World, rng: Random) -> None:
    """A front end and a sweeper start while Redis is away, and serve when it is back (A19)."""
    front_end = rng.choice(world.front_ends)
    with claimed(world, *everything_of(world)), disturbed(world, "redis", "sweep", *places_of(front_end)):
        full, accepted = rng.random() < 0.5, False
        if full:
            await world.tell_redis(lambda client: client.config_set("maxmemory", 1 << 20))
        else:
            world.redis.kill()
        world.ended(front_end)
        for daemon in (front_end, world.sweeper):
            await daemon.end(signal.SIGKILL)
            daemon.start()
        end = time.monotonic() + rng.choice((3.0, 6.0))
        while time.monotonic() < end or (not full and time.monotonic() < end + 10 and not accepted):
            await asyncio.sleep(0.2)
            with contextlib.suppress(OSError, TimeoutError):
                async with connected(front_end.port) as wire:
                    codes = {code: (await wire.ask(code, ext, timeout_s=3)).code for code, ext in READS.items()}
                accepted = True
                if codes[105] == 17 if full else set(codes.values()) != {1}:
                    world.judged([f"{front_end.name}, started while Redis was away, answers {codes}"])
        if full:
            await world.boot(world.sweeper, 30)  # it has to make room
            await world.tell_redis(lambda client: client.config_set("maxmemory", 0))
        else:
            await asyncio.to_thread(world.redis.start)
        for daemon in (front_end, world.sweeper):
            await world.boot(daemon, 30)
        world.ended(front_end)
