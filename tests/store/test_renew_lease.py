"""renew_lease: a worker says that it lives, and hears where the registry stands."""

from __future__ import annotations


async def test_first_renewal_is_lost_and_lists_the_worker(bed):
    renewal = await bed.leases.renew("w1", 5000)
    head = await bed.head()
    assert (renewal.epoch, renewal.seq, renewal.config_rev, renewal.lost) == (head.epoch, 0, 0, True)
    assert renewal.up_since_ms == head.up_since_ms
    assert await bed.members("leases") == {"w1"}
    assert 0 < await bed.redis("PTTL", bed.key("lease:w1")) <= 5000


async def test_renewal_in_time_is_not_lost(bed):
    await bed.leases.renew("w1")
    assert not (await bed.leases.renew("w1")).lost
    assert await bed.events() == []


async def test_renewal_after_the_lease_ran_out_is_lost(bed):
    await bed.leases.renew("w1")
    await bed.redis("DEL", bed.key("lease:w1"))
    assert (await bed.leases.renew("w1")).lost


async def test_renewal_tells_seq_and_config_rev(bed):
    await bed.register()
    await bed.kv.set_config({"deleteTopicWithBrokerRegistration": "true"})
    renewal = await bed.leases.renew("w1")
    assert (renewal.seq, renewal.config_rev) == (2, 1)


async def test_renewal_keeps_the_watch(bed):
    await bed.leases.renew("w1")
    await bed.move_clock(2000)
    renewal = await bed.leases.renew("w1")
    assert int((await bed.hash("meta"))["seen_ms"]) == renewal.now_ms
    assert renewal.up_since_ms < renewal.now_ms - 1000


async def test_renewal_tells_for_how_long_a_broker_has_been_overdue(bed):
    """A16: front ends run with --no-sweep, no sweeper runs, and a broker falls silent: every front end sees it."""
    assert (await bed.leases.renew("w1")).first_deadline_ms is None
    r = await bed.register(heartbeat_timeout_ms=60_000)
    await bed.register("10.0.0.2:1", "broker-b")
    renewal = await bed.leases.renew("w1")
    assert (renewal.first_deadline_ms, renewal.overdue_ms) == (await bed.deadline(r), 0)
    await bed.let_pass(90_000)
    assert 30_000 <= (await bed.leases.renew("w1")).overdue_ms < 35_000
    await bed.leases.expire(10)
    assert (await bed.leases.renew("w1")).overdue_ms == 0
