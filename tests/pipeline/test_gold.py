"""Gold on Spark: in steps, killed, with gaps, late: always what the plain model says, and what comes out at once."""

from __future__ import annotations

import itertools
import random

import pytest

pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")

from mqregistry.pipeline.gold import refresh as work
from mqregistry.pipeline.lake.lake import Lake
from tests.pipeline import gold_model as model
from tests.pipeline.gold_lake import (  # fmt: skip
    DAY,
    HOUR,
    NOON,
    Written,
    a_past,
    addr,
    beat,
    by_period,
    event,
    everything,
    ms,
    queue,
    refresh,
    rows,
    seen_by,
)

MINUTE = 60_000
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("empty_tables")]


def assert_same(found, expected):
    for table, wanted in expected.items():
        assert [row for row in found[table] if row not in wanted] == [], f"only in the first {table}"
        assert [row for row in wanted if row not in found[table]] == [], f"only in the second {table}"
        assert len(found[table]) == len(wanted)


class Losing:
    """What a past leaves in a lake when all changes of one span are lost, and the heartbeats of another."""

    def __init__(self, past, hole, lost):
        self.hole, self.lost = hole, lost
        self.addrs, self.queues = (
            [row for row in map(self._found, rows_) if row["from_ms"] != row["to_ms"]] for rows_ in past[:2]
        )
        _, _, events, beats, lookups = past
        self.streams = {
            "changes": [entry for entry in events if not hole[0] < entry["ms"] <= hole[1]],
            "heartbeats": [entry for entry in beats if not lost[0] < entry["ms"] < lost[1]],
            "lookups": lookups,
        }

    def _found(self, row):
        """What changed in the hole is seen at its end."""
        start, end = self.hole
        moments = {name: end if row[name] is not None and start < row[name] < end else row[name]
                   for name in ("from_ms", "to_ms")}  # fmt: skip
        return {**row, **moments}

    def write(self, written, number, after, upto):
        """What the lake has at a moment, if it had all up to ``after`` before."""
        start, end = self.hole
        known = start if start < upto < end else upto
        gaps = [("changes", *self.hole)] * (end <= upto) + [("heartbeats", *self.lost)] * (self.lost[1] <= upto)
        written.silver(number, seq=1000, ms=known, gaps=gaps, broker_addr=seen_by(self.addrs, known),
                       queue_data=seen_by(self.queues, known))  # fmt: skip
        for stream, entries in self.streams.items():
            written.bronze(stream, [entry for entry in entries if after < entry["ms"] <= upto])


@pytest.mark.long
def test_in_steps_with_gaps_gold_comes_to_the_same_as_at_once(tmp_path, monkeypatch):
    seed, end = 3, NOON + 30 * HOUR
    chance = random.Random(seed)
    past = a_past(seed, end=end)
    past[2].append({"seq": 999, "ms": end - 5, "type": "stream_alarm", "alarm": "lag", "reader": "p"})
    hole = NOON + 5 * HOUR + 700_000, NOON + 7 * HOUR + 700_000
    losing = Losing(past, hole, (NOON + HOUR, NOON + 2 * HOUR))
    at_once, in_steps = Written(Lake(str(tmp_path / "once"))), Written(Lake(str(tmp_path / "steps")))
    steps = [NOON + 4 * HOUR, NOON + chance.randrange(12 * HOUR, 14 * HOUR), NOON + 22 * HOUR, end]
    after = 0
    for number, upto in enumerate(steps):
        losing.write(in_steps, number, after, upto)
        since_ms = min(after, hole[0]) if after < hole[1] <= upto else after
        if number == 2:  # killed before the last table was written
            with monkeypatch.context() as patch:
                patch.setattr(work.GoldRun, "_write", killed_at("heartbeat", work.GoldRun._write))
                with pytest.raises(KeyboardInterrupt):
                    refresh(in_steps, since_ms=since_ms, now_ms=upto)
        assert refresh(in_steps, since_ms=since_ms, now_ms=upto)
        after = upto
    losing.write(at_once, 0, 0, end)
    assert refresh(at_once, now_ms=end)
    whole = everything(at_once)
    assert all(whole.values()), "every table has rows"
    assert {row["state"] for row in whole["broker_state"]} > {"unknown", "writable"}
    assert_same(everything(in_steps), whole)


def killed_at(table, write):
    def killed(run, name, *of):
        if name == table:
            raise KeyboardInterrupt
        write(run, name, *of)

    return killed


def test_gold_is_what_the_plain_model_says(tmp_path):
    end = NOON + 26 * HOUR
    addrs, queues, events, beats, lookups = a_past(1, end=end)
    written = Written(Lake(str(tmp_path)))
    written.silver(0, seq=1000, ms=end, broker_addr=addrs, queue_data=queues)
    for stream, entries in (("changes", events), ("heartbeats", beats), ("lookups", lookups)):
        written.bronze(stream, entries)
    assert refresh(written)
    expected = coarse_model(addrs, queues, end)
    for grain, step in (("hour", HOUR), ("day", DAY)):
        found = by_period(rows(written, "broker", grain), "broker_name")
        times = {
            place: tuple(row[name] for name in ("observed_ms", "present_ms", "writable_ms"))
            for place, row in found.items() if row["observed_ms"]
        }  # fmt: skip
        assert times == expected(step)
        found = by_period(rows(written, "heartbeat", grain), "who")
        named = [{"broker_name": None, **entry} for entry in beats]
        for place, figures in model.beat_rows(named, first=NOON, now=end, step=step).items():
            for name in ("beats", "interval_ms_p50", "interval_ms_p99", "interval_ms_max", "missed_beats"):
                assert found[place][name] == figures[name], (place, name)


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


def test_cases_that_can_be_worked_out_by_hand(tmp_path):
    """One lake of many brokers and topics, of which each is a case."""
    written = Written(Lake(str(tmp_path)))
    gone, back, now = NOON + 11 * HOUR, NOON + 13 * HOUR + 1, NOON + 14 * HOUR
    hole = NOON + 30 * MINUTE, NOON + 4 * HOUR + 30 * MINUTE
    ahead = (3, NOON + 13 * HOUR, NOON + 2 * MINUTE)
    addrs = [
        addr("night", hole[1], gone), addr("night", back), addr("gone", hole[1], gone), addr("late", now - 1),
        addr("stays", NOON), addr("ends", NOON, hole[1]), addr("away", NOON, NOON + 20 * MINUTE),
        addr("away", hole[1]),
    ]  # fmt: skip
    for number in range(4):  # the clock was set back: it left one cluster and joined the other in one moment
        moved = [{**addr(f"moved-{number}", back, back), "from_seq": 3},
                 {**addr(f"moved-{number}", back, back + 9, cluster="c2"), "from_seq": 4}]  # fmt: skip
        addrs += moved if number % 2 else reversed(moved)
    written.silver(
        0, seq=5, ms=now, gaps=[("changes", *hole), ("heartbeats", NOON + 10 * MINUTE, NOON + 30 * MINUTE)],
        steps=[ahead], broker_addr=addrs,
        broker_row=[{key: row[key] for key in ("broker_name", "cluster", "from_ms", "to_ms")} for row in addrs],
        queue_data=[
            queue("used", "night", hole[1], gone), queue("used", "night", back), queue("idle", "gone", hole[1], gone),
            queue("t", "stays", NOON), queue("t", "ends", NOON, hole[1]), queue("brief", "stays", back + 5, back + 5),
            queue("uneven", "stays", back, nums=12, seq=0), queue("uneven", "away", back, nums=4, seq=0),
        ],
    )  # fmt: skip
    written.bronze(
        "changes",
        [
            event(1, NOON, "broker_registered", "stays"), event(1, NOON, "broker_registered", "stays", part=2),
            event(2, ahead[1], "broker_closed", "stays"), event(3, ahead[2], "broker_reaped", "stays"),
            event(4, NOON + 1, "broker_expired", "never seen"),
            {"seq": 5, "ms": NOON + 2, "type": "stream_alarm", "alarm": "lag", "reader": "p", "stream": "changes"},
            event(6, NOON + 3, "broker_unregistered", "stays"),  # silver has not come to it yet
        ],
    )  # fmt: skip
    beats = [at for at in range(0, HOUR, 30_000) if not 10 * MINUTE < at < 30 * MINUTE]
    # registrations and heartbeats, each every 30 s: no pause is longer than usual, though half are 10 s
    twice = [beat(NOON + at + also, "c1|both", kind="touch" if also else "same")
             for at in range(0, HOUR, 30_000) for also in (0, 10_000)]  # fmt: skip
    written.bronze("heartbeats", sorted([beat(NOON + at, "c1|stays:0") for at in beats] + twice, key=lambda e: e["ms"]))
    asked = {"front_end": "f1", "since_ms": NOON, "missing": {"typo": 2}}
    written.bronze("lookups", [{**asked, "ms": back + 10, "found": {"used": 3}}])
    assert refresh(written)

    moved = [row for row in rows(written, "broker_state") if row["broker_name"].startswith("moved-")]
    assert [(row["cluster"], row["state"]) for row in moved] == [("c2", "absent"), ("c2", "read_only")] * 4
    hours, days = (by_period(rows(written, "broker", grain), "broker_name") for grain in ("hour", "day"))
    assert hours[gone - HOUR, "night"]["present_ms"] == HOUR, "gone exactly on the hour"
    assert [hours[gone, "night"][name] for name in ("observed_ms", "present_ms", "outages")] == [HOUR, 0, 1]
    assert hours[gone + HOUR, "night"]["availability"] == 0
    assert hours[gone + 2 * HOUR, "night"]["recovery_ms_max"] == back - gone
    midnight = gone + HOUR
    assert days[midnight, "night"]["present_ms"] == now - back
    assert max(at for at, name in hours if name == "gone") == gone, "gone for good"
    assert {at for at, name in days if name == "gone"} == {midnight - DAY}
    assert [hours[now - HOUR, "late"][name] for name in ("observed_ms", "unwritable_spells")] == [1, 1]
    assert [hours[NOON, "stays"][name] for name in ("registrations", "closes", "reaps", "unregistrations")] == [
        1,
        1,
        1,
        0,
    ]
    assert hours[NOON, "never seen"]["availability"] is None
    assert [(row["alarm"], row["stream"]) for row in rows(written, "alarm")] == [("lag", "changes")]

    # what a hole hides is unknown
    assert hours[NOON, "stays"]["observed_ms"] == 30 * MINUTE
    assert (NOON + 2 * HOUR, "stays") not in hours
    day = NOON - NOON % DAY
    assert days[day, "ends"]["present_ms"] == 30 * MINUTE
    assert (days[day, "ends"]["outages"], days[day, "away"]["outages"], days[day, "away"]["recoveries"]) == (0, 1, 0)
    states = [(row["broker_name"], row["state"], ms(row["valid_from"])) for row in rows(written, "broker_state")]
    assert {name for name, state, since in states if (state, since) == ("unknown", hole[0])} == {
        "stays",
        "ends",
        "away",
    }
    topics = by_period(rows(written, "topic", "hour"), "topic")
    assert (topics[NOON, "t"]["routable_ms"], topics[NOON + 4 * HOUR, "t"]["writable_ms"]) == (1_800_000, 1_800_000)
    assert (NOON + 2 * HOUR, "t") not in topics
    clusters = by_period(rows(written, "cluster", "hour"), "cluster")
    assert (NOON + 2 * HOUR, "c1") not in clusters
    assert clusters[NOON + 13 * HOUR, "c1"]["brokers"] == 4

    # beats and lookups
    beaten = {row["who"]: row for row in rows(written, "heartbeat", "day")}
    assert [beaten["c1|stays:0"][name] for name in ("missed_beats", "interval_ms_max")] == [0, 30_000]
    assert [beaten["c1|both"][name] for name in ("expected_ms", "interval_ms_p50", "missed_beats")] == [
        30_000,
        10_000,
        0,
    ]
    last = back // HOUR * HOUR
    assert [topics[last, "brief"][name] for name in ("routable_ms", "changes")] == [0, 2]
    assert topics[last, "used"]["lookups"] == 3
    assert [topics[last, "uneven"][name] for name in ("queue_cv", "queue_max_mean", "changes")] == [0.5, 1.5, 0], (
        "what a snapshot saw is no change"
    )
    assert "idle" in {row["topic"] for row in rows(written, "unused_topic", "day")}
    [missing] = rows(written, "missing_topic", "day")
    assert (missing["topic"], missing["lookups"]) == ("typo", 2)

    # resilience: t was on two brokers of two hosts, but only before the hole; uneven is all the time
    resilience = {row["topic"]: row for row in rows(written, "resilience", "day") if ms(row["period_start"]) == day}
    assert [resilience["t"][name] for name in ("broker_loss_ms", "any_loss_ms")] == [30 * MINUTE, 30 * MINUTE]
    of_uneven = [row for row in rows(written, "resilience", "day") if row["topic"] == "uneven"]
    assert [row["score"] for row in of_uneven] == [1.0]
