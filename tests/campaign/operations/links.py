"""What happens between a process and Redis."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

from mqregistry.store import scripts

from ..processes import Daemon, FrontEnd
from ..variants import SINGLE
from .table import claimed, disturbed, operation, places_of

if TYPE_CHECKING:
    from ..world import World


def any_daemon(world: World, rng: Random) -> Daemon:
    return rng.choice([*world.front_ends, *world.daemons])


@operation(2, only=SINGLE)
async def link_cut(world: World, rng: Random) -> None:
    """Connections to Redis are reset, and new ones too."""
    daemon = any_daemon(world, rng)
    with claimed(world, f"link {daemon.name}"), disturbed(world, *places_of(daemon)):
        await cut(daemon, rng.choice((0.0, 1.0, 4.0, 9.0)))


async def cut(daemon: Daemon, for_s: float) -> None:
    daemon.link.cut = True
    daemon.link.reset()
    await asyncio.sleep(for_s)
    daemon.link.cut = False


@operation(2, only=SINGLE)
async def link_half_open(world: World, rng: Random) -> None:
    """Nothing passes, and nobody is told; then what was held back arrives late, or never."""
    daemon = any_daemon(world, rng)
    with claimed(world, f"link {daemon.name}"), disturbed(world, *places_of(daemon)):
        daemon.link.hold()
        await asyncio.sleep(rng.choice((1.0, 3.0, 6.0, 9.0)))
        if rng.random() < 0.5:
            daemon.link.reset()  # what was held back never arrives
        daemon.link.release()


@operation(1.5, only=SINGLE)
async def link_slow(world: World, rng: Random) -> None:
    """Everything takes a while."""
    daemon = any_daemon(world, rng)
    place = daemon.name if isinstance(daemon, FrontEnd) else "sweep"
    with claimed(world, f"link {daemon.name}"), disturbed(world, place, "load"):
        daemon.link.delay_s = rng.choice((0.02, 0.1, 0.2))
        await asyncio.sleep(rng.uniform(2, 8))
        daemon.link.delay_s = 0.0


@operation(1.5, only=SINGLE)
async def links_cut_together(world: World, rng: Random) -> None:
    """No front end reaches Redis, for longer than a broker's timeout, while the sweeper goes on (A2)."""
    names = [f"link {front_end.name}" for front_end in world.front_ends]
    for_s = rng.choice((2.0, 5.0, 13.0))
    with claimed(world, *names), disturbed(world, *places_of(*world.front_ends)):
        await asyncio.gather(*(cut(front_end, for_s) for front_end in world.front_ends))


@operation(2, only=SINGLE)
async def script_cut(world: World, rng: Random) -> None:
    """The connection breaks just when a certain script is called (A8, A13)."""
    front_end = rng.choice(world.front_ends)
    name = rng.choice(("restore_changes", "attach_channels", "snapshot", "register_broker", "heartbeat", "renew_lease",
                       "channel_destroyed", "put_kv", "release_channels"))  # fmt: skip
    with claimed(world, f"link {front_end.name}"), disturbed(world, front_end.name):
        front_end.link.trips[scripts.load()[name].sha.encode()] = rng.choice((1, 2, 5))
        await asyncio.sleep(rng.uniform(1, 6))
        front_end.link.trips.clear()
