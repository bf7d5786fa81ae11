"""Writes that are answered 0 while Redis lacks what is served, and writes that it loses afterwards.

Each has its effect at every front end, and keeps it. Topics that 217 registers are looked at: no broker repeats them.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from random import Random
from typing import TYPE_CHECKING, Any

from mqregistry.errors import RegistryError
from mqregistry.protocol.bodies.route import decode_route
from mqregistry.store.config_writes import KvStore
from mqregistry.store.store import Store

from ..variants import SINGLE
from ..wire import HungUp, connected
from .looks import gone_soon, new_host
from .redis_server import flush, rolled_back, saved_aof
from .table import claimed, disturbed, everything_of, operation

if TYPE_CHECKING:
    from ..world import World

_WITHIN_S = 10.0


async def _route(world: World, index: int, topic: str, name: str) -> Any:
    """The permission that a brokerName has there; None: the topic is unknown; "": not answered."""
    with contextlib.suppress(OSError, TimeoutError, HungUp):
        async with connected(world.front_ends[index].port) as wire:
            answer = await wire.ask(105, {"topic": topic}, timeout_s=3)
            if answer.code == 0:
                found = decode_route(answer.body).queue_datas.get(name)
                return {name: found.perm} if found is not None else None
            return None
    return ""


def _queues(name: str) -> bytes:
    return (
        f'{{"queueDatas":[{{"brokerName":"{name}","readQueueNums":2,"writeQueueNums":2,"perm":6,"topicSysFlag":0}}]}}'
    ).encode()


class _Writes:
    """One write of each sort, by hand, of a broker of its own; the expected route of each topic that they touch."""

    def __init__(self, world: World, rng: Random, name: str, topic: str) -> None:
        self.world, self.rng, self.name, self.topic = world, rng, name, topic
        self.expected: dict[str, dict[str, int] | None] = {}
        self._there, self._new = f"hand-{name}-there", f"hand-{name}-new"

    async def prepare(self) -> bool:
        return await self.world.admin.ask(0, 217, {"topic": self._there}, _queues(self.name))

    async def send(self) -> None:
        """Some of them, in any order, each at any front end."""
        admin, index = self.world.admin, self.rng.randrange
        writes = [
            (205, {"brokerName": self.name}, b"", {self.topic: {self.name: 4}}),
            (216, {"topic": self._there}, b"", {self._there: None}),
            (217, {"topic": self._new}, _queues(self.name), {self._new: {self.name: 6}}),
        ]
        self.rng.shuffle(writes)
        for code, ext, body, effect in writes[: self.rng.randrange(1, 4)]:
            if await admin.ask(index(2), code, ext, body):
                if code == 205 and self._new in self.expected:
                    effect |= {self._new: {self.name: 4}}
                self.expected |= effect
        admin.values += 1
        value, sent = f"env{admin.values}", time.monotonic()
        acked = await admin.set_config(index(2), "productEnvName", value)
        admin.settings.written("productEnvName", value, acked=acked, sent=sent)
        await admin.write_kv(index(2), "acknowledged", delete=self.rng.random() < 0.5)

    async def judge(self, after: str) -> None:
        """All have their effect soon, and keep it."""
        wrong: list[str] = []
        end = time.monotonic() + _WITHIN_S
        while time.monotonic() < end and not self.world.found.is_set():
            wrong = [
                f"fe{index} answers {topic} with {found}, acknowledged was {expected}, after {after}"
                for topic, expected in self.expected.items() for index in range(2)
                if (found := await _route(self.world, index, topic, self.name)) != expected
            ]  # fmt: skip
            if not wrong:
                return
            await asyncio.sleep(0.3)
        if self.world.timeline.is_quiet(end - _WITHIN_S, end, ("peers",)):
            self.world.judged(wrong)


async def _prepared(world: World, rng: Random) -> _Writes | None:
    host = await new_host(world, (0, 1), topics=3)
    if host is None:
        return None
    state = host.members[0].state
    writes = _Writes(world, rng, state.name, next(iter(state.topics)))
    return writes if await writes.prepare() else None


@operation(0.8, only=SINGLE)
async def writes_while_redis_lacks_what_is_served(world: World, rng: Random) -> None:
    """Redis is emptied, maybe made anew by another process; what is then answered 0 has its effect (A25)."""
    with claimed(world, *everything_of(world)), world.admin.held():
        writes = await _prepared(world, rng)
        leaver = await new_host(world, (0, 1), topics=2) if rng.random() < 0.5 else None
        if writes is None:
            return
        await asyncio.sleep(1.0)
        await flush(world, frozenset({0, 1}))
        if rng.random() < 0.5:
            with contextlib.suppress(RegistryError):
                async with Store(world.redis.url, world.namespace, timeout_ms=3000) as store:
                    for number in range(rng.choice((1, 1, 40))):
                        await KvStore(store).put("direct", f"key{number}", str(time.monotonic()))
        await asyncio.sleep(rng.choice((0.0, 0.0, 0.3, 2.0)))
        if leaver is not None:
            who, ending = leaver.members[0].state.who, rng.choice((leaver.leave, leaver.crash))
            await ending()
            await gone_soon(world, who, "it left while Redis lacked it")
        await writes.send()
        await asyncio.sleep(1.0)
        await writes.judge("an emptied Redis")


@operation(0.8, only=SINGLE)
async def writes_that_redis_loses(world: World, rng: Random) -> None:
    """Redis starts with the data of before some writes that were answered 0, once or twice (A26)."""
    with claimed(world, *everything_of(world)), world.admin.held():
        writes = await _prepared(world, rng)
        if writes is None:
            return
        saved, since = await saved_aof(world)
        await writes.send()
        await asyncio.sleep(1.0)
        for _ in range(rng.choice((1, 1, 2))):
            with disturbed(world, "redis"):
                await rolled_back(world, saved)
                world.lost(since, frozenset({0, 1}))
                await asyncio.sleep(rng.choice((0.0, 2.5)))
        await asyncio.sleep(2.0)
        await writes.judge("a Redis that started with older data")


@operation(0.6, only=SINGLE)
async def front_end_starts_on_an_emptied_redis(world: World, rng: Random) -> None:
    """The other one is paused, or knows nothing either: no topic of a broker that lives is denied (A27)."""
    one, other = world.front_ends if rng.random() < 0.5 else reversed(world.front_ends)
    with claimed(world, *everything_of(world)), world.admin.held():
        host = await new_host(world, (other.index,), topics=3, period_s=6.0)
        if host is None:
            return
        topic = next(iter(host.members[0].state.topics))
        with disturbed(world, one.name, f"gap{one.index}"):
            await one.end(signal.SIGKILL)
            await flush(world)
            one.start()
            end = time.monotonic() + 6
            while time.monotonic() < end and not world.found.is_set():
                with contextlib.suppress(OSError, TimeoutError, HungUp):
                    async with connected(one.port) as wire:
                        answer = await wire.ask(105, {"topic": topic}, timeout_s=3)
                        if answer.code == 17:
                            world.judged([f"{one.name}, just started on an emptied Redis, denies {topic}"])
                            return
                await asyncio.sleep(0.05)
            await world.waited(one.booted, 10)
