"""Nobody who lives is dropped because the registry was away (D12), and nobody who is dead stays for it.

The rules stand in lua/include/seen.lua and lua/include/keep_seen.lua.
"""

from __future__ import annotations

import pytest

ADDR = "10.0.0.1:10911"
WHO = f"c1|{ADDR}"


@pytest.fixture
def broker(bed, run):
    """A broker with 60 s, in a registry that has been watched for ten minutes."""
    run(bed.leases.renew("w1"))
    run(bed.let_pass(600_000))
    return run(bed.register(heartbeat_timeout_ms=60_000))


async def expired(bed):
    return (await bed.leases.expire(10)).whos


async def gap(bed, ms):
    """Nobody can hear brokers for so long; then a front end renews its lease."""
    await bed.move_clock(ms)
    return await bed.leases.renew("w1")


async def left_ms(bed, r):
    """The time that a broker has left, to the second: a test takes some milliseconds."""
    return round((await bed.deadline(r) - await bed.now_ms()) / 1000) * 1000


async def test_new_namespace_begins_with_grace(bed):
    await bed.register(heartbeat_timeout_ms=60_000)
    await bed.leases.renew("w1")
    head = await bed.head()
    assert await expired(bed) == []
    assert 0 < head.up_since_ms <= head.now_ms


async def test_broker_that_falls_silent_while_all_is_well_expires_at_its_deadline(bed, broker):
    await bed.let_pass(61_000)
    assert await expired(bed) == [WHO]


async def test_a_sweeper_alone_removes_nobody_however_long_the_front_ends_are_away(bed, broker):
    """A2: the front ends stop for ten minutes while a sweeper calls every second; the broker lives, unheard."""
    for _ in range(600):
        await bed.move_clock(1000)
        found = await bed.leases.expire(10)
        assert (found.whos, await bed.leases.reap(10)) == ([], ([], False))
    assert not found.heard
    assert found.next_deadline_ms == found.now_ms + 1000
    await bed.leases.renew("w1")
    assert await expired(bed) == []
    assert await left_ms(bed, broker) == 60_000
    await bed.let_pass(61_000)
    assert await expired(bed) == [WHO]


async def test_a_process_that_writes_to_redis_itself_hears_brokers_too(bed, broker):
    """A2: `mqregistry sweep` and brokers with transport="redis", no front end: their leases say that all is well."""
    for _ in range(25):
        await bed.move_clock(2500)
        await bed.leases.renew("a direct writer")
    assert await expired(bed) == [WHO]


async def test_a_sweeper_alone_sees_no_broker_and_has_nothing_to_come_back_for(bed):
    found = await bed.leases.expire(10)
    assert (found.whos, found.next_deadline_ms, found.heard) == ([], None, False)


async def test_gap_in_the_watch_spares_every_broker_for_its_own_timeout(bed, broker):
    other = await bed.register("10.0.0.2:1", "broker-b", heartbeat_timeout_ms=20_000)
    renewal = await gap(bed, 3_600_000)
    assert renewal.up_since_ms == renewal.now_ms
    assert (await bed.deadline(other), await bed.deadline(broker)) == (renewal.now_ms + 20_000, renewal.now_ms + 60_000)
    result = await bed.leases.expire(10)
    assert (result.whos, result.next_deadline_ms) == ([], renewal.now_ms + 20_000)
    await bed.let_pass(21_000)
    assert await expired(bed) == ["c1|10.0.0.2:1"]
    await bed.let_pass(30_000)
    assert await expired(bed) == []
    await bed.let_pass(10_000)
    assert await expired(bed) == [WHO]


async def test_a_gap_adds_its_own_length(bed, broker):
    """A11: silent for 40 of its 60 s, then Redis pauses for 10 s: 20 s are left, as before the pause."""
    await bed.let_pass(40_000)
    await gap(bed, 10_000)
    assert await left_ms(bed, broker) == 20_000


async def test_a_gap_leaves_at_least_its_own_length_to_beat(bed, broker):
    """A11: with 5 s left the registry is away for 30 s: a broker that tried meanwhile has the time to come back."""
    await bed.let_pass(55_000)
    await gap(bed, 30_000)
    assert await left_ms(bed, broker) == 30_000


@pytest.mark.parametrize("watched_ms", [20_000, 115_000])
async def test_a_redis_that_pauses_again_and_again_still_expires_who_is_silent(bed, broker, watched_ms):
    """A11: a pause of 4 s each 120 s (or 24 s): the silent broker goes once it was silent for its timeout, watched."""
    silent_ms, pauses = 0, 0
    while not await expired(bed):
        assert silent_ms <= 60_000
        for passed in range(0, watched_ms, 2500):
            await bed.let_pass(min(2500, watched_ms - passed))
            silent_ms += min(2500, watched_ms - passed)
            if await bed.deadline(broker) <= await bed.now_ms():
                break
        else:
            await gap(bed, 4000)
            pauses += 1
    assert silent_ms >= 60_000
    assert pauses == (2 if watched_ms == 20_000 else 0)


async def test_a_gap_spares_nobody_who_was_overdue_before_it(bed, broker):
    """A3: many fall silent at once; removing the first takes long, and that gap must not give the others more time."""
    await bed.let_pass(61_000)
    deadline = await bed.deadline(broker)
    await gap(bed, 5000)
    assert await bed.deadline(broker) == deadline
    assert await expired(bed) == [WHO]


async def test_a_beat_between_the_gap_and_the_renewal_that_notices_it_is_not_moved(bed, broker):
    await bed.move_clock(3_600_000)
    await bed.routes.touch_broker("c1", ADDR)
    deadline = await bed.deadline(broker)
    renewal = await bed.leases.renew("w1")
    assert deadline <= await bed.deadline(broker) <= renewal.now_ms + 60_000


async def test_a_gap_moves_the_deadlines_of_thousands_in_one_go(bed, broker):
    whos = [f"c1|10.1.{i // 250}.{i % 250}:1" for i in range(5000)]
    for first in range(0, 5000, 1000):
        async with bed.store.client.pipeline(transaction=False) as steps:
            for who in whos[first : first + 1000]:
                steps.hset(bed.key(f"live:{who}"), "timeout_ms", 60_000)
                steps.zadd(bed.key("deadlines"), {who: 1})
            await steps.execute()
    overdue = await bed.redis("ZCOUNT", bed.key("deadlines"), 1, 1)
    await bed.redis("HSET", bed.key("meta"), "seen_ms", 0)
    renewal = await bed.leases.renew("w1")
    assert overdue == 5000
    assert await bed.redis("ZCOUNT", bed.key("deadlines"), renewal.now_ms + 60_000, renewal.now_ms + 60_000) == 5001


async def test_gap_of_three_renewals_is_none(bed, broker):
    await bed.let_pass(58_000)
    await bed.move_clock(2_800)
    assert await expired(bed) == [WHO]


async def test_broker_that_beats_during_the_grace_has_its_deadline_from_the_beat(bed, broker):
    await gap(bed, 3_600_000)
    await bed.let_pass(40_000)
    await bed.routes.touch_broker("c1", ADDR)
    await bed.let_pass(40_000)
    assert await expired(bed) == []
    await bed.let_pass(21_000)
    assert await expired(bed) == [WHO]


async def test_clock_that_jumps_forward_expires_nobody(bed, broker):
    await bed.move_clock(86_400_000)
    assert await expired(bed) == []
    await bed.leases.renew("w1")
    assert await expired(bed) == []
    await bed.routes.touch_broker("c1", ADDR)
    await bed.let_pass(50_000)
    assert await expired(bed) == []


async def test_clock_that_jumps_back_expires_nobody_and_keeps_nobody_for_ever(bed, broker):
    await bed.move_clock(-86_400_000)
    assert await expired(bed) == []
    renewal = await bed.leases.renew("w1")
    assert await expired(bed) == []
    assert renewal.up_since_ms == renewal.now_ms
    assert await bed.deadline(broker) == renewal.now_ms + 60_000
    await bed.let_pass(59_000 - 5000)
    assert await expired(bed) == []
    await bed.let_pass(7_000)
    assert await expired(bed) == [WHO]


async def test_clock_that_jumps_forward_and_back_expires_nobody(bed, broker):
    await bed.move_clock(86_400_000)
    assert await expired(bed) == []
    await bed.leases.renew("w1")
    assert await expired(bed) == []
    await bed.routes.touch_broker("c1", ADDR)
    await bed.move_clock(-86_400_000)
    await bed.leases.renew("w1")
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
    await gap(bed, 3_600_000)
    assert await bed.fe1.close(broker, connection=ADDR) == "REMOVED"
