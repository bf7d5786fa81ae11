"""The view follows Redis through slow, failing and contradicted loads. In this process, on a real Redis."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from types import SimpleNamespace

import pytest

from mqregistry.errors import ChangesLost, StoreError, StoreUnavailable
from mqregistry.protocol.command import Command, decode_command
from mqregistry.server.net.run_write import run_write
from mqregistry.server.requests import writes
from mqregistry.server.view import lease_loop, restore_changes, view
from mqregistry.server.view.freshness import Freshness
from mqregistry.store import keys
from mqregistry.store.config_writes import KvStore
from mqregistry.store.store import Store
from tests.waiting import until

from .harness import Broker
from .here import Here, Peer


class HookedStore(Store):
    """Counts scripts; a hook is awaited before, or after, each run of the script that it is for."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.calls = Counter()
        self.before = {}
        self.after = {}

    async def call(self, name, *arguments, **by):
        what = f"{name} {arguments[0]}" if name == "snapshot" else name
        self.calls[what] += 1
        if what in self.before:
            await self.before[what]()
        reply = await super().call(name, *arguments, **by)
        if what in self.after:
            await self.after[what](reply)
        return reply


def hooked(redis_url):
    return Here(redis_url, store_class=HookedStore)


async def put(here, value):
    """Change one KV value; its seq."""
    return await here.front_end.kv.put("ns", "key", value)


async def empty_redis(here):
    """Redis comes back without this namespace."""
    await here.store.client.delete(*await here.store.client.keys(f"{keys.prefix(here.store.namespace)}*"))


def failing(error, times):
    """A hook that fails so many times."""
    left = [times]

    async def hook():
        left[0] -= 1
        if left[0] >= 0:
            raise error

    return hook


async def test_a_rebuild_that_takes_long_is_one_although_a_value_changes_meanwhile(redis_url, monkeypatch):
    monkeypatch.setattr(lease_loop, "BEHIND_S", -1.0)  # to be behind at two renewals is too long
    async with hooked(redis_url) as here:
        reading, may_go_on = asyncio.Event(), asyncio.Event()

        async def hold():
            reading.set()
            await may_go_on.wait()

        here.store.before["snapshot mappings"] = hold
        here.follower.look_again()
        await reading.wait()
        heads = here.store.calls["snapshot head"]
        for number in range(5):
            seq = await put(here, f"during-{number}")
            await here.lease_loop.renew()
            assert here.view.freshness is Freshness.REBUILDING
        may_go_on.set()
        await here.front_end.effect(seq)
        assert here.view.tables.kv["ns"]["key"] == "during-4"
        for number in range(5):
            await here.front_end.effect(await put(here, f"after-{number}"))
            await here.lease_loop.renew()
            assert here.view.freshness is Freshness.FRESH
        assert here.store.calls["snapshot head"] == heads
        assert here.view.load_id == 2


async def test_a_rebuild_that_was_asked_for_is_not_forgotten_when_it_fails(redis_url, caplog):
    async with hooked(redis_url) as here:
        here.store.before["snapshot head"] = failing(StoreUnavailable("a hiccup"), 3)
        here.follower.look_again()
        await until(lambda: here.view.load_id == 2, "the tables are read again")
        await here.lease_loop.renew()
        assert here.view.freshness is Freshness.FRESH
        assert here.store.calls["snapshot head"] == 5
        wanted = ["a hiccup; known routes go on being served", "the change stream is read again"]
        await until(lambda: [one.message for one in caplog.records] == wanted, "both are said, once")


async def test_a_rebuild_asked_for_while_redis_is_away_is_done_when_it_is_back(redis_url):
    async with hooked(redis_url) as here:
        away = True

        async def no_answer():
            if away:
                raise StoreUnavailable("away")

        here.store.before |= {"renew_lease": no_answer, "snapshot head": no_answer}
        lease = asyncio.create_task(here.lease_loop.run())
        await until(lambda: here.view.freshness is Freshness.AWAY, "it noticed")
        with pytest.raises(StoreUnavailable, match="nothing was changed"):
            here.front_end.begin_write()
        here.follower.look_again()
        assert here.view.freshness is Freshness.AWAY
        away = False
        await until(lambda: here.view.freshness is Freshness.FRESH, "it is back")
        assert here.view.load_id == 2
        lease.cancel()
        await asyncio.gather(lease, return_exceptions=True)


async def test_a_renewal_that_is_older_than_what_the_tail_has_applied_is_no_loss(redis_url):
    async with hooked(redis_url) as here:

        async def overtaken(reply):
            await here.front_end.effect(await put(here, f"after {reply[1]}"))

        here.store.after["renew_lease"] = overtaken
        for _ in range(3):
            await here.lease_loop.renew()
            assert here.lease_loop.renewal.seq < here.view.seq
            assert here.view.freshness is Freshness.FRESH
        assert here.view.load_id == 1


async def test_a_gap_in_the_change_stream_has_the_tables_read_again(redis_url):
    async with hooked(redis_url) as here:
        stream = keys.changes(here.store.namespace)
        client = here.store.client
        here._tail.cancel()
        await asyncio.gather(here._tail, return_exceptions=True)
        await put(here, "1")
        await put(here, "2")
        await client.xtrim(stream, maxlen=1, approximate=False)
        here._tail = asyncio.create_task(here.follower.tail())
        await until(lambda: here.view.load_id == 2, "the tables are read again")
        assert here.view.tables.kv == {"ns": {"key": "2"}}
        assert here.follower.losses == 0, "a trimmed stream is no loss"


@pytest.mark.parametrize("error", [StoreUnavailable("a hiccup"), StoreError("no")], ids=["away", "refused"])
async def test_channels_of_a_lost_lease_are_attached_until_it_has_succeeded(redis_url, error):
    async with hooked(redis_url) as here:
        assert (await here.register(Broker())).code == 0
        ((who, _),) = here.channels.channels()
        peer = Peer()
        peer.channel = here.channels.new_channel()
        here.channels.registered(who, peer, here.view.seq)
        attached = []

        async def seen(reply):
            attached.append(reply[1])

        here.store.before["attach_channels"] = failing(error, 2)
        here.store.after["attach_channels"] = seen
        await here.store.client.delete(f"{keys.prefix(here.store.namespace)}lease:{here.channels.incarnation}")
        for _ in range(2):
            with contextlib.suppress(StoreUnavailable):
                await here.lease_loop.renew()
            assert attached == []
        await here.lease_loop.renew()
        assert attached == [1]
        assert here.view.freshness is Freshness.FRESH
        await here.lease_loop.renew()
        assert attached == [1], "once is enough"


@pytest.mark.parametrize("error", [StoreUnavailable("a hiccup"), StoreError("no")], ids=["away", "refused"])
async def test_what_redis_lost_is_given_back_until_it_has_succeeded(redis_url, error):
    async with hooked(redis_url) as here:
        await put(here, "kept")
        await here.front_end.effect(await here.front_end.kv.set_config({"orderMessageEnable": "true"}))
        here.store.before["restore_changes"] = failing(error, 2)
        await empty_redis(here)
        await here.lease_loop.renew()
        assert here.view.tables.kv == {"ns": {"key": "kept"}}, "it is served all the time"
        await until(lambda: here.view.load_id == 2, "the loss is seen")
        assert here.view.tables.kv == {"ns": {"key": "kept"}}
        assert here.view.tables.config == {"orderMessageEnable": "true"}


async def test_a_second_loss_while_the_first_is_given_back_is_made_good_too(redis_url):
    """A8: Redis loses everything again in the middle of it."""
    async with hooked(redis_url) as here:
        await here.front_end.effect(await put(here, "kept"))
        lost = asyncio.Event()

        async def lose_again():
            if here.store.calls["restore_changes"] == 2:
                await empty_redis(here)
                lost.set()

        here.store.before["restore_changes"] = lose_again
        await empty_redis(here)
        await here.lease_loop.renew()
        await until(lambda: lost.is_set() and here.view.load_id > 1, "the losses are seen")
        await here.lease_loop.renew()
        await until(lambda: here.follower.has_place, "nothing more is to be read")
        assert here.view.tables.kv == {"ns": {"key": "kept"}}


async def test_a_broker_that_never_comes_back_is_not_given_back_by_each_loss(redis_url, monkeypatch):
    """A11: it had its timeout to register, since the first loss."""
    passed_s = 0.0

    def clock():
        return time.monotonic() + passed_s

    for module in (view, restore_changes):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=clock, time=time.time))
    async with hooked(redis_url) as here:
        assert (await here.register(Broker())).code == 0
        for loads in (2, 3, 4):
            await empty_redis(here)
            await here.lease_loop.renew()
            await until(lambda n=loads: here.view.load_id == n, "the loss is seen")
            assert bool(here.view.tables.brokers) == (loads < 4)
            passed_s += 70


async def delete_kv(here, key):
    command = Command(code=102, opaque=1, version=479, ext_fields={"namespace": "ns", "key": key})
    return await run_write(here.front_end, writes.delete_kv_config, command, 1, Peer())


@pytest.mark.parametrize("noticed", [True, False])
async def test_a_key_that_is_deleted_while_redis_lacks_it_is_not_given_back(redis_url, noticed):
    """A17: noticed: the front end knows of the loss when the delete comes, and has not given back yet."""
    async with hooked(redis_url) as here:
        for key in ("gone", "kept"):
            await here.front_end.effect(await here.front_end.kv.put("ns", key, "v"))
        await empty_redis(here)
        if noticed:
            await here.lease_loop.renew()
            assert here.view.has_lost
        assert decode_command((await delete_kv(here, "gone"))[4:]).code == 0
        assert here.view.tables.kv == {"ns": {"kept": "v"}}


async def test_a_stream_that_is_trimmed_during_the_first_load_is_read_again_and_said(redis_url, caplog):
    here = hooked(redis_url)
    stream = keys.changes(here.store.namespace)

    async def trimmed(reply):
        del here.store.after["snapshot head"]
        await put(here, "1")
        await put(here, "2")
        await here.store.client.xtrim(stream, maxlen=1, approximate=False)

    here.store.after["snapshot head"] = trimmed
    async with here:
        assert here.view.freshness is Freshness.FRESH
        assert here.view.tables.kv == {"ns": {"key": "2"}}
        assert here.store.calls["snapshot clusters"] == 2
    (record,) = [record for record in caplog.records if "not ready yet" in record.message]
    assert "change 1 is missing" in record.message
    assert "trimmed" in record.message


async def test_a_lost_number_that_was_taken_again_lets_no_registration_rest_on_the_old_tables(redis_url):
    async with hooked(redis_url) as here:
        client, prefix = here.store.client, keys.prefix(here.store.namespace)
        assert (await here.register(Broker())).code == 0
        kept = {key: await client.dump(key) for key in await client.keys(f"{prefix}*")}
        await here.front_end.effect(await put(here, "lost"))
        here._tail.cancel()  # it would notice too, but only when it reads again
        await asyncio.gather(here._tail, return_exceptions=True)
        await empty_redis(here)
        for key, value in kept.items():
            await client.restore(key, 0, value)
        assert await KvStore(here.store.knowing("")).put("ns", "key", "another") == here.view.seq
        load_id = here.view.load_id
        with pytest.raises(ChangesLost):
            await here.register(Broker(topics=["topic1", "topic2", "topic3"], counter=2))
        assert not await client.hexists(f"{prefix}queues:broker-a", "topic3")
        here.follower.look_again(has_lost=True)
        here._tail = asyncio.create_task(here.follower.tail())
        await until(lambda: here.view.load_id > load_id, "the tables are read again")
        assert (await here.register(Broker(topics=["topic1", "topic2", "topic3"], counter=3))).code == 0
        assert "topic3" in here.view.tables.topics


async def test_a_loss_that_was_seen_is_not_forgotten_while_the_tables_cannot_be_read(redis_url):
    """A22: meanwhile other changes take the lost numbers, and the change stream is trimmed."""
    async with hooked(redis_url) as here:
        client, prefix, kv = here.store.client, keys.prefix(here.store.namespace), here.front_end.kv
        await here.front_end.effect(await put(here, "kept"))
        kept = {key: await client.dump(key) for key in await client.keys(f"{prefix}*")}
        await here.front_end.effect(await kv.put("ns", "lost", "1"))
        here.store.before["snapshot head"] = failing(StoreUnavailable("a hiccup"), 1000)
        await empty_redis(here)
        for key, value in kept.items():
            await client.restore(key, 0, value)
        await here.lease_loop.renew()
        for value in ("1", "2"):
            await KvStore(here.store.knowing("")).put("ns", "other", value)
        await client.xtrim(keys.changes(here.store.namespace), maxlen=1, approximate=False)
        here.store.before.clear()
        await until(lambda: here.view.load_id == 2, "the tables are read again")
        table = {"key": "kept", "lost": "1", "other": "2"}
        await until(lambda: here.view.tables.kv["ns"] == table, "what was lost is given back")


async def test_a_stream_that_was_trimmed_whole_is_no_loss(redis_url):
    async with hooked(redis_url) as here:
        assert (await here.register(Broker())).code == 0
        await here.store.client.xtrim(keys.changes(here.store.namespace), maxlen=0, approximate=False)
        assert (await here.register(Broker(counter=2, topics=["topic1", "topic3"]))).code == 0
        await here.store.client.xtrim(keys.changes(here.store.namespace), maxlen=0, approximate=False)
        here.follower.look_again()
        await until(lambda: here.view.load_id == 2, "the tables are read again")
        assert here.follower.losses == 0
        assert (await here.register(Broker(counter=3, topics=["topic1", "topic4"]))).code == 0
        assert here.view.load_id == 2


async def test_a_stream_that_was_trimmed_beyond_the_view_stops_no_registration(redis_url):
    async with hooked(redis_url) as here:
        assert (await here.register(Broker())).code == 0
        async with asyncio.timeout(60):
            here._tail.cancel()
            await asyncio.gather(here._tail, return_exceptions=True)
            await put(here, "1")
            await put(here, "2")
            await here.store.client.xtrim(keys.changes(here.store.namespace), maxlen=1, approximate=False)
            await put(here, "3")
            here._tail = asyncio.create_task(here.follower.tail())
            assert (await here.register(Broker(counter=2, topics=["topic1", "topic3"]))).code == 0
        assert here.follower.losses == 0


async def test_a_write_into_a_redis_that_was_emptied_unnoticed_is_no_success_before_it_is_seen(redis_url):
    async with hooked(redis_url) as here, Store(redis_url, here.store.namespace) as other:
        command = Command(code=100, opaque=1, version=479, ext_fields={"namespace": "ns", "key": "new", "value": "1"})
        for number in range(9):
            await here.front_end.effect(await put(here, f"before-{number}"))
        await empty_redis(here)
        await other.init_namespace()  # as the first one that notices does; its numbers begin anew
        for _ in range(2):
            await run_write(here.front_end, writes.put_kv_config, command, 1, Peer())
            assert here.view.tables.kv["ns"]["new"] == "1"
        assert here.view.load_id == 2, "the tables are read again, and no renewal has asked for it"
        assert here.view.tables.kv["ns"]["new"] == "1"


async def test_a_registration_that_came_late_is_answered_once_the_view_shows_what_came_before(redis_url):
    async with hooked(redis_url) as here, Here(redis_url, here.store.namespace) as other:
        broker = Broker()
        assert (await here.register(broker)).code == 0
        broker = Broker(topics=["topic1", "topic3"])

        async def the_other_was_first():
            here.store.before.clear()
            here._tail.cancel()
            await asyncio.gather(here._tail, return_exceptions=True)
            assert (await other.register(broker, counter=2)).code == 0

        here.store.before["register_broker"] = the_other_was_first
        answer = asyncio.create_task(here.register(broker, counter=2))
        await until(lambda: answer.done() or here.front_end.effects._waiting, "it came late")
        assert not answer.done()
        here._tail = asyncio.create_task(here.follower.tail())
        assert (await answer).code == 0
        assert "topic3" in here.view.tables.topics
