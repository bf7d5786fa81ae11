"""The clock of Redis is set back: what was said of the time ahead does not hide what follows."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow", reason="no pyarrow: pip install -e '.[spark]'")

from mqregistry.pipeline import gold, silver
from mqregistry.pipeline.backfill import backfill
from mqregistry.pipeline.gold.tables import last
from mqregistry.pipeline.past import travel
from mqregistry.pipeline.silver.next_changes import STEP_MS, ClockSetBack
from mqregistry.pipeline.silver.tables import load
from tests.pipeline.test_travel import T0, begin, event, fill, value
from tests.pipeline.world import all_rows, write_bronze

DAY_MS = 86_400_000


def lengths(lake):
    """Of the values that ended, in ms, by the change that set them."""
    rows = load(lake, "default", "e").read("kv").to_pylist()
    ended = [row for row in rows if row["valid_to"] is not None]
    return {row["from_seq"]: (row["valid_to"] - row["valid_from"]).total_seconds() * 1000 for row in ended}


def a_day_ahead():
    """122 changes, one each second; the 41st is written a day ahead."""
    return [event(seq, T0 + seq * 1000 + (DAY_MS if seq == 41 else 0)) for seq in range(1, 123)]


def check(lake):
    assert [value(lake, T0 + seq * 1000 + 500) for seq in (40, 42, 60, 121)] == ["40", "42", "60", "121"]
    assert [seq for seq, ms in lengths(lake).items() if not ms] == [41], "nobody knows how long that one held"
    [step] = load(lake, "default", "e").content.steps
    assert step == (42, T0 + 41_000 + DAY_MS, T0 + 42_000)
    with pytest.raises(travel.LakeError, match="after the end"):
        value(lake, T0 + DAY_MS)


def test_one_change_a_day_ahead_takes_no_time_from_the_others(lake):
    begin(lake, "e", T0)
    fill(lake, "e", a_day_ahead())
    check(lake)


@pytest.mark.parametrize("before", [20, 41])
def test_a_step_that_shows_only_in_a_later_round_is_told_and_a_backfill_mends_it(lake, before):
    """Before is what the first round brought: with 41 the change ahead is its last one."""
    begin(lake, "e", T0)
    events = a_day_ahead()
    fill(lake, "e", events[:before])
    write_bronze(lake, "default", "e", 1, events[before:])
    if before == 41:
        gold.refresh(None, lake, "default", "e")
        assert last(lake, "default", "e")[1].now_ms > T0 + DAY_MS
        with pytest.raises(ClockSetBack, match=r"back by 86,399 s up to change 42.*'mqregistry pipeline backfi"):
            silver.advance(None, lake, "default", "e")
        assert [step.seq for step in backfill(None, lake, "default", "e")][-1] == 41
    silver.advance(None, lake, "default", "e")
    check(lake)
    gold.refresh(None, lake, "default", "e")
    assert last(lake, "default", "e")[1].now_ms == T0 + 122_000, "the day ahead is no time that was observed"


def test_an_hour_ahead_for_some_time_and_in_any_batches_comes_to_the_same(lake, tmp_path):
    ahead = [event(seq, T0 + seq * 1000 + 60 * STEP_MS) for seq in range(1, 50)]
    events = [*ahead, *(event(seq, T0 + seq * 1000) for seq in range(50, 60))]
    begin(lake, "e", T0 + 60 * STEP_MS)  # the snapshot, too
    write_bronze(lake, "default", "e", 0, events[:30])
    write_bronze(lake, "default", "e", 1, events[30:])
    silver.advance(None, lake, "default", "e")
    assert [value(lake, T0 + ms) for ms in (50_000, 58_999, 59_000)] == ["50", "58", "59"]
    before = all_rows(lake, "default", "e")
    list(backfill(None, lake, "default", "e"))
    assert all_rows(lake, "default", "e") == before


def test_after_a_small_step_moments_stand_still_until_the_clock_has_caught_up(lake):
    begin(lake, "e", T0)
    fill(lake, "e", [event(1, T0), event(2, T0 + STEP_MS), event(3, T0)])
    fill(lake, "e", [event(4, T0 + STEP_MS + 1)], number=1)
    assert [value(lake, T0 + ms) for ms in (0, STEP_MS, STEP_MS + 1)] == ["1", "3", "4"]
    assert load(lake, "default", "e").content.steps == ()
