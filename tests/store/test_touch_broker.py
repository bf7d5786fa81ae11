"""touch_broker: heartbeats that carry no registration."""

from __future__ import annotations

from mqregistry.model import DataVersion
from mqregistry.store.route_writes import NO_CHANNEL


async def test_touch_of_an_unknown_broker_refreshes_nothing(bed):
    before = await bed.dump()
    assert (await bed.routes.touch_broker("c1", "10.0.0.1:10911", bed.fe1.channel())).data_version is None
    assert await bed.dump() == before
    assert await bed.beats() == []


async def test_touch_refreshes_and_tells_the_version_and_no_event(bed):
    r = await bed.register(counter=2, timestamp=3, state_version=4, heartbeat_timeout_ms=30_000)
    await bed.events()
    await bed.redis("HSET", bed.key("live:c1|10.0.0.1:10911"), "closed_at", "5")
    await bed.let_pass(20_000)
    touched = await bed.routes.touch_broker("c1", "10.0.0.1:10911", NO_CHANNEL, 7)
    assert touched.data_version == DataVersion(2, 3, 4)
    now = await bed.now_ms()
    assert now + 20_000 < await bed.deadline(r) <= now + 30_000
    assert "closed_at" not in await bed.live(r)
    assert await bed.events() == []
    last = (await bed.beats())[-1]
    assert (last["kind"], last["bytes"]) == ("touch", 7)
    assert 20_000 <= last["interval_ms"] < 25_000


async def test_touch_repeated_answers_the_same(bed):
    await bed.register()
    first = await bed.routes.touch_broker("c1", "10.0.0.1:10911", bed.fe1.channel())
    assert await bed.routes.touch_broker("c1", "10.0.0.1:10911", bed.fe1.channel()) == first


async def test_touch_under_another_cluster_refreshes_nothing(bed):
    await bed.register()
    assert (await bed.routes.touch_broker("c2", "10.0.0.1:10911")).data_version is None


async def test_touch_does_not_count_as_the_registration_the_next_heartbeat_compares_with(bed):
    r = await bed.register()
    await bed.routes.touch_broker("c1", "10.0.0.1:10911", bed.fe1.channel("other"))
    assert (await bed.fe1.prepare(r)).heartbeat.same


async def test_touch_attaches_only_where_the_front_end_has_no_channel(bed):
    r = await bed.register()
    await bed.routes.touch_broker("c1", "10.0.0.1:10911", bed.fe1.channel("other"))
    assert await bed.channels(r) == {"fe1": "w1/10.0.0.1:10911"}
    await bed.routes.touch_broker("c1", "10.0.0.1:10911", bed.fe2.channel("new"))
    assert await bed.channels(r) == {"fe1": "w1/10.0.0.1:10911", "fe2": "w2/new"}
    assert await bed.members("held:w2") == {"c1|10.0.0.1:10911"}
