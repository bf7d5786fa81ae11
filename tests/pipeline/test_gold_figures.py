"""Gold's arithmetic against a plain model that looks at every millisecond."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="no pyarrow: pip install -e '.[spark]'")

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqregistry.pipeline.gold import beats, brokers, clusters, queues, topics
from mqregistry.pipeline.gold.run import known_brokers
from mqregistry.pipeline.gold.spans import (
    NEVER,
    Periods,
    Spans,
    from_deltas,
    ints,
    overlaps,
    per_period,
    periods,
    union,
)
from tests.pipeline import gold_model as model

STEP, END = 8, 40  # periods of 8 ms, up to 40 ms
moments = st.integers(0, END)


@st.composite
def validities(draw):
    """from_ms, to_ms: also without an end, also of no length."""
    start = draw(moments)
    end = draw(st.none() | st.integers(start, END + 4))
    return {"from_ms": start, "to_ms": end, "from_seq": draw(st.integers(1, 4))}


addr_rows = st.lists(
    st.builds(
        lambda validity, name, broker_id, cluster: {
            "broker_name": name, "broker_id": broker_id, "cluster": cluster, **validity,
        },
        validities(), st.sampled_from(["a", "b"]), st.sampled_from([0, 1]), st.just("c1"),
    ),
    max_size=6,
)  # fmt: skip
queue_rows = st.lists(
    st.builds(
        lambda validity, topic, name, nums, perm: {
            "topic": topic, "broker_name": name, "write_queue_nums": nums, "perm": perm, **validity,
        },
        validities(), st.sampled_from(["t", "u"]), st.sampled_from(["a", "b", "unknown"]), st.integers(0, 8),
        st.sampled_from([2, 4, 6]),
    ),
    max_size=8,
)  # fmt: skip


def one_cluster_each(addrs):
    """A broker row has one cluster at a time: here broker b is of c2."""
    return [{**row, "cluster": "c1" if row["broker_name"] == "a" else "c2"} for row in addrs]


def addr_table(rows):
    schema = pa.schema(
        [("broker_name", pa.string()), ("broker_id", pa.int64()), ("cluster", pa.string()), ("from_ms", pa.int64()),
         ("to_ms", pa.int64())]
    )  # fmt: skip
    return pa.Table.from_pylist([{name: row[name] for name in schema.names} for row in rows], schema=schema)


def queue_table(rows):
    schema = pa.schema(
        [("topic", pa.string()), ("broker_name", pa.string()), ("from_ms", pa.int64()), ("to_ms", pa.int64()),
         ("from_seq", pa.int64()), ("write_queue_nums", pa.int64()), ("perm", pa.int64())]
    )  # fmt: skip
    return pa.Table.from_pylist(rows, schema=schema)


def event_table(events, step):
    rows = [
        {"name": name, "cluster": "c1", "type": kind, "at_ms": ms // step * step, "n": 1} for ms, name, kind in events
    ]
    schema = pa.schema(
        [("name", pa.string()), ("cluster", pa.string()), ("type", pa.string()), ("at_ms", pa.int64()),
         ("n", pa.int64())]
    )  # fmt: skip
    return pa.Table.from_pylist(rows, schema=schema)


def by_key(table, key, start="period_start"):
    """(period start in ms, key) -> the other columns."""
    rows = {}
    for row in table.to_pylist():
        at = row.pop(start)
        at = at if isinstance(at, int) else round(at.timestamp() * 1000)
        place = (at, row.pop(key))
        assert place not in rows
        rows[place] = row
    return rows


def assert_equal(found, expected):
    assert set(found) == set(expected)
    for place, figures in expected.items():
        for name, value in figures.items():
            shown = found[place][name]
            if isinstance(value, float) and not float(value).is_integer():
                assert shown == pytest.approx(value, rel=1e-12), (place, name)
            else:
                assert shown == (None if value is None else pytest.approx(value, abs=1e-9)), (place, name)


def queue_figures(addresses, rows, since, now, seen=()):
    """From the hours that are made of queue data to those that end at ``now``, the last of them of no length."""
    when = periods(since, now, STEP)
    hours = Periods(when.first, STEP, now // STEP - when.first // STEP + 1, now)
    rows = [row for row in rows if row["from_ms"] <= now and (row["to_ms"] is None or row["to_ms"] >= when.first)]
    return when, queues.figures(queue_table(rows), known_brokers(addresses, hours), hours, since, list(seen))


def states_of(addresses, rows, since, now, before=None):
    _, result = queue_figures(addresses, rows, since, now)
    nothing = brokers.States(*(ints([]) for _ in range(4)))
    return brokers.states(
        before or nothing, since, now, addresses.present(), addresses.masters(),
        queues.writable_spans(result, addresses.names),
    )  # fmt: skip


@given(addr_rows, queue_rows, st.integers(1, END), st.integers(1, 10))
def test_broker_figures_equal_the_model(addrs, rows, now, flap_ms):
    addrs = [row for row in one_cluster_each(addrs) if row["from_ms"] <= now]
    addresses = brokers.BrokerAddresses.of(addr_table(addrs))
    found = states_of(addresses, rows, 0, now)
    events = [(3, "a", "broker_registered"), (4, "a", "broker_registered"), (9, "zero", "broker_closed")]
    figures = brokers.figures(found, addresses, "hour", periods(0, now, STEP), flap_ms, event_table(events, STEP))
    expected = model.broker_rows(
        addrs, rows, [(ms // STEP * STEP, name, brokers.EVENTS[kind]) for ms, name, kind in events], first=0, now=now,
        step=STEP, flap_ms=flap_ms,
    )  # fmt: skip
    assert_equal(by_key(figures, "broker_name"), expected)


@given(addr_rows, queue_rows, st.integers(1, END), st.integers(0, END))
def test_states_that_go_on_from_earlier_ones_equal_those_from_the_beginning(addrs, rows, now, since):
    since = min(since, now)
    addrs = [row for row in one_cluster_each(addrs) if row["from_ms"] <= now]
    addresses = brokers.BrokerAddresses.of(addr_table(addrs))
    whole = states_of(addresses, rows, 0, now)
    earlier = brokers.BrokerAddresses.of(addr_table([row for row in addrs if row["from_ms"] <= since]))
    before = states_of(earlier, [row for row in rows if row["from_ms"] <= since], 0, since)
    kept = brokers.from_state_table(brokers.state_table(before, earlier), addresses.names)
    again = states_of(addresses, rows, since, now, kept)
    for one, other in zip(whole, again, strict=True):
        assert one.tolist() == other.tolist()


HERE = {"from_ms": 0, "from_seq": 1, "to_ms": None}
GONE = {"broker_name": "a", "broker_id": 0, "cluster": "c1", "from_ms": 0, "from_seq": 1, "to_ms": 0}


@example([GONE], [{"topic": "t", "broker_name": "a", "write_queue_nums": 1, "perm": 6, **HERE}], 9, 0)
@given(addr_rows, queue_rows, st.integers(1, END), st.integers(0, END))
def test_topic_and_cluster_figures_equal_the_model(addrs, rows, now, since):
    """Also when only the periods from ``since`` on are worked out."""
    since = min(since, now - 1)
    addrs = [row for row in one_cluster_each(addrs) if row["from_ms"] <= now]
    addresses = brokers.BrokerAddresses.of(addr_table(addrs))
    when, result = queue_figures(addresses, rows, since, now, seen=[2])
    expected = model.topic_rows(addrs, rows, first=0, now=now, step=STEP, seen=[2])
    nothing = topics.LOOKUPS.empty_table()
    found = topics.figures(result, nothing, {"hour": when}, STEP)["topic"].drop_columns(["lookups"])
    assert_equal(by_key(found, "topic"), {place: row for place, row in expected.items() if place[0] >= when.first})
    figures = clusters.figures(result, {"hour": (when, known_brokers(addresses, when))}, STEP)
    expected = model.cluster_rows(addrs, rows, first=0, now=now, step=STEP, seen=[2])
    assert_equal(by_key(figures, "cluster"), {place: row for place, row in expected.items() if place[0] >= when.first})


spans = st.lists(
    st.tuples(st.integers(0, 2), moments, moments).map(lambda t: (t[0], min(t[1:]), max(t[1:]))), max_size=8
)


def arrays(rows):
    return tuple(ints([row[column] for row in rows]) for column in range(3))


def covered(rows):
    return {(key, ms) for key, start, end in rows for ms in range(start, min(end, END + 1))}


def tuples(found):
    return list(zip(*(column.tolist() for column in found), strict=True))


@given(spans, spans)
def test_union_and_overlaps_cover_the_same_milliseconds(rows, others):
    found = union(*arrays(rows))
    assert covered(tuples(found)) == covered(rows)
    for (key, _, end), (other, start, _) in zip(tuples(found), tuples(found)[1:], strict=False):
        assert key < other or end < start, "neighbours neither overlap nor touch"
    row, start, end = overlaps(*arrays(rows), union(*arrays(others)))
    cut = [(rows[r][0], s, e) for r, s, e in zip(row.tolist(), start.tolist(), end.tolist(), strict=True)]
    assert covered(cut) == covered(rows) & covered(others)


def test_what_has_no_end_stays_open():
    found = union(ints([0, 0]), ints([5, 1]), ints([NEVER, 3]))
    assert tuples(found) == [(0, 1, 3), (0, 5, NEVER)]
    assert tuples(from_deltas(ints([0, 1]), ints([4, 9]), ints([1, 2]))) == [(0, 4, NEVER), (1, 9, NEVER)]


@given(spans, st.integers(0, END), st.integers(1, END))
def test_per_period_counts_every_millisecond_once(rows, since, now):
    when = periods(min(since, now - 1), now, STEP)
    found = per_period(union(*arrays(rows)), when, 3)
    for key in range(3):
        for number, start in enumerate(when.start.tolist()):
            span = range(start, min(start + STEP, now))
            assert found[key, number] == sum((key, ms) in covered(rows) for ms in span)


HOUR, DAY = 3_600_000, 86_400_000
beat_entries = st.lists(
    st.tuples(
        st.integers(0, 3 * HOUR), st.sampled_from(["c|1", "c|2"]), st.sampled_from(["f1", "f2"]),
        st.sampled_from(["same", "same", "changed", "touch", "refused"]), st.sampled_from([-1, 0, 30_000, 2 * HOUR]),
        st.sampled_from([None, "a"]),
    ),
    max_size=20,
)  # fmt: skip


def beat_table(entries):
    return pa.Table.from_pylist(
        entries,
        schema=pa.schema(
            [("who", pa.string()), ("broker_name", pa.string()), ("front_end", pa.string()), ("kind", pa.string()),
             ("ms", pa.int64()), ("interval_ms", pa.int64()), ("id_ms", pa.int64()), ("id_n", pa.int64())]
        ),
    )  # fmt: skip


@given(beat_entries, st.integers(1, 4 * HOUR))
def test_heartbeat_figures_equal_the_model(raw, now):
    base = DAY - HOUR - HOUR // 2  # over midnight
    now += base
    entries = [
        {"ms": base + ms, "who": who, "front_end": front_end, "kind": kind, "interval_ms": told, "broker_name": name,
         "id_ms": base + ms, "id_n": number}
        for number, (ms, who, front_end, kind, told, name) in enumerate(sorted(raw, key=lambda entry: entry[0]))
    ]  # fmt: skip
    entries = [entry for entry in entries if entry["ms"] <= now]
    grains = {"hour": periods(base, now, HOUR), "day": periods(base, now, DAY)}
    when = Periods(base // DAY * DAY, HOUR, now // HOUR - base // DAY * 24 + 1, now)
    found = beats.figures(beats.hours(beat_table([*entries, *entries[::3]]), when), grains)
    for grain, step in (("hour", HOUR), ("day", DAY)):
        table = found.filter(pc.equal(found["grain"], grain))
        expected = model.beat_rows(entries, first=base, now=now, step=step)
        assert_equal(by_key(table, "who"), expected)


def test_missed_beats_of_two_skipped_rounds():
    """The example of docs/pipeline.md."""
    at = [0, 30_000, 60_000, 150_000, 180_000]
    entries = [
        {"ms": ms, "who": "c|1", "front_end": "f1", "kind": "same", "interval_ms": -1 if not ms else 30_000,
         "broker_name": None, "id_ms": ms, "id_n": 0}
        for ms in at
    ]  # fmt: skip
    hour = periods(0, 200_000, HOUR)
    [row] = beats.figures(beats.hours(beat_table(entries), hour), {"hour": hour}).to_pylist()
    assert (row["beats"], row["interval_ms_p50"], row["interval_ms_max"], row["missed_beats"]) == (5, 30_000, 90_000, 2)


def test_skew_of_even_and_uneven_queues():
    cv, max_mean = queues.skew(*(np.array(of) for of in ([2, 2, 3], [16, 16, 0], [128, 144 + 16, 0], [8, 12, 0])))
    assert cv.to_pylist() == [0.0, pytest.approx(0.5), None]
    assert max_mean.to_pylist() == [1.0, 1.5, None]
    assert math.isclose(model.skew([12, 4])[0], 0.5)


def test_spans_are_cut_to_a_window():
    assert tuples(Spans(ints([0, 0]), ints([1, 5]), ints([3, 9])).clipped(2, 6)) == [(0, 2, 3), (0, 5, 6)]
