"""What is written and closed after Redis has lost changes, and before brokers have registered again."""

from __future__ import annotations

import asyncio
import contextlib
import time
from random import Random
from typing import TYPE_CHECKING

from mqregistry.protocol.bodies.route import decode_route

from ..variants import SINGLE
from ..wire import HungUp, connected
from .looks import new_host
from .processes import standing
from .redis_server import flush, rolled_back, saved_aof
from .table import claimed, disturbed, everything_of, operation, places_of

if TYPE_CHECKING:
    from ..hosts import Host
    from ..processes import FrontEnd
    from ..world import World

NOTICED_S = 2.5
"""A worker renews its lease each second, and has read the tables again soon after."""
SEEN_S = 3.0
"""What was answered is seen everywhere; the rest is for a busy machine."""
PERM_WRITE = 2


async def served(front_end: FrontEnd, topic: str, name: str) -> int | None:
    """The permission that a broker's queues of a topic have in its answer: 0 if they are not in it; None: no answer."""
    with contextlib.suppress(OSError, TimeoutError, HungUp):
        async with connected(front_end.port) as wire:
            answer = await wire.ask(105, {"topic": topic}, timeout_s=3)
            if answer.code == 17:
                return 0
            if answer.code == 0:
                return {key: row.perm for key, row in dict(decode_route(answer.body).queue_datas).items()}.get(name, 0)
    return None


async def _written(world: World, code: int, ext: dict[str, str]) -> bool:
    """A request that is refused while the tables are read again, until it is taken."""
    end = time.monotonic() + 6
    while time.monotonic() < end and not world.found.is_set():
        for index in range(len(world.front_ends)):
            if await world.admin.ask(index, code, ext):
                return True
        await asyncio.sleep(0.2)
    return False


async def _holds(world: World, host: Host, topic: str, what: str, expected: int) -> None:
    """Each front end serves that soon: 0 nothing of it, else a permission that lacks the right to write."""
    began, name = time.monotonic(), host.members[0].state.name
    while True:
        found = {one.name: await served(one, topic, name) for one in world.front_ends}
        wrong = {
            key: perm for key, perm in found.items()
            if perm is not None and (perm != 0 if not expected else perm & PERM_WRITE)
        }  # fmt: skip
        if not wrong or world.found.is_set():
            return
        if time.monotonic() > began + SEEN_S:
            if world.timeline.is_quiet(began - 1, time.monotonic(), ("redis", "master", "clock", "peers", "load")):
                told = ", ".join(f"{key} with permission {perm}" for key, perm in wrong.items())
                world.judged([f"{topic} is served {SEEN_S:g} s after {what}, in a grace: {told}"])
            return
        await asyncio.sleep(0.1)


@operation(0.6)
async def written_while_a_grace_runs(world: World, rng: Random) -> None:
    """Redis forgets all; goodbyes, closes, deletions and wipes before the broker is back take effect (C)."""
    with claimed(world, *everything_of(world)), world.admin.held():
        host = await new_host(world, (0, 1), period_s=25.0)
        if host is None:
            return
        state, topic = host.members[0].state, host.members[0].firm[-1]
        host.held |= {0, 1}
        await asyncio.sleep(0.3)
        await flush(world)
        await asyncio.sleep(NOTICED_S)
        how = rng.choice(("goodbye", "close", "deletion", "wipe"))
        if how == "goodbye":
            ext = {"clusterName": state.cluster, "brokerAddr": state.addr, "brokerName": state.name, "brokerId": "0"}
            host.members[0].fall_silent()  # from now on it may be gone
            taken = 0
            for wire in list(host.wires.values()):
                with contextlib.suppress(OSError, TimeoutError, HungUp):
                    taken += (await wire.ask(104, ext, timeout_s=3)).code == 0
            if taken:
                state.end(time.monotonic(), "unregistered")
                await _holds(world, host, topic, "104 was answered with 0", 0)
        elif how == "close":
            state.end(time.monotonic(), "closed")
            for index in (0, 1):
                host.close(index)
            await _holds(world, host, topic, "all connections of its broker closed", 0)
        else:
            state.topics.clear()  # it is no matter of the broker alone any more
            ext = {"topic": topic} if how == "deletion" else {"brokerName": state.name}
            if await _written(world, 216 if how == "deletion" else 205, ext):
                await _holds(world, host, topic, f"its {how} was answered with 0", 0 if how == "deletion" else 4)
        host.runs = False
        if state.ended is None:
            state.end(time.monotonic(), "closed")
        await host.crash()


@operation(0.4, only=SINGLE)
async def settings_and_deletions_rolled_back(world: World, rng: Random) -> None:
    """Redis goes back behind a setting and the deletion of a topic, with another clock perhaps: both count (D)."""
    with claimed(world, *everything_of(world)), world.admin.held():
        host = await new_host(world, (0, 1), period_s=25.0)
        if host is None:
            return
        state, topic = host.members[0].state, host.members[0].firm[-1]
        host.held |= {0, 1}
        await asyncio.sleep(0.3)
        await world.admin.write_kv(0, "forked", delete=False)
        saved, since = await saved_aof(world)
        state.topics.clear()
        value = f"env-{rng.randrange(1 << 20)}"
        taken = await world.admin.set_config(0, "productEnvName", value)
        taken = taken and await world.admin.ask(1, 216, {"topic": topic})
        taken = taken and await world.admin.write_kv(1, "forked", delete=rng.random() < 0.5)
        await asyncio.sleep(1.5)  # every worker has it
        by_ms = rng.choice((0, 0, -30_000, 30_000))
        pids = [process.pid for front_end in world.front_ends for process in front_end.family()]
        with disturbed(world, "redis", *places_of(*world.front_ends)), standing(pids):
            await rolled_back(world, saved)
            world.lost(since, frozenset({0, 1}))
            if by_ms:
                await world.tell_redis(lambda client: client.hincrby(f"{world.prefix}meta", "clock_offset_ms", by_ms))
        if taken:
            await _kept(world, topic, value)
        host.held.clear()
        await asyncio.sleep(1)
        await host.leave()


async def _kept(world: World, topic: str, value: str) -> None:
    """Redis has the setting, and no front end has the topic, as soon as its loss was noticed."""
    began = time.monotonic()
    while not world.found.is_set():
        config: dict[bytes, bytes] = {}
        answers = await world.tell_redis(lambda client, to=config: to.update(client.hgetall(f"{world.prefix}config")))
        found = config.get(b"productEnvName", b"").decode()
        wrong = [f"productEnvName is {found!r} and was {value}"] if answers and found != value else []
        for front_end in world.front_ends:
            with contextlib.suppress(OSError, TimeoutError, HungUp):
                async with connected(front_end.port) as wire:
                    if (await wire.ask(105, {"topic": topic}, timeout_s=3)).code == 0:
                        wrong.append(f"{front_end.name} serves {topic}, which was deleted")
        if not wrong:
            return
        if time.monotonic() > began + 10:
            if world.timeline.is_quiet(began + 3, time.monotonic(), ("redis", "peers", "load")):
                world.judged([f"after Redis went back behind what was acknowledged: {'; '.join(wrong)}"])
            return
        await asyncio.sleep(0.2)
