"""Every page of an instant: what is known of it stands there, what is not kept is said, and the way on stays in it."""

from __future__ import annotations

import json
import random
import re
from collections import Counter

import pytest

from mqregistry.console.recent import signs
from mqregistry.events.journal import CHANGES, HEARTBEATS, LOOKUPS
from mqregistry.store.change_reader import count_by_minute
from mqregistry.store.streams import StreamStore, lookup_entries
from tests.store.bed import registration
from tests.store.test_processes import SWEEPER, worker

from .conftest import open_site, unlinked
from .test_past import operate

PATHS = ("/", "/brokers", "/topics", "/topic?name=t1", "/missing", "/changes", "/kv", "/front-ends", "/streams")
DAY_MS = 86_400_000


def rows_of(text):
    """The cells of each row of the first table."""
    table = text[text.index("<tbody>") : text.index("</tbody>")]
    return [
        [" ".join(re.sub(r"<[^>]*>", "", cell).split()) for cell in re.findall(r"<td.*?</td>", row, re.S)]
        for row in re.findall(r"<tr.*?</tr>", table, re.S)
    ]


def sizes_of(text):
    """What Now counts."""
    sizes = re.search(r'<dl class="sizes">(.*?)</dl>', text, re.S)[1]
    return {
        re.sub(r"<[^>]*>", "", name): re.sub(r"<[^>]*>", "", value)
        for name, value in re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", sizes)
    }


@pytest.mark.parametrize("path", PATHS)
async def test_each_page_takes_an_instant_keeps_it_on_the_way_and_leads_back(site, bed, path):
    await bed.register()
    await site.until_seen(1)
    at = await bed.now_ms()
    text = await site.get(f"{path}{'&' if '?' in path else '?'}at={at}")
    assert "As it was at" in text
    assert "data-slider" in text
    assert 'id="live" hx-get' not in text, "an instant does not change"
    nav = text[text.index("<nav") : text.index("</nav>")]
    pages = ("/", "/brokers", "/topics", "/changes", "/kv", "/front-ends", "/streams", "/compare")
    of_now = "/users"  # rules of then are kept nowhere
    assert re.findall(r'href="([^"]*)"', nav) == [*(f"{page}?at={at}" for page in pages), of_now]
    assert f'href="/compare?at={at}"' in text
    assert f'href="{path}">Back to now' in text
    live = await site.get(path)
    assert "data-slider" in live
    assert "at=" not in live[live.index("<nav") : live.index("</nav>")]
    later = f"{path}{'&' if '?' in path else '?'}at={at + 3_600_000}"
    assert "has not come yet" in await site.get(later, 404)


async def test_was_anything_wrong_then(site, bed):
    await bed.register(topics=["orders", "bills"])
    await bed.register("10.0.0.2:10911", "broker-a", 1, topics=["orders", "bills"])
    fine = await bed.now_ms()
    await bed.let_pass(3_600_000)
    await bed.register("10.0.0.2:10911", "broker-a", 1, topics=["orders", "bills"])  # it lives
    await bed.kv.put("ns", "k", "v")
    await bed.routes.unregister_broker("c1", "10.0.0.1:10911", "broker-a", 0)
    wrong = await bed.now_ms()
    await bed.register("10.0.0.1:10911", topics=["orders", "bills"], counter=2)
    await bed.let_pass(121_000)
    silent = await bed.now_ms()
    await site.until_seen((await bed.head()).seq)

    text = await site.get("/", at=fine)
    assert "Nothing was wrong with the tables" in text
    assert "is not kept" in text
    assert sizes_of(text) == {
        "Brokers": "2", "Broker names": "1", "Clusters": "1", "Topics": "2", "Front ends": "1", "Changes": "2",
    }  # fmt: skip
    assert "2 changes within the hour before, at most 2 in a minute" in text
    text = await site.get("/", at=wrong)
    assert "2 things needed a look" in text
    assert "1 broker name has no master, so nobody can write there: broker-a" in unlinked(text)
    assert f"/topics?state=unwritable&amp;at={wrong}" in text
    assert "broker_unregistered" in text[text.index("The last one") :]
    assert "2 changes within the hour before" in text, "the first two are older"
    assert sizes_of(text)["Brokers"] == "1"
    text = await site.get("/", at=silent)
    assert "No broker was heard since" in text
    assert sizes_of(text)["Front ends"] == "0"


async def test_a_console_that_starts_counts_the_changes_of_the_hour_before(bed, tmp_path):
    await bed.register()
    await bed.kv.put("ns", "k", "v")
    async with open_site(bed.store, tmp_path / "c") as site:
        text = await site.get("/")
        assert "2 changes within the last hour, at most" in text
        assert "kv_put" in text[text.index("The last one") :]
        assert "are counted" not in text
        await bed.kv.put("ns", "k", "w")
        await site.until_seen(3)
        assert "3 changes within the last hour, at most" in await site.get("/")
    await bed.redis("XTRIM", bed.key("changes"), "MAXLEN", "1")
    async with open_site(bed.store, tmp_path / "c") as site:
        text = await site.get("/")
        assert "1 changes within the last hour, at most" in text
        assert "Only those since" in text


@pytest.mark.parametrize("moved", [False, True])
async def test_changes_are_counted_by_the_minute_by_their_numbers(bed, moved):
    """Also where the clock was moved, so that ids and times are not the same."""
    rng, made, now_ms = random.Random(12), [], 1_763_900_000_000
    for seq in range(1, 80):
        now_ms += rng.choice((0, 1, 999, 61_000))
        made.append(now_ms)
        await bed.store.client.xadd(
            bed.key("changes"), {"e": json.dumps({"seq": seq, "ms": now_ms})}, id=f"{(seq if moved else now_ms)}-{seq}"
        )
    for at in (made[0] - 1, made[0], made[40], made[40] + 30_000, made[-1], made[-1] + 3_600_000):
        for minutes in (3, 60):
            found = await count_by_minute(bed.store, at, minutes)
            begin = (at // 60_000 - minutes + 1) * 60_000
            assert found.per_minute == dict(Counter(ms // 60_000 for ms in made if begin <= ms <= at)), at


async def test_which_front_ends_there_were(site, bed):
    hour_ms = 3_600_000
    begin = await bed.now_ms()
    renew = bed.leases.renew
    await renew("w1", process=worker(started_ms=begin - hour_ms))
    await renew("w2", process=worker(started_ms=begin - hour_ms, front_end="fe2", name="ns2:9876", address="b:9876"))
    await bed.leases.reap(10, sweeper="s1", process=SWEEPER)
    await bed.register()
    await bed.register("10.0.0.2:10911", "broker-b")
    await bed.fe2.register(registration(), connection="x")
    await StreamStore(bed.store).write_lookups("fe2", "w2", 1, 10_000, lookup_entries({"t1": 5}, {"t3": 2}))
    both = await bed.now_ms()
    await bed.let_pass(20 * 60_000)  # ns2 is gone; ns1 was started again at its place
    await renew("w3", process=worker(started_ms=both + 15 * 60_000, front_end="fe3"))
    await bed.leases.reap(10, sweeper="s1", process=SWEEPER)
    late = await bed.now_ms()
    await site.until_seen((await bed.head()).seq)

    text = await site.get("/front-ends", at=both)
    assert [(row[0], row[2], row[4], row[5]) for row in rows_of(text)] == [
        ("ns1:9876", "there", "2", "0"), ("ns2:9876", "there", "1", "7"),
    ]  # fmt: skip
    assert "Started later: ns1:9876 at" in text
    assert "is not kept" in text
    states = {
        (row[0], row[1], re.sub(r"[\d:-]{8,}", "TIME", row[2]))
        for row in rows_of(await site.get("/front-ends", at=late))
    }
    assert states == {
        ("ns1:9876", "10.0.0.9:9876", "there"), ("ns1:9876", "10.0.0.9:9876", "gone since TIME"),
        ("ns2:9876", "b:9876", "gone since TIME"),
    }  # fmt: skip

    await bed.let_pass(2 * hour_ms)  # nobody is left who tells a name
    await bed.leases.reap(10, sweeper="s2", process=SWEEPER)
    await site.console.facts.now()
    rows = rows_of(await site.get("/front-ends", at=both))
    assert [(row[0], row[2], row[4], row[5]) for row in rows] == [
        ("ns1:9876", "there", "2", "0"), ("ns2:9876", "there", "1", "7"),
    ], "the console remembers their names"  # fmt: skip
    site.console.facts._names.clear()  # one that was started later
    rows = rows_of(await site.get("/front-ends", at=both))
    assert [row[0] for row in rows] == ["a front end that is gone (id fe1)", "a front end that is gone (id fe2)"]
    await bed.redis("DEL", bed.key("heartbeats"), bed.key("lookups"))
    text = await site.get("/front-ends", at=both)
    assert "No front end is known to have been there then" in text
    assert "No heartbeat is kept" in text


async def test_how_far_the_streams_were(site, bed, monkeypatch):
    rng = random.Random(3)
    store, streams = bed.store, StreamStore(bed.store)
    for number in range(30):
        await operate(bed, rng, 2)
        await streams.write_lookups("fe1", "w1", number + 1, 10_000, lookup_entries({"t1": 1}, {}))
    await site.until_seen((await bed.head()).seq)
    made = {}
    for stream in (CHANGES, HEARTBEATS, LOOKUPS):
        entries = await bed.redis("XRANGE", bed.key(stream), "-", "+")
        made[stream] = [json.loads(fields[b"e"])["ms"] for _, fields in entries]
        assert made[stream] == sorted(made[stream])
    for at in sorted(rng.sample(range(made[CHANGES][0], made[CHANGES][-1]), 12)):
        rows = {row[0]: row for row in rows_of(await site.get("/streams", at=at))}
        for stream, times in made.items():
            by_then = sum(ms <= at for ms in times)
            assert rows[stream][1] == (f"{by_then:,}" if by_then else "not known")
            assert bool(rows[stream][4]) == bool(by_then)
        assert rows[CHANGES][5] == str(sum(ms <= at for ms in made[CHANGES]))
        shown = [int(one) for one in re.findall(r'id="c(\d+)"', await site.get("/changes", at=at))]
        assert shown == [number for number, ms in enumerate(made[CHANGES], 1) if ms <= at][::-1][: len(shown)]
        assert shown[:1] == [sum(ms <= at for ms in made[CHANGES])] or "parts" in await site.get(f"/changes/{shown[0]}")
    monkeypatch.setattr(signs, "_COUNTED", {HEARTBEATS: 3, LOOKUPS: 3})
    text = await site.get("/streams", at=at)
    assert re.search(r">~[\d,]+<", text), "a long stream is not read for this"
    text = await site.get("/streams", at=made[CHANGES][-1])
    assert "How far each reader was then is not kept" in text
    assert f"/changes?kind=stream_alarm&amp;at={made[CHANGES][-1]}" in text
    assert store.namespace in text


async def test_what_was_asked_for_in_vain_by_then_is_what_the_stream_tells(site, bed):
    rng, reports = random.Random(9), []
    await bed.register(topics=["t1", "late"])
    for number in range(60):
        missing = {f"name-{n}": rng.randint(1, 9) for n in rng.sample(range(6), rng.randint(0, 3))}
        front_end = rng.choice(["fe1", "fe2"])
        await StreamStore(bed.store).write_lookups(
            front_end, front_end, number + 1, 10_000, lookup_entries({"t1": 1}, missing)
        )  # fmt: skip
        reports.append((await bed.now_ms(), front_end, missing))
        await bed.let_pass(rng.randrange(1000, 240_000))
    kept = site.console.missing
    while sum(one.times for one in kept.names()) < sum(sum(missing.values()) for _, _, missing in reports):
        await kept.read()
    for _ in range(40):
        at = rng.randint(reports[0][0] - 1000, reports[-1][0] + 1000)
        wanted = {}
        for ms, front_end, missing in reports:
            if ms <= at:
                for name, times in missing.items():
                    before, where = wanted.get(name, (0, set()))
                    wanted[name] = before + times, where | {front_end}
        found = {one.name: (one.times, set(one.front_ends)) for one in await kept.names_by(at)}
        # a report may be a millisecond older than the clock was when it was noted here
        if not any(abs(ms - at) < 1000 for ms, _, _ in reports):
            assert found == wanted, at
            assert all(one.last_ms <= at for one in await kept.names_by(at))
    at = reports[30][0] + 500
    text = await site.get("/missing", at=at)
    assert ">Then<" in text
    assert "no topic" in text
    assert f'"/topics?at={at}"' in text


async def test_where_the_tables_of_then_are_not_known_the_rest_is(bed, tmp_path):
    await bed.register()
    await StreamStore(bed.store).write_lookups("fe1", "w1", 1, 10_000, lookup_entries({}, {"nobody": 3}))
    at = await bed.now_ms()
    await bed.let_pass(5000)
    await bed.kv.put("ns", "k", "1")
    await bed.kv.put("ns", "k", "2")
    await bed.redis("XTRIM", bed.key("changes"), "MAXLEN", 1)
    async with open_site(bed.store, tmp_path) as site:
        await site.until_seen(3)
        while not site.console.missing.names():
            await site.console.missing.read()
        for path, known in (("/missing", ">nobody<"), ("/front-ends", "gone (id fe1)<"), ("/streams", "heartbeats")):
            text = await site.get(path, at=at)
            assert "The tables of then are not known" in text
            assert "the past is known since then" in text
            assert known in text
        assert "The stream holds no change that was made by then" in await site.get("/changes", at=at)
        for path in ("/", "/brokers", "/topics", "/kv"):
            await site.get(path, 404, at=at)
        # a day later the stream of lookups, too, begins behind that instant
        await bed.redis("DEL", bed.key("lookups"))
        site.console.missing._due.set()
        await site.console.missing.read()
        assert "what was asked for in vain by then is not known any more" in await site.get("/missing", at=at)
