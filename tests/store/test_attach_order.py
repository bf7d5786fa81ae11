"""Two workers of one front end, and a broker whose connections they have (lua/include/liveness.lua)."""

from __future__ import annotations

import asyncio
import secrets
import time

from mqregistry.model import DataVersion, QueueData, Registration
from mqregistry.store.leases import LeaseStore, opened_now
from mqregistry.store.route_writes import Channel, RouteStore
from mqregistry.store.snapshot import read_head, read_tables
from mqregistry.store.store import Store
from mqregistry.tables.registration import RegistrationDiff

WHO = "c1|127.0.0.1:10911"
OLD = Channel("fe", "paused/1@b1000")
NEW = Channel("fe", "other/7@b2000")


def story(redis_url, tell):
    async def run():
        async with Store(redis_url, f"t-{secrets.token_hex(6)}") as store:
            await store.connect()
            routes, leases = RouteStore(store), LeaseStore(store)
            await leases.renew("paused")
            await leases.renew("other")
            topics = {name: QueueData(4, 4, 6) for name in ("topic1", "topic2")}
            registration = Registration(
                "c1", "broker-a", 0, "127.0.0.1:10911", data_version=DataVersion(1, 1, 0), topics=topics
            )
            head = await read_head(store)
            diff = RegistrationDiff(
                head.epoch, 0, "0", head.config_rev, dict.fromkeys(topics, QueueData(4, 4, 6)), [], []
            )
            assert (await routes.register_broker(registration, diff, digest="d", channel=OLD)).status == "OK"
            return await tell(store, routes, leases)

    return asyncio.run(run())


async def beat(routes, channel):
    assert (await routes.heartbeat("c1", "broker-a", 0, "127.0.0.1:10911", "d", channel)).same


async def stands(store):
    return "broker-a" in (await read_tables(store))[1].brokers


def test_what_a_paused_worker_still_had_in_its_buffers_does_not_take_the_broker_from_a_younger_connection(redis_url):
    async def tell(store, routes, leases):
        await beat(routes, NEW)  # the broker gave the old connection up and came to the other worker
        await beat(routes, OLD)  # the first worker wakes, reads the old beat, and then that the connection closed
        assert await routes.channel_destroyed(WHO, OLD) == "STALE"
        assert await stands(store)
        assert await routes.channel_destroyed(WHO, NEW) == "REMOVED"
        assert not await stands(store)

    story(redis_url, tell)


def test_a_younger_connection_of_a_dead_worker_gives_way(redis_url):
    async def tell(store, routes, leases):
        await beat(routes, NEW)
        await leases.release("other")  # drained; as for one whose lease ran out, its entry counts no more
        await beat(routes, OLD)
        assert await routes.channel_destroyed(WHO, OLD) == "REMOVED"

    story(redis_url, tell)


def test_within_one_worker_the_last_registration_wins_whatever_the_age(redis_url):
    async def tell(store, routes, leases):
        younger = Channel("fe", "paused/2@b3000")
        await beat(routes, younger)
        await beat(routes, OLD)
        assert await routes.channel_destroyed(WHO, younger) == "STALE"
        assert await routes.channel_destroyed(WHO, OLD) == "REMOVED"

    story(redis_url, tell)


def test_a_clock_that_steps_back_between_two_connections_makes_the_old_one_no_younger(redis_url, monkeypatch):
    """A14: connected to one worker; the wall clock steps back an hour; connected to the other; the old one closes."""
    now_s = time.time()
    monkeypatch.setattr(time, "time", lambda: now_s)
    old = Channel("fe", f"paused/1{opened_now()}")
    monkeypatch.setattr(time, "time", lambda: now_s - 3600)
    new = Channel("fe", f"other/7{opened_now()}")

    async def tell(store, routes, leases):
        await beat(routes, old)
        await beat(routes, new)
        assert await routes.channel_destroyed(WHO, old) == "STALE"
        assert await stands(store)

    story(redis_url, tell)


def test_of_a_connection_of_an_older_release_the_age_says_nothing(redis_url):
    """A14, rolled: it wrote the wall clock, a number far above the time since the boot; the last one wins."""

    async def tell(store, routes, leases):
        older_release = Channel("fe", "paused/9@1700000000000")
        await beat(routes, older_release)
        await beat(routes, NEW)
        assert await routes.channel_destroyed(WHO, older_release) == "STALE"

    story(redis_url, tell)
