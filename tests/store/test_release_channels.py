"""release_channels: a draining worker gives up its channels; brokers live on, unless one was seen closing."""

from __future__ import annotations

ADDR = "10.0.0.1:10911"


async def test_release_removes_no_broker(bed):
    r = await bed.register()
    await bed.register("10.0.0.2:1", "broker-b")
    await bed.leases.renew("w1")
    contents = await bed.contents()
    await bed.events()
    await bed.leases.release("w1")
    assert await bed.contents() == contents
    assert await bed.channels(r) == {}
    assert await bed.members("leases") == await bed.members("held:w1") == set()
    assert await bed.redis("EXISTS", bed.key("lease:w1")) == 0
    assert await bed.events() == []
    assert await bed.deadline(r) is not None


async def test_release_leaves_the_other_front_ends_channels(bed):
    r = await bed.register()
    await bed.fe2.register(r)
    await bed.leases.release("w1")
    assert await bed.channels(r) == {"fe2": "w2/1"}
    assert await bed.members("held:w2") == {f"c1|{ADDR}"}


async def test_release_repeated_has_no_effect(bed):
    await bed.register()
    await bed.leases.release("w1")
    before = await bed.dump()
    await bed.leases.release("w1")
    assert await bed.dump() == before


async def test_release_goes_by_pages(bed):
    for i in range(5):
        await bed.register(f"10.0.0.{i}:1", f"broker-{i}")
    assert [(await bed.store.call("release_channels", "w1", 2, 1))[1] for _ in range(3)] == [1, 1, 0]
    assert await bed.members("leases") == set()


async def test_close_after_release_is_stale(bed):
    r = await bed.register()
    await bed.leases.release("w1")
    assert await bed.fe1.close(r, connection=ADDR) == "STALE"
    assert set((await bed.contents())["brokers"]) == {"broker-a"}


async def test_a_broker_whose_other_connection_closed_goes_soon_after_the_last_front_end_drained(bed):
    """Two front ends; its connection to fe2 closes, and fe1 drains: it is given the time to beat once, dead or not."""
    await bed.leases.renew("w3")
    r = await bed.register()
    await bed.fe2.register(r)
    await bed.fe2.close(r)
    await bed.events()
    await bed.leases.release("w1")
    assert set((await bed.contents())["brokers"]) == {"broker-a"}
    assert "w1" not in await bed.members("leases")
    await bed.let_pass(34_000)
    assert (await bed.leases.expire(10)).whos == []
    await bed.let_pass(1_000)
    assert (await bed.leases.expire(10)).whos == [f"c1|{ADDR}"]
    (event,) = await bed.events()
    assert (event.type, event.who, event.row) == ("broker_reaped", f"c1|{ADDR}", None)
    assert await bed.replay() == await bed.contents()


async def test_a_broker_that_beat_after_its_other_connection_closed_lives_until_its_deadline(bed):
    r = await bed.register()
    await bed.fe2.register(r)
    await bed.fe2.close(r)
    await bed.fe1.routes.touch_broker("c1", ADDR)
    await bed.leases.release("w1")
    await bed.leases.renew("w3")
    await bed.let_pass(60_000)
    assert (await bed.leases.expire(10)).whos == []
    await bed.let_pass(70_000)
    assert (await bed.leases.expire(10)).whos == [f"c1|{ADDR}"]
