"""Short sequences that chance alone reaches too seldom: each is one operation of a schedule.

A fragment claims what it disturbs, so that nothing else happens to it meanwhile; everything else goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from random import Random
from typing import TYPE_CHECKING

from mqregistry.errors import RegistryError
from mqregistry.store import scripts
from mqregistry.store.config_writes import KvStore
from mqregistry.store.route_writes import RouteStore
from mqregistry.store.store import Store

from .hosts import Host
from .listeners import Listener
from .operations import (
    Operation,
    claimed,
    disturbed,
    flush,
    lose,
    places_of,
    restart,
    stopped,
)
from .wire import connected

if TYPE_CHECKING:
    from .world import World

FRAGMENTS: dict[str, tuple[float, Operation]] = {}
LONG_S = 60.0
"""The timeout of a broker that must go long before it."""


def fragment(weight: float):
    def add(function: Operation) -> Operation:
        FRAGMENTS[function.__name__] = (weight, function)
        return function

    return add


def everything_of(world: World) -> list[str]:
    return ["redis", *(daemon.name for daemon in world.daemons), *(f"link {daemon.name}" for daemon in world.daemons)]


async def answers_17(port: int) -> bool:
    with contextlib.suppress(OSError, TimeoutError):
        async with connected(port) as wire:
            return (await wire.ask(105, {"topic": "never-heard-of"}, timeout_s=3)).code == 17
    return False


async def is_gone(world: World, who: str) -> bool:
    found: list[int] = []
    await world.tell_redis(lambda client: found.append(client.exists(f"{world.prefix}live:{who}")))
    return found == [0]


async def new_host(
    world: World, front_ends: tuple[int, ...], *, topics: int = 4, period_s: float = 1.0, timeout_s: float = LONG_S
) -> Host | None:
    """One more broker, registered everywhere; None: something else keeps it from registering."""
    host = world.add_host([world.broker(0, topics=topics, timeout_s=timeout_s)], front_ends, period_s=period_s)
    state = host.members[0].state
    there = lambda: state.lives and set(host.wires) == set(front_ends) and host.rounds >= len(front_ends)  # noqa: E731
    return host if await world.waited(there, 8) else None


# the view and what it rests on


@fragment(0.6)
async def slow_load_while_kv_changes(world: World, rng: Random) -> None:
    """A rebuild takes seconds, and a KV value changes all the time: one rebuild, then quiet (A1)."""
    front_end, other = world.front_ends if rng.random() < 0.5 else reversed(world.front_ends)
    key = f"slow{rng.randrange(1 << 30)}"
    with claimed(world, *everything_of(world)), disturbed(world, front_end.name, "load"):
        front_end.link.hold()
        for _ in range(2):  # the first one is under way already: a read of the stream waited for it
            await world.admin.write_kv(other.index, key, delete=False)
        world.replayable = False
        await world.tell_redis(lambda client: client.xtrim(f"{world.prefix}changes", maxlen=0, approximate=False))
        front_end.link.delay_s = 0.15
        front_end.link.release()
        end, fresh_since = time.monotonic() + 30, None
        while time.monotonic() < end and not world.found.is_set():
            await world.admin.write_kv(other.index, key, delete=False)
            await asyncio.sleep(0.4)
            if not await answers_17(front_end.port):
                fresh_since = None
            elif fresh_since is None:
                fresh_since = time.monotonic()
            elif time.monotonic() > fresh_since + 4:
                break
        else:
            world.judged([f"{front_end.name} is never fresh while a KV value changes every 0.4 s over a slow link"])
        front_end.link.delay_s = 0.0


@fragment(0.6)
async def lost_numbers_taken_again(world: World, rng: Random) -> None:
    """Redis forgets a broker's last change; another change of its row takes the lost number unseen (A6, A18)."""
    with claimed(world, *everything_of(world)):
        host = await new_host(world, (0, 1), topics=600 if rng.random() < 0.7 else 5)
        if host is None:
            return
        member = host.members[0]
        await asyncio.sleep(1.5)
        saved = {path: path.read_bytes() for path in world.redis.folder.glob("*.aof")}
        since, before = time.monotonic(), await _seq(world)
        member.add_topics([f"t-{member.state.name}-lost"])
        await world.waited(lambda: f"t-{member.state.name}-lost" in member.state.topics, 4)
        rev = await _rev(world, member.state.name)
        pids = [process.pid for front_end in world.front_ends for process in front_end.family()]
        with disturbed(world, "redis", *places_of(*world.front_ends)):
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            try:
                after = await _seq(world)
                world.redis.kill()
                for path, data in saved.items():
                    path.write_bytes(data)
                await asyncio.to_thread(world.redis.start)
                await lose(world, since)
                if before is not None and after is not None and rev is not None:
                    await _take(world, member.state.name, before, after, rev)
            finally:
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)
        await asyncio.sleep(3)


async def _seq(world: World) -> int | None:
    found: list[bytes | None] = []
    await world.tell_redis(lambda client: found.append(client.hget(f"{world.prefix}meta", "seq")))
    return int(found[0]) if found and found[0] else None


async def _rev(world: World, name: str) -> int | None:
    found: list[bytes | None] = []
    await world.tell_redis(lambda client: found.append(client.hget(f"{world.prefix}broker:{name}", "rev")))
    return int(found[0]) if found and found[0] else None


async def _take(world: World, name: str, before: int, after: int, rev: int) -> None:
    """Make as many changes as were lost; the one that takes ``rev`` is of this broker's row."""
    async with Store(world.redis.url, world.namespace, timeout_ms=3000) as store:
        with contextlib.suppress(RegistryError):
            for seq in range(before + 1, after + 1):
                if seq == rev:
                    await RouteStore(store).set_write_perm(name, "wipe")
                else:
                    await KvStore(store).put("direct", f"key{seq}", str(time.monotonic()))


@fragment(0.6)
async def hiccup_while_kv_is_given_back(world: World, rng: Random) -> None:
    """Redis is back empty, and the connection breaks just when the KV configuration is given back (A8)."""
    with claimed(world, *everything_of(world)), disturbed(world, "redis"):
        for front_end in world.front_ends:
            front_end.link.trips[scripts.load()["restore_kv"].sha.encode()] = rng.choice((1, 2))
        await flush(world)
        await asyncio.sleep(4)
        for front_end in world.front_ends:
            front_end.link.trips.clear()


@fragment(0.6)
async def who_knows_less_gives_back_first(world: World, rng: Random) -> None:
    """Two losses of KV: the front end that was cut off gives back first, the one with newer keys after it (A8)."""
    old, new = world.front_ends if rng.random() < 0.5 else reversed(world.front_ends)
    with claimed(world, *everything_of(world)), disturbed(world, *places_of(old)):
        old.link.hold()
        for number in range(3):
            await world.admin.write_kv(new.index, f"newer{number}", delete=number == 2)
        await world.admin.write_kv(new.index)
        await asyncio.sleep(0.5)
        with disturbed(world, *places_of(new)):
            pids = [process.pid for process in new.family()]
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            try:
                await flush(world)
                old.link.reset()
                old.link.release()
                await asyncio.sleep(rng.choice((2.0, 4.0)))
            finally:
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)
        await asyncio.sleep(2)


@fragment(0.4)
async def trimmed_while_a_front_end_loads(world: World, rng: Random) -> None:
    """A front end starts over a slow link, and the change stream is trimmed under it (A12)."""
    front_end, other = world.front_ends if rng.random() < 0.5 else reversed(world.front_ends)
    with claimed(world, *everything_of(world)), disturbed(world, *places_of(front_end), "load"):
        world.ended(front_end)
        await front_end.end(signal.SIGKILL)
        front_end.link.delay_s = 0.1
        front_end.start()
        world.replayable = False
        end = time.monotonic() + rng.choice((2.0, 5.0))
        while time.monotonic() < end and not world.found.is_set():
            await world.admin.write_kv(other.index, "trimmed", delete=False)
            await world.tell_redis(lambda client: client.xtrim(f"{world.prefix}changes", maxlen=0, approximate=False))
            await asyncio.sleep(0.05)
        front_end.link.delay_s = 0.0
        await world.boot(front_end)
        world.ended(front_end)


# who is alive


@fragment(0.6)
async def drained_after_the_last_other_close(world: World, rng: Random) -> None:
    """A broker's connection to one front end closes, then the other front end drains: it goes at once (A9)."""
    drained, other = world.front_ends if rng.random() < 0.5 else reversed(world.front_ends)
    with claimed(world, *everything_of(world)):
        host = await new_host(world, (0, 1), period_s=20.0)
        if host is None:
            return
        state = host.members[0].state
        host.held |= {0, 1}
        await asyncio.sleep(0.3)
        state.end(time.monotonic(), "closed")
        host.runs = False
        host.close(other.index)
        await asyncio.sleep(1.0)
        with disturbed(world, *places_of(drained)):
            await restart(world, drained, signal.SIGTERM, 0.0)
        await gone_soon(world, state.who, f"after {drained.name} drained")
        await host.stop()


async def gone_soon(world: World, who: str, when: str, within_s: float = 8.0) -> None:
    end = time.monotonic() + within_s
    while not await is_gone(world, who):
        if world.found.is_set():
            return
        if time.monotonic() > end:
            world.judged([f"{who} is in the tables {within_s:g} s {when}; its timeout is {LONG_S:g} s"])
            return
        await asyncio.sleep(0.2)


@fragment(0.6)
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


@fragment(0.5)
async def smallest_id_told_to_broken_listeners(world: World, rng: Random) -> None:
    """905 goes to brokers whose listeners reset, hold up, or are not there; one that listens gets it soon (A4)."""
    await world.admin.set_config(rng.randrange(2), "notifyMinBrokerIdChanged", "true")
    listeners = [Listener(kind) for kind in ("reset", "silent", "reads")]
    slaves, masters = [], []
    try:
        for listener in listeners:
            await listener.start()
            addr = f"127.0.0.1:{listener.port}"
            master = world.broker(0, topics=2)
            slave = world.broker(1, name=master.state.name, cluster=master.state.cluster, addr=addr)
            masters.append(world.add_host([master], (0, 1)))
            slaves.append(world.add_host([slave], (0, 1)))
        await asyncio.sleep(3)
        for _ in range(2):
            for number, master in enumerate(masters):
                if not master.runs:
                    continue
                await master.leave()
                member = master.members[0]
                member.wake()
                masters[number] = world.add_host([member], (0, 1), name=master.name)
            await asyncio.sleep(2.5)
    finally:
        for slave in slaves:
            await slave.leave()
        for listener in listeners:
            await listener.close()


@fragment(0.3)
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


@fragment(0.3)
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


# at the limits of Redis


@fragment(0.5)
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
            await world.until(lambda: both_write(world), what, 20)
            await world.tell_redis(lambda client: client.config_set("maxmemory", 0))


async def both_write(world: World) -> bool:
    return await world.admin.write_kv(0, "full", delete=False) and await world.admin.write_kv(1, "full", delete=False)


@fragment(0.6)
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


@fragment(0.1)
async def nobody_sweeps(world: World, rng: Random) -> None:
    """No sweeper runs: the front end that was told not to sweep does it after half a minute (A16)."""
    other = world.front_ends[1]
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
                await gone_soon(world, state.who, "after it fell silent, and no sweeper ran", within_s=45)
            other.start()
            world.sweeper.start()
            await world.boot(other)
            await world.boot(world.sweeper)
            world.ended(other)
