"""What must hold once everything has been healed: all front ends, Redis and the model agree."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

import redis

from mqregistry.errors import RegistryError
from mqregistry.protocol.bodies.route import decode_route
from mqregistry.protocol.bodies.tables import decode_kv_table
from mqregistry.store.snapshot import read_tables
from mqregistry.store.store import Store
from mqregistry.tables.tables import Tables
from tests.store.bed import replay

from .clients import KV_NAMESPACE
from .model import Loss
from .wire import Wire, connected

if TYPE_CHECKING:
    from .world import World

FRESH_S = 45.0
"""A worker that is new after a loss denies nothing for a beat period, 35 s."""
GONE_S = 40.0
AGREE_S = 15.0
CONNECTIONS = 3
USED_MIB = 160


async def settle(world: World) -> None:
    """Wait until everything has settled; what does not in time, or settles wrongly, is a finding."""
    model = world.model
    await world.admin.rest()
    if not await world.until(lambda: _all_fresh(world), "every front end answers 17 for an unknown topic", FRESH_S):
        return
    wrong: list[str] = []

    async def expected() -> bool:
        wrong[:] = await _differences(world)
        return not wrong

    if not await world.until(expected, "Redis holds those brokers that live, and no other", GONE_S):
        world.judged(wrong)
        return

    async def alike() -> bool:
        wrong[:] = await _disagreements(world)
        return not wrong

    if not await world.until(alike, "every front end answers what Redis holds", AGREE_S):
        world.judged(wrong)
        return
    _, tables = await _tables(world)
    kv = tables.kv.get(KV_NAMESPACE, {})
    known = _has_witnesses(world)
    if known or world.failovers:  # what a failover lost is known to the moment
        losses = () if known else model.losses
        config = {key: value for key, value in tables.config.items() if key in world.admin.settings.keys}
        world.judged([*world.admin.kv.judge(kv, losses), *world.admin.settings.judge(config, losses)])
    if world.replayable:
        await _replayed(world)
    with world.admin_redis() as client:
        used_mib = client.info("memory")["used_memory"] / (1 << 20)
    if used_mib > USED_MIB:
        world.judged([f"Redis uses {used_mib:.0f} MiB"])


def _has_witnesses(world: World) -> bool:
    """Whether of each loss one front end can tell that had everything before it, and has run ever since."""

    def knew(loss: Loss, index: int) -> bool:
        if loss.known_by is not None:
            return index in loss.known_by
        return world.timeline.is_quiet(loss.until - 4, loss.until, (f"fe{index}",))

    for loss in world.model.losses:
        if not any(
            knew(loss, index) and all(at < loss.until - 4 for at in world.ends[index])
            for index in range(len(world.front_ends))
        ):
            return False
    return True


async def _all_fresh(world: World) -> bool:
    for front_end in world.front_ends:
        for _ in range(CONNECTIONS):
            with contextlib.suppress(OSError, TimeoutError):
                async with connected(front_end.port) as wire:
                    if (await wire.ask(105, {"topic": "never-heard-of"}, timeout_s=3)).code == 17:
                        continue
            return False
    return True


async def _tables(world: World) -> tuple[Any, Tables]:
    async with Store(world.redis.url, world.namespace, timeout_ms=5000) as store:
        return await read_tables(store)


async def _differences(world: World) -> list[str]:
    """How the tables of Redis differ from what was acknowledged."""
    model, wrong = world.model, []
    try:
        _, tables = await _tables(world)
    except RegistryError as error:
        return [f"the tables cannot be read: {error}"]
    expected: dict[str, dict[int, str]] = {}
    clusters: dict[str, set[str]] = {}
    for broker in model.brokers.values():
        if broker.ended is None:
            expected.setdefault(broker.name, {})[broker.broker_id] = broker.addr
            if not model.lives(broker, time.monotonic()):
                wrong.append(f"{broker.uid} is not acknowledged")
            if broker.lives:
                clusters.setdefault(broker.cluster, set()).add(broker.name)
    found = {name: dict(row.broker_addrs) for name, row in tables.brokers.items()}
    for name in sorted(set(expected) | set(found)):
        if found.get(name) != expected.get(name):
            wrong.append(f"broker row {name} is {found.get(name)}, expected {expected.get(name)}")
    for broker in model.brokers.values():
        if broker.ended is None:
            for topic in broker.topics:
                if broker.name not in tables.topics.get(topic, {}):
                    wrong.append(f"topic {topic} lacks {broker.name}, to which it was acknowledged")
    names = {name for queue_datas in tables.topics.values() for name in queue_datas}
    wrong += [f"topics name {name}, which has no row" for name in sorted(names - set(found))]
    with contextlib.suppress(redis.RedisError), world.admin_redis() as client:
        whos = {f"{broker.cluster}|{broker.addr}" for broker in model.brokers.values() if broker.ended is None}
        for kind in ("live", "channels", "beat"):
            start = f"{world.prefix}{kind}:"
            kept = {key.decode().removeprefix(start) for key in client.scan_iter(f"{start}*", count=1000)}
            wrong += [f"{kind}:{who} is left" for who in sorted(kept - whos)]
        overdue = {who.decode() for who in client.zrange(f"{world.prefix}deadlines", 0, -1)}
        wrong += [f"deadlines holds {who}" for who in sorted(overdue - whos)]
    for cluster in sorted(set(clusters) | set(tables.clusters)):
        members = tables.clusters.get(cluster, set())
        # as in Java, a broker that took another cluster name stays in the old one's list until its row goes
        if not clusters.get(cluster, set()) <= members or not members <= set(found):
            wrong.append(f"cluster {cluster} is {sorted(members)}, expected {sorted(clusters.get(cluster, ()))}")
    return wrong


async def _disagreements(world: World) -> list[str]:
    """How what the front ends answer differs from the tables of Redis, or from one another."""
    _, tables = await _tables(world)
    wrong = []
    bodies: dict[tuple[int, str], dict[bytes, str]] = {}
    for front_end in world.front_ends:
        for number in range(CONNECTIONS):
            label = f"{front_end.name} (connection {number})"
            try:
                async with connected(front_end.port) as wire:
                    await _compare(wire, tables, label, wrong, bodies)
            except (OSError, TimeoutError) as error:
                wrong.append(f"{label} does not answer: {error!r}")
    for (code, subject), answers in bodies.items():
        if len(answers) > 1:
            wrong.append(f"request {code} {subject} is answered in {len(answers)} ways: {sorted(answers.values())}")
    return wrong[:20]


async def _compare(
    wire: Wire, tables: Tables, label: str, wrong: list[str], bodies: dict[tuple[int, str], dict[bytes, str]]
) -> None:
    for topic, queue_datas in sorted(tables.topics.items())[:400]:
        answer = await wire.ask(105, {"topic": topic})
        bodies.setdefault((105, topic), {})[answer.body] = label
        rows = {name: tables.brokers[name] for name in queue_datas if name in tables.brokers}
        if not rows:
            continue
        if answer.code != 0:
            wrong.append(f"{label} answers {topic} with code {answer.code}; Redis has it")
            continue
        route = decode_route(answer.body)
        told = {name: data.numbers for name, data in dict(route.queue_datas).items()}
        there = {name: data.numbers for name, data in queue_datas.items()}
        if told != there:
            wrong.append(f"{label}: queues of {topic} are {told}, in Redis {there}")
        addrs = {name: set(row.broker_addrs.values()) for name, row in route.broker_rows.items()}
        if addrs != {name: set(row.broker_addrs.values()) for name, row in rows.items()}:
            wrong.append(f"{label}: addresses of {topic} are {addrs}, in Redis {rows}")
    answer = await wire.ask(106)
    bodies.setdefault((106, ""), {})[answer.body] = label
    answer = await wire.ask(219, {"namespace": KV_NAMESPACE})
    table = decode_kv_table(answer.body) if answer.code == 0 else {}
    if table != tables.kv.get(KV_NAMESPACE, {}):
        wrong.append(f"{label}: KV is {table}, in Redis {tables.kv.get(KV_NAMESPACE)}")


async def _replayed(world: World) -> None:
    """The change stream tells, from its beginning, the same tables."""
    async with Store(world.redis.url, world.namespace, timeout_ms=5000) as store:
        for _ in range(5):
            before, tables = await read_tables(store)
            try:
                told = (await replay(store)).contents()
            except AssertionError as error:
                world.judged([f"the change stream has a gap: {error}"])
                return
            after, _ = await read_tables(store)
            if before.seq == after.seq:
                if told != tables.contents():
                    world.judged(["the change stream tells other tables than Redis holds"])
                return
            await asyncio.sleep(0.2)
