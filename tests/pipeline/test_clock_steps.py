"""The clock of Redis is set back: what was said of the time ahead does not hide what follows."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")

from mqregistry.pipeline.backfill import backfill
from mqregistry.pipeline.bronze import snapshot
from mqregistry.pipeline.silver.advance import Silver
from mqregistry.pipeline.silver.next_changes import STEP_MS, ClockSetBack
from mqregistry.pipeline.silver.progress import last
from tests.pipeline.world import all_rows, silver_rows, tables_at, write_bronze

pytestmark = pytest.mark.spark

DAY_MS = 86_400_000
T0 = 1_700_000_000_000
PLACE = ("default", "e")


def event(seq, ms):
    """A change that gives one cell the value of its number."""
    value = {"seq": seq, "ms": ms, "type": "kv_put", "kv_namespace": "a", "key": "k", "value": str(seq)}
    return f"{ms}-0", json.dumps(value)


def begin(spark, lake, ms):
    snapshot.write(spark, lake, "default", snapshot.Snapshot("e", 0, ms, "0-0"), [])


def take(spark, lake, events):
    write_bronze(spark, lake, *PLACE, events)
    return list(Silver(spark, lake, *PLACE).advance())


def clock_steps(lake):
    rows = lake.read("silver/clock_step", columns=["seq", "from_ms", "to_ms"])
    return [tuple(row.values()) for row in rows.to_pylist()]


def values(lake, *moments):
    rows = silver_rows(lake, *PLACE)
    return [tables_at(rows, ms)[0].kv["a"]["k"] for ms in moments]


@pytest.mark.parametrize("first", [pytest.param(0, marks=pytest.mark.long), 41])
def test_one_change_a_day_ahead_takes_no_time_from_the_others(spark, lake, first):
    """First is what the first batch brings: with 41 the change ahead is its last one, and a backfill mends it."""
    begin(spark, lake, T0)
    events = [event(seq, T0 + seq * 1000 + (DAY_MS if seq == 41 else 0)) for seq in range(1, 123)]
    if first:
        take(spark, lake, events[:first])
        with pytest.raises(ClockSetBack, match=r"back by 86,399 s up to change 42.*'mqregistry pipeline backfi"):
            take(spark, lake, events[first:])
        list(backfill(spark, lake, *PLACE))
        events = []
    if events:
        take(spark, lake, events)
    else:
        list(Silver(spark, lake, *PLACE).advance())
    assert values(lake, *(T0 + seq * 1000 + 500 for seq in (40, 42, 60, 121))) == ["40", "42", "60", "121"]
    lengths = {row["from_seq"]: row["valid_to"] != row["valid_from"] for row in silver_rows(lake, *PLACE)["kv"]}
    assert [seq for seq, any_time in lengths.items() if not any_time] == [41], "nobody knows how long that one held"
    assert clock_steps(lake) == [(42, T0 + 41_000 + DAY_MS, T0 + 42_000)]
    assert last(lake, *PLACE).ms == T0 + 122_000


def test_an_hour_ahead_for_some_time_and_written_again_comes_to_the_same(spark, lake):
    ahead = [event(seq, T0 + seq * 1000 + 60 * STEP_MS) for seq in range(1, 50)]
    events = [*ahead, *(event(seq, T0 + seq * 1000) for seq in range(50, 60))]
    begin(spark, lake, T0 + 60 * STEP_MS)  # the snapshot, too
    take(spark, lake, events)
    assert values(lake, *(T0 + ms for ms in (50_000, 58_999, 59_000))) == ["50", "58", "59"]
    before = all_rows(lake, *PLACE)
    list(backfill(spark, lake, *PLACE))
    assert all_rows(lake, *PLACE) == before


def test_after_a_small_step_moments_stand_still_until_the_clock_has_caught_up(spark, lake):
    begin(spark, lake, T0)
    take(spark, lake, [event(1, T0), event(2, T0 + STEP_MS), event(3, T0)])
    take(spark, lake, [event(4, T0 + STEP_MS + 1)])
    assert values(lake, T0, T0 + STEP_MS, T0 + STEP_MS + 1) == ["1", "3", "4"]
    assert clock_steps(lake) == []
