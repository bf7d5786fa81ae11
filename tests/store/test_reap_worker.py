"""reap_worker: clean up after worker processes whose lease ran out."""

from __future__ import annotations

import pytest

from mqregistry.errors import StoreError
from mqregistry.events import changes as kinds
from mqregistry.store.leases import DIRECT

from .bed import FrontEnd, registration

ADDR = "10.0.0.1:10911"
WHO = f"c1|{ADDR}"


async def dies(bed, incarnation):
    await bed.redis("DEL", bed.key(f"lease:{incarnation}"))


@pytest.fixture
def settled(bed, run):
    """Two workers with a lease, in a registry that has been watched for a while."""
    run(bed.leases.renew("w1", 600_000))
    run(bed.leases.renew("w2", 600_000))
    run(bed.let_pass(20_000))


async def test_reap_of_living_workers_does_nothing(bed, settled):
    r = await bed.register()
    assert await bed.leases.reap(10) == ([], False)
    assert await bed.channels(r) == {"fe1": f"w1/{ADDR}"}


async def test_reap_takes_a_dead_workers_entries_and_no_broker_that_nobody_saw_closing(bed, settled):
    r = await bed.register()
    await bed.events()
    await dies(bed, "w1")
    assert await bed.leases.reap(10) == ([], False)
    assert await bed.channels(r) == {}
    assert await bed.members("leases") == {"w2"}
    assert set((await bed.contents())["brokers"]) == {"broker-a"}
    assert await bed.events() == []


async def test_reap_removes_a_broker_whose_other_connection_was_seen_closing(bed, settled):
    r = await bed.register()
    await bed.fe2.register(r)
    assert await bed.fe2.close(r) == "KEPT"
    await bed.events()
    await dies(bed, "w1")
    assert await bed.leases.reap(10) == ([WHO], False)
    assert (await bed.contents())["brokers"] == {}
    (event,) = await bed.events()
    assert (event.type, event.who, event.row) == (kinds.BrokerReaped.type, WHO, None)
    assert await bed.replay() == await bed.contents()


async def test_reap_spares_a_broker_that_beat_after_the_close(bed, settled):
    r = await bed.register()
    await bed.fe2.register(r)
    await bed.fe2.close(r)
    await bed.routes.touch_broker("c1", ADDR)
    await dies(bed, "w1")
    assert (await bed.leases.reap(10))[0] == []
    assert set((await bed.contents())["brokers"]) == {"broker-a"}


async def test_reap_spares_a_broker_with_another_connection(bed, settled):
    r = await bed.register()
    await bed.fe2.register(r)
    await bed.redis("HSET", bed.key(f"live:{WHO}"), "closed_at", "5")
    await dies(bed, "w1")
    assert (await bed.leases.reap(10))[0] == []
    assert await bed.channels(r) == {"fe2": "w2/1"}


async def test_broker_whose_worker_was_reaped_goes_with_its_last_other_connection(bed, settled):
    r = await bed.register()
    await bed.fe2.register(r)
    await dies(bed, "w1")
    await bed.leases.reap(10)
    assert await bed.fe2.close(r) == "REMOVED"


async def test_reap_repeated_has_no_effect(bed, settled):
    await bed.register()
    await dies(bed, "w1")
    await bed.leases.reap(10)
    before = set(await bed.dump())
    await bed.events()
    assert await bed.leases.reap(10) == ([], False)
    assert set(await bed.dump()) == before
    assert await bed.events() == []


async def test_reap_goes_by_the_limit_and_says_that_there_is_more(bed, settled):
    for i in range(5):
        await bed.register(f"10.0.0.{i}:1", f"broker-{i}")
    await dies(bed, "w1")
    assert await bed.leases.reap(2) == ([], True)
    assert await bed.leases.reap(2) == ([], True)
    assert await bed.members("leases") == {"w1", "w2"}
    assert await bed.leases.reap(2) == ([], False)
    assert await bed.members("leases") == {"w2"}


async def test_reap_leaves_what_a_new_worker_of_the_front_end_took_over(bed, settled):
    r = await bed.register()
    bed.fe1.incarnation = "w1b"
    await bed.fe1.register(r)
    await bed.leases.renew("w1b", 600_000)
    await dies(bed, "w1")
    assert await bed.leases.reap(10) == ([], False)
    assert await bed.channels(r) == {"fe1": "w1b/1"}


async def test_reap_waits_until_every_worker_had_the_time_to_renew(bed, settled):
    """After an outage every lease has run out, and nobody is dead; w2 is the first that renews."""
    r = await bed.register()
    await bed.fe2.register(r)
    await bed.fe2.close(r)
    await bed.move_clock(30_000)
    await dies(bed, "w1")
    assert await bed.leases.reap(10) == ([], False)
    await bed.leases.renew("w2", 600_000)
    await bed.let_pass(9_000)
    assert await bed.leases.reap(10) == ([], False)
    assert await bed.channels(r) == {"fe1": f"w1/{ADDR}"}
    await bed.let_pass(2_000)
    assert await bed.leases.reap(10) == ([WHO], False)


async def test_worker_that_never_renewed_is_reaped_too(bed, settled):
    bed.fe1.incarnation = "never"
    r = await bed.register()
    await bed.leases.reap(10)
    assert await bed.channels(r) == {}
    assert await bed.members("leases") == {"w1", "w2"}


async def test_reap_of_a_broker_that_wrote_itself_is_the_close_of_its_connection(bed, settled):
    direct = FrontEnd(bed.store, f"{DIRECT}1", "w1")
    await direct.register(registration())
    await bed.events()
    await dies(bed, "w1")
    assert await bed.leases.reap(10) == ([WHO], False)
    assert (await bed.contents())["brokers"] == {}
    (event,) = await bed.events()
    assert (event.type, event.who, event.row) == (kinds.BrokerReaped.type, WHO, None)
    assert await bed.replay() == await bed.contents()
    assert await bed.leases.reap(10) == ([], False)


async def test_reap_of_a_broker_that_wrote_itself_leaves_it_its_other_connection(bed, settled):
    direct = FrontEnd(bed.store, f"{DIRECT}1", "w1")
    r = registration()
    await direct.register(r)
    await bed.fe2.register(r)
    await dies(bed, "w1")
    assert await bed.leases.reap(10) == ([], False)
    assert await bed.channels(r) == {"fe2": "w2/1"}
    assert "closed_at" in await bed.live(r)
    assert await bed.fe2.close(r) == "REMOVED"


async def test_reap_of_a_direct_writer_of_a_broker_that_left_makes_nothing_of_it(bed, settled):
    direct = FrontEnd(bed.store, f"{DIRECT}1", "w1")
    r = registration()
    await direct.register(r)
    await bed.redis("DEL", bed.key(f"live:{WHO}"))
    await dies(bed, "w1")
    await bed.leases.reap(10)
    assert await bed.live(r) == {}


async def test_reap_is_bounded_by_the_topics_that_lose_write_permission(bed, settled):
    """A3: the last connection of each master was that of a dead worker; one call removes few of them."""
    for i in range(4):
        group = {"name": f"broker-{i}", "topics": ["t1", "t2", "t3"], "enable_acting_master": True}
        r = await bed.register(f"10.0.0.{i}:1", **group)
        await bed.register(f"10.0.1.{i}:1", broker_id=1, **group)
        await bed.fe2.register(r)
        await bed.fe2.close(r)
    await dies(bed, "w1")
    batches = [await bed.leases.reap(50, topics=7) for _ in range(3)]
    assert [(len(whos), more) for whos, more in batches] == [(2, True), (2, False), (0, False)]
    assert await bed.members("leases") == {"w2"}
    assert {tuple(row.broker_addrs) for row in (await bed.tables()).brokers.values()} == {(1,)}


async def test_reap_of_an_entry_that_cannot_be_cleaned_up_loses_nothing_of_it(bed, settled):
    r = await bed.register()
    await bed.fe2.register(r)
    await bed.fe2.close(r)
    await dies(bed, "w1")
    await bed.redis("RENAME", bed.key("brokers"), bed.key("kept"))
    await bed.redis("SET", bed.key("brokers"), "no set")
    with pytest.raises(StoreError, match="WRONGTYPE"):
        await bed.leases.reap(10)
    assert await bed.channels(r) == {"fe1": f"w1/{ADDR}"}
    await bed.redis("RENAME", bed.key("kept"), bed.key("brokers"))
    assert (await bed.leases.reap(10))[0] == [WHO]
