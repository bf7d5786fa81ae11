"""What the sequences look at while they go on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import urllib.request
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..clients import KV_NAMESPACE
from ..wire import connected

if TYPE_CHECKING:
    from ..hosts import Host
    from ..processes import FrontEnd
    from ..world import World


LONG_S = 60.0
"""The timeout of a broker that must go long before it."""


async def answers_17(port: int) -> bool:
    with contextlib.suppress(OSError, TimeoutError):
        async with connected(port) as wire:
            return (await wire.ask(105, {"topic": "never-heard-of"}, timeout_s=3)).code == 17
    return False


async def all_answer_17(world: World) -> bool:
    """Whether each of some connections to each front end, which lead to several workers, is denied an unknown topic."""
    return all([await answers_17(front_end.port) for front_end in world.front_ends for _ in range(front_end.workers)])


async def warnings_of(front_end: FrontEnd) -> list[str]:
    """What /readyz of a front end warns of."""

    def read() -> list[str]:
        url = f"http://127.0.0.1:{front_end.http_port}/readyz"
        with contextlib.suppress(OSError, ValueError), urllib.request.urlopen(url, timeout=2) as answer:
            found: list[str] = json.load(answer).get("warnings", [])
            return found
        return []

    return await asyncio.to_thread(read)


async def is_gone(world: World, who: str) -> bool:
    found: list[int] = []
    await world.tell_redis(lambda client: found.append(client.exists(f"{world.prefix}live:{who}")))
    return found == [0]


async def kept_kv(world: World, keys: Iterable[str], after: str) -> None:
    """These keys are soon what was acknowledged last."""

    async def wrong() -> list[str]:
        found: dict[bytes, bytes] = {}
        await world.tell_redis(lambda client: found.update(client.hgetall(f"{world.prefix}kv:{KV_NAMESPACE}")))
        values = {key: found[key.encode()].decode() if key.encode() in found else None for key in keys}
        states = world.admin.kv.keys
        return [
            f"KV key {key} is {value} after {after}, acknowledged was {states[key].acked}"
            for key, value in values.items()
            if key in states and not states[key].allows(value)
        ]

    end = time.monotonic() + 10
    while told := await wrong():
        if time.monotonic() > end:
            world.judged(told)
            return
        await asyncio.sleep(0.2)


async def is_at_maxmemory(world: World) -> bool:
    found: list[dict[str, int]] = []
    await world.tell_redis(lambda client: found.append(client.info("memory")))
    return bool(found) and found[0]["used_memory"] > found[0]["maxmemory"] > 0


async def gone_soon(world: World, who: str, when: str, within_s: float = 8.0) -> None:
    """It must be gone soon; after a disturbance when the lease of the worker that had it has run out and was noticed.

    That a worker could not say in time what it gives up is made good by the sweeper: a lease of 5 s, and no sooner
    than 10 s after a gap.
    """
    began = time.monotonic()
    while not await is_gone(world, who):
        if world.found.is_set():
            return
        now = time.monotonic()
        quiet = world.timeline.is_quiet(began - 12, now, ("redis", "master", "clock", "peers", "load", "loss"))
        if now > began + within_s + (0 if quiet else 20):
            world.judged([f"{who} is in the tables {now - began:.0f} s {when}; its timeout is {LONG_S:g} s"])
            return
        await asyncio.sleep(0.2)


async def new_host(
    world: World, front_ends: tuple[int, ...], *, topics: int = 4, period_s: float = 1.0, timeout_s: float = LONG_S
) -> Host | None:
    """One more broker, registered everywhere, apart; None: something else keeps it from registering."""
    member = world.broker(0, topics=topics, timeout_s=timeout_s, prefix="of-usual-length-")
    host = world.add_host([member], front_ends, period_s=period_s, apart=True)
    state = host.members[0].state
    there = lambda: state.lives and set(host.wires) == host.registered == set(front_ends)  # noqa: E731
    return host if await world.waited(there, 8) else None


async def both_write(world: World) -> bool:
    return await world.admin.write_kv(0, "full", delete=False) and await world.admin.write_kv(1, "full", delete=False)


async def seq_of(world: World) -> int | None:
    found: list[bytes | None] = []
    await world.tell_redis(lambda client: found.append(client.hget(f"{world.prefix}meta", "seq")))
    return int(found[0]) if found and found[0] else None


async def rev_of(world: World, name: str) -> int | None:
    found: list[bytes | None] = []
    await world.tell_redis(lambda client: found.append(client.hget(f"{world.prefix}broker:{name}", "rev")))
    return int(found[0]) if found and found[0] else None
