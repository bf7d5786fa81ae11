"""The journal's streams: who reads them holds them, up to a hard limit that tells."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
import redis

from mqregistry.config.settings import Settings
from mqregistry.errors import StoreError
from mqregistry.events import journal
from mqregistry.events.changes import StreamAlarm, decode_change
from mqregistry.store import keys, scripts
from mqregistry.store.streams import Alarm, StreamLimits, StreamStore, Trimmed, acknowledge_with, lookup_entries
from mqregistry.worker.trim import limits_of

from .bed import acknowledge

HOUR_MS = 3_600_000
ROOMY = StreamLimits(10 * HOUR_MS, 10_000_000, 0, 20_000_000, 0)


@pytest.fixture
def streams(store):
    return StreamStore(store)


def limits(**of_stream):
    return {name: of_stream.get(name, ROOMY) for name in journal.STREAMS}


async def trim(streams, most=10_000, timeout_ms=HOUR_MS, **of_stream):
    """Until there is no more to trim: what was removed, and every alarm."""
    removed, alarms = 0, []
    while True:
        done = await streams.trim(limits(**of_stream), reader_timeout_ms=timeout_ms, most=most)
        assert done.removed <= most
        removed, alarms = removed + done.removed, alarms + done.alarms
        if not done.more:
            return Trimmed(removed, False, alarms)


async def put(bed, count, size=1):
    """So many changes."""
    last = None
    for number in range(count):
        last = await bed.kv.put("n", "k", f"{number}".ljust(size, "x"))
    return last


async def ids(bed, stream="changes"):
    return [entry_id.decode() for entry_id, _ in await bed.store.client.xrange(bed.key(stream))]


async def alarms_told(bed):
    return [(e.alarm, e.stream, e.reader) for e in await bed.events() if e.type == StreamAlarm.type]


# what is kept


async def test_nothing_goes_within_the_limits(bed, streams):
    await put(bed, 250)
    assert await trim(streams) == Trimmed(0, False, [])
    assert len(await ids(bed)) == 250


async def test_what_is_too_many_goes_oldest_first_and_never_below_the_limit(bed, streams):
    await put(bed, 1000)
    before = await ids(bed)
    done = await trim(streams, changes=ROOMY._replace(entries=300))
    left = await ids(bed)
    assert left == before[-len(left) :]
    assert 300 <= len(left) <= 400, "whole nodes of 100 entries go"
    assert done.removed == 1000 - len(left)


async def test_what_is_too_old_goes_but_for_the_last_entry(bed, streams):
    await put(bed, 350)
    await bed.move_clock(11 * HOUR_MS)
    await bed.events()
    await trim(streams)
    left = await ids(bed)
    assert 1 <= len(left) <= 100
    assert decode_change((await bed.store.client.xrevrange(bed.key("changes"), count=1))[0][1][b"e"]).seq == 350


async def test_bytes_are_counted_and_kept_within_the_limit(bed, streams):
    await put(bed, 100)
    await put(bed, 60, size=10_000)
    survey = await streams.survey()
    texts = [len(fields[b"e"]) for _, fields in await bed.store.client.xrange(bed.key("changes"))]
    assert abs(survey.streams["changes"].bytes - sum(texts)) < 40 * len(texts), "but for the member itself"
    await trim(streams, changes=ROOMY._replace(bytes=300_000, hard_bytes=600_000))
    left = (await streams.survey()).streams["changes"]
    assert 200_000 <= left.bytes <= 310_000
    assert left.entries == len(await ids(bed))


async def test_heartbeats_are_kept_within_bytes_too(bed, streams):
    """B3: entries with names as long as somebody liked; a reader that runs holds them until the hard limit."""
    for number in range(600):
        await bed.store.client.xadd(bed.key("heartbeats"), {"e": f'{{"n":{number},"who":"{"x" * 2000}"}}'})
    used = await bed.redis("MEMORY", "USAGE", bed.key("heartbeats"), "SAMPLES", 0)
    assert used > 1_000_000
    await acknowledge(streams, "r", {"heartbeats": "0-0"})
    await trim(streams, heartbeats=ROOMY._replace(bytes=200_000, hard_bytes=800_000))
    assert 600_000 < await bed.redis("MEMORY", "USAGE", bed.key("heartbeats"), "SAMPLES", 0) <= 810_000
    await streams.forget_reader("r")
    await trim(streams, heartbeats=ROOMY._replace(bytes=200_000, hard_bytes=800_000))
    assert 100_000 < await bed.redis("MEMORY", "USAGE", bed.key("heartbeats"), "SAMPLES", 0) <= 210_000


async def test_a_trim_removes_no_more_than_it_may_and_says_that_there_is_more(bed, streams):
    await put(bed, 1000)
    done = await streams.trim(limits(changes=ROOMY._replace(entries=100)), reader_timeout_ms=1, most=200)
    assert done.more
    assert 100 <= done.removed <= 200


async def test_hard_limits_are_kept_by_every_write(bed, streams):
    await acknowledge(streams, "r", {"changes": "0-0"})
    await trim(streams, changes=ROOMY._replace(hard_entries=200), heartbeats=ROOMY._replace(hard_entries=100))
    r = await bed.register()
    await put(bed, 1000)
    assert 200 <= len(await ids(bed)) <= 300
    for _ in range(400):
        await bed.fe1.register(r, connection=r.broker_addr)
    assert 100 <= len(await bed.beats()) <= 200


def test_limits_that_no_sweeper_has_set_yet_are_those_of_the_settings():
    by_default = limits_of(Settings())
    said = " ".join(str(by_default[name].hard_entries) for name in journal.STREAMS)
    assert f'"{said}"' in scripts.load()["heartbeat"].source


# readers


async def test_a_running_reader_holds_what_it_has_not_acknowledged_and_its_own_entry(bed, streams):
    await put(bed, 500)
    before = await ids(bed)
    await acknowledge(streams, "slow", {"changes": before[150]})
    await acknowledge(streams, "quick", {"changes": before[450]})
    await bed.move_clock(30 * 60_000)
    small = ROOMY._replace(entries=10)
    await trim(streams, changes=small)
    assert set(before[150:]) <= set(await ids(bed))
    assert len(await ids(bed)) < 450, "and what both have goes"
    await acknowledge(streams, "slow", {"changes": before[460]})
    await trim(streams, changes=small)
    left = await ids(bed)
    assert set(before[450:]) <= set(left)
    assert len(left) <= 150


async def test_a_reader_that_has_nothing_yet_holds_everything(bed, streams):
    await acknowledge(streams, "new", {"changes": "0-0"})
    await put(bed, 500)
    await bed.move_clock(20 * HOUR_MS)
    await acknowledge(streams, "new", {})
    assert (await trim(streams, changes=ROOMY._replace(entries=10))) == Trimmed(0, False, [])


async def test_streams_are_held_one_by_one(bed, streams):
    r = await bed.register()
    for _ in range(300):
        await bed.fe1.register(r, connection=r.broker_addr)
    await put(bed, 300)
    await acknowledge(streams, "r", {"heartbeats": "0-0"})
    await trim(streams, changes=ROOMY._replace(entries=10), heartbeats=ROOMY._replace(entries=10))
    assert len(await bed.beats()) == 301
    assert len(await ids(bed)) <= 110


async def test_an_older_acknowledgement_that_comes_late_changes_nothing(bed, streams):
    await put(bed, 10)
    entries = await ids(bed)
    await acknowledge(streams, "r", {"changes": entries[7]})
    await acknowledge(streams, "r", {"changes": entries[3]})
    await acknowledge(streams, "r", {"changes": "0-0"})
    assert (await streams.survey()).readers["r"].positions["changes"].id == entries[7]


async def test_survey_says_how_far_each_reader_is(bed, streams):
    await put(bed, 100)
    entries = await ids(bed)
    await acknowledge(streams, "r", {"changes": entries[70]})
    await acknowledge(streams, "at the end", {"changes": entries[-1]})
    survey = await streams.survey()
    assert survey.streams["changes"].entries == 100
    assert (survey.streams["changes"].first, survey.streams["changes"].last) == (entries[0], entries[-1])
    position = survey.readers["r"].positions["changes"]
    assert (position.id, position.behind, position.state) == (entries[70], 29, "")
    assert 29 * 40 < position.behind_bytes < 29 * 200
    assert survey.readers["at the end"].positions["changes"].behind == 0
    assert abs(survey.readers["r"].seen_ms - survey.now_ms) < 10_000


async def test_a_silent_reader_holds_nothing_back_and_that_is_told_once(bed, streams):
    await put(bed, 300)
    await acknowledge(streams, "r", {"changes": "0-0"})
    await bed.move_clock(2 * HOUR_MS)
    await bed.events()
    done = await trim(streams, changes=ROOMY._replace(entries=10))
    assert done.alarms == [Alarm("silent", "-", "r"), Alarm("lost", "changes", "r")]
    assert done.removed > 0
    assert await alarms_told(bed) == [("silent", None, "r"), ("lost", "changes", "r")]
    assert (await trim(streams, changes=ROOMY._replace(entries=10))).alarms == []
    assert (await streams.survey()).readers["r"].silent
    # it comes back, with what it had missed taken from the tables
    await acknowledge(streams, "r", {"changes": (await ids(bed))[-1]})
    assert (await trim(streams)).alarms == []
    reader = (await streams.survey()).readers["r"]
    assert (reader.silent, reader.positions["changes"].state) == (False, "")
    await bed.move_clock(2 * HOUR_MS)
    assert (await trim(streams)).alarms == [Alarm("silent", "-", "r")], "another occurrence"


async def test_a_reader_far_behind_is_told_of_before_it_loses_anything_and_again_when_it_has(bed, streams):
    await acknowledge(streams, "r", {"changes": "0-0"})
    hard = ROOMY._replace(entries=100, hard_entries=500)
    await put(bed, 390)
    assert (await trim(streams, changes=hard)).alarms == []
    await put(bed, 20)
    await bed.events()
    assert (await trim(streams, changes=hard)).alarms == [Alarm("near", "changes", "r")]
    assert (await trim(streams, changes=hard)).alarms == []
    assert len(await ids(bed)) >= 410, "nothing was trimmed"
    await put(bed, 300)
    done = await trim(streams, changes=hard)
    assert done.alarms == [Alarm("lost", "changes", "r")]
    assert len(await ids(bed)) <= 600
    assert await alarms_told(bed) == [("near", "changes", "r"), ("lost", "changes", "r")]


async def test_a_reader_that_catches_up_may_be_told_of_again(bed, streams):
    await acknowledge(streams, "r", {"changes": "0-0"})
    hard = ROOMY._replace(entries=100, hard_entries=500)
    for _ in range(2):
        await put(bed, 420)
        assert (await trim(streams, changes=hard)).alarms == [Alarm("near", "changes", "r")]
        await acknowledge(streams, "r", {"changes": (await ids(bed))[-1]})
        assert (await trim(streams, changes=hard)).alarms == []


async def test_hard_bytes_go_before_readers_and_are_told(bed, streams):
    await acknowledge(streams, "r", {"changes": "0-0"})
    hard = ROOMY._replace(bytes=100_000, hard_bytes=200_000)
    await put(bed, 17, size=10_000)
    assert (await trim(streams, changes=hard)).alarms == [Alarm("near", "changes", "r")]
    await put(bed, 30, size=10_000)
    done = await trim(streams, changes=hard)
    assert done.alarms == [Alarm("lost", "changes", "r")]
    assert (await streams.survey()).streams["changes"].bytes <= 220_000


async def test_a_stream_that_vanished_is_told_to_its_readers(bed, streams):
    await put(bed, 10)
    await acknowledge(streams, "r", {"changes": (await ids(bed))[5]})
    await bed.redis("DEL", bed.key("changes"))
    assert (await trim(streams)).alarms == [Alarm("lost", "changes", "r")]


async def test_a_redis_that_lost_its_last_writes_is_told_to_who_had_read_them(bed, streams):
    await put(bed, 10)
    last = (await ids(bed))[-1]
    await acknowledge(streams, "r", {"changes": last})
    await bed.redis("XDEL", bed.key("changes"), last)
    assert (await trim(streams)).alarms == [Alarm("lost", "changes", "r")]
    # it begins anew from what there is: an id that is older, but no late word from before
    await bed.redis("XTRIM", bed.key("changes"), "MAXLEN", "1")
    first = (await ids(bed))[0]
    await acknowledge(streams, "r", {"changes": first})
    assert (await trim(streams)).alarms == []


async def test_a_redis_that_came_back_empty_knows_no_reader_and_refuses_the_epoch_of_before(bed, streams):
    await put(bed, 300)
    head, entries = await bed.head(), await ids(bed)
    await acknowledge(streams, "r", {"changes": entries[9]}, epoch=head.epoch)
    for key in await bed.store.client.keys(bed.prefix + "*"):
        await bed.redis("DEL", key)
    await put(bed, 5)
    assert (await streams.survey()).readers == {}
    with pytest.raises(StoreError, match=f"r has read entries of epoch {head.epoch}.*emptied or replaced"):
        await acknowledge(streams, "r", {"changes": entries[9]}, epoch=head.epoch)
    # who does not say which one it read is told at the next trim
    await acknowledge(streams, "r", {"changes": entries[9]})
    assert (await trim(streams)).alarms == [Alarm("lost", "changes", "r")]


async def test_forgotten_readers_hold_nothing(bed, streams):
    await put(bed, 300)
    await acknowledge(streams, "r", {"changes": "0-0"})
    assert await streams.forget_reader("r")
    assert not await streams.forget_reader("r")
    assert (await trim(streams, changes=ROOMY._replace(entries=10))).removed > 0
    assert (await streams.survey()).readers == {}


async def test_any_number_of_trims_at_once_do_the_same_as_one(bed, streams):
    await put(bed, 600)
    await acknowledge(streams, "r", {"changes": (await ids(bed))[300]})
    await acknowledge(streams, "gone", {"changes": "0-0"})
    await bed.move_clock(2 * HOUR_MS)
    await acknowledge(streams, "r", {})
    await bed.events()
    done = await asyncio.gather(*(trim(streams, changes=ROOMY._replace(entries=10)) for _ in range(8)))
    kept = len(await ids(bed)) - len(told := await alarms_told(bed))
    assert sum(one.removed for one in done) == 600 - kept
    assert kept >= 300
    assert sorted(told) == [("lost", "changes", "gone"), ("silent", None, "gone")]


@pytest.mark.parametrize(
    ("reader", "stream", "entry_id", "said"),
    [
        ("", "changes", "0-0", "1 to 200 bytes"),
        ("r" * 201, "changes", "0-0", "1 to 200 bytes, this one has 201"),
        ("r", "change", "0-0", "no stream change: there are changes, heartbeats, lookups"),
        ("r", "changes", "latest", "no entry id: 'latest'"),
        ("r", "changes", "5", "no entry id: '5'"),
    ],
)
async def test_bad_acknowledgements_are_refused_and_leave_nothing(streams, reader, stream, entry_id, said):
    with pytest.raises(StoreError, match=said):
        await acknowledge(streams, reader, {"heartbeats": "0-0", stream: entry_id})
    assert (await streams.survey()).readers == {}


async def test_there_is_an_end_to_how_many_readers_there_are(streams):
    for number in range(200):
        await acknowledge(streams, f"r{number}", {"changes": "0-0"})
    with pytest.raises(StoreError, match="200 readers already: forget those that are gone"):
        await acknowledge(streams, "one more", {"changes": "0-0"})
    await acknowledge(streams, "r7", {"changes": "0-0"})


async def test_a_plain_client_may_acknowledge(bed, streams, redis_url):
    await put(bed, 3)
    last = (await ids(bed))[-1]
    with redis.Redis.from_url(redis_url) as client:
        client.script_flush()
        for _ in range(2):  # without the script, and with it
            acknowledge_with(client, bed.store.namespace, "spark", {"changes": last}, epoch=(await bed.head()).epoch)
        with pytest.raises(StoreError, match="MQREADER"):
            acknowledge_with(client, bed.store.namespace, "spark", {"nothing": last})
    assert (await streams.survey()).readers["spark"].positions["changes"].id == last


# lookups


async def lookups(bed):
    entries = await bed.store.client.xrange(keys.lookups(bed.store.namespace))
    return [journal.decode_lookups(fields[b"e"]) for _, fields in entries]


async def test_lookups_are_written_once_however_often_they_are_sent(bed, streams):
    entries = lookup_entries({"t1": 5, "t2": 1}, {"nothing": 2, 'a"b': 1})
    for _ in range(3):
        await streams.write_lookups("fe1", "w1", 7, 10_000, entries)
    await streams.write_lookups("fe1", "w1", 6, 10_000, entries)
    (entry,) = await lookups(bed)
    assert (entry.front_end, entry.found, entry.missing) == ("fe1", {"t1": 5, "t2": 1}, {"nothing": 2, 'a"b': 1})
    assert entry.ms - entry.since_ms == 10_000
    assert abs(entry.ms - await bed.now_ms()) < 10_000
    await streams.write_lookups("fe1", "w1", 8, 10_000, entries)
    await streams.write_lookups("fe1", "w2", 7, 10_000, entries)
    assert len(await lookups(bed)) == 3


async def test_lookups_of_many_topics_come_in_entries_that_are_not_too_large(bed, streams):
    found = {f"topic-{number}": number + 1 for number in range(1700)}
    missing = {f"missing-{number}".ljust(250, "x"): 1 for number in range(300)}
    await streams.write_lookups("fe1", "w1", 1, 1, lookup_entries(found, missing))
    written = await lookups(bed)
    assert {topic: count for entry in written for topic, count in entry.found.items()} == found
    assert {topic: count for entry in written for topic, count in entry.missing.items()} == missing
    assert all(len(entry.found) + len(entry.missing) <= 500 for entry in written)
    assert max(len(msgspec.json.encode(entry)) for entry in written) < 34_000
    state = (await streams.survey()).streams["lookups"]
    assert state.entries == len(written)
    assert state.bytes == pytest.approx(sum(len(msgspec.json.encode(entry)) for entry in written), rel=0.02)


def test_no_lookup_is_no_entry():
    assert lookup_entries({}, {}) == []


# heartbeats


async def test_every_heartbeat_says_who_over_what_and_how_long_after_the_last(bed):
    r = await bed.register()
    await bed.move_clock(30_000)
    await bed.fe2.register(r, connection="b")
    await bed.move_clock(10_000)
    await bed.routes.touch_broker(r.cluster, r.broker_addr, bed.fe1.channel("c"), 17)
    entries = await bed.store.client.xrange(bed.key("heartbeats"))
    first, second, third = (journal.decode_heartbeat(fields[b"e"]) for _, fields in entries)
    assert {beat.who for beat in (first, second, third)} == {f"c1|{r.broker_addr}"}
    assert [beat.front_end for beat in (first, second, third)] == ["fe1", "fe2", "fe1"]
    assert [beat.kind for beat in (first, second, third)] == ["changed", "same", "touch"]
    assert [beat.broker_name for beat in (first, second, third)] == ["broker-a", "broker-a", ""]
    assert [beat.bytes for beat in (first, second, third)] == [100, 100, 17]
    assert first.interval_ms == -1
    assert 30_000 <= second.interval_ms < 40_000
    assert second.interval_ms == second.ms - first.ms
    assert third.interval_ms == third.ms - second.ms


def test_each_stream_has_its_entries():
    assert journal.decode("changes", b'{"seq":1,"ms":2,"type":"x"}').seq == 1
    assert journal.decode("heartbeats", b'{"ms":2,"who":"c|a","front_end":"f","kind":"same"}').kind == "same"
    assert journal.decode("lookups", b'{"ms":2,"front_end":"f","since_ms":1}').found == {}
