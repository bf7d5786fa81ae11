"""channel_destroyed: a connection that a broker registered over is gone."""

from __future__ import annotations

from mqregistry.events import changes as kinds

from .bed import registration

ADDR = "10.0.0.1:10911"
WHO = f"c1|{ADDR}"


async def test_close_of_the_last_channel_removes_the_broker(bed):
    r = await bed.register()
    await bed.events()
    assert await bed.fe1.close(r, connection=ADDR) == "REMOVED"
    assert (await bed.contents())["brokers"] == {}
    (event,) = await bed.events()
    assert (event.type, event.row, event.who) == (kinds.BrokerClosed.type, None, WHO)
    assert await bed.members("held:w1") == set()
    assert await bed.channels(r) == {}


async def test_close_repeated_is_stale_and_tells_nothing(bed):
    r = await bed.register()
    await bed.fe1.close(r, connection=ADDR)
    await bed.events()
    before = await bed.dump()
    assert await bed.fe1.close(r, connection=ADDR) == "STALE"
    assert await bed.events() == []
    assert await bed.dump() == before


async def test_close_of_one_of_two_channels_keeps_the_broker_and_notes_it(bed):
    """D11."""
    r = await bed.register()
    await bed.fe2.register(r)
    await bed.events()
    contents = await bed.contents()
    assert await bed.fe1.close(r, connection=ADDR) == "KEPT"
    assert await bed.contents() == contents
    assert await bed.events() == []
    assert await bed.channels(r) == {"fe2": "w2/1"}
    assert abs(int((await bed.live(r))["closed_at"]) - await bed.now_ms()) < 60_000
    assert await bed.members("held:w1") == set()
    assert await bed.fe2.close(r) == "REMOVED"
    assert (await bed.contents())["brokers"] == {}


async def test_close_kept_is_forgotten_with_the_next_beat(bed):
    r = await bed.register()
    await bed.fe2.register(r)
    await bed.fe1.close(r, connection=ADDR)
    await bed.routes.touch_broker("c1", ADDR)
    assert "closed_at" not in await bed.live(r)


async def test_close_of_another_connection_is_stale(bed):
    r = await bed.register()
    assert await bed.fe1.close(r, connection="older") == "STALE"
    assert await bed.fe2.close(r, connection=ADDR) == "STALE"
    assert set((await bed.contents())["brokers"]) == {"broker-a"}


async def test_close_of_an_unknown_broker_is_stale(bed):
    assert await bed.fe1.close(registration()) == "STALE"
    assert await bed.events() == []


async def test_close_removes_the_broker_from_every_name_it_stands_under(bed):
    r = await bed.register()
    await bed.register(name="broker-b")
    await bed.events()
    assert await bed.fe1.close(r, connection=ADDR) == "REMOVED"
    assert (await bed.contents())["brokers"] == {}
    events = await bed.events()
    assert {(e.type, e.broker_name, e.row) for e in events} == {
        (kinds.BrokerClosed.type, "broker-a", None),
        (kinds.BrokerClosed.type, "broker-b", None),
    }
    assert await bed.replay() == await bed.contents()


async def test_close_that_waited_for_redis_keeps_the_broker(bed):
    """Redis stood still: it finds the closes that it was told meanwhile, in any order with the first renewal."""
    r = await bed.register()
    before = (await bed.leases.renew("w1")).up_since_ms
    for has_ended in (False, True):
        await bed.move_clock(60_000)
        if has_ended:
            await bed.leases.renew("w1")
        closed = bed.fe1.channel(ADDR)
        assert await bed.routes.channel_destroyed(WHO, closed, up_since_ms=before) == "KEPT"
        assert await bed.live(r) | {"closed_as": ""} == await bed.live(r)
        await bed.fe1.register(r, connection=ADDR)
    since = (await bed.leases.renew("w1")).up_since_ms
    assert await bed.routes.channel_destroyed(WHO, bed.fe1.channel(ADDR), up_since_ms=since) == "REMOVED"
