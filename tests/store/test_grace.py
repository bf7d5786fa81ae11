"""Nobody who lives is dropped because the registry was away (D12; design, section 5)."""

from __future__ import annotations

import pytest

ADDR = "10.0.0.1:10911"
WHO = f"c1|{ADDR}"


@pytest.fixture
def broker(bed, run):
    """A broker with 60 s, in a registry that has been watched for ten minutes."""
    run(bed.leases.expire(10))
    run(bed.let_pass(600_000))
    return run(bed.register(heartbeat_timeout_ms=60_000))


async def expired(bed):
    return (await bed.leases.expire(10)).whos


async def test_new_namespace_begins_with_grace(bed):
    await bed.register(heartbeat_timeout_ms=60_000)
    head = await bed.head()
    assert await expired(bed) == []
    assert (await bed.head()).up_since_ms >= head.now_ms


async def test_broker_that_falls_silent_while_all_is_well_expires_at_its_deadline(bed, broker):
    await bed.let_pass(61_000)
    assert await expired(bed) == [WHO]


async def test_gap_in_the_watch_spares_every_broker_for_its_own_timeout(bed, broker):
    await bed.register("10.0.0.2:1", "broker-b", heartbeat_timeout_ms=20_000)
    await bed.move_clock(3_600_000)
    result = await bed.leases.expire(10)
    assert result.whos == []
    assert (await bed.head()).up_since_ms == result.now_ms
    assert result.next_deadline_ms == result.now_ms + 20_000
    await bed.let_pass(21_000)
    assert await expired(bed) == ["c1|10.0.0.2:1"]
    assert await bed.deadline(broker) == result.now_ms + 60_000
    await bed.let_pass(30_000)
    assert await expired(bed) == []
    await bed.let_pass(10_000)
    assert await expired(bed) == [WHO]


async def test_gap_noticed_by_a_lease_renewal_counts_as_well(bed, broker):
    await bed.move_clock(3_600_000)
    renewal = await bed.leases.renew("w1")
    assert renewal.up_since_ms == renewal.now_ms
    assert await expired(bed) == []
    await bed.let_pass(61_000)
    assert await expired(bed) == [WHO]


async def test_gap_noticed_by_the_reaper_counts_as_well(bed, broker):
    await bed.move_clock(3_600_000)
    await bed.leases.reap(10)
    assert await expired(bed) == []


async def test_gap_of_three_renewals_is_none(bed, broker):
    await bed.let_pass(58_000)
    await bed.move_clock(2_800)
    assert await expired(bed) == [WHO]


async def test_each_gap_grants_grace_anew(bed, broker):
    for _ in range(3):
        await bed.move_clock(70_000)
        assert await expired(bed) == []


async def test_broker_that_beats_during_the_grace_has_its_deadline_from_the_beat(bed, broker):
    await bed.move_clock(3_600_000)
    await expired(bed)
    await bed.let_pass(40_000)
    await bed.routes.touch_broker("c1", ADDR)
    await bed.let_pass(40_000)
    assert await expired(bed) == []
    await bed.let_pass(21_000)
    assert await expired(bed) == [WHO]


async def test_clock_that_jumps_forward_expires_nobody(bed, broker):
    await bed.move_clock(86_400_000)
    assert await expired(bed) == []
    await bed.routes.touch_broker("c1", ADDR)
    await bed.let_pass(50_000)
    assert await expired(bed) == []


async def test_clock_that_jumps_back_expires_nobody_and_keeps_nobody_for_ever(bed, broker):
    await bed.move_clock(-86_400_000)
    result = await bed.leases.expire(10)
    assert result.whos == []
    assert (await bed.head()).up_since_ms == result.now_ms
    assert await bed.deadline(broker) == result.now_ms + 60_000
    await bed.let_pass(59_000 - 5000)
    assert await expired(bed) == []
    await bed.let_pass(7_000)
    assert await expired(bed) == [WHO]


async def test_clock_that_jumps_forward_and_back_expires_nobody(bed, broker):
    await bed.move_clock(86_400_000)
    assert await expired(bed) == []
    await bed.routes.touch_broker("c1", ADDR)
    await bed.move_clock(-86_400_000)
    assert await expired(bed) == []
    await bed.let_pass(59_000 - 5000)
    assert await expired(bed) == []
    await bed.let_pass(7_000)
    assert await expired(bed) == [WHO]


async def test_slight_step_back_is_no_jump(bed, broker):
    up_since = (await bed.head()).up_since_ms
    await bed.redis("HSET", bed.key("meta"), "seen_ms", await bed.now_ms() + 60)
    await bed.leases.renew("w1")
    assert (await bed.head()).up_since_ms == up_since


async def test_close_removes_during_the_grace_too(bed, broker):
    await bed.move_clock(3_600_000)
    await expired(bed)
    assert await bed.fe1.close(broker, connection=ADDR) == "REMOVED"
