"""What brokers do."""

from __future__ import annotations

import asyncio
import contextlib
import time
from random import Random
from typing import TYPE_CHECKING

from ..wire import Wire
from .table import claimed, operation

if TYPE_CHECKING:
    from ..hosts import Host, Member
    from ..world import World


def any_host(world: World, rng: Random) -> Host | None:
    hosts = [
        host
        for host in world.hosts
        if host.runs and not host.apart and any(not member.silent for member in host.members)
    ]
    return rng.choice(hosts) if hosts else None


def any_member(world: World, rng: Random) -> Member | None:
    host = any_host(world, rng)
    return rng.choice([member for member in host.members if not member.silent]) if host else None


@operation(3)
async def broker_falls_silent(world: World, rng: Random) -> None:
    """It says nothing more; its connections stay open, with others' beats on them or not (A7)."""
    member = any_member(world, rng)
    if member is not None:
        member.fall_silent()
        if rng.random() < 0.5:
            await asyncio.sleep(rng.choice((2.0, 6.0, 14.0)))
            if any(host.runs and member in host.members for host in world.hosts):  # its process may have crashed
                member.wake()


@operation(2)
async def broker_crashes(world: World, rng: Random) -> None:
    """Its connections close; it comes back on the same address, on another, or not at all."""
    host = any_host(world, rng)
    if host is None:
        return
    await host.crash(reset=rng.random() < 0.5)
    await asyncio.sleep(rng.choice((0.0, 0.2, 3.0)))
    await come_back(world, rng, host)


@operation(1.5)
async def broker_leaves(world: World, rng: Random) -> None:
    """It unregisters (104) and ends."""
    host = any_host(world, rng)
    if host is None:
        return
    await host.leave()
    await asyncio.sleep(rng.choice((0.5, 4.0)))
    await come_back(world, rng, host)


async def come_back(world: World, rng: Random, host: Host) -> None:
    choice = rng.random()
    if choice < 0.2:
        return
    members = host.members
    if choice < 0.6:
        members = [
            world.broker(m.state.broker_id, name=m.state.name, timeout_s=m.state.timeout_s, cluster=m.state.cluster,
                         addr=m.state.addr if choice < 0.4 else "", prefix=rng.choice(("", "n")))
            for m in host.members
        ]  # fmt: skip
    else:
        for member in members:
            member.wake()
    world.add_host(members, host.front_ends, name=host.name)


@operation(2)
async def broker_reconnects(world: World, rng: Random) -> None:
    """One of its connections closes, and another one opens at once."""
    host = any_host(world, rng)
    if host is not None:
        host.close(rng.choice(host.front_ends), reset=rng.random() < 0.5)


@operation(1.5)
async def broker_connects_twice(world: World, rng: Random) -> None:
    """A second connection to a front end, perhaps to its other worker; then the first one closes."""
    host = any_host(world, rng)
    if host is not None:
        await twice_connected(world, host, rng.choice(host.front_ends))


async def twice_connected(world: World, host: Host, index: int) -> None:
    """Register over a second connection, close the first, and say nothing for a while: the brokers must stay."""
    with claimed(world, f"twice {host.name} {index}"):
        host.held.add(index)
        try:
            await asyncio.sleep(0.2)
            old = host.wires.get(index)
            if old is None or not old.is_open or any(member.in_flight for member in host.members):
                return
            with contextlib.suppress(OSError, TimeoutError):
                new = await Wire.open(world.front_ends[index].port, timeout_s=3)
                for member in host.members:
                    if not member.silent:
                        sent = time.monotonic()
                        answer = await new.ask(103, *member.registration())
                        if answer.code != 0 or not old.is_open:
                            host.close(index)
                            new.close()
                            return
                        member.state.acknowledged(sent, time.monotonic(), member.firm)
                old.close()
                await asyncio.sleep(1.5)
                host.held.discard(index)
                await asyncio.sleep(1.0)
                new.close()
                for member in host.members:
                    member.state.may_be_gone(time.monotonic(), index)
        finally:
            host.held.discard(index)


@operation(1)
async def wall_clock_stepped_between_two_connections(world: World, rng: Random) -> None:
    """A broker connects again, the clock steps back between: the old connection's close says nothing (A14)."""
    host = world.add_host([world.broker(0)], (1,))
    await asyncio.sleep(2.0)
    for _ in range(4):  # until the two connections are at two workers
        world.clock.step(-30.0)
        await twice_connected(world, host, 1)
        await asyncio.sleep(0.5)


@operation(2)
async def new_topics(world: World, rng: Random) -> None:
    """A master registers topics that are new; each is there once that is acknowledged."""
    member = any_member(world, rng)
    if member is not None and member.state.broker_id == 0:
        first = len(member.sim.topics)
        member.add_topics([f"t-{member.state.name}-m{first + i}" for i in range(rng.choice((1, 3, 30)))])


@operation(1.5)
async def cluster_moved(world: World, rng: Random) -> None:
    """A broker comes back under another cluster name, over the connection that it has (A10)."""
    member = any_member(world, rng)
    if member is not None and sum(other.name == member.state.name for other in world.model.brokers.values()) == 1:
        member.move("c2" if member.state.cluster == "c1" else "c1")


@operation(1)
async def new_broker(world: World, rng: Random) -> None:
    """A broker that nobody has heard of."""
    if len(world.hosts) < 40:
        world.add_host([world.broker(0)], rng.choice(((0, 1), (0, 1), (0,), (1,))))
