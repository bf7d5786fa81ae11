"""What may happen to a world at random: each operation disturbs one thing for a while, and ends by itself.

An operation gets its own random numbers, so that it does the same when the schedule around it is made shorter. What it
needs is claimed; if another operation has it, nothing happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from random import Random
from typing import TYPE_CHECKING

import redis

from mqregistry.store import scripts

from .processes import Daemon, FrontEnd
from .wire import Wire

if TYPE_CHECKING:
    from .hosts import Host, Member
    from .world import World

Operation = Callable[["World", Random], Awaitable[None]]
OPERATIONS: dict[str, tuple[float, Operation]] = {}
"""Name -> weight, function."""


def operation(weight: float) -> Callable[[Operation], Operation]:
    def add(function: Operation) -> Operation:
        OPERATIONS[function.__name__] = (weight, function)
        return function

    return add


class Busy(Exception):
    """Another operation has what this one needs: it does not happen."""


@contextlib.contextmanager
def claimed(world: World, *things: str) -> Iterator[None]:
    if world.busy & set(things):
        raise Busy
    world.busy |= set(things)
    try:
        yield
    finally:
        world.busy -= set(things)


@contextlib.contextmanager
def disturbed(world: World, *places: str) -> Iterator[None]:
    """These places are disturbed for the length of a block."""
    for place in places:
        world.timeline.begin(place)
    try:
        yield
    finally:
        for place in places:
            world.timeline.end(place)


def places_of(*daemons: Daemon) -> list[str]:
    """These processes are cut off as a whole."""
    places = []
    for daemon in daemons:
        places += [daemon.name, f"gap{daemon.index}"] if isinstance(daemon, FrontEnd) else ["sweep"]
    return places


# Redis


@operation(3)
async def redis_paused(world: World, rng: Random) -> None:
    """SIGSTOP: connections stay, nothing is answered."""
    with claimed(world, "redis"), disturbed(world, "redis"):
        await pause_redis(world, rng.choice((0.6, 2.0, 3.5, 5.0, 8.0)))


async def pause_redis(world: World, for_s: float) -> None:
    assert world.redis.pid is not None
    os.kill(world.redis.pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(for_s)
    finally:
        os.kill(world.redis.pid, signal.SIGCONT)


@operation(2)
async def redis_killed(world: World, rng: Random) -> None:
    """SIGKILL and a start from the append-only file: nothing that was acknowledged is lost."""
    with claimed(world, "redis"), disturbed(world, "redis"):
        world.redis.kill()
        await asyncio.sleep(rng.choice((0.0, 0.5, 2.0, 5.0)))
        await asyncio.to_thread(world.redis.start)


def remove_aof(world: World) -> None:
    for path in world.redis.folder.glob("*.aof"):
        path.unlink()
    shutil.rmtree(world.redis.folder / "appendonlydir", ignore_errors=True)


async def lose(world: World, since: float, known_by: frozenset[int] | None = None) -> None:
    """Redis has lost what it learned since then; known routes are now served beside what it holds."""
    now = time.monotonic()
    world.replayable = False
    world.model.lost(since, now, known_by)
    world.timeline.add("loss", now, now + world.model.merge_s + 4)


@operation(1.5)
async def redis_emptied(world: World, rng: Random) -> None:
    """It comes back without any data."""
    with claimed(world, "redis"), disturbed(world, "redis"):
        world.redis.kill()
        remove_aof(world)
        await asyncio.sleep(rng.choice((0.0, 0.5, 3.0)))
        await asyncio.to_thread(world.redis.start)
        await lose(world, 0.0)


@operation(1.5)
async def flushall(world: World, rng: Random) -> None:
    with claimed(world, "redis"):
        await flush(world)


async def flush(world: World) -> None:
    if await world.tell_redis(lambda client: client.flushall()):
        await lose(world, 0.0)


@operation(1.5)
async def redis_rolled_back(world: World, rng: Random) -> None:
    """It comes back with the data of some seconds ago, as a replica that lags does when it is promoted (A6, A18)."""
    with claimed(world, "redis"):
        files = list(world.redis.folder.glob("*.aof"))
        saved = {path: path.read_bytes() for path in files}
        since = time.monotonic()
        await asyncio.sleep(rng.uniform(0.5, 5))
        with disturbed(world, "redis"):
            world.redis.kill()
            for path, data in saved.items():
                path.write_bytes(data)
            await asyncio.sleep(rng.choice((0.0, 0.0, 1.0)))
            await asyncio.to_thread(world.redis.start)
            await lose(world, since)


@operation(1)
async def redis_full(world: World, rng: Random) -> None:
    """maxmemory is reached: every write is refused."""
    with claimed(world, "redis"), disturbed(world, "redis"):
        await world.tell_redis(lambda client: client.config_set("maxmemory", 1 << 20))
        try:
            await asyncio.sleep(rng.choice((0.5, 2.0, 5.0)))
        finally:
            await world.tell_redis(lambda client: client.config_set("maxmemory", 0))


@operation(1.5)
async def clock_moved(world: World, rng: Random) -> None:
    """The clock of Redis steps, forwards or back."""
    with claimed(world, "redis"), disturbed(world, "clock"):
        by_ms = rng.choice((4000, 30_000, -4000, -30_000))
        await world.tell_redis(lambda client: client.hincrby(f"{world.prefix}meta", "clock_offset_ms", by_ms))
        await asyncio.sleep(1.5)  # until the front ends have noticed


@operation(1)
async def stream_trimmed(world: World, rng: Random) -> None:
    """Front ends that lag behind have a gap."""
    world.replayable = False
    left = rng.choice((0, 1, 5))
    await world.tell_redis(lambda client: client.xtrim(f"{world.prefix}changes", maxlen=left, approximate=False))


@operation(0.4)
async def bad_byte(world: World, rng: Random) -> None:
    """A KV value that is not UTF-8, written by somebody else; then a worker starts and reads it (A12)."""

    def write(client: redis.Redis) -> None:
        if client.exists(f"{world.prefix}meta"):
            client.sadd(f"{world.prefix}kv", "foreign")
            client.hset(f"{world.prefix}kv:foreign", "bad", b"\xff\xfe")

    world.replayable = False
    await world.tell_redis(write)
    await worker_killed(world, rng)


# links


def any_daemon(world: World, rng: Random) -> Daemon:
    return rng.choice([*world.front_ends, *world.daemons])


@operation(2)
async def link_cut(world: World, rng: Random) -> None:
    daemon = any_daemon(world, rng)
    with claimed(world, f"link {daemon.name}"), disturbed(world, *places_of(daemon)):
        await cut(daemon, rng.choice((0.0, 1.0, 4.0, 9.0)))


async def cut(daemon: Daemon, for_s: float) -> None:
    daemon.link.cut = True
    daemon.link.reset()
    await asyncio.sleep(for_s)
    daemon.link.cut = False


@operation(2)
async def link_half_open(world: World, rng: Random) -> None:
    daemon = any_daemon(world, rng)
    with claimed(world, f"link {daemon.name}"), disturbed(world, *places_of(daemon)):
        daemon.link.hold()
        await asyncio.sleep(rng.choice((1.0, 3.0, 6.0, 9.0)))
        if rng.random() < 0.5:
            daemon.link.reset()  # what was held back never arrives
        daemon.link.release()


@operation(1.5)
async def link_slow(world: World, rng: Random) -> None:
    daemon = any_daemon(world, rng)
    place = daemon.name if isinstance(daemon, FrontEnd) else "sweep"
    with claimed(world, f"link {daemon.name}"), disturbed(world, place, "load"):
        daemon.link.delay_s = rng.choice((0.02, 0.1, 0.2))
        await asyncio.sleep(rng.uniform(2, 8))
        daemon.link.delay_s = 0.0


@operation(1.5)
async def links_cut_together(world: World, rng: Random) -> None:
    """No front end reaches Redis, for longer than a broker's timeout, while the sweeper goes on (A2)."""
    names = [f"link {front_end.name}" for front_end in world.front_ends]
    for_s = rng.choice((2.0, 5.0, 13.0))
    with claimed(world, *names), disturbed(world, *places_of(*world.front_ends)):
        await asyncio.gather(*(cut(front_end, for_s) for front_end in world.front_ends))


@operation(2)
async def script_cut(world: World, rng: Random) -> None:
    """The connection breaks just when a certain script is called (A8, A13)."""
    front_end = rng.choice(world.front_ends)
    name = rng.choice(("restore_kv", "attach_channels", "snapshot", "register_broker", "heartbeat", "renew_lease",
                       "channel_destroyed", "put_kv", "release_channels"))  # fmt: skip
    with claimed(world, f"link {front_end.name}"), disturbed(world, front_end.name):
        front_end.link.trips[scripts.load()[name].sha.encode()] = rng.choice((1, 2, 5))
        await asyncio.sleep(rng.uniform(1, 6))
        front_end.link.trips.clear()


# front ends, workers, sweepers


@operation(1.5)
async def front_end_killed(world: World, rng: Random) -> None:
    front_end = rng.choice(world.front_ends)
    with claimed(world, front_end.name), disturbed(world, *places_of(front_end)):
        await restart(world, front_end, signal.SIGKILL, rng.choice((0.0, 1.0, 3.0)))


@operation(1.5)
async def front_end_drained(world: World, rng: Random) -> None:
    front_end = rng.choice(world.front_ends)
    with claimed(world, front_end.name), disturbed(world, *places_of(front_end)):
        await restart(world, front_end, signal.SIGTERM, rng.choice((0.0, 1.0)))


async def restart(world: World, daemon: Daemon, number: int, pause_s: float) -> None:
    daemon.signal_all(signal.SIGCONT)
    world.ended(daemon)
    wrong = await daemon.end(number)
    if wrong:
        world.judged([wrong])
    await asyncio.sleep(pause_s)
    daemon.start()
    await world.boot(daemon)
    world.ended(daemon)


@operation(2)
async def worker_killed(world: World, rng: Random) -> None:
    front_end = rng.choice(world.front_ends)
    with claimed(world, front_end.name), disturbed(world, front_end.name):
        workers = front_end.family()[1:]
        if not workers:
            return
        world.ended(front_end)
        front_end.killed_workers += 1
        with contextlib.suppress(ProcessLookupError):
            os.kill(rng.choice(workers).pid, signal.SIGKILL)
        answers = front_end.log.count(" answers\n") + front_end.log.count("boot success")
        end = time.monotonic() + 60
        while front_end.log.count(" answers\n") + front_end.log.count("boot success") == answers:
            if time.monotonic() > end:
                world.judged([f"a killed worker of {front_end.name} does not answer again within 60 s"])
                return
            await asyncio.sleep(0.1)
        world.ended(front_end)


@operation(2)
async def front_end_paused(world: World, rng: Random) -> None:
    """SIGSTOP of one worker, or of the whole front end; longer than a lease, or shorter."""
    front_end = rng.choice(world.front_ends)
    with claimed(world, front_end.name):
        family = front_end.family()
        chosen = [rng.choice(family[1:])] if len(family) > 1 and rng.random() < 0.5 else family
        with disturbed(world, *(places_of(front_end) if chosen is family else [front_end.name])):
            await stopped([process.pid for process in chosen], rng.choice((0.5, 2.5, 6.0, 12.0)))


async def stopped(pids: list[int], for_s: float) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(for_s)
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@operation(1.5)
async def front_ends_paused_together(world: World, rng: Random) -> None:
    """Nobody hears brokers, while a sweeper goes on (A2)."""
    names = [front_end.name for front_end in world.front_ends]
    with claimed(world, *names), disturbed(world, *places_of(*world.front_ends)):
        pids = [process.pid for front_end in world.front_ends for process in front_end.family()]
        await stopped(pids, rng.choice((2.5, 6.0, 13.0)))


@operation(1)
async def sweeper_restarted(world: World, rng: Random) -> None:
    with claimed(world, "sweeper"), disturbed(world, "sweep"):
        number = rng.choice((signal.SIGKILL, signal.SIGTERM))
        await restart(world, world.sweeper, number, rng.choice((0.0, 2.0)))


@operation(0.7)
async def sweeper_paused(world: World, rng: Random) -> None:
    with claimed(world, "sweeper"), disturbed(world, "sweep"):
        await stopped([process.pid for process in world.sweeper.family()], rng.choice((1.0, 6.0)))


@operation(1)
async def wall_clock_stepped(world: World, rng: Random) -> None:
    """The wall clock of the front ends' machine steps; no deadline and no order of connections may depend on it."""
    world.clock.step(rng.choice((-3600.0, -5.0, 5.0, 3600.0)))


@operation(1)
async def wall_clock_stepped_between_two_connections(world: World, rng: Random) -> None:
    """A broker connects again, the clock steps back between: the old connection's close says nothing (A14)."""
    host = world.add_host([world.broker(0)], (1,))
    await asyncio.sleep(2.0)
    for _ in range(4):  # until the two connections are at two workers
        world.clock.step(-30.0)
        await twice_connected(world, host, 1)
        await asyncio.sleep(0.5)


# brokers


def any_host(world: World, rng: Random) -> Host | None:
    hosts = [host for host in world.hosts if host.runs and any(not member.silent for member in host.members)]
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
                        answer = await new.ask(103, *member.sim.registration())
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


@operation(2)
async def new_topics(world: World, rng: Random) -> None:
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
    if len(world.hosts) < 40:
        world.add_host([world.broker(0)], rng.choice(((0, 1), (0, 1), (0,), (1,))))
