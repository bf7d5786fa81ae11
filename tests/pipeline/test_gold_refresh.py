"""From a lake to gold: in steps, killed, late, repeated, with Spark and without: always what the model says."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("pyarrow", reason="no pyarrow: pip install -e '.[spark]'")

import itertools

from mqregistry.pipeline import backfill, gold
from mqregistry.pipeline.gold import tables
from mqregistry.pipeline.lake.lake import Lake
from mqregistry.pipeline.lake.table import Table
from tests.pipeline import gold_model as model
from tests.pipeline.gold_lake import Written

HOUR, DAY = 3_600_000, 86_400_000
NOON = 1_767_268_800_000  # 2026-01-01T12:00Z


def addr(broker, start, end=None, *, broker_id=0, cluster="c1"):
    return {"broker_name": broker, "broker_id": broker_id, "cluster": cluster, "addr": f"{broker}:{broker_id}",
            "from_ms": start, "to_ms": end}  # fmt: skip


def queue(topic, broker, start, end=None, *, nums=8, perm=6, seq=5):
    return {"topic": topic, "broker_name": broker, "read_queue_nums": nums, "write_queue_nums": nums, "perm": perm,
            "from_ms": start, "to_ms": end, "from_seq": seq}  # fmt: skip


def event(seq, ms, kind, broker, **more):
    return {"seq": seq, "ms": ms, "type": kind, "broker_name": broker, "cluster": "c1", **more}


def beat(ms, who, *, interval_ms=30_000, kind="same", front_end="f1"):
    return {"ms": ms, "who": who, "front_end": front_end, "kind": kind, "interval_ms": interval_ms, "bytes": 9}


@pytest.fixture
def written(tmp_path):
    return Written(Lake(str(tmp_path)))


def rows(written, table, grain=None):
    found = gold.read(written.lake, table, written.namespace, written.epoch, grain=grain).to_pylist()
    return sorted(found, key=str)


def everything(written):
    return {table: rows(written, table) for table in tables.GOLD}


def ms(moment):
    return round(moment.timestamp() * 1000)


def by_period(found, key):
    return {(ms(row["period_start"]), row[key]): row for row in found}


def refresh(written, spark=None, **more):
    return gold.refresh(spark, written.lake, written.namespace, written.epoch, **more)


def test_worked_out_anew_the_old_figures_are_read_until_the_new_ones_are_whole(written, monkeypatch):
    now = NOON + 2 * HOUR
    written.silver(0, seq=9, ms=now, broker_addr=[addr("old", NOON)], queue_data=[queue("t", "old", NOON)])
    assert refresh(written)
    before = everything(written)
    written.silver(1, seq=9, ms=now, broker_addr=[addr("new", NOON + HOUR)], queue_data=[])
    seen = []

    def write(run):
        for made in all_tables(run):
            seen.append(everything(written))
            yield made

    all_tables = gold.build.GoldRun.write
    with monkeypatch.context() as patch:
        patch.setattr(gold.build.GoldRun, "write", write)
        patch.setattr(Table, "commit", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):  # killed when all is written
            refresh(written, from_scratch=True)
    assert len(seen) == len(before)
    assert all(each == before for each in [*seen, everything(written)])
    backfill.rebuild_gold(None, written.lake, written.namespace, written.epoch)
    assert {row["broker_name"] for row in rows(written, "broker")} == {"new"}
    assert rows(written, "topic") == []


def test_a_broker_gone_over_midnight_is_absent_in_every_hour_between(written):
    gone, back, now = NOON + 11 * HOUR, NOON + 13 * HOUR + 1, NOON + 14 * HOUR
    written.silver(
        0, seq=9, ms=now,
        broker_addr=[addr("a", NOON, gone), addr("a", back), addr("b", NOON, gone), addr("late", now - 1)],
        queue_data=[queue("t", "a", NOON, gone), queue("t", "a", back), queue("t", "b", NOON, gone)],
    )  # fmt: skip
    assert refresh(written)
    hours, days = (
        by_period(rows(written, "broker", "hour"), "broker_name"),
        by_period(rows(written, "broker", "day"), "broker_name"),
    )
    # gone exactly on the hour: that hour has the outage, the hour before is whole
    assert hours[gone - HOUR, "a"]["present_ms"] == HOUR
    assert (hours[gone, "a"]["observed_ms"], hours[gone, "a"]["present_ms"], hours[gone, "a"]["outages"]) == (
        HOUR,
        0,
        1,
    )
    assert hours[gone + HOUR, "a"]["availability"] == 0
    assert hours[gone + 2 * HOUR, "a"]["recovery_ms_max"] == back - gone
    midnight = gone + HOUR
    assert days[midnight, "a"]["present_ms"] == now - back
    assert days[midnight, "a"]["write_recovery_ms_mean"] == back - gone
    # b is gone for good: seen last in the hour that begins as it goes, and on the first day
    assert max(at for at, name in hours if name == "b") == gone
    assert {at for at, name in days if name == "b"} == {midnight - DAY}
    assert hours[now - HOUR, "late"]["observed_ms"] == 1
    assert hours[now - HOUR, "late"]["unwritable_spells"] == 1
    states = [(row["broker_name"], row["state"], ms(row["valid_from"])) for row in rows(written, "broker_state")]
    assert ("b", "absent", gone) in states
    assert ("a", "writable", back) in states


def test_lookups_make_topics_used_unused_and_missing(written):
    now = NOON + 2 * HOUR
    written.silver(
        0, seq=9, ms=now, broker_addr=[addr("a", NOON)],
        queue_data=[queue("used", "a", NOON), queue("idle", "a", NOON), queue("brief", "a", NOON + 5, NOON + 5)],
    )  # fmt: skip
    entry = {"ms": NOON + 10_000, "front_end": "f1", "since_ms": NOON, "found": {"used": 3}, "missing": {"typo": 2}}
    written.bronze("lookups", 0, [entry, {**entry, "ms": NOON + HOUR, "found": {"used": 1}}])
    written.bronze("lookups", 1, [entry])  # the same id again
    assert refresh(written)
    hours = by_period(rows(written, "topic", "hour"), "topic")
    assert [hours[NOON + n * HOUR, "used"]["lookups"] for n in (0, 1)] == [3, 1]
    assert hours[NOON, "brief"]["routable_ms"] == 0
    assert hours[NOON, "brief"]["changes"] == 2
    assert {row["topic"] for row in rows(written, "unused_topic", "day")} == {"idle"}
    day = by_period(rows(written, "missing_topic", "day"), "topic")
    assert day == {(NOON - NOON % DAY, "typo"): day[NOON - NOON % DAY, "typo"]}
    assert day[NOON - NOON % DAY, "typo"]["lookups"] == 4


def test_events_count_once_and_alarms_are_kept(written):
    now = NOON + HOUR
    written.silver(0, seq=5, ms=now, broker_addr=[addr("a", NOON)], queue_data=[])
    written.bronze(
        "changes", 0,
        [
            event(1, NOON, "broker_registered", "a"),
            event(2, NOON, "broker_registered", "a", part=2),
            event(3, NOON + 1, "broker_expired", "never seen"),
            {"seq": 4, "ms": NOON + 2, "type": "stream_alarm", "alarm": "lag", "reader": "p", "stream": "changes"},
            event(6, NOON + 3, "broker_closed", "a"),  # silver has not come to it yet
        ],
    )  # fmt: skip
    written.bronze("changes", 1, [event(1, NOON, "broker_registered", "a")])
    written.bronze("changes", 2, [event(5, NOON, "broker_reaped", "a")], commit=False)  # left behind by a killed job
    assert refresh(written)
    hours = by_period(rows(written, "broker", "hour"), "broker_name")
    assert [hours[NOON, "a"][name] for name in ("registrations", "closes", "reaps")] == [1, 0, 0]
    assert hours[NOON, "never seen"]["expiries"] == 1
    assert hours[NOON, "never seen"]["availability"] is None
    assert [(row["alarm"], row["stream"]) for row in rows(written, "alarm")] == [("lag", "changes")]


def test_what_a_snapshot_saw_is_no_change(written):
    written.snapshot(5)
    written.silver(0, seq=5, ms=NOON + 1, broker_addr=[addr("a", NOON)], queue_data=[queue("t", "a", NOON, seq=5)])
    assert refresh(written)
    assert [row["changes"] for row in rows(written, "topic")] == [0, 0]
    assert [row["changes"] for row in rows(written, "cluster")] == [0, 0]


def test_nothing_to_do_is_said(written):
    assert not refresh(written)
    assert rows(written, "broker") == []
    written.silver(0, seq=1, ms=NOON + 1, broker_addr=[addr("a", NOON)], queue_data=[])
    assert refresh(written)
    assert not refresh(written)
    assert refresh(written, flap_ms=5)


def test_a_refresh_reads_what_is_new_and_works_out_the_hours_that_it_touches(written, monkeypatch):
    day, entries, worked_out = NOON + 12 * HOUR, gold.inputs.Inputs.entries, []

    def hour(number):
        at = day + number * HOUR
        written.silver(
            number, seq=9, ms=at + HOUR, broker_addr=[addr("a", NOON)], queue_data=[queue("t", "a", NOON, nums=4)]
        )
        beats = [beat(ms_, "c1|a") for ms_ in range(at, at + HOUR, 30_000)]
        for stream, found in (("changes", []), ("heartbeats", beats)):
            written.bronze(stream, number, found)

    def counted(inputs, files, *arguments):
        worked_out.extend(file.path for file in files)
        yield from entries(inputs, files, *arguments)

    for number in range(20):
        hour(number)
    assert refresh(written)
    monkeypatch.setattr(gold.inputs.Inputs, "entries", counted)
    whens = []
    made = gold.build.GoldRun.__init__
    monkeypatch.setattr(gold.build.GoldRun, "__init__", lambda run, *of: (made(run, *of), whens.append(run._when))[0])
    hour(20)
    assert refresh(written)
    assert len(worked_out) == 1
    assert [when.count for when in whens] == [3], "the last two hours, and the end of the second"
    [row] = [row for row in rows(written, "heartbeat", "day") if ms(row["period_start"]) == day]
    assert (row["beats"], row["missed_beats"], row["interval_ms_p50"]) == (21 * 120, 0, 30_000)
    in_another_process = Written(Lake(written.lake.root))
    before = everything(written)
    assert refresh(in_another_process, now_ms=day + 21 * HOUR + 1)
    assert refresh(written, now_ms=day + 21 * HOUR + 2)
    assert len(everything(written)["topic"]) == len(before["topic"]) + 1, "another one wrote meanwhile"


def test_an_event_of_an_hour_that_was_over_counts_there(written):
    """The clock of Redis was set back."""
    for number, (seq, at) in enumerate([(1, NOON + 3 * HOUR + 5), (2, NOON + HOUR)]):
        written.silver(number, seq=seq, ms=NOON + 3 * HOUR + 5, broker_addr=[addr("a", NOON)], queue_data=[])
        written.bronze("changes", number, [event(seq, at, "broker_registered", "a")])
        assert refresh(written, now_ms=NOON + 4 * HOUR)
    hours = by_period(rows(written, "broker", "hour"), "broker_name")
    assert [hours[NOON + n * HOUR, "a"]["registrations"] for n in range(4)] == [0, 1, 0, 1]
    assert [row["registrations"] for row in rows(written, "broker", "day")] == [2]


def a_past(seed, *, end):
    """Rows and entries of random lives of three brokers."""
    chance = random.Random(seed)
    addrs, queues, events, beats, lookups, seq = [], [], [], [], [], 10
    for broker in ("a", "b", "c"):
        at = NOON + chance.randrange(HOUR)
        while at < end:
            off = at + chance.choice([60_000, HOUR, 5 * HOUR, 14 * HOUR])
            off = None if off > end else off
            seq += 1
            cluster = "c2" if broker == "c" else "c1"
            addrs.append(addr(broker, at, off, cluster=cluster))
            events.append(event(seq, at, "broker_registered", broker))
            for topic in ("t1", "t2"):
                middle = chance.choice([None, at + 30_000])
                queues.append(queue(topic, broker, at, middle or off, nums=chance.randrange(1, 9), seq=seq))
                if middle:
                    queues.append(queue(topic, broker, middle, off, perm=chance.choice([4, 6]), seq=seq))
            previous = -1
            for ms_ in range(at, min(off or end, at + 3 * HOUR), 600_000):
                beats.append(beat(ms_, f"{cluster}|{broker}", interval_ms=previous))
                previous = 600_000
            if off is None:
                break
            seq += 1
            events.append(event(seq, off, chance.choice(["broker_expired", "broker_closed"]), broker))
            at = off + chance.choice([0, 1000, 400_000, 20 * HOUR])
    for ms_ in range(NOON + 10_000, end, 50 * 60_000):
        lookups.append({"ms": ms_, "since_ms": ms_ - 1, "front_end": "f1", "found": {"t1": 2}, "missing": {"typo": 1}})
    return addrs, queues, events, sorted(beats, key=lambda entry: entry["ms"]), lookups


def seen_by(of, upto):
    """Silver's rows as of a moment."""
    return [
        {**row, "to_ms": row["to_ms"] if row["to_ms"] is not None and row["to_ms"] <= upto else None}
        for row in of if row["from_ms"] <= upto
    ]  # fmt: skip


def write_all(written, past, end):
    addrs, queues, *streams = past
    written.silver(0, seq=1000, ms=end, broker_addr=addrs, queue_data=queues)
    for stream, entries in zip(("changes", "heartbeats", "lookups"), streams, strict=True):
        written.bronze(stream, 0, entries)


def assert_same(found, expected):
    for table, wanted in expected.items():
        assert [row for row in found[table] if row not in wanted] == [], f"only in the first {table}"
        assert [row for row in wanted if row not in found[table]] == [], f"only in the second {table}"
        assert len(found[table]) == len(wanted)


@pytest.mark.parametrize("seed", range(6))
def test_in_steps_gold_comes_to_the_same_as_at_once_and_as_the_model(tmp_path, monkeypatch, seed):
    end = NOON + 40 * HOUR
    past = a_past(seed, end=end)
    addrs, queues, events, beats, lookups = past
    at_once, in_steps = Written(Lake(str(tmp_path / "once"))), Written(Lake(str(tmp_path / "steps")))
    chance = random.Random(seed)
    steps = sorted(
        [chance.randrange(NOON + 2 * HOUR, end) for _ in range(6)] + [NOON + 12 * HOUR, NOON + 15 * HOUR, end]
    )
    before = 0
    for number, upto in enumerate(steps):
        silver = {"broker_addr": seen_by(addrs, upto), "queue_data": seen_by(queues, upto)}
        in_steps.silver(number, seq=1000, ms=upto, **silver)
        for stream, entries in (("changes", events), ("heartbeats", beats), ("lookups", lookups)):
            in_steps.bronze(stream, number, [entry for entry in entries if before < entry["ms"] <= upto])
        if number == seed:  # killed at the last moment: all is written, nothing counts
            with monkeypatch.context() as patch:
                patch.setattr(Lake, "set_state", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
                with pytest.raises(KeyboardInterrupt):
                    refresh(in_steps)
        assert refresh(in_steps)
        before = upto
    write_all(at_once, past, end)
    assert refresh(at_once)
    whole = everything(at_once)
    assert_same(everything(in_steps), whole)
    # late and repeated entries change nothing
    in_steps.bronze("heartbeats", 19, beats[:5])
    in_steps.bronze("lookups", 19, [lookups[0]])
    refresh(in_steps)
    assert_same(everything(in_steps), whole)

    expected = coarse_model(addrs, queues, end)
    for grain, step in (("hour", HOUR), ("day", DAY)):
        found = by_period(rows(at_once, "broker", grain), "broker_name")
        times = {
            place: tuple(row[name] for name in ("observed_ms", "present_ms", "writable_ms"))
            for place, row in found.items() if row["observed_ms"]
        }  # fmt: skip
        assert times == expected(step)
        found = by_period(rows(at_once, "heartbeat", grain), "who")
        for place, figures in model.beat_rows(beats_with_names(beats), first=NOON, now=end, step=step).items():
            for name in ("beats", "interval_ms_p50", "interval_ms_p99", "interval_ms_max", "missed_beats"):
                assert found[place][name] == figures[name], (place, name)


@pytest.mark.spark
def test_on_spark_gold_comes_to_the_same(spark, tmp_path, monkeypatch):
    from mqregistry.pipeline.gold import on_spark

    monkeypatch.setattr(on_spark, "GROUP_ROWS", 100)  # several groups
    end = NOON + 40 * HOUR
    past = a_past(1, end=end)
    past[2].append({"seq": 999, "ms": end - 5, "type": "stream_alarm", "alarm": "lag", "reader": "p"})
    here, there = Written(Lake(str(tmp_path / "here"))), Written(Lake(str(tmp_path / "there")))
    for written in (here, there):
        write_all(written, past, end)
    assert refresh(here)
    assert refresh(there, spark, spark_from_rows=0)
    assert_same(everything(there), everything(here))


def beats_with_names(beats):
    return [{"broker_name": None, **entry} for entry in beats]


def coarse_model(addrs, queues, now):
    """Observed, present and writable time per period: between any two changes nothing changes."""

    def per(step):
        marks = sorted(
            {row[name] for row in addrs + queues for name in ("from_ms", "to_ms") if row[name] is not None}
            | set(range(NOON // step * step, now, step)) | {now}
        )  # fmt: skip
        found = {}
        for broker in ("a", "b", "c"):
            lives = [row for row in addrs if row["broker_name"] == broker]
            first = min(row["from_ms"] for row in lives)
            gone = max((row["to_ms"] if row["to_ms"] is not None else model.FOREVER) for row in lives)
            until = min(now, (gone // step + 1) * step)
            for start, end in itertools.pairwise(marks):
                if first <= start < until:
                    state = model.state_at(addrs, queues, broker, start)
                    total = found.setdefault((start // step * step, broker), [0, 0, 0])
                    total[0] += end - start
                    total[1] += (end - start) * (state != "absent")
                    total[2] += (end - start) * (state == "writable")
        return {place: tuple(total) for place, total in found.items()}

    return per


def test_epochs_are_kept_apart(tmp_path):
    lake = Lake(str(tmp_path))
    for epoch, start in (("later", NOON + DAY), ("earlier", NOON)):
        written = Written(lake, epoch=epoch)
        written.silver(0, seq=1, ms=start + 5, broker_addr=[addr(epoch, start)], queue_data=[])
        assert refresh(written)
    assert tables.epochs(lake, "default") == ["earlier", "later"]
    assert {row["broker_name"] for row in gold.read(lake, "broker", "default", "later").to_pylist()} == {"later"}
