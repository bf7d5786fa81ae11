"""Sequences around a view that is read again, and a Redis that lost changes."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from random import Random
from typing import TYPE_CHECKING

from mqregistry.errors import RegistryError
from mqregistry.store import scripts
from mqregistry.store.config_writes import KvStore
from mqregistry.store.route_writes import RouteStore
from mqregistry.store.store import Store

from ..variants import SINGLE
from .looks import answers_17, kept_kv, new_host, rev_of, seq_of
from .processes import standing
from .redis_server import flush, rolled_back, saved_aof
from .table import claimed, disturbed, everything_of, operation, places_of

if TYPE_CHECKING:
    from ..world import World


@operation(0.6, only=SINGLE)
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
            if world.timeline.is_quiet(end - 30, end, ("peers",)):
                world.judged([f"{front_end.name} is never fresh while a KV value changes every 0.4 s over a slow link"])
        front_end.link.delay_s = 0.0


@operation(0.6, only=SINGLE)
async def lost_numbers_taken_again(world: World, rng: Random) -> None:
    """Redis forgets a broker's last change; another change of its row takes the lost number unseen (A6, A18)."""
    with claimed(world, *everything_of(world)), world.admin.held():
        host = await new_host(world, (0,), topics=460 if rng.random() < 0.7 else 5)
        if host is None:
            return
        member = host.members[0]
        await world.admin.write_kv(0, "lost", delete=False)
        saved, since = await saved_aof(world)
        member.add_topics([f"t-{member.state.name}-lost"])
        await world.waited(lambda: f"t-{member.state.name}-lost" in member.state.topics, 4)
        rev = await rev_of(world, member.state.name)
        await world.admin.write_kv(1, "lost", delete=rng.random() < 0.5)
        pids = [process.pid for front_end in world.front_ends for process in front_end.family()]
        with disturbed(world, "redis", *places_of(*world.front_ends)):
            with standing(pids):
                after = await seq_of(world)
                await rolled_back(world, saved)
                world.lost(since, frozenset({0, 1}))
                before = await seq_of(world)
                if before is not None and after is not None and rev is not None:
                    await _take(world, member.state.name, before, after, rev)
                if rng.random() < 0.6:  # the stream cannot be read for a while: registrations come before it is
                    for front_end in world.front_ends:
                        front_end.link.trips[b"XREAD"] = 1000
            await asyncio.sleep(2.5)
            for front_end in world.front_ends:
                front_end.link.trips.clear()
        await asyncio.sleep(1)


async def _take(world: World, name: str, before: int, after: int, rev: int) -> None:
    """Make as many changes as were lost; the one that takes ``rev`` is of this broker's row."""
    async with Store(world.redis.url, world.namespace, timeout_ms=3000) as store:
        with contextlib.suppress(RegistryError):
            for seq in range(before + 1, after + 1):
                if seq == rev:
                    await RouteStore(store).set_write_perm(name, "wipe")
                else:
                    await KvStore(store).put("direct", f"key{seq}", str(time.monotonic()))


@operation(0.6, only=SINGLE)
async def hiccup_while_kv_is_given_back(world: World, rng: Random) -> None:
    """Redis is back empty, and the connection breaks just when the KV configuration is given back (A8)."""
    with claimed(world, *everything_of(world)), disturbed(world, "redis"):
        for front_end in world.front_ends:
            front_end.link.trips[scripts.load()["restore_changes"].sha.encode()] = rng.choice((1, 2))
        await flush(world)
        await asyncio.sleep(4)
        for front_end in world.front_ends:
            front_end.link.trips.clear()


@operation(0.3, only=SINGLE)
async def kv_is_given_back_late(world: World, rng: Random) -> None:
    """It cannot be given back before the grace is over, or before Redis has lost changes once more (A8)."""
    names = [front_end.name for front_end in world.front_ends]
    with claimed(world, *everything_of(world)), disturbed(world, *names):
        await world.admin.write_kv(0, "late", delete=False)
        saved, since = await saved_aof(world)
        await world.admin.write_kv(1, "late", delete=rng.random() < 0.3)
        await asyncio.sleep(0.5)
        for front_end in world.front_ends:
            front_end.link.trips[scripts.load()["restore_changes"].sha.encode()] = 1000
        with disturbed(world, "redis"):
            await rolled_back(world, saved)
            world.lost(since, frozenset({0, 1}))
        if rng.random() < 0.5:
            await asyncio.sleep(world.model.merge_s + 5)
        else:
            await asyncio.sleep(3.5)  # they have read the tables again, and serve the older value
            await flush(world, frozenset({0, 1}))
            await asyncio.sleep(2.5)
        for front_end in world.front_ends:
            front_end.link.trips.clear()
        await asyncio.sleep(2)


@operation(0.3, only=SINGLE)
async def tables_cannot_be_read_again_for_a_while(world: World, rng: Random) -> None:
    """A loss is noticed, the tables cannot be read, and meanwhile other changes take the lost numbers (A1, A18)."""
    names = [front_end.name for front_end in world.front_ends]
    with claimed(world, *everything_of(world)), world.admin.held(), disturbed(world, *names):
        saved, since = await saved_aof(world)
        for number in range(3):
            await world.admin.write_kv(number % 2, f"unread{number}", delete=False)
        after = await seq_of(world)
        for front_end in world.front_ends:
            front_end.link.trips |= {scripts.load()["snapshot"].sha.encode(): 10_000, b"XREAD": 10_000}
        world.replayable = False
        with disturbed(world, "redis"):
            await rolled_back(world, saved)
            world.lost(since, frozenset({0, 1}))
            await asyncio.sleep(2.5)  # each worker has noticed it, and could not read the tables
            before = await seq_of(world)
            if before is not None and after is not None:
                await _take(world, "", before, after, 0)
            await world.tell_redis(lambda client: client.xtrim(f"{world.prefix}changes", maxlen=0))
        for front_end in world.front_ends:
            front_end.link.trips.clear()
        await asyncio.sleep(2)


@operation(0.6, only=SINGLE)
async def who_knows_less_gives_back_first(world: World, rng: Random) -> None:
    """KV is lost; the front end that was cut off gives back first, the one with newer values after it, or not (A8)."""
    old, new = world.front_ends if rng.random() < 0.5 else reversed(world.front_ends)
    ahead_first = rng.random() < 0.5
    with claimed(world, *everything_of(world)), disturbed(world, *places_of(old)):
        for number in range(3):
            await world.admin.write_kv(new.index, f"newer{number}", delete=False)
        await asyncio.sleep(1.0)
        old.link.hold()
        for number in range(3):
            await world.admin.write_kv(new.index, f"newer{number}", delete=number == 2)
        await world.admin.write_kv(new.index)
        await asyncio.sleep(0.5)
        now = time.monotonic()
        known_by = frozenset({new.index}) if world.timeline.is_quiet(now - 4, now, (new.name,)) else None
        if ahead_first:
            await flush(world, known_by)
            await asyncio.sleep(2.5)
            old.link.reset()
            old.link.release()
        else:
            with disturbed(world, *places_of(new)), standing([process.pid for process in new.family()]):
                await flush(world, known_by)
                old.link.reset()
                old.link.release()
                await asyncio.sleep(rng.choice((2.0, 4.0)))
        await asyncio.sleep(2)
        if known_by is not None and world.timeline.is_quiet(now - 1, time.monotonic(), ("peers",)):
            await kept_kv(world, ("newer0", "newer1", "newer2"), f"a loss that {new.name} knew all before of")


@operation(0.4, only=SINGLE)
async def trimmed_while_a_front_end_loads(world: World, rng: Random) -> None:
    """A front end starts over a slow link, and the change stream is trimmed under it (A12)."""
    front_end, other = world.front_ends if rng.random() < 0.5 else reversed(world.front_ends)
    with claimed(world, *everything_of(world)), disturbed(world, *places_of(front_end), "load"):
        world.ended(front_end)
        await front_end.end(signal.SIGKILL)
        front_end.link.delay_s = 0.1
        front_end.start()
        world.replayable = False
        end = time.monotonic() + rng.choice((5.0, 7.0))
        while time.monotonic() < end and not world.found.is_set():
            for _ in range(2):
                await world.admin.write_kv(other.index, "trimmed", delete=False)
            await world.tell_redis(lambda client: client.xtrim(f"{world.prefix}changes", maxlen=1, approximate=False))
            await asyncio.sleep(0.05)
        front_end.link.delay_s = 0.0
        await world.boot(front_end)
        world.ended(front_end)
