"""Watches the servers under Sentinel: what each failover lost, and how soon front ends follow the new master."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import redis

from bench.servers.redis_servers import RedisProcess

from .servers import role
from .wire import connected

if TYPE_CHECKING:
    from .processes import FrontEnd
    from .world import World

EVERY_S = 0.15
SERVES_S = 45.0
"""Sentinels take a master for dead after 1 s, and begin no failover within 6 s of the last one; one that had no
processor for 2 s does nothing for 30 s more."""
FOLLOWS_S = 1.0
"""An unknown topic is denied again so soon after another master serves, unless changes were lost (A20)."""
LEAVES_S = 4.0
"""A master that was replaced, and lives, takes writes for ten seconds more; nobody writes there for longer than this:
all Sentinels name the new one within 2 s, and are asked every second."""
CONNECTIONS = 3


@dataclasses.dataclass(frozen=True)
class Look:
    """What was so at a moment, or shortly after: how far the master was, how often each front end had seen a loss."""

    at: float
    offset: int
    losses_noticed: tuple[int, ...]


class Failovers:
    """Follows who is the master, and tells the model what was lost with the one before.

    master, other: as of the last look. count: of all failovers; unasked: of those that no
    operation began, as a server was too slow for its Sentinels. slowest_s: until unknown topics were denied again.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.servers: Any = world.redis
        self.count = self.unasked = 0
        self.slowest_s = 0.0
        self._looks: deque[Look] = deque(maxlen=400)
        self._replaced_at = math.inf
        self._left_seq: bytes | None = None
        self._follow: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        self.master, self.other = self.servers.nodes
        try:
            while True:
                await self._look()
                await asyncio.sleep(EVERY_S)
        finally:
            for task in self._follow:
                task.cancel()

    # what operations ask

    async def whole(self) -> tuple[RedisProcess, RedisProcess] | None:
        """The master, and the replica that has all that it had; None: there is none, which is a finding."""
        there = await self.world.until(lambda: asyncio.to_thread(self._may_fail_over), "a replica is ready", SERVES_S)
        return (self.master, self.other) if there else None

    async def follows(self) -> bool:
        """Wait until the other one has all that the master has."""
        return await self.world.until(lambda: asyncio.to_thread(self._is_whole), "the replica follows", SERVES_S)

    async def serves(self, node: RedisProcess) -> bool:
        """Wait until Sentinels name this server, and the model knows what that cost."""
        return await self.world.until(lambda: self.master is node, f"{node.folder.name} is promoted", SERVES_S)

    def _is_whole(self) -> bool:
        name, offset = role(self.master)
        if name != "master":
            return False
        with contextlib.suppress(redis.RedisError, OSError):
            state = self.other.call("ROLE")
            return state[0] == b"slave" and state[3] == b"connected" and state[4] >= offset
        return False

    def _may_fail_over(self) -> bool:
        with contextlib.suppress(redis.RedisError, OSError):
            return self._is_whole() and self.servers.would_promote(self.other)
        return False

    def notes(self) -> str:
        """For the log."""
        return (
            f"{self.count} failovers, {self.unasked} of them not asked for, after which 17 came within "
            f"{self.slowest_s:.2f} s"
        )

    # looking

    async def _look(self) -> None:
        noticed = tuple(front_end.log.count("came back with less") for front_end in self.world.front_ends)
        at = time.monotonic()
        name, offset = await asyncio.to_thread(role, self.master)
        if name == "master":
            if self._looks and offset < self._looks[-1].offset:
                self._looks.clear()
                self.world.lost(0.0)  # it was started again before its Sentinels noticed; nothing is kept in files
            self._looks.append(Look(at, offset, noticed))
        if await asyncio.to_thread(self.servers.leads_to, self.other):
            await self._failed_over()
        elif at > self._replaced_at + LEAVES_S:
            await self._look_at_replaced()

    async def _look_at_replaced(self) -> None:
        """Nobody changes tables there any more, if it is not demoted yet."""
        if (await asyncio.to_thread(role, self.other))[0] != "master":
            self._replaced_at = math.inf
            return
        before, self._left_seq = self._left_seq, await asyncio.to_thread(self._seq_of, self.other)
        now, others = time.monotonic(), [front_end.name for front_end in self.world.front_ends]
        if before is None or self._left_seq in (None, before):
            return
        if self.world.timeline.is_quiet(self._replaced_at - 1, now, ("peers", "load", "sweep", *others)):
            self.world.judged(
                [f"somebody writes to the old master {now - self._replaced_at:.1f} s after the new serves"]
            )

    def _seq_of(self, node: RedisProcess) -> bytes | None:
        with contextlib.suppress(redis.RedisError, OSError):
            found: bytes | None = node.call("HGET", f"{self.world.prefix}meta", "seq")
            return found
        return None

    async def _failed_over(self) -> None:
        world, old, new = self.world, self.master, self.other
        replicated = await asyncio.to_thread(lambda: new.client().info("replication")["second_repl_offset"] - 1)
        both = (await asyncio.to_thread(role, old))[0] == "master"
        now = time.monotonic()
        had = [look for look in self._looks if look.offset <= replicated]
        since = had[-1].at if had else 0.0
        until = now + (LEAVES_S if both else 0.0)
        # what two masters took at once cannot be put in order: then no front end knows better than Redis
        world.model.lost(since, until, frozenset() if both else None)
        lost = bool(self._looks) and self._looks[-1].offset > replicated
        if lost:
            self._merged_from(since)
        if "redis" not in world.busy:
            self.unasked += 1
            world.timeline.add("master", min(since, now - 2), until)
        noticed = had[-1].losses_noticed if had else (0,) * len(world.front_ends)
        self.count += 1
        self.master, self.other = new, old
        self._replaced_at, self._left_seq = now, None
        self._looks.clear()
        for front_end in world.front_ends:
            task = asyncio.create_task(self._judge_following(front_end, now, noticed[front_end.index]))
            self._follow.add(task)
            task.add_done_callback(self._follow.discard)

    def _merged_from(self, at: float) -> None:
        """Known routes are served beside what Redis holds, and unknown topics are not denied."""
        self.world.timeline.add("loss", at, time.monotonic() + self.world.model.merge_s + 4)

    async def _judge_following(self, front_end: FrontEnd, serves_at: float, noticed: int) -> None:
        """17 again within FOLLOWS_S, by every worker, unless the front end says that changes were lost."""
        failover, world = self.count, self.world
        while not await _denies(front_end.port):
            if self.count != failover or time.monotonic() > serves_at + SERVES_S:
                break
            await asyncio.sleep(0.05)
        now = time.monotonic()
        if front_end.log.count("came back with less") > noticed:
            self._merged_from(serves_at)
            return
        places = ("clock", "peers", "loss", "load", front_end.name)
        if self.count != failover or not world.timeline.is_quiet(serves_at - 4, now, places):
            return
        if not world.timeline.is_quiet(serves_at + 1, now, ("redis",)):
            return
        self.slowest_s = max(self.slowest_s, now - serves_at)
        if now - serves_at > FOLLOWS_S:
            world.judged(
                [f"{front_end.name} denies unknown topics {now - serves_at:.2f} s after the new master serves"]
            )


async def _denies(port: int) -> bool:
    """Whether each of some connections, which lead to several workers, gets code 17 for an unknown topic."""
    for _ in range(CONNECTIONS):
        try:
            async with connected(port) as wire:
                if (await wire.ask(105, {"topic": "never-heard-of"}, timeout_s=3)).code != 17:
                    return False
        except (OSError, TimeoutError):
            return False
    return True
