"""What gold says of time that nobody knows: changes or heartbeats of it were lost; and of a clock that was ahead."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("pyarrow", reason="no pyarrow: pip install -e '.[spark]'")

from mqregistry.pipeline.bronze import log
from mqregistry.pipeline.lake.lake import Lake
from mqregistry.pipeline.redis_stream.ranges import OLDEST, Position
from tests.pipeline.gold_lake import Written
from tests.pipeline.test_gold_refresh import (  # fmt: skip
    HOUR,
    NOON,
    a_past,
    addr,
    assert_same,
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


class Gaps:
    """Loses what a past has of two spans: all changes of one, the heartbeats of another.

    Args:
        hole, lost: from when to when.
    """

    def __init__(self, past, hole, lost):
        self.hole, self._behind = hole, lost[1]
        addrs, queues, events, beats, lookups = past
        self._rows = {
            table: [row for row in map(self._found, found) if row["from_ms"] != row["to_ms"]]
            for table, found in (("broker_addr", addrs), ("queue_data", queues))
        }
        self._streams = {
            "changes": [entry for entry in events if not hole[0] < entry["ms"] <= hole[1]],
            "heartbeats": [entry for entry in beats if not lost[0] < entry["ms"] < lost[1]],
            "lookups": lookups,
        }

    def _found(self, row):
        """What changed in the hole is seen at its end."""
        start, end = self.hole
        both = {name: end if row[name] is not None and start < row[name] < end else row[name]
                for name in ("from_ms", "to_ms")}  # fmt: skip
        return {**row, **both}

    def write(self, written, number, after, upto):
        """What the lake has at ``upto``, of which it had all up to ``after``."""
        start, end = self.hole
        known = start if start < upto < end else upto
        written.silver(
            number, seq=1000, ms=known, holes=[self.hole] if end <= upto else [],
            **{table: seen_by(found, known) for table, found in self._rows.items()},
        )  # fmt: skip
        for stream, entries in self._streams.items():
            fresh = [entry for entry in entries if after < entry["ms"] <= upto]
            if stream == "heartbeats" and after < self._behind <= upto:
                written.bronze(stream, 3 * number, [entry for entry in fresh if entry["ms"] < self._behind])
                place = written.namespace, written.epoch
                log.restart(written.lake, stream, *place, Position(OLDEST), first_ms=self._behind)
                fresh = [entry for entry in fresh if entry["ms"] >= self._behind]
            written.bronze(stream, 3 * number + 2, fresh)


def test_what_a_hole_hides_is_unknown(tmp_path):
    """Changes of four hours were lost. Heartbeats of 20 minutes were, too."""
    written, hole = Written(Lake(str(tmp_path))), (NOON + 30 * MINUTE, NOON + 4 * HOUR + 30 * MINUTE)
    now = NOON + 6 * HOUR
    addrs = [
        addr("stays", NOON), addr("ends", NOON, hole[1]), addr("away", NOON, NOON + 20 * MINUTE),
        addr("away", hole[1]), addr("gone", NOON, NOON + 10 * MINUTE), addr("comes", hole[1]),
    ]  # fmt: skip
    names = ("stays", "ends")
    written.silver(
        0, seq=9, ms=now, holes=[hole], broker_addr=addrs,
        queue_data=[queue("t", name, NOON, None if name == "stays" else hole[1]) for name in names],
    )  # fmt: skip
    written.snapshot(5)
    beats = [ms for ms in range(0, HOUR, 30_000) if not 10 * MINUTE < ms < 30 * MINUTE]
    written.bronze("heartbeats", 0, [beat(NOON + ms, "c1|stays:0") for ms in beats if ms <= 10 * MINUTE])
    log.restart(written.lake, "heartbeats", "default", "e1", Position(OLDEST), first_ms=NOON + 30 * MINUTE)
    written.bronze("heartbeats", 2, [beat(NOON + ms, "c1|stays:0") for ms in beats if ms > 10 * MINUTE])
    for number in (1, 2):  # at once, and once more from where that came to
        refresh(written)
        [day] = [row for row in rows(written, "broker", "day") if row["broker_name"] == "stays"]
        assert (day["observed_ms"], day["present_ms"], day["availability"]) == (2 * HOUR, 2 * HOUR, 1.0)
        by_hour = by_period(rows(written, "broker", "hour"), "broker_name")
        assert by_hour[NOON, "stays"]["observed_ms"] == 30 * MINUTE
        assert (NOON + 2 * HOUR, "stays") not in by_hour
        days = {row["broker_name"]: row for row in rows(written, "broker", "day")}
        assert days["ends"]["present_ms"] == 30 * MINUTE
        assert days["ends"]["observed_ms"] == 2 * HOUR, "what is before the hole, and what is after it"
        assert (days["ends"]["outages"], days["away"]["outages"], days["away"]["recoveries"]) == (0, 1, 0)
        assert days["comes"]["observed_ms"] == 90 * MINUTE
        states = [(row["broker_name"], row["state"], ms(row["valid_from"])) for row in rows(written, "broker_state")]
        assert {name for name, state, since in states if (state, since) == ("unknown", hole[0])} == {*names, "away"}
        topics = by_period(rows(written, "topic", "hour"), "topic")
        assert (topics[NOON, "t"]["routable_ms"], topics[NOON + 4 * HOUR, "t"]["writable_ms"]) == (1_800_000, 1_800_000)
        assert (NOON + 2 * HOUR, "t") not in topics
        clusters = by_period(rows(written, "cluster", "hour"), "cluster")
        assert (NOON + 2 * HOUR, "c1") not in clusters
        assert clusters[NOON + 4 * HOUR, "c1"]["brokers"] == 3
        [heard] = rows(written, "heartbeat", "day")
        assert (heard["missed_beats"], heard["interval_ms_max"]) == (0, 30_000)
        written.silver(
            number, seq=9 + number, ms=now, holes=[hole], broker_addr=addrs, queue_data=[queue("t", "stays", NOON)]
        )  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_in_steps_with_gaps_gold_comes_to_the_same_as_at_once(tmp_path, seed):
    chance, end = random.Random(seed), NOON + 40 * HOUR
    at, lost_ms = (NOON + chance.randrange(2, 25) * HOUR + chance.choice([0, 700_000]) for _ in range(2))
    gaps = Gaps(
        a_past(seed, end=end), (at, at + chance.choice([MINUTE, 2 * HOUR, 13 * HOUR])), (lost_ms, lost_ms + HOUR)
    )
    at_once, in_steps = Written(Lake(str(tmp_path / "once"))), Written(Lake(str(tmp_path / "steps")))
    after = 0
    for number, upto in enumerate(sorted([*(chance.randrange(NOON + HOUR, end) for _ in range(7)), end])):
        gaps.write(in_steps, number, after, upto)
        refresh(in_steps, now_ms=upto)
        after = upto
    gaps.write(at_once, 0, 0, end)
    assert refresh(at_once, now_ms=end)
    assert {row["state"] for row in rows(at_once, "broker_state")} > {"unknown", "writable"}
    assert_same(everything(in_steps), everything(at_once))


def test_a_backfill_makes_gold_forget(tmp_path):
    """It may have changed any row, and silver may have gone on since."""
    written, now = Written(Lake(str(tmp_path))), NOON + 2 * HOUR
    queues = [queue("t", "a", NOON)]
    written.silver(0, seq=9, ms=now, broker_addr=[addr("a", NOON)], queue_data=queues)
    assert refresh(written)
    written.silver(1, seq=10, ms=now + 1, backfills=1, broker_addr=[addr("a", NOON + HOUR)], queue_data=queues)
    assert refresh(written)
    assert [row["present_ms"] for row in rows(written, "broker", "hour")] == [HOUR, 1]


def test_an_event_of_a_clock_ahead_counts_as_of_the_moment_that_it_was_set_back_to(tmp_path):
    written, now = Written(Lake(str(tmp_path))), NOON + HOUR
    step = (3, NOON + 5 * HOUR, NOON + 2 * MINUTE)
    written.bronze("changes", 0, [event(1, NOON, "broker_registered", "a")])
    written.bronze("changes", 1, [event(2, NOON + 5 * HOUR, "broker_closed", "a")])
    written.bronze("changes", 2, [event(3, NOON + 2 * MINUTE, "broker_registered", "a")])
    for number, at in enumerate((now, NOON + 6 * HOUR)):
        written.silver(number, seq=3 + number, ms=at, steps=[step], broker_addr=[addr("a", NOON)], queue_data=[])
        assert refresh(written)
    hours = by_period(rows(written, "broker", "hour"), "broker_name")
    assert [hours[NOON + n * HOUR, "a"]["closes"] for n in range(6)] == [1, 0, 0, 0, 0, 0]
