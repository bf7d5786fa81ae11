"""Connections that break although no process dies, and front ends that go then; requests that come late."""

from __future__ import annotations

import asyncio
import signal
import time
from random import Random
from typing import TYPE_CHECKING

from .looks import is_gone, new_host
from .processes import restart, standing
from .table import claimed, disturbed, everything_of, operation, places_of

if TYPE_CHECKING:
    from ..world import World


@operation(0.6)
async def connections_break_then_front_ends_go(world: World, rng: Random) -> None:
    """Connections to one front end break, as when a proxy ends; then the other ends: the brokers stay (A50)."""
    going, other = world.front_ends if rng.random() < 0.5 else reversed(world.front_ends)
    how = rng.choice((signal.SIGTERM, signal.SIGKILL))
    with claimed(world, *everything_of(world)):
        hosts = [await new_host(world, (0, 1), period_s=25.0) for _ in range(3)]
        broken = [host for host in hosts if host is not None]
        for host in broken:
            host.held |= {0, 1}
        await asyncio.sleep(0.3)
        for host in broken:
            host.close(other.index, reset=rng.random() < 0.5)
        began = time.monotonic()
        await asyncio.sleep(1.0)
        with disturbed(world, *places_of(going)):
            await restart(world, going, how, rng.choice((0.0, 7.0)))
        await asyncio.sleep(rng.choice((0.5, 8.0)))
        for host in broken:
            who, passed_s = host.members[0].state.who, time.monotonic() - began
            if passed_s < 30.0 and await is_gone(world, who):
                world.judged([f"{who} is gone {passed_s:.1f} s after a connection of it broke; it lives"])
        for host in broken:
            host.held.clear()


@operation(0.6)
async def left_and_back_while_a_front_end_is_paused(world: World, rng: Random) -> None:
    """A broker leaves, and starts again at its address; one front end finds its goodbye only after that (A51)."""
    late, other = world.front_ends if rng.random() < 0.5 else reversed(world.front_ends)
    with claimed(world, *everything_of(world)):
        host = await new_host(world, (0, 1), period_s=20.0)
        if host is None:
            return
        member, state = host.members[0], host.members[0].state
        host.held |= {0, 1}
        await asyncio.sleep(0.3)
        goodbye = {
            "clusterName": state.cluster, "brokerAddr": state.addr, "brokerName": state.name,
            "brokerId": str(state.broker_id),
        }  # fmt: skip
        pids = [process.pid for process in late.family()]
        with disturbed(world, *places_of(late)), standing(pids):
            await asyncio.sleep(0.2)
            for front_end in (late, other) if rng.random() < 0.5 else (late,):
                wire = host.wires.get(front_end.index)
                if wire is not None and wire.is_open:
                    asking = asyncio.create_task(wire.ask(104, goodbye, timeout_s=0.5))
                    await asyncio.wait((asking,))
                    asking.exception()
            state.end(time.monotonic(), "unregistered")
            host.runs = False
            for index in (0, 1):
                host.close(index, reset=rng.random() < 0.5)
            await host.stop()
            member.wake()
            again = world.add_host([member], (other.index,), name=host.name, apart=True)
            await world.waited(lambda: other.index in again.registered, 8)
            await asyncio.sleep(rng.choice((0.0, 7.0)))
        for _ in range(10):
            await asyncio.sleep(0.2)
            quiet = world.timeline.is_quiet(
                time.monotonic() - 2, time.monotonic(), ("redis", "master", "clock", "loss")
            )
            if quiet and again.registered and await is_gone(world, state.who):
                world.judged([f"{state.who} is gone: the goodbye of its life before was handled late"])
