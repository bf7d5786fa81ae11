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
    assert await bed.leases.reap(10) == (0, False)
    assert await bed.channels(r) == {"fe1": f"w1/{ADDR}"}


async def test_reap_takes_a_dead_workers_entries_and_no_broker_that_nobody_saw_closing(bed, settled):
    r = await bed.register()
    await bed.events()
    await dies(bed, "w1")
    assert await bed.leases.reap(10) == (1, False)
    assert await bed.channels(r) == {}
    assert await bed.members("leases") == {"w2"}
    assert set((await bed.contents())["brokers"]) == {"broker-a"}
    assert await bed.events() == []


async def test_a_broker_whose_other_connection_was_seen_closing_has_the_time_to_beat_once(bed, settled):
    """Its connection to fe2 closed, then the worker of fe1 died: it may live, and goes unless it beats."""
    r = await bed.register()
    await bed.fe2.register(r)
    assert await bed.fe2.close(r) == "KEPT"
    await bed.events()
    await dies(bed, "w1")
    assert await bed.leases.reap(10) == (1, False)
    await bed.let_pass(34_000)
    assert (await bed.leases.expire(10)).whos == []
    await bed.let_pass(1_000)
    assert (await bed.leases.expire(10))[::5] == ([WHO], 1)
    assert (await bed.contents())["brokers"] == {}
    (event,) = await bed.events()
    assert (event.type, event.who, event.row, event.cause) == (kinds.BrokerReaped.type, WHO, None, "client")
    assert await bed.replay() == await bed.contents()
    assert await bed.redis("EXISTS", bed.key("disconnected")) == 0


async def test_a_broker_that_beats_before_its_time_is_over_stays(bed, settled):
    r = await bed.register()
    await bed.fe2.register(r)
    await bed.fe2.close(r)
    await dies(bed, "w1")
    await bed.leases.reap(10)
    await bed.let_pass(30_000)
    await bed.fe2.register(r, connection=2)
    await bed.let_pass(100_000)
    assert (await bed.leases.expire(10)).whos == []


async def test_a_broker_that_beats_once_a_minute_has_a_minute(bed, settled):
    """registerNameServerPeriod may be 60 s; both front ends get each beat, one soon after the other."""
    r = await bed.register()
    for _ in range(2):
        await bed.let_pass(60_000)
        await bed.register()
        await bed.fe2.register(r)
    await bed.fe2.close(r)
    await dies(bed, "w1")
    await bed.leases.reap(10)
    await bed.let_pass(62_000)
    assert (await bed.leases.expire(10)).whos == []
    await bed.let_pass(5_000)
    assert (await bed.leases.expire(10)).whos == [WHO]


async def test_a_broker_that_was_lost_long_ago_goes_with_its_last_entry(bed, settled):
    """Nothing was heard for 40 s since one connection closed; then the process that holds the other one dies."""
    r = await bed.register()
    await bed.fe2.register(r)
    await bed.fe2.close(r)
    await bed.let_pass(40_000)
    await dies(bed, "w1")
    await bed.leases.reap(10)
    assert (await bed.leases.expire(10)).whos == [WHO]


async def test_two_dead_workers_that_are_reaped_at_once_remove_nobody(bed, settled):
    r = await bed.register()
    await bed.fe2.register(r)
    await dies(bed, "w1")
    await dies(bed, "w2")
    await bed.leases.renew("w3", 600_000)
    assert await bed.leases.reap(10) == (2, False)
    await bed.let_pass(110_000)
    assert (await bed.leases.expire(10)).whos == []


async def test_a_broker_that_is_attached_again_keeps_its_whole_deadline(bed, settled):
    """Its worker was paused, and not dead."""
    r = await bed.register()
    await bed.fe2.register(r)
    await bed.fe2.close(r)
    await dies(bed, "w1")
    await bed.leases.reap(10)
    await bed.leases.renew("w1", 600_000)
    await bed.leases.attach("fe1", [(WHO, f"w1/{ADDR}")])
    await bed.let_pass(60_000)
    assert (await bed.leases.expire(10)).whos == []
    await bed.let_pass(60_000)
    assert (await bed.leases.expire(10)).whos == [WHO]


async def test_an_outage_between_the_close_and_the_reaping_leaves_the_time_to_beat(bed, settled):
    r = await bed.register()
    await bed.fe2.register(r)
    await bed.fe2.close(r)
    await bed.move_clock(60_000)
    await bed.leases.renew("w2", 600_000)
    await dies(bed, "w1")
    await bed.let_pass(10_000)
    assert await bed.leases.reap(10) == (1, False)
    await bed.let_pass(24_000)
    assert (await bed.leases.expire(10)).whos == []
    await bed.move_clock(40_000)
    await bed.leases.renew("w2", 600_000)
    await bed.let_pass(34_000)
    assert (await bed.leases.expire(10)).whos == []
    await bed.let_pass(1_000)
    assert (await bed.leases.expire(10)).whos == [WHO]


async def test_a_clock_that_went_back_meanwhile_keeps_nobody_for_longer(bed, settled):
    r = await bed.register()
    await bed.fe2.register(r)
    await bed.fe2.close(r)
    await bed.move_clock(-3_600_000)
    await bed.leases.renew("w2", 600_000)
    await dies(bed, "w1")
    await bed.let_pass(10_000)
    await bed.leases.reap(10)
    await bed.let_pass(26_000)
    assert (await bed.leases.expire(10)).whos == [WHO]


async def test_reap_spares_a_broker_that_beat_after_the_close(bed, settled):
    r = await bed.register()
    await bed.fe2.register(r)
    await bed.fe2.close(r)
    await bed.routes.touch_broker("c1", ADDR)
    await dies(bed, "w1")
    await bed.leases.reap(10)
    assert (await bed.leases.expire(10)).whos == []
    assert set((await bed.contents())["brokers"]) == {"broker-a"}


async def test_reap_spares_a_broker_with_another_connection(bed, settled):
    r = await bed.register()
    await bed.fe2.register(r)
    await bed.redis("HSET", bed.key(f"live:{WHO}"), "closed_at", "5")
    await dies(bed, "w1")
    await bed.leases.reap(10)
    assert (await bed.leases.expire(10)).whos == []
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
    assert await bed.leases.reap(10) == (0, False)
    assert set(await bed.dump()) == before
    assert await bed.events() == []


async def test_reap_goes_by_the_limit_and_says_that_there_is_more(bed, settled):
    for i in range(5):
        await bed.register(f"10.0.0.{i}:1", f"broker-{i}")
    await dies(bed, "w1")
    assert await bed.leases.reap(2) == (2, True)
    assert await bed.leases.reap(2) == (2, True)
    assert await bed.members("leases") == {"w1", "w2"}
    assert await bed.leases.reap(2) == (1, False)
    assert await bed.members("leases") == {"w2"}


async def test_reap_leaves_what_a_new_worker_of_the_front_end_took_over(bed, settled):
    r = await bed.register()
    bed.fe1.incarnation = "w1b"
    await bed.fe1.register(r)
    await bed.leases.renew("w1b", 600_000)
    await dies(bed, "w1")
    assert await bed.leases.reap(10) == (0, False)
    assert await bed.channels(r) == {"fe1": "w1b/1"}


async def test_reap_waits_until_every_worker_had_the_time_to_renew(bed, settled):
    """After an outage every lease has run out, and nobody is dead; w2 is the first that renews."""
    r = await bed.register()
    await bed.fe2.register(r)
    await bed.fe2.close(r)
    await bed.move_clock(30_000)
    await dies(bed, "w1")
    assert await bed.leases.reap(10) == (0, False)
    await bed.leases.renew("w2", 600_000)
    await bed.let_pass(9_000)
    assert await bed.leases.reap(10) == (0, False)
    assert await bed.channels(r) == {"fe1": f"w1/{ADDR}"}
    await bed.let_pass(2_000)
    assert await bed.leases.reap(10) == (1, False)


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
    assert await bed.leases.reap(10) == (1, False)
    assert (await bed.leases.expire(10))[::5] == ([WHO], 1)
    assert (await bed.contents())["brokers"] == {}
    (event,) = await bed.events()
    assert (event.type, event.who, event.row, event.cause) == (kinds.BrokerReaped.type, WHO, None, "ended")
    assert await bed.replay() == await bed.contents()
    assert await bed.leases.reap(10) == (0, False)


async def test_reap_of_a_broker_that_wrote_itself_leaves_it_its_other_connection(bed, settled):
    direct = FrontEnd(bed.store, f"{DIRECT}1", "w1")
    r = registration()
    await direct.register(r)
    await bed.fe2.register(r)
    await dies(bed, "w1")
    assert await bed.leases.reap(10) == (1, False)
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


async def test_reap_of_an_entry_that_cannot_be_cleaned_up_loses_nothing_of_it(bed, settled):
    r = await bed.register()
    await bed.fe2.register(r)
    await bed.fe2.close(r)
    await dies(bed, "w1")
    await bed.redis("SET", bed.key("disconnected"), "no sorted set")
    with pytest.raises(StoreError, match="WRONGTYPE"):
        await bed.leases.reap(10)
    assert await bed.channels(r) == {"fe1": f"w1/{ADDR}"}
    await bed.redis("DEL", bed.key("disconnected"))
    assert await bed.leases.reap(10) == (1, False)
