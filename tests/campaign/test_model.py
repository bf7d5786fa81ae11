"""The model that judges answers, with a clock that the test moves."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from .model import CLOSE_S, FOLLOW_S, GHOST_SLACK_S, BrokerState, KvModel, Line, Loss, Model
from .timeline import Timeline, most_had

TOPIC = "t-b1-0"
FRONT_ENDS = 2
MERGE_S = 9.0


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def timeline(clock):
    return Timeline(clock)


@pytest.fixture
def model(timeline):
    return Model(timeline, FRONT_ENDS, merge_s=MERGE_S)


@pytest.fixture
def broker(model, clock):
    """Registered a minute ago, and beating until now."""
    broker = model.add(BrokerState("b1/0", "b1", 0, "1.1.1.1:1", "c1", 9.0, (0, 1)))
    broker.acknowledged(clock.now, clock.now, [TOPIC])
    for _ in range(12):
        clock.now += 5
        broker.acknowledged(clock.now, clock.now, [TOPIC])
    return broker


def rows(*brokers):
    return {broker.name: SimpleNamespace(broker_addrs={broker.broker_id: broker.addr}) for broker in brokers}


def judge(model, line, at, code, found=None, took_s=0.01):
    return model.judge_route(line, TOPIC, at - took_s, at, code, found or {})


def window(timeline, clock, lasts_s, *places):
    for place in places:
        timeline.begin(place)
    clock.now += lasts_s
    for place in places:
        timeline.end(place)


def test_what_goes_on_is_looked_at_before_each_question(clock):
    timeline = Timeline(clock, lambda: timeline.add("peers", clock.now - 1, clock.now))
    timeline.add("redis", clock.now - 5, clock.now - 4)
    assert timeline.quiet_s(clock.now - 5, clock.now, 0.0) == 3
    assert not timeline.is_quiet(clock.now - 3, clock.now)


def test_how_much_a_counter_can_have_grown_within_some_time():
    samples = [(0.0, 0.0), (0.1, 10.0), (0.2, 60.0), (0.3, 70.0), (0.4, 75.0)]
    assert most_had(samples, 0.0) == 50
    assert most_had(samples, 0.09) == 60
    assert most_had(samples, 9.0) == 75
    assert most_had(samples[:1], 1.0) == most_had([], 1.0) == 0


def test_17_for_a_topic_of_a_living_broker_is_wrong(model, broker, clock):
    assert "code 17" in judge(model, Line(0), clock.now + 1, 17)[0]


def test_an_error_is_wrong_only_over_a_connection_that_had_the_route(model, broker, clock):
    line = Line(0)
    assert judge(model, line, clock.now + 1, 1) == []
    assert judge(model, line, clock.now + 1.1, 0, rows(broker)) == []
    assert "over a connection that had" in judge(model, line, clock.now + 1.2, 1)[0]


def test_after_a_silence_as_long_as_its_timeout_it_lives_anew(model, broker, clock):
    line = Line(0, {(TOPIC, broker.uid): broker.life})
    clock.now += broker.timeout_s
    broker.beaten(clock.now, clock.now)
    assert not model.lives(broker, clock.now), "a heartbeat brings nobody back"
    broker.acknowledged(clock.now, clock.now, [TOPIC])
    assert model.lives(broker, clock.now)
    assert judge(model, line, clock.now + 0.1, 0) == []


def test_a_route_without_its_address_is_wrong(model, broker, clock):
    other = model.add(BrokerState("b2/0", "b2", 0, "1.1.1.2:1", "c1", 9.0, (0, 1)))
    other.acknowledged(clock.now, clock.now, [TOPIC])
    assert "a route without 1.1.1.1:1" in judge(model, Line(0), clock.now + 1, 0, rows(other))[0]


def test_a_broker_that_was_not_heard_in_time_is_not_judged(model, broker, clock):
    assert judge(model, Line(0), clock.now + 8.5, 17)
    assert judge(model, Line(0), clock.now + 9.5, 17) == []


def test_a_gap_that_nobody_could_hear_does_not_count(model, broker, timeline, clock):
    line = Line(0)
    judge(model, line, clock.now, 0, rows(broker))
    window(timeline, clock, 20, "redis")
    assert judge(model, line, clock.now + 0.5, 17)


def test_a_gap_of_one_front_end_counts(model, broker, timeline, clock):
    line = Line(0)
    judge(model, line, clock.now, 0, rows(broker))
    window(timeline, clock, 20, "gap0")
    assert judge(model, line, clock.now + 0.5, 17) == []


def test_a_gap_of_all_front_ends_does_not_count_but_for_what_is_not_noticed(model, broker, timeline, clock):
    line = Line(0)
    judge(model, line, clock.now, 0, rows(broker))
    window(timeline, clock, 20, "gap0", "gap1")
    assert judge(model, line, clock.now + 5, 17)
    assert judge(model, line, clock.now + 6.5, 17) == []


def test_a_close_of_its_own_ends_the_judging_until_it_registers_again(model, broker, clock):
    line = Line(0)
    judge(model, line, clock.now, 0, rows(broker))
    broker.may_be_gone(clock.now, 0)
    broker.acknowledged(clock.now - 0.1, clock.now + 0.1, [TOPIC])  # sent before the close
    assert judge(model, line, clock.now + 1, 17) == []
    broker.acknowledged(clock.now + 1, clock.now + 1.1, [TOPIC])
    assert judge(model, line, clock.now + 1.5, 0, rows(broker)) == []
    assert judge(model, line, clock.now + 1.6, 17) == []  # the close may still come, after its last write
    assert judge(model, line, clock.now + CLOSE_S + 0.1, 17)
    assert judge(model, Line(1), clock.now + CLOSE_S + 0.1, 17) == []  # never saw its new life, and that is young
    broker.acknowledged(clock.now + 5, clock.now + 5.1, [TOPIC])
    assert judge(model, Line(1), clock.now + 2 + FOLLOW_S, 17)


def test_a_heartbeat_that_is_answered_late_says_nothing_of_a_broker_that_was_removed_meanwhile(model, broker, clock):
    broker.beaten(clock.now + 1, clock.now + 8.9)
    assert not broker.lives
    assert judge(model, Line(0), clock.now + 9, 0, rows()) == []


def test_the_close_of_a_connection_may_be_handled_late_by_a_front_end_that_is_disturbed(model, broker, timeline, clock):
    line = Line(0)
    broker.may_be_gone(clock.now, 0)
    broker.acknowledged(clock.now + 0.1, clock.now + 0.2, [TOPIC])
    judge(model, line, clock.now + 0.3, 0, rows(broker))
    window(timeline, clock, 5, "fe0")
    broker.acknowledged(clock.now, clock.now, [TOPIC])
    assert judge(model, line, clock.now + 0.5, 17) == []
    assert judge(model, line, clock.now + CLOSE_S + 0.6, 17)


def test_who_lived_when_something_happened(model, broker, timeline, clock):
    assert model.lived(broker, clock.now + 5)
    assert not model.lived(broker, clock.now + 9)
    broker.end(clock.now + 3, "silent")
    assert model.lived(broker, clock.now + 2)
    assert not model.lived(broker, clock.now + 4)


def test_what_was_registered_elsewhere_may_be_unknown_while_a_front_end_has_just_been_disturbed(
    model, broker, timeline, clock
):
    window(timeline, clock, 1, "fe0")
    assert judge(model, Line(0), clock.now + 1, 17) == []
    assert judge(model, Line(1), clock.now + 1, 17)
    broker.acknowledged(clock.now + 5, clock.now + 5, [TOPIC])
    assert judge(model, Line(0), clock.now + FOLLOW_S + 1, 17)


def test_after_a_loss_a_known_route_is_kept_until_its_broker_had_the_time_to_register_again(model, broker, clock):
    line = Line(0)
    judge(model, line, clock.now, 0, rows(broker))
    model.lost(0.0, clock.now)
    broker.beaten(clock.now + 7, clock.now + 7)
    assert judge(model, line, clock.now + 7, 17)
    assert judge(model, Line(1), clock.now + 7, 17) == []  # a front end that began since knows nothing of it
    assert judge(model, line, clock.now + MERGE_S + 1, 17) == []  # a heartbeat alone brings nothing back
    broker.acknowledged(clock.now + 8, clock.now + 8, [TOPIC])
    assert judge(model, line, clock.now + MERGE_S + 1, 17)
    assert judge(model, Line(1), clock.now + MERGE_S + 1, 17)


def test_an_address_that_took_an_id_just_before_a_loss_is_not_judged_until_it_registers_again(model, broker, clock):
    newer = model.add(BrokerState("b1/0#2", "b1", 0, "1.1.1.1:2", "c1", 9.0, (0, 1)))
    broker.end(clock.now, "unregistered")
    newer.acknowledged(clock.now + 0.1, clock.now + 0.1, [TOPIC])
    line = Line(0, {(TOPIC, newer.uid): newer.life})
    model.lost(clock.now - 1, clock.now + 1)
    assert judge(model, line, clock.now + 2, 0) == []
    newer.acknowledged(clock.now + 3, clock.now + 3, [TOPIC])
    assert judge(model, line, clock.now + 4, 0) != []


def test_a_loss_of_the_last_seconds_leaves_what_is_older(model, broker, clock):
    model.lost(clock.now - 5, clock.now)
    assert judge(model, Line(1), clock.now + 1, 17)


def test_a_silent_broker_must_go_in_time(model, broker, clock):
    broker.end(clock.now, "silent")
    assert judge(model, Line(0), clock.now + 9 + GHOST_SLACK_S - 0.5, 0, rows(broker)) == []
    assert "beyond its bound" in judge(model, Line(0), clock.now + 9 + GHOST_SLACK_S + 0.5, 0, rows(broker))[0]


def test_a_beat_that_redis_lost_keeps_nobody_longer_than_the_one_before(model, broker, clock):
    last = clock.now
    for _ in range(3):
        clock.now += 1
        broker.acknowledged(clock.now, clock.now, [TOPIC])
    model.lost(last + 1.8, clock.now)  # the last two
    kept_until = last + 1 + 9
    assert model.lives(broker, kept_until - 0.5)
    assert not model.lives(broker, kept_until)
    assert model.lived(broker, kept_until - 0.5)
    assert not model.lived(broker, kept_until)
    clock.now += 2
    broker.acknowledged(clock.now, clock.now, [TOPIC])
    assert model.lives(broker, clock.now + 8)


def test_who_left_just_before_a_loss_may_be_back_for_its_timeout(model, broker, clock):
    broker.end(clock.now, "unregistered")
    clock.now += 2
    assert "beyond its bound" in judge(model, Line(0), clock.now + GHOST_SLACK_S, 0, rows(broker))[0]
    model.lost(clock.now - 3, clock.now)
    assert judge(model, Line(0), clock.now + 9, 0, rows(broker)) == []
    assert "beyond its bound" in judge(model, Line(0), clock.now + 9 + GHOST_SLACK_S, 0, rows(broker))[0]


def test_after_a_gap_a_silent_broker_has_what_was_left_of_its_timeout(model, broker, timeline, clock):
    broker.end(clock.now, "silent")
    clock.now += 8
    window(timeline, clock, 5, "redis")
    last = clock.now + 1.5 + 1 + GHOST_SLACK_S  # settling, what was left of its timeout
    assert judge(model, Line(0), last - 0.2, 0, rows(broker)) == []
    assert "beyond its bound" in judge(model, Line(0), last + 0.2, 0, rows(broker))[0]


def test_only_undisturbed_time_counts_against_a_silent_broker(model, broker, timeline, clock):
    broker.end(clock.now, "silent")
    window(timeline, clock, 30, "sweep")
    assert judge(model, Line(0), clock.now + 9, 0, rows(broker)) == []


def test_a_broker_that_unregistered_or_closed_goes_at_once(model, broker, timeline, clock):
    broker.end(clock.now, "unregistered")
    assert judge(model, Line(0), clock.now + GHOST_SLACK_S + 0.5, 0, rows(broker))
    broker.ended = None
    broker.end(clock.now, "closed")
    assert judge(model, Line(0), clock.now + GHOST_SLACK_S + 0.5, 0, rows(broker))
    broker.moved_at = clock.now - 1  # it still stands under its old cluster, too, until that one's deadline
    assert judge(model, Line(0), clock.now + GHOST_SLACK_S + 0.5, 0, rows(broker)) == []


def test_an_address_that_nobody_registered_is_wrong(model, broker, clock):
    stranger = BrokerState("x", "x", 0, "9.9.9.9:9", "c1", 9.0, (0,))
    assert "nobody registered" in judge(model, Line(0), clock.now, 0, rows(broker, stranger))[0]


def test_kv_the_last_acknowledged_value_or_one_that_nobody_knows_the_fate_of(clock):
    kv = KvModel(clock)
    kv.written("a", "1", acked=True)
    kv.written("a", "2", acked=True)
    assert kv.judge({"a": "2"}) == []
    assert "acknowledged was 2" in kv.judge({"a": "1"})[0]
    assert kv.judge({})
    kv.written("a", None, acked=False)
    assert kv.judge({}) == kv.judge({"a": "2"}) == []
    assert "nobody wrote it" in kv.judge({"a": "2", "b": "1"})[0]


def test_kv_only_what_was_acknowledged_during_a_loss_may_be_gone(clock):
    kv = KvModel(clock)
    kv.written("a", "1", acked=True)
    clock.now += 20
    loss = Loss(clock.now - 3, clock.now)
    assert kv.judge({"a": "1"}, [loss]) == []
    assert "acknowledged was 1" in kv.judge({}, [loss])[0]
    clock.now += 5
    kv.written("a", "2", acked=True, sent=clock.now - 6)  # written during it, answered after it
    assert kv.judge({"a": "1"}, [loss]) == kv.judge({"a": "2"}, [loss]) == []
    kv.written("a", None, acked=True)
    assert "acknowledged was None" in kv.judge({"a": "1"}, [loss])[0]
