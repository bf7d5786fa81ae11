"""The truth model against cases small enough to work out by hand, and the matching of events with a plan."""

from __future__ import annotations

import copy
from collections import Counter

import msgspec
import pytest

from mqregistry.simulate.day import DayShape, OpKind
from mqregistry.simulate.plan import make_plan
from tests.simulate_oracle.expect import Expected
from tests.simulate_oracle.history import History, Steps
from tests.simulate_oracle.observe import Observed, differences
from tests.simulate_oracle.truth import figures

HOUR = 3_600_000
NOON = 1_800_000_000_000 // (24 * HOUR) * 24 * HOUR + 12 * HOUR


def data(write, perm=6, read=None):
    return {"r": write if read is None else read, "w": write, "p": perm, "f": 0}


def registered(ms, name="b", addrs=None, topics=None, cluster="c"):
    event = {"ms": ms, "type": "broker_registered", "broker_name": name, "who": f"{cluster}|{name}"}
    if addrs is not None:
        event["row"] = {"cluster": cluster, "acting": False, "addrs": {str(number): f"h:{number}" for number in addrs}}
    return event | ({"topics": topics} if topics else {})


def gone(ms, kind="broker_closed", name="b", left=None, cluster="c"):
    row = {"cluster": cluster, "acting": False, "addrs": {str(number): "h" for number in left}} if left else None
    return {"ms": ms, "type": kind, "broker_name": name, "row": row}


def beat(ms, interval_ms, front_end="f1", who="c|b", kind="same", broker_name="b"):
    return {"ms": ms, "who": who, "front_end": front_end, "kind": kind, "interval_ms": interval_ms, "bytes": 1,
            "broker_name": broker_name}  # fmt: skip


def found(changes=(), heartbeats=(), lookups=()):
    numbered = [{"seq": number, **event} for number, event in enumerate(changes, 1)]
    return Observed("e", numbered, list(heartbeats), list(lookups))


def only(rows, **wanted):
    (row,) = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    return row


def part(row, **expected):
    assert {key: row[key] for key in expected} == expected


def test_an_outage_counts_to_the_millisecond_and_a_short_one_is_a_flap():
    tables = figures(
        found(
            [
                registered(NOON + 1_000, addrs=[0], topics={"t": data(4)}),
                gone(NOON + 11_000),
                registered(NOON + 11_250, addrs=[0], topics={"t": data(4)}),
                gone(NOON + 20_000, "broker_expired"),
                registered(NOON + 25_001, addrs=[0], topics={"t": data(4)}),
                gone(NOON + 30_000, "broker_unregistered"),
            ],
            [beat(NOON + 31_000, -1)],
        ),
        flap_ms=5_001,
    )
    for grain in ("hour", "day"):
        part(
            only(tables["broker"], grain=grain), broker_name="b", cluster="c", observed_ms=30_000,
            present_ms=10_000 + 8_750 + 4_999, writable_ms=23_749, availability=23_749 / 30_000, outages=3,
            recoveries=2, recovery_ms_mean=(250 + 5_001) / 2, recovery_ms_max=5_001, flaps=1, registrations=3,
            closes=1, expiries=1, unregistrations=1, unwritable_spells=3, write_recoveries=2, write_flaps=1,
        )  # fmt: skip


def test_without_a_master_or_with_nothing_to_write_to_a_broker_is_present_only():
    tables = figures(
        found(
            [
                registered(NOON, addrs=[1]),  # a slave alone: a spell from the first moment on
                registered(NOON + 100, addrs=[0, 1], topics={"t": data(4), "u": data(0)}),
                {"ms": NOON + 300, "type": "write_perm_set", "broker_name": "b", "topics": {"t": data(4, perm=4)}},
                {"ms": NOON + 600, "type": "write_perm_set", "broker_name": "b", "topics": {"t": data(4)}},
                gone(NOON + 1_000, left=[1]),
            ],
            [beat(NOON + 2_000, -1)],
        ),
        flap_ms=300,
    )
    part(
        only(tables["broker"], grain="hour"), observed_ms=2_000, present_ms=2_000, writable_ms=200 + 400, outages=0,
        unwritable_spells=3, write_recoveries=2, write_flaps=1, write_recovery_ms_max=300, write_recovery_ms_mean=200.0,
    )  # fmt: skip
    part(only(tables["topic"], grain="hour", topic="t"), routable_ms=2_000 - 100, writable_ms=600, changes=5)
    part(only(tables["topic"], grain="hour", topic="u"), routable_ms=1_900, writable_ms=0, changes=1)


def test_a_spell_over_midnight_is_an_outage_of_the_day_it_began_and_a_recovery_of_the_day_it_ended():
    midnight = NOON + 12 * HOUR
    tables = figures(
        found(
            [
                registered(midnight - 10_000, addrs=[0], topics={"t": data(4)}),
                gone(midnight - 4_000),
                registered(midnight + 3_000, addrs=[0], topics={"t": data(4)}),
            ],
            [beat(midnight + 5_000, -1)],
        )
    )
    for grain in ("hour", "day"):
        before, after = (row for row in tables["broker"] if row["grain"] == grain)
        part(before, observed_ms=10_000, present_ms=6_000, outages=1, recoveries=0, recovery_ms_max=None)
        part(after, observed_ms=5_000, present_ms=2_000, outages=0, recoveries=1, recovery_ms_max=7_000, flaps=1)
    assert [row["period_start"] for row in tables["broker"] if row["grain"] == "day"] == [NOON - 12 * HOUR, midnight]


def test_who_is_gone_for_good_has_no_row_in_later_periods():
    events = [registered(NOON, addrs=[0], topics={"t": data(4)}), gone(NOON + 10)]
    tables = figures(found(events, [beat(NOON + HOUR + 5, -1, who="c|x")]))
    part(only(tables["broker"], grain="hour"), period_start=NOON, observed_ms=HOUR, present_ms=10, outages=1)
    part(only(tables["broker"], grain="day"), observed_ms=HOUR + 5, present_ms=10)


def test_a_night_away_has_rows_once_it_is_over():
    minute = 60_000
    events = [
        registered(NOON + 10 * minute, addrs=[0]),
        gone(NOON + 30 * minute),
        registered(NOON + 32 * minute, addrs=[0]),
        gone(NOON + 50 * minute),
        registered(NOON + 125 * minute, addrs=[0]),
    ]
    hours = figures(found(events, [beat(NOON + 3 * HOUR - 1, -1)]))["broker"]
    first, second, third = (row for row in hours if row["grain"] == "hour")
    part(first, observed_ms=50 * minute, present_ms=38 * minute, outages=2, recoveries=1, recovery_ms_max=2 * minute)
    part(second, observed_ms=HOUR, present_ms=0, availability=0.0, outages=0, recoveries=0)
    part(third, recoveries=1, recovery_ms_max=75 * minute, flaps=0, outages=0)


def test_who_comes_and_goes_within_one_millisecond_was_never_away():
    events = [registered(NOON, addrs=[0]), gone(NOON + 10), registered(NOON + 10, addrs=[0])]
    part(
        only(figures(found(events, [beat(NOON + 20, -1)]))["broker"], grain="hour"),
        present_ms=20, outages=0, recoveries=0, closes=1,
    )  # fmt: skip


def test_time_that_runs_backwards_stands_still():
    steps = History(found([registered(NOON, addrs=[0]), gone(NOON - 500), registered(NOON + 5, addrs=[0])]).changes)
    assert steps.present["b"].spells(False) == [(NOON, NOON + 5)]


def test_skew_is_that_of_the_end_of_the_period():
    tables = figures(
        found(
            [
                registered(NOON, "a", [0], {"t": data(2), "u": data(2)}),
                registered(NOON + 1, "b", [0], {"t": data(6)}),
                registered(NOON + HOUR, "b", topics={"t": data(2)}),
                registered(NOON + HOUR + 2, "x", [0], {"t": data(8)}, cluster="other"),
            ],
            [beat(NOON + HOUR + 10, -1)],
        )
    )
    first, second = (row for row in tables["topic"] if row["grain"] == "hour" and row["topic"] == "t")
    part(first, brokers=2, write_queues=8, queue_cv=0.5, queue_max_mean=1.5, changes=2)
    part(second, brokers=3, write_queues=12, queue_cv=8**0.5 / 4, queue_max_mean=2.0, changes=3)
    first, second = (row for row in tables["cluster"] if row["grain"] == "hour" and row["cluster"] == "c")
    part(first, brokers=2, topics=2, write_queues=10, queue_cv=0.2, queue_max_mean=1.2, changes=3)
    part(second, brokers=2, topics=2, write_queues=6, queue_cv=1 / 3, queue_max_mean=4 / 3, changes=2)


def test_topics_that_nobody_looks_up_and_lookups_of_what_is_no_topic():
    tables = figures(
        found(
            [
                registered(NOON, addrs=[0], topics={"t": data(4), "u": data(4), "v": data(4)}),
                {"ms": NOON + 50, "type": "topic_deleted", "topic": "v", "broker_names": ["b"]},
            ],
            [beat(NOON + 100, -1)],
            [
                {"ms": NOON + 10, "front_end": "f1", "found": {"t": 3}, "missing": {"w": 2}},
                {"ms": NOON + 20, "front_end": "f2", "found": {"t": 1}, "missing": {"w": 1, "v": 5}},
                {"ms": NOON + 101, "front_end": "f2", "found": {"u": 1}},  # after the end of observation
            ],
        )
    )
    assert [(row["topic"], row["routable_ms"]) for row in tables["unused_topic"] if row["grain"] == "hour"] == [
        ("u", 100),
        ("v", 50),
    ]
    assert [(row["topic"], row["lookups"]) for row in tables["missing_topic"] if row["grain"] == "day"] == [
        ("v", 5),
        ("w", 3),
    ]
    part(only(tables["topic"], grain="hour", topic="t"), lookups=4)


def test_missed_beats_are_what_did_not_come_at_the_usual_front_end_within_one_life():
    beats = [beat(NOON + at_ms, 1 if at_ms else -1) for at_ms in (0, 100, 200, 300, 650, 750, 900)]
    beats += [beat(NOON + at_ms, 1, "f2") for at_ms in (1, 301, 651)]
    beats += [beat(NOON + 5_000, -1), beat(NOON + 5_100, 100), beat(NOON + 5_110, 10, kind="refused")]
    beats.sort(key=lambda entry: entry["ms"])
    row = only(figures(found([], beats))["heartbeat"], grain="hour")
    # intervals at f1: 100 100 100 350 100 150 | 100; 350 are 3.5 -> 4, 150 are 1.5 -> 2 (halves to the even number)
    part(
        row, beats=12, refused=1, front_ends=2, interval_ms_p50=100, interval_ms_p99=350, interval_ms_max=350,
        expected_ms=100, missed_beats=3 + 1, broker_name="b",
    )  # fmt: skip


def test_steps_know_when_something_was_so():
    steps = Steps()
    for ms, value in ((10, True), (20, True), (30, False), (30, True), (40, False), (50, True), (50, False)):
        steps.set(ms, value)
    assert steps.spells(True) == [(10, 40)]
    assert steps.spells(False) == [(40, None)]
    assert (steps.lasting(True, 0, 25), steps.lasting(True, 35, 99), steps.lasting(False, 0, 60)) == (15, 5, 20)
    assert (steps.last_ms(True, 100), steps.last_ms(True, 20), steps.last_ms(True, 5)) == (39, 20, -1)


# is it what was planned?

SHAPE = DayShape(duration_ms=6_000, servers=1, brokers=4, topics=12, clients=2, lookups_per_s=20.0)
PLAN = make_plan(SHAPE)


@pytest.fixture
def as_planned():
    """Streams as they are when everything goes as planned, and the answers to the clients."""
    model, changes, heartbeats = Expected(PLAN), [], []
    rows, before = {}, Counter()
    for op in PLAN.ops:
        effect = model.apply(op)
        for who, count in (model.beats - before).items():
            heartbeats += [beat(op.at_ms, 1, who=who)] * count
        before = Counter(model.beats)
        if effect is None:
            continue
        event = {"seq": len(changes) + 1, "ms": op.at_ms, "type": effect.type}
        if effect.topic is not None:
            event |= {"topic": effect.topic, "broker_names": list(effect.brokers)}
        else:
            event |= {"broker_name": effect.brokers[0], "who": effect.who}
        if effect.addrs is not None:
            rows[effect.brokers[0]] = effect.addrs
            addrs = {str(number): addr for number, addr in effect.addrs.items()}
            event["row"] = {"cluster": "c", "addrs": addrs} if addrs else None
        if effect.topics:
            event["topics"] = {topic: {"r": r, "w": w, "p": p, "f": 0} for topic, (r, w, p) in effect.topics.items()}
        changes.append(event)
    answers = Counter((op.topic, op.topic not in PLAN.never) for op in PLAN.ops if op.kind is OpKind.LOOKUP)
    lookups = [{"ms": 5_000, "found": {}, "missing": {}}]
    for (topic, was_found), count in answers.items():
        lookups[0]["found" if was_found else "missing"][topic] = count
    return Observed("e", changes, heartbeats, lookups), answers


def altered(observed, **fields):
    return msgspec.structs.replace(copy.deepcopy(observed), **fields)


def test_streams_as_planned_do_not_differ(as_planned):
    assert differences(PLAN, *as_planned) == []


def test_every_event_that_is_missing_is_found(as_planned):
    observed, answers = as_planned
    for number in range(len(observed.changes)):
        less = altered(observed, changes=observed.changes[:number] + observed.changes[number + 1 :])
        assert differences(PLAN, less, answers), observed.changes[number]


def test_every_event_that_comes_twice_is_found(as_planned):
    observed, answers = as_planned
    for number, event in enumerate(observed.changes):
        more = altered(observed, changes=[*observed.changes[: number + 1], event, *observed.changes[number + 1 :]])
        wrong = differences(PLAN, more, answers)
        assert wrong, event


def test_an_event_with_other_content_is_found(as_planned):
    observed, answers = as_planned
    for number, event in enumerate(observed.changes):
        other = copy.deepcopy(event)
        if event.get("topics"):
            next(iter(other["topics"].values()))["w"] += 1
        elif event.get("row"):
            other["row"]["addrs"]["0"] = "127.0.0.1:1"
        elif event.get("topic"):
            other["broker_names"] = [*other["broker_names"][1:], "another"]
        else:
            other["type"] = "broker_reaped"
        changed = altered(observed, changes=[*observed.changes[:number], other, *observed.changes[number + 1 :]])
        assert differences(PLAN, changed, answers), other


def test_a_beat_or_a_lookup_too_few_or_too_many_is_found(as_planned):
    observed, answers = as_planned
    (said,) = differences(PLAN, altered(observed, heartbeats=observed.heartbeats[:-1]), answers)
    assert "heartbeats of" in said
    entry = copy.deepcopy(observed.lookups[0])
    topic = next(iter(entry["found"]))
    entry["found"][topic] += 1
    (said,) = differences(PLAN, altered(observed, lookups=[entry]), answers)
    assert f"lookups of {topic} found are on the stream" in said
    (said,) = differences(PLAN, altered(observed, lookups=[entry]), answers + Counter({(topic, True): 1}))
    assert f"{topic} was looked up" in said
