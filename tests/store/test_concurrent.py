"""Many at once on one namespace: whatever the order, stream and tables say the same."""

from __future__ import annotations

import asyncio
import random

import pytest

from mqregistry.store.snapshot import read_tables
from mqregistry.store.store import Store

from .bed import Following, FrontEnd, registration, replay
from .test_snapshot import random_writes

WRITERS = 6


@pytest.fixture
def stores(runner, redis_url, namespace):
    stores = [Store(redis_url, namespace) for _ in range(WRITERS)]
    for store in stores:
        runner.run(store.init_namespace())
    yield stores
    for store in stores:
        runner.run(store.close())


@pytest.mark.parametrize("seed", range(8))
async def test_writers_at_once_leave_a_stream_that_replays_to_the_tables(stores, seed):
    names = [f"broker-{i}" for i in range(4)]
    front_ends = [Following(store, f"fe{i % 3}", f"w{i}") for i, store in enumerate(stores)]

    async def watch():
        """Sweeps and renewals in between, as in a registry at work."""
        for i in range(30):
            leases = front_ends[i % WRITERS].leases
            await leases.renew(f"w{i % WRITERS}")
            await leases.expire(10)
            await leases.reap(10)

    await asyncio.gather(
        watch(), *(random_writes(f, random.Random(seed * 100 + i), names, 60) for i, f in enumerate(front_ends))
    )
    head, tables = await read_tables(stores[0])
    replayed = await replay(stores[0])  # fails on a gap in seq
    assert replayed.contents() == tables.contents()
    assert replayed.config_rev == tables.config_rev
    assert head.seq > WRITERS * 10
    for name, topics in tables.broker_topics.items():
        assert name in tables.brokers, f"{name} has {topics} and no row"


async def test_registrations_of_one_broker_from_everywhere_at_once_end_with_the_newest(stores):
    """Every counter from 1 to 24 through some front end, in whatever order they arrive."""
    front_ends = [FrontEnd(store, f"fe{i}", f"w{i}") for i, store in enumerate(stores)]
    order = list(range(1, 25))
    random.Random(5).shuffle(order)

    async def register(i, counter):
        r = registration(counter=counter, topics={"t1": (counter, counter, 6), "t2": (8, 8, 6)})
        for _ in range(100):  # a front end gives up after a few, and the broker comes again
            prepared = await front_ends[i].prepare(r)
            if prepared.diff is None:
                return
            if (await front_ends[i].send_once(prepared)).status != "RETRY":
                return
        raise AssertionError("never got through")

    await asyncio.gather(*(register(i % WRITERS, counter) for i, counter in enumerate(order)))
    await register(0, 25)
    tables = (await read_tables(stores[0]))[1]
    assert tables.topics["t1"]["broker-a"].read_queue_nums == 25
    assert (await replay(stores[0])).contents() == tables.contents()
