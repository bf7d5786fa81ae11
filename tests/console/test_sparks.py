"""The last hour on the page Now: brokers, lookups, those in vain, by minute."""

from __future__ import annotations

import time

from mqregistry.console.charts import minutes_chart
from mqregistry.store.streams import StreamStore, lookup_entries
from tests.waiting import until

from .test_lanes import until_read


async def test_brokers_of_each_minute(site, bed):
    for number in range(3):
        await bed.register(f"10.0.0.{number}:10911", f"b{number}", topics=["t", "u"])
    await bed.routes.unregister_broker("c1", "10.0.0.0:10911", "b0", 0)
    await until_read(site, (await bed.head()).seq)
    now_ms = round(time.time() * 1000)
    alive = site.console.lanes.alive_by_minute(now_ms, 60)
    assert alive[now_ms // 60_000] == 2
    later = site.console.lanes.alive_by_minute(now_ms + 600_000, 60)
    assert [later[(now_ms + 600_000) // 60_000 - ago] for ago in range(3)] == [2, 2, 2]
    # before the first one came there was none
    site.console.lanes.since_ms = now_ms - 600_000
    alive = site.console.lanes.alive_by_minute(now_ms, 60)
    assert alive[now_ms // 60_000 - 5] == 0
    assert now_ms // 60_000 - 11 not in alive
    page = await site.get("/")
    assert "2 brokers now, 0 to 2 within the last hour" in page


async def test_lookups_of_each_minute_and_those_in_vain(site, bed):
    await bed.register()
    await until_read(site, (await bed.head()).seq)
    entries = lookup_entries({"t1": 7}, {"nosuch": 3, "other": 2})
    await StreamStore(bed.store).write_lookups("fe", "w1", 1, 1000, entries)

    async def read():
        await site.console.missing.read()
        return site.console.missing.lookups

    await until(read, "the lookups are read")
    assert (sum(site.console.missing.lookups.values()), sum(site.console.missing.in_vain.values())) == (12, 5)
    page = await site.get("/")
    assert "12 lookups within the last hour" in page
    assert "5 lookups in vain within the last hour" in page
    data = (await site.http.get("/now.json")).json()["data"]
    assert sum(data["lookups"].values()) == 12


def test_a_level_is_named_by_its_range():
    chart = str(minutes_chart({59: 4, 58: 2}, 59 * 60_000, what="brokers", is_level=True))
    assert "4 brokers now, 2 to 4 within the last hour" in chart
    assert chart.count("<rect") == 2


async def test_heartbeats_of_each_minute(site, bed):
    for _ in range(3):
        await bed.register(topics=["t", "u"])
    beats, minute = site.console.beats, (await bed.now_ms()) // 60_000
    await until(lambda: sum(beats.per_minute.values()) == 3, "the heartbeats are read")
    for _ in range(2):
        await bed.register(topics=["t", "u"])
    await until(lambda: sum(beats.per_minute.values()) == 5, "and those that came since")
    assert set(beats.per_minute) <= {minute, minute + 1}
    for tell in site.console.state.on_load:  # the tables were read again
        tell()
    await beats.read()
    assert sum(beats.per_minute.values()) == 5  # from the beginning, and each once
    page = await site.get("/")
    assert "5 heartbeats within the last hour" in page
    assert "a second</h2>" in page
