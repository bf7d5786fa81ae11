"""A front end that starts on a Redis that may have been emptied denies no topic before each broker could register."""

from __future__ import annotations

import pytest

from mqregistry.server.view import lease_loop
from mqregistry.server.view.freshness import Freshness
from mqregistry.store import keys
from mqregistry.store.store import Store
from tests.waiting import until

from .harness import Broker
from .here import Here
from .test_losses import back_to, noticed


async def later(here, seconds):
    """The clock of the namespace goes on; brokers could be heard all the time."""
    meta, client = keys.meta(here.store.namespace), here.store.client
    offset = int(await client.hget(meta, "clock_offset_ms") or 0) + int(seconds * 1000)
    seen = int(await client.hget(meta, "seen_ms") or 0) + int(seconds * 1000)
    await client.hset(meta, mapping={"clock_offset_ms": offset, "seen_ms": seen})
    await here.lease_loop.renew()


async def test_a_new_front_end_on_an_emptied_redis_denies_no_topic_for_the_period_of_a_beat(redis_url):
    """E: nobody is there who knew what was lost."""
    async with Here(redis_url, fresh=False) as here:
        for _ in range(3):
            await here.lease_loop.renew()
            assert here.view.freshness is Freshness.AWAITING
            await later(here, 10)
        assert here.view.freshness is Freshness.AWAITING
        await later(here, 6)
        assert here.view.freshness is Freshness.FRESH


async def test_a_new_redis_denies_a_topic_at_once(redis_url):
    async with Here(redis_url, fresh=True) as here:
        await here.lease_loop.renew()
        assert here.view.freshness is Freshness.FRESH


async def test_whoever_makes_an_emptied_namespace_anew_it_is_not_new(redis_url):
    """A running front end does, or a sweeper: then a front end with --fresh starts, too."""
    async with Here(redis_url, fresh=True) as old:
        assert (await old.register(Broker())).code == 0
        await back_to(old, {})
        async with Store(redis_url, old.store.namespace, fresh=False) as sweeper:
            await sweeper.connect()
        async with Here(redis_url, old.store.namespace, fresh=True) as new:
            await new.lease_loop.renew()
            assert new.view.freshness is Freshness.AWAITING
            await noticed(old, old.view.load_id)
            await until(lambda: new.view.tables.topics.keys() == old.view.tables.topics.keys(), "it has them back")
            assert old.view.tables.brokers


@pytest.mark.parametrize("registers", [True, False])
async def test_after_a_loss_unknown_topics_are_denied_when_every_known_broker_is_back_or_its_period_is_over(
    redis_url, registers
):
    async with Here(redis_url, fresh=True) as here:
        brokers = [Broker(addr=f"127.0.0.1:{port}", name=f"broker-{port}") for port in (1, 2)]
        for broker in brokers:
            assert (await here.register(broker)).code == 0
        await back_to(here, {})
        await noticed(here, here.view.load_id)
        await later(here, 4)
        assert here.view.freshness is Freshness.AWAITING
        assert len(here.view.awaited) == 2
        for broker in brokers if registers else brokers[:1]:
            assert (await here.register(broker)).code == 0
        await here.lease_loop.renew()
        assert here.view.freshness is (Freshness.FRESH if registers else Freshness.AWAITING)
        await later(here, 32)
        assert here.view.freshness is Freshness.FRESH


async def test_a_loss_without_brokers_denies_no_topic_before_each_front_end_has_noticed(redis_url, monkeypatch):
    monkeypatch.setattr(lease_loop, "_NOTICED_S", 30.0)  # 3 s may pass by themselves
    async with Here(redis_url, fresh=True) as here:
        await here.front_end.effect(await here.front_end.kv.put("ns", "k", "v"))
        await back_to(here, {})
        await noticed(here, here.view.load_id)
        await here.lease_loop.renew()
        assert here.view.freshness is Freshness.AWAITING
        await later(here, 31)
        assert here.view.freshness is Freshness.FRESH
