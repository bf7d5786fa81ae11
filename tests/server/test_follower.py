"""The view follows Redis through slow, failing and contradicted loads. In this process, on a real Redis."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from types import SimpleNamespace

import pytest

from mqregistry.errors import StoreError, StoreUnavailable
from mqregistry.protocol.command import Command, decode_command
from mqregistry.server.requests import writes
from mqregistry.server.view import follower, lease_loop
from mqregistry.server.view.freshness import Freshness
from mqregistry.store import keys
from mqregistry.store.store import Store
from tests.waiting import until

from .harness import Broker
from .here import GRACE_MS, Here, Peer


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
        assert here.view.served.kv["ns"]["key"] == "during-4"
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
        assert here.view.exact.kv == {"ns": {"key": "2"}}
        assert not here.view.merged, "a trimmed stream is no loss"


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
async def test_kv_that_redis_lost_is_given_back_until_it_has_succeeded(redis_url, error):
    async with hooked(redis_url) as here:
        await put(here, "kept")
        await here.front_end.effect(await here.front_end.kv.set_config({"orderMessageEnable": "true"}))
        here.store.before["restore_kv"] = failing(error, 2)
        here.store.before["set_config"] = failing(error, 1)
        await empty_redis(here)
        await here.lease_loop.renew()
        await until(lambda: here.view.load_id == 2, "the loss is seen")
        await until(lambda: here.view.exact.kv == {"ns": {"key": "kept"}}, "KV is given back")
        await until(lambda: here.view.exact.config == {"orderMessageEnable": "true"}, "the configuration, too")
        assert here.store.calls["restore_kv"] == 4
        assert here.view.load_id == 2, "no further rebuild"


async def test_a_second_loss_within_one_grace_is_given_back_too(redis_url):
    """A8: the first loss is given back; before its grace is over Redis loses everything again."""
    async with hooked(redis_url) as here:
        await here.front_end.effect(await put(here, "kept"))
        for loads in (2, 3):
            await empty_redis(here)
            await here.lease_loop.renew()
            await until(lambda n=loads: here.view.load_id == n, "the loss is seen")
            assert here.view.merged
            await until(lambda: here.view.exact.kv == {"ns": {"key": "kept"}}, "KV is given back")


async def test_a_value_that_was_put_before_a_loss_is_noticed_is_not_undone_after_a_second_loss(redis_url):
    """A8: the tables that are read after the loss hold it already, and nothing can be given back before the second."""
    async with hooked(redis_url) as here:
        await here.front_end.effect(await put(here, "older"))
        here.store.before["restore_kv"] = failing(StoreUnavailable("a hiccup"), 1000)
        for loads in (2, 3):
            await empty_redis(here)
            if loads == 2:
                await put(here, "newer")
            await here.lease_loop.renew()
            await until(lambda n=loads: here.view.load_id == n, "the loss is seen")
        del here.store.before["restore_kv"]
        await until(lambda: here.view.exact.kv != {}, "KV is given back")
        assert here.view.exact.kv == {"ns": {"key": "newer"}}


async def test_a_key_that_one_who_knew_less_still_serves_does_not_come_back_with_the_second_loss(redis_url):
    """A8: it was deleted while this front end was cut off, and another one gave back before: here it is served on."""
    async with hooked(redis_url) as here:
        for key in ("deleted", "kept"):
            await here.front_end.effect(await here.front_end.kv.put("ns", key, "v"))
        last_id = here.view.last_entry.entry_id
        later = f"{int(last_id.partition('-')[0]) + 1}-0"
        for loads in (2, 3):
            await empty_redis(here)
            if loads == 2:
                await here.front_end.kv.restore(later, {"ns": {"kept": "v"}})
            await here.lease_loop.renew()
            await until(lambda n=loads: here.view.load_id == n, "the loss is seen")
            await until(lambda: not here.follower._give_back, "that was all")
            assert here.view.exact.kv == {"ns": {"kept": "v"}}


async def test_what_redis_loses_again_before_the_view_has_it_back_is_given_back_again(redis_url):
    """A8: the stream is not read between the giving back and the second loss."""
    async with hooked(redis_url) as here:
        await here.front_end.effect(await put(here, "kept"))
        stopped = asyncio.Event()

        async def nothing_is_read():
            here._tail.cancel()
            await asyncio.gather(here._tail, return_exceptions=True)
            stopped.set()

        here.store.before["restore_kv"] = nothing_is_read
        await empty_redis(here)
        await here.lease_loop.renew()
        await stopped.wait()
        await until(lambda: not here.follower._give_back_due.is_set(), "it is given back")
        assert here.view.exact.kv == {}
        del here.store.before["restore_kv"]
        await empty_redis(here)
        here.follower.look_again()
        here._tail = asyncio.create_task(here.follower.tail())
        await until(lambda: here.view.exact.kv == {"ns": {"key": "kept"}}, "KV is given back again")
        await until(lambda: not here.follower._give_back, "that was all")


async def test_kv_is_given_back_even_when_the_grace_is_over_before_it_succeeds(redis_url):
    async with hooked(redis_url) as here:
        await here.front_end.effect(await put(here, "kept"))
        failed = asyncio.Event()

        async def fails_until_the_grace_is_over():
            if here.view.merged or not failed.is_set():
                failed.set()
                raise StoreUnavailable("a hiccup")

        here.store.before["restore_kv"] = fails_until_the_grace_is_over
        await empty_redis(here)
        lease = asyncio.create_task(here.lease_loop.run())
        await failed.wait()
        assert here.view.freshness is Freshness.MERGED
        await until(lambda: here.view.exact.kv == {"ns": {"key": "kept"}}, "KV is given back")
        assert not here.view.merged
        lease.cancel()
        await asyncio.gather(lease, return_exceptions=True)


async def test_what_redis_lost_is_served_for_one_grace_however_often_redis_pauses(redis_url, monkeypatch):
    """A11: brokers had three times 45 % of the grace, with a pause before each, that began it anew."""
    passed_s = 0.0

    def clock():
        return time.monotonic() + passed_s

    for module in (lease_loop, follower):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=clock, time=time.time))
    async with hooked(redis_url) as here:
        assert (await here.register(Broker())).code == 0
        await empty_redis(here)
        await here.lease_loop.renew()
        await until(lambda: here.view.merged, "the loss is seen")
        await here.lease_loop.renew()
        for _ in range(3):
            assert here.view.merged
            passed_s += 10.0  # a pause: the first renewal after it moves up_since
            await here.store.client.hset(keys.meta(here.store.namespace), "seen_ms", 1)
            await here.lease_loop.renew()
            passed_s += 0.45 * GRACE_MS / 1000
            await here.lease_loop.renew()
        assert not here.view.merged


@pytest.mark.parametrize("noticed", [True, False])
async def test_a_key_that_is_deleted_while_redis_lacks_it_is_not_given_back(redis_url, noticed):
    """A17: noticed: the front end knows of the loss when the delete comes, and has not given back yet."""
    async with hooked(redis_url) as here:
        for key in ("gone", "kept"):
            await here.front_end.effect(await here.front_end.kv.put("ns", key, "v"))
        deleted = asyncio.Event()

        async def when_it_is_deleted():
            if not deleted.is_set():
                raise StoreUnavailable("a hiccup")

        here.store.before["restore_kv"] = when_it_is_deleted
        await empty_redis(here)
        if noticed:
            await here.lease_loop.renew()
            await until(lambda: here.view.merged, "the loss is seen")
        reply = decode_command((await delete_kv(here, "gone"))[4:])
        assert reply.code == 0
        if noticed:
            assert here.view.served.kv == {"ns": {"kept": "v"}}
        deleted.set()
        await here.lease_loop.renew()
        await until(lambda: here.view.exact.kv.get("ns") == {"kept": "v"}, "KV is given back")
        await until(lambda: not here.follower._give_back, "that was all")
        assert here.view.exact.kv == {"ns": {"kept": "v"}}


async def test_a_key_that_is_deleted_on_an_empty_redis_with_a_clock_behind_is_not_given_back(redis_url):
    """A17: its entries' ids are below those that this front end had applied."""
    async with hooked(redis_url) as here:
        ahead_ms = int(time.time() * 1000) + 60_000
        await here.store.client.xgroup_create(keys.changes(here.store.namespace), "g", mkstream=True)
        await here.store.client.execute_command("XSETID", keys.changes(here.store.namespace), f"{ahead_ms}-0")
        for key in ("gone", "kept"):
            await here.front_end.effect(await here.front_end.kv.put("ns", key, "v"))
        assert here.view.last_entry.entry_id == f"{ahead_ms}-2"
        await empty_redis(here)
        assert decode_command((await delete_kv(here, "gone"))[4:]).code == 0
        await here.lease_loop.renew()
        await until(lambda: here.view.exact.kv.get("ns") == {"kept": "v"}, "KV is given back")


async def delete_kv(here, key):
    command = Command(code=102, opaque=1, version=479, ext_fields={"namespace": "ns", "key": key})
    return await writes.delete_kv_config(here.front_end, command, 1, Peer())


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
        assert here.view.exact.kv == {"ns": {"key": "2"}}
        assert here.store.calls["snapshot head"] == 2
    (record,) = [record for record in caplog.records if "not ready yet" in record.message]
    assert "change 2 follows where change 1 is due" in record.message
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
        assert await put(here, "another") == here.view.seq
        load_id = here.view.load_id
        with pytest.raises(StoreUnavailable, match="another state"):
            await here.register(Broker(topics=["topic1", "topic2", "topic3"], counter=2))
        assert here.view.freshness is Freshness.REBUILDING
        assert not await client.hexists(f"{prefix}queues:broker-a", "topic3")
        here._tail = asyncio.create_task(here.follower.tail())
        await until(lambda: here.view.load_id > load_id, "the tables are read again")
        assert (await here.register(Broker(topics=["topic1", "topic2", "topic3"], counter=3))).code == 0
        assert "topic3" in here.view.exact.topics


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
            await kv.put("ns", "other", value)
        await client.xtrim(keys.changes(here.store.namespace), maxlen=1, approximate=False)
        here.store.before.clear()
        await until(lambda: here.view.load_id == 2, "the tables are read again")
        table = {"key": "kept", "lost": "1", "other": "2"}
        await until(lambda: here.view.exact.kv["ns"] == table, "what was lost is given back")


async def test_a_stream_that_was_trimmed_whole_is_no_loss(redis_url):
    async with hooked(redis_url) as here:
        assert (await here.register(Broker())).code == 0
        await here.store.client.xtrim(keys.changes(here.store.namespace), maxlen=0, approximate=False)
        assert (await here.register(Broker(counter=2, topics=["topic1", "topic3"]))).code == 0
        await here.store.client.xtrim(keys.changes(here.store.namespace), maxlen=0, approximate=False)
        here.follower.look_again()
        await until(lambda: here.view.load_id == 2, "the tables are read again")
        assert not here.view.merged
        assert (await here.register(Broker(counter=3, topics=["topic1", "topic4"]))).code == 0
        assert here.view.load_id == 2


async def test_a_stream_that_was_trimmed_beyond_the_view_stops_no_registration(redis_url):
    async with hooked(redis_url) as here:
        assert (await here.register(Broker())).code == 0
        async with asyncio.timeout(10):
            here._tail.cancel()
            await asyncio.gather(here._tail, return_exceptions=True)
            await put(here, "1")
            await put(here, "2")
            await here.store.client.xtrim(keys.changes(here.store.namespace), maxlen=1, approximate=False)
            here._tail = asyncio.create_task(here.follower.tail())
            assert (await here.register(Broker(counter=2, topics=["topic1", "topic3"]))).code == 0


async def test_a_write_into_a_redis_that_was_emptied_unnoticed_is_no_success_before_it_is_seen(redis_url):
    async with hooked(redis_url) as here, Store(redis_url, here.store.namespace) as other:
        command = Command(code=100, opaque=1, version=479, ext_fields={"namespace": "ns", "key": "new", "value": "1"})
        for number in range(9):
            await here.front_end.effect(await put(here, f"before-{number}"))
        await empty_redis(here)
        await other.init_namespace()  # as the first one that notices does; its numbers begin anew
        for _ in range(2):
            with contextlib.suppress(StoreUnavailable):
                await writes.put_kv_config(here.front_end, command, 1, Peer())
                assert here.view.served.kv["ns"]["new"] == "1"
        await until(lambda: here.view.load_id == 2, "the tables are read again, and no renewal has asked for it")
        await writes.put_kv_config(here.front_end, command, 1, Peer())
        assert here.view.exact.kv["ns"]["new"] == "1"


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
        assert "topic3" in here.view.served.topics
