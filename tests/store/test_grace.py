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
        assert (found.whos, await bed.leases.reap(10)) == ([], (0, False))
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


async def test_a_gap_leaves_every_broker_the_time_that_it_had(bed, broker):
    other = await bed.register("10.0.0.2:1", "broker-b", heartbeat_timeout_ms=20_000)
    renewal = await gap(bed, 3_600_000)
    assert renewal.up_since_ms == renewal.now_ms
    assert (await left_ms(bed, other), await left_ms(bed, broker)) == (20_000, 60_000)
    result = await bed.leases.expire(10)
    assert (result.whos, result.next_deadline_ms) == ([], await bed.deadline(other))
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


async def test_gaps_as_long_as_the_times_between_them_keep_no_dead_broker(bed, broker):
    """Its 60 s are counted in time in which it could be heard, however the gaps lie."""
    for _ in range(11):
        await gap(bed, 5000)
        await bed.let_pass(2500)
        await bed.let_pass(2500)
        assert await expired(bed) == []
    await gap(bed, 5000)
    await bed.let_pass(2500)
    await bed.let_pass(2500)
    assert await expired(bed) == [WHO]


async def test_a_broker_that_beats_now_and_then_between_gaps_stays(bed, broker):
    for _ in range(40):
        await gap(bed, 30_000)
        await bed.let_pass(20_000)
        await bed.routes.touch_broker("c1", ADDR)
        assert await expired(bed) == []


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
    await gap(bed, 5000)
    assert await expired(bed) == [WHO]


async def test_a_beat_between_the_gap_and_the_renewal_that_notices_it_is_not_moved(bed, broker):
    await bed.move_clock(3_600_000)
    await bed.routes.touch_broker("c1", ADDR)
    deadline = await bed.deadline(broker)
    renewal = await bed.leases.renew("w1")
    assert deadline <= await bed.deadline(broker) <= renewal.now_ms + 60_000


@pytest.mark.parametrize("gap_ms", [3_600_000, 4_000, -2_000, -3_600_000])
async def test_a_gap_moves_all_deadlines_of_thousands_by_its_length(bed, broker, gap_ms):
    now_ms = await bed.now_ms()
    found = {}
    for key in ("deadlines", "disconnected"):
        found[key] = {f"c1|10.1.{i // 250}.{i % 250}:1": now_ms + 70_000 + i * 7 % 1001 for i in range(5000)}
        for first in range(0, 5000, 1000):
            await bed.store.client.zadd(bed.key(key), dict(list(found[key].items())[first : first + 1000]))
    await bed.redis("ZREM", bed.key("deadlines"), WHO)
    seen_ms = int((await bed.hash("meta"))["seen_ms"])
    renewal = await gap(bed, gap_ms)
    for key, before in found.items():
        moved = dict(await bed.store.client.zrange(bed.key(key), 0, -1, withscores=True))
        assert {who.decode(): at - (renewal.now_ms - seen_ms) for who, at in moved.items()} == before


async def test_a_gap_leaves_who_has_no_connection_the_time_to_beat_once(bed, broker):
    now_ms = await bed.now_ms()
    for gap_ms in (10_000, -10_000):
        whos = {f"c1|10.1.{i // 250}.{i % 250}:1": now_ms + i * 10 for i in range(1000)}
        await bed.store.client.zadd(bed.key("disconnected"), whos)
        renewal = await gap(bed, gap_ms)
        assert await bed.redis("ZCOUNT", bed.key("disconnected"), "-inf", f"({renewal.now_ms + 35_000}") == 0
        assert await bed.redis("ZCARD", bed.key("disconnected")) == 1000
        now_ms = renewal.now_ms


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
    assert await left_ms(bed, broker) == 60_000
    await bed.let_pass(59_000 - 5000)
    assert await expired(bed) == []
    await bed.let_pass(7_000)
    assert await expired(bed) == [WHO]


@pytest.mark.parametrize("step_ms", [-3_600_000, 3_600_000])
async def test_a_beat_before_a_step_of_the_clock_is_noticed_counts_as_one_at_that_moment(bed, broker, step_ms):
    await bed.let_pass(50_000)
    await bed.move_clock(step_ms)
    await bed.routes.touch_broker("c1", ADDR)
    await bed.leases.renew("w1")
    assert await left_ms(bed, broker) == 60_000


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
