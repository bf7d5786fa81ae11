"""The last hours of each broker on its page: what a replay says, what happened in words, and since when it is known."""

from __future__ import annotations

import random
import re

from mqregistry.console.recent.lanes import DAY_MS, SPANS
from tests.waiting import until

from .conftest import open_site
from .test_past import Model, operate

FILL = re.compile(r'<rect class="fill" x="([\d.]+)" y="3" width="([\d.]+)"')


async def until_read(site, seq):
    await site.until_seen(seq)
    lanes = site.console.lanes
    await until(lambda: lanes.since_ms is not None and lanes._seq >= seq, f"the change {seq} is read")


def row_of(text, addr):
    """The row of the page that has this address."""
    return next(row for row in re.findall(r"<tr>.*?</tr>", text, re.DOTALL) if addr in row)


async def test_a_lane_shows_a_process_where_a_replay_has_it(bed, tmp_path):
    rng, model = random.Random(4), Model(bed)
    for _ in range(40):
        await operate(bed, rng, 2)
        await bed.let_pass(rng.randrange(600_000, 2_000_000))
    async with open_site(bed.store, tmp_path) as site:  # what was read
        await until_read(site, (await bed.head()).seq)
        for _ in range(10):  # and what came since
            await operate(bed, rng, 2)
            await bed.let_pass(rng.randrange(600_000, 2_000_000))
        await model.look()
        await until_read(site, model.changes[-1].seq)
        now_ms, span_ms = await bed.now_ms(), SPANS["day"]
        pixel_ms = span_ms // 240
        begin_ms = (now_ms // pixel_ms + 1) * pixel_ms - span_ms
        compared = set()
        processes = {(change.broker_name, addr) for change in model.changes if getattr(change, "row", None)
                     for addr in change.row.addrs.values()}  # fmt: skip
        moments = [change.ms for change in model.changes]
        bars = {}
        for name, addr in processes:
            svg = str(site.console.lanes.draw(name, addr, now_ms, span_ms))
            bars[name, addr] = [(float(x), float(x) + float(width)) for x, width in FILL.findall(svg)]
        for ms in range(max(begin_ms, moments[0] + pixel_ms), now_ms, pixel_ms):
            if any(abs(ms - moment) < pixel_ms // 4 for moment in moments):
                continue
            at, brokers = (ms - begin_ms) / pixel_ms, model.at(ms)["brokers"]
            for name, addr in processes:
                there = name in brokers and addr in brokers[name].broker_addrs.values()
                assert any(x <= at <= end for x, end in bars[name, addr]) == there, (name, addr, ms)
                compared.add((name, addr, there))
        assert {there for _, _, there in compared} == {True, False}
        assert len(compared) > len(processes)


async def test_what_happened_is_said_in_words_and_who_went_is_still_shown(site, bed):
    await bed.register("10.0.0.1:10911", "broker-a", topics=["t1", "t2"])
    await bed.let_pass(2000)
    await bed.register("10.0.0.2:10911", "broker-a", 1, topics=["t1", "t2"])
    await bed.let_pass(2000)
    await bed.routes.unregister_broker("c1", "10.0.0.1:10911", "broker-a", 0)
    await bed.let_pass(2000)
    await bed.register("10.0.0.2:10911", "broker-a", 0, topics=["t1", "t2"], counter=2)
    await until_read(site, (await bed.head()).seq)
    text = await site.get("/brokers")
    assert re.search(r"\d\d:\d\d:\d\d registered, \d\d:\d\d:\d\d became master", row_of(text, "10.0.0.2:10911"))
    assert "Gone within the last hour" in text
    assert "broker_unregistered" in row_of(text[text.index("Gone within") :], "10.0.0.1:10911")
    assert "Gone within" not in await site.get("/brokers", filter="10.0.0.2")
    # it is back
    await bed.register("10.0.0.1:10911", "broker-a", 1, topics=["t1", "t2"], counter=3)
    await until_read(site, (await bed.head()).seq)
    text = await site.get("/brokers")
    assert "Gone within" not in text
    assert "broker unregistered" in row_of(text, "10.0.0.1:10911")
    # after an hour the day still shows it, after a day nothing does
    await bed.routes.unregister_broker("c1", "10.0.0.2:10911", "broker-a", 0)
    await bed.let_pass(SPANS["hour"] + 60_000)
    await until_read(site, (await bed.head()).seq)
    site.console.facts._read_at = 0.0
    assert "Gone within" not in await site.get("/brokers")
    assert "Gone within the last day" in await site.get("/brokers", lane="day")
    await bed.let_pass(DAY_MS)
    site.console.facts._read_at = 0.0
    assert "Gone within" not in await site.get("/brokers", lane="day")
    assert "expected one of hour, day" in await site.get("/brokers", 400, lane="year")


async def test_marks_are_told_apart_by_their_shape(site, bed):
    await bed.register("10.0.0.1:10911", "broker-a")
    await bed.register("10.0.0.2:10911", "broker-a", 1)
    await bed.routes.unregister_broker("c1", "10.0.0.1:10911", "broker-a", 0)
    await bed.register("10.0.0.2:10911", "broker-a", 0, counter=2)
    await bed.register("10.0.0.2:10911", "broker-a", 1, counter=3)
    await until_read(site, (await bed.head()).seq)
    text = await site.get("/brokers")
    shapes = dict(re.findall(r'<path id="mark-(\w+)" d="([^"]+)"', text))
    assert len(set(shapes.values())) == len(shapes)
    lanes = "".join(re.findall(r'<svg class="lane".*?</svg>.*?</svg>', text))
    assert set(re.findall(r'href="#mark-(\w+)"', lanes)) == set(shapes) == {"came", "gone", "master", "slave"}
    legend = text[text.index("In the lanes:") :]
    assert re.findall(r'href="#mark-(\w+)"/></svg> (\w+)', legend) == [
        ("came", "came"), ("gone", "went"), ("master", "became"), ("slave", "is"),
    ]  # fmt: skip


async def test_pages_read_nothing_again(site, bed, monkeypatch):
    await bed.register()
    await until_read(site, (await bed.head()).seq)

    async def again():
        raise AssertionError("the stream is read again")

    monkeypatch.setattr(site.console.lanes, "read", again)
    await bed.register("10.0.0.9:10911", "broker-z")
    await until_read(site, (await bed.head()).seq)
    assert "registered" in row_of(await site.get("/brokers"), "10.0.0.9:10911")
    lane = site.console.lanes._lanes["broker-z", "10.0.0.9:10911"]
    now_ms = await bed.now_ms()
    assert lane.draw(0, now_ms, DAY_MS) is lane.draw(0, now_ms, DAY_MS)


async def test_behind_a_trimmed_stream_a_lane_says_since_when_it_is_known(bed, tmp_path):
    await bed.register("10.0.0.1:10911", "broker-a")
    await bed.kv.put("ns", "k", "1")
    await bed.redis("XTRIM", bed.key("changes"), "MAXLEN", 1)
    async with open_site(bed.store, tmp_path) as site:
        await until_read(site, (await bed.head()).seq)
        text = await site.get("/brokers")
        assert "They are known since" in text
        assert "there all the time" in row_of(text, "10.0.0.1:10911")
        assert "known since" in row_of(text, "10.0.0.1:10911")
        await bed.let_pass(5000)
        await bed.register("10.0.0.2:10911", "broker-b")
        await until_read(site, (await bed.head()).seq)
        assert re.search(r"\d registered", row_of(await site.get("/brokers"), "10.0.0.2:10911"))


async def test_another_epoch_has_lanes_of_its_own(site, bed):
    await bed.register("10.0.0.1:10911", "broker-a")
    await until_read(site, 1)
    epoch = site.console.state.epoch
    for key in await bed.redis("KEYS", bed.key("*")):
        await bed.redis("DEL", key)
    await bed.store.connect()
    await bed.register("10.0.0.2:10911", "broker-b")
    await site.until_epoch(epoch)
    await until(lambda: ("broker-b", "10.0.0.2:10911") in site.console.lanes._lanes, "the new broker has a lane")
    text = await site.get("/brokers")
    assert "10.0.0.1:10911" not in text
    assert "registered" in row_of(text, "10.0.0.2:10911")
