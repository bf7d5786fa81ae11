"""Sequences that decide who is alive."""

from __future__ import annotations

import asyncio
import signal
import time
from random import Random
from typing import TYPE_CHECKING

from mqregistry.store import scripts

from ..listeners import Listener
from ..variants import SINGLE
from .looks import gone_soon, is_gone, new_host, warnings_of
from .processes import restart, stopped
from .redis_server import pause_redis
from .table import claimed, disturbed, everything_of, operation, places_of

if TYPE_CHECKING:
    from ..processes import FrontEnd
    from ..world import World


@operation(0.6)
async def drained_after_the_last_other_close(world: World, rng: Random) -> None:
    """A broker's connection to one front end closes, then the other front end drains: it goes soon (A9)."""
    drained, other = world.front_ends if rng.random() < 0.5 else reversed(world.front_ends)
    with claimed(world, *everything_of(world)):
        host = await new_host(world, (0, 1), period_s=20.0)
        if host is None:
            return
        state = host.members[0].state
        host.held |= {0, 1}
        await asyncio.sleep(0.3)
        state.end(time.monotonic(), "closed")
        host.close(other.index)
        await asyncio.sleep(1.0)
        with disturbed(world, *places_of(drained)):
            await restart(world, drained, signal.SIGTERM, 0.0)
        # it may live: it has one period of its beats, 30 s, and 5 s more since the close
        await gone_soon(world, state.who, f"after {drained.name} drained", within_s=38)
        await host.stop()


@operation(0.6, only=SINGLE)
async def attaching_fails_once(world: World, rng: Random) -> None:
    """A worker loses its lease, and attaching its channels fails once: the close of one still counts (A13)."""
    front_end = world.front_ends[0]
    with claimed(world, *everything_of(world)):
        host = await new_host(world, (0,), period_s=25.0)
        if host is None:
            return
        state = host.members[0].state
        with disturbed(world, *places_of(front_end)):
            trips = front_end.link.trips
            trips[scripts.load()["attach_channels"].sha.encode()] = 1
            await stopped([process.pid for process in front_end.family()], 7.5)
            await asyncio.sleep(3.5)
            trips.clear()
        host.runs = False
        state.end(time.monotonic(), "silent")  # at once, as this fragment asks; the model gives it its timeout
        host.close(0)
        await gone_soon(world, state.who, f"after its only connection, to {front_end.name}, closed")
        await host.stop()


@operation(0.6)
async def smallest_id_told_to_broken_listeners(world: World, rng: Random) -> None:
    """905 goes to brokers whose ports reset or accept nobody; one that listens gets it soon all the same (A4)."""
    if not await world.admin.set_config(rng.randrange(2), "notifyMinBrokerIdChanged", "true"):
        return  # Redis is away just now: brokers are not told unless they are to be
    listeners = [Listener(kind) for kind in ("full", "full", "reset", "reads")]
    slaves, masters = [], []
    try:
        for listener in listeners:
            listener.start()
            addr = f"127.0.0.1:{listener.port}"
            master = world.broker(0, topics=2)
            slave = world.broker(1, name=master.state.name, cluster=master.state.cluster, addr=addr)
            masters.append(world.add_host([master], (0, 1), apart=True))
            slaves.append(world.add_host([slave], (0, 1), apart=True))
        everybody = [host.members[0].state for host in (*masters, *slaves)]
        await world.waited(lambda: all(state.lives for state in everybody), 8)
        for _ in range(3):
            began = time.monotonic()
            for host in masters:
                if host.runs:
                    await host.leave()
            reads = listeners[-1]
            heard = await world.waited(lambda began=began, reads=reads: reads.heard_at > began, 2.5)
            quiet = world.timeline.is_quiet(began - 8, time.monotonic())
            if not heard and quiet and (masters[-1].members[0].state.ended or ("", ""))[1] == "unregistered":
                world.judged(
                    ["a broker was not told within 2.5 s that its master left, while others cannot be reached"]
                )
            for number, host in enumerate(masters):
                host.members[0].wake()
                masters[number] = world.add_host(host.members, (0, 1), name=host.name, apart=True)
            await asyncio.sleep(1.5)
    finally:
        for slave in slaves:
            await slave.leave()
        for listener in listeners:
            await listener.close()


@operation(0.5, only=SINGLE)
async def redis_paused_again_and_again(world: World, rng: Random) -> None:
    """Each pause is longer than a gap, the times between are longer still: who is silent must go all the same (A11)."""
    with claimed(world, *everything_of(world)):
        host = await new_host(world, (0, 1), timeout_s=8.0)
        if host is None:
            return
        member = host.members[0]
        member.fall_silent()
        for pause in range(3):
            await asyncio.sleep(5.0 if pause else 0.1)
            with disturbed(world, "redis"):
                await pause_redis(world, 3.4)
        await asyncio.sleep(4.0)
        if not await is_gone(world, member.state.who) and world.timeline.is_quiet(
            member.state.ended[0], time.monotonic(), ("peers", "clock")
        ):
            world.judged(
                [f"{member.state.uid} is there 14 s of undisturbed time after it fell silent; its timeout is 8 s"]
            )


@operation(0.4)
async def reaped_while_nobody_hears(world: World, rng: Random) -> None:
    """A broker has lost one connection; then all front ends pause for longer than their leases: it must stay (A2)."""
    with claimed(world, *everything_of(world)):
        host = await new_host(world, (0, 1), period_s=25.0)
        if host is None:
            return
        state = host.members[0].state
        host.held |= {0, 1}
        await asyncio.sleep(0.3)
        host.close(rng.randrange(2))
        await asyncio.sleep(1.0)
        pids = [process.pid for front_end in world.front_ends for process in front_end.family()]
        with disturbed(world, *places_of(*world.front_ends)):
            pausing = asyncio.create_task(stopped(pids, 9.0))
            await asyncio.sleep(8.5)
            if await is_gone(world, state.who):
                world.judged([f"{state.who} was removed while nobody could hear it, over the connection that it has"])
            await pausing
        host.held.clear()


@operation(0.1)
async def nobody_sweeps(world: World, rng: Random) -> None:
    """No sweeper runs: the front end that was told not to sweep says so and does it after half a minute (A16)."""
    alone, other = world.front_ends
    with claimed(world, *everything_of(world)):
        host = await new_host(world, (0,))
        with disturbed(world, "sweep", *places_of(other)):
            world.ended(other)
            await other.end(signal.SIGTERM)
            await world.sweeper.end(signal.SIGTERM)
            if host is not None:
                member = host.members[0]
                state = member.state
                member.sim.ext["heartbeatTimeoutMillis"] = "3000"
                member.sim.counter += 1
                await asyncio.sleep(2.5)
                member.fall_silent()
                warned = asyncio.create_task(_warned(world, alone))
                await gone_soon(world, state.who, "after it fell silent, and no sweeper ran", within_s=45)
                if not await warned and world.timeline.is_quiet(
                    state.ended[0], time.monotonic(), ("redis", "clock", "peers", alone.name)
                ):
                    world.judged([f"no sweeper ran for 30 s, and /readyz of {alone.name} did not say so"])
            other.start()
            world.sweeper.start()
            await world.boot(other)
            await world.boot(world.sweeper)
            world.ended(other)


async def _warned(world: World, front_end: FrontEnd) -> bool:
    """Whether /readyz says in time that nobody sweeps."""
    end = time.monotonic() + 40
    while time.monotonic() < end and not world.found.is_set():
        if any("no sweeper has run" in text for text in await warnings_of(front_end)):
            return True
        await asyncio.sleep(0.1)
    return False
