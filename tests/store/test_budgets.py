"""What operations may cost, as numbers of Redis calls: those do not depend on how busy a machine is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from mqregistry.store.store import Store
from mqregistry.tables.registration import RegistrationDiff

from .bed import RW, Bed, Prepared, digest_of, registration

MANY = 10_000


@pytest.fixture
def bed(runner, own_redis, namespace):
    store = Store(own_redis.url, namespace, timeout_ms=10_000)
    runner.run(store.connect())
    yield Bed(store)
    runner.run(store.close())


async def calls(bed: Bed, action: Callable[[], Awaitable[Any]]) -> dict[str, int]:
    """How often each command ran, scripts' included."""
    await bed.redis("CONFIG", "RESETSTAT")
    await action()
    stats = await bed.store.client.info("commandstats")
    counted = {name.removeprefix("cmdstat_"): values["calls"] for name, values in stats.items()}
    return {name: count for name, count in counted.items() if name not in ("config", "info", "config|resetstat")}


def topics(count):
    return [f"topic-{i}" for i in range(count)]


async def warm(bed):
    """So that no call counts as the one that had to send its script."""
    await bed.register("10.9.9.9:1", "warm", cluster="w")
    await bed.register("10.9.9.9:1", "warm", cluster="w")
    await bed.routes.unregister_broker("w", "10.9.9.9:1", "warm")
    r = await bed.register("10.9.9.9:1", "warm", cluster="w")
    await bed.fe1.close(r, connection="10.9.9.9:1")
    await bed.leases.expire(1)


async def unchanged(bed, name, addr, count):
    r = await bed.register(addr, name, topics=topics(count))
    digest = digest_of(r)

    async def beat():
        found = await bed.routes.heartbeat("c1", name, 0, addr, digest, bed.fe1.channel(addr), 1)
        assert found.same

    return await calls(bed, beat)


async def test_unchanged_registration_is_one_call_whatever_the_number_of_topics(bed):
    await warm(bed)
    few = await unchanged(bed, "few", "10.0.0.1:1", 2)
    many = await unchanged(bed, "many", "10.0.0.2:1", MANY)
    assert many == few
    assert many["evalsha"] == 1
    assert sum(many.values()) <= 20


async def one_changed(bed, name, addr, count):
    r = await bed.register(addr, name, topics=topics(count))
    changed = registration(addr, name, topics=dict.fromkeys(topics(count), (8, 8, 6)) | {"topic-0": (4, 4, 6)},
                           counter=2)  # fmt: skip
    prepared = await bed.fe1.prepare(changed, connection=r.broker_addr)
    assert len(prepared.diff.topics) == 1

    async def send():
        assert (await bed.fe1.send_once(prepared)).status == "OK"

    return await calls(bed, send)


async def test_one_changed_topic_costs_the_same_among_ten_thousand_as_alone(bed):
    await warm(bed)
    alone = await one_changed(bed, "few", "10.0.0.1:1", 2)
    many = await one_changed(bed, "many", "10.0.0.2:1", MANY)
    assert many == alone
    assert many["evalsha"] == 1


async def test_first_registration_is_one_call_and_few_commands(bed):
    await warm(bed)
    r = registration(topics=topics(MANY))
    head = await bed.head()
    diff = RegistrationDiff(head.epoch, 0, "0", 0, dict.fromkeys(topics(MANY), RW), [], [])
    prepared = Prepared(r, None, diff, bed.fe1.channel())

    async def send():
        assert (await bed.fe1.send_once(prepared)).status == "OK"

    counted = await calls(bed, send)
    assert counted["evalsha"] == 1
    assert counted["xadd"] == MANY // 500 + 1
    assert sum(counted.values()) < 0.01 * MANY + 50


async def test_changing_every_topic_is_one_call_and_few_commands(bed):
    await warm(bed)
    await bed.register(topics=topics(MANY))
    prepared = await bed.fe1.prepare(registration(topics=dict.fromkeys(topics(MANY), (4, 4, 6)), counter=2))

    async def send():
        assert (await bed.fe1.send_once(prepared)).status == "OK"

    counted = await calls(bed, send)
    assert counted["evalsha"] == 1
    assert sum(counted.values()) < 0.01 * MANY + 50


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("way", ["unregister", "close"])
async def test_removal_is_one_call_and_few_commands_whatever_the_number_of_topics(bed, shared, way):
    await warm(bed)
    r = await bed.register(topics=topics(MANY))
    if shared:
        await bed.register("10.0.0.9:1", "broker-b", topics=topics(MANY))

    async def remove():
        if way == "unregister":
            await bed.routes.unregister_broker("c1", r.broker_addr, "broker-a")
        else:
            assert await bed.fe1.close(r, connection=r.broker_addr) == "REMOVED"

    counted = await calls(bed, remove)
    assert counted["evalsha"] == 1
    assert counted["xadd"] == 1
    assert sum(counted.values()) < 100


async def test_sweep_with_nobody_due_costs_the_same_whatever_the_number_of_brokers(bed):
    await warm(bed)
    await bed.register()

    async def sweep():
        assert (await bed.leases.expire(100)).whos == []

    one = await calls(bed, sweep)
    for i in range(50):
        await bed.register(f"10.0.1.{i}:1", f"broker-{i}")
    assert await calls(bed, sweep) == one
    assert one["evalsha"] == 1
    assert sum(one.values()) <= 15


async def cpu_ms(bed: Bed, action: Callable[[], Awaitable[Any]]) -> float:
    """How long Redis itself was busy with it."""

    async def used() -> float:
        found = await bed.store.client.info("cpu")
        return float(found["used_cpu_user_main_thread"] + found["used_cpu_sys_main_thread"]) * 1000

    before = await used()
    await action()
    return await used() - before


# Lua hashes every fourth character of a text of 100, from its end on.
NAMES: dict[str, Callable[[int], str]] = {
    "short": "t{:06}".format,
    "long": ("x" * 94 + "{:06}").format,
    "crafted": lambda i: "".join(chr(97 + i // 26**place % 26) for place in range(3)) + "x" * 97,
}


async def times_ms(bed: Bed, kind: str) -> dict[str, float]:
    """How long Redis is busy with a broker of 15,000 topics whose names are of this kind."""
    topics = dict.fromkeys(map(NAMES[kind], range(15_000)), RW)
    diff = RegistrationDiff((await bed.head()).epoch, 0, "0", 0, topics, [], [])
    r = registration(name=kind, topics=list(topics))

    async def register() -> None:
        assert (await bed.fe1.send_once(Prepared(r, None, diff, bed.fe1.channel()))).status == "OK"

    async def leave() -> None:
        await bed.routes.unregister_broker("c1", r.broker_addr, kind)
        while (await bed.leases.expire(50)).more:
            pass
        assert (await bed.contents())["topics"] == {}

    wipe = partial(bed.routes.set_write_perm, kind, "wipe")
    return {what: await cpu_ms(bed, action) for what, action in zip(WORK, (register, wipe, leave), strict=True)}


WORK = ("register", "wipe", "leave")


@pytest.mark.parametrize("kind", ["long", "crafted"])
async def test_names_of_one_hash_cost_little_more_than_others(bed, kind):
    """A5, B1: 15,000 topics of 100 characters that have few hashes among them, or one, took many times as long."""
    await warm(bed)
    await bed.leases.renew("w1")
    over = set(WORK)
    for _ in range(3):  # what a busy machine does now and then, but not each time
        short, these = await times_ms(bed, "short"), await times_ms(bed, kind)
        over -= {what for what in WORK if these[what] < 3 * short[what] + 20}
        if not over:
            return
    raise AssertionError(f"{over} of {kind} names: {these}, short ones: {short}")


async def test_a_broker_of_forty_thousand_topics_comes_into_the_sets_and_out_of_them_in_bounded_steps(bed):
    """Each call of the sweeper runs a few commands for each of its topics, and nothing for all that are left."""
    r = await bed.register("10.0.0.1:1", "large", topics=topics(4 * MANY))
    for step in range(2):
        for _ in range(3):
            ran = await calls(bed, lambda: bed.leases.tidy_topics(1000, 0))
            assert ran["evalsha"] == 1
            assert sum(ran.values()) < 3500, ran  # three for a topic that leaves: SREM, EXISTS, SREM
        if step == 0:
            while (await bed.leases.tidy_topics(5000, 0))[0]:
                pass
            removed = await calls(bed, lambda: bed.fe1.close(r, connection="10.0.0.1:1"))
            assert sum(removed.values()) < 60, removed
