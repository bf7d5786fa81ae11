"""Plans: the same seed gives the same day, and a day makes sense."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict

import msgspec
import pytest

from mqregistry.simulate.day import DAY_MS, DayShape, Op, OpKind, SimulatedBroker
from mqregistry.simulate.plan import make_plan
from tests.simulate_oracle.expect import Expected

SHORT = DayShape(duration_ms=18_000, servers=2)
SEEDS = range(1, 13)


def test_same_shape_gives_the_same_plan_and_another_seed_another():
    assert make_plan(SHORT).json_lines() == make_plan(SHORT).json_lines()
    assert make_plan(SHORT).ops != make_plan(msgspec.structs.replace(SHORT, seed=2)).ops


def test_more_clients_make_no_other_incidents():
    def without_lookups(shape):
        return [op for op in make_plan(shape).ops if op.kind is not OpKind.LOOKUP]

    assert without_lookups(SHORT) == without_lookups(msgspec.structs.replace(SHORT, clients=50, lookups_per_s=200.0))


@pytest.mark.parametrize("shape", [SHORT, DayShape(servers=2), DayShape(servers=3, brokers=20)])
def test_every_kind_of_operation_occurs(shape):
    for seed in SEEDS[:6]:
        kinds = {op.kind for op in make_plan(msgspec.structs.replace(shape, seed=seed)).ops}
        assert kinds == set(OpKind), seed


@pytest.mark.parametrize("seed", SEEDS)
def test_operations_are_in_order_and_each_process_does_what_it_can(seed):
    plan = make_plan(msgspec.structs.replace(SHORT, seed=seed))
    assert all(one.at_ms <= other.at_ms for one, other in itertools.pairwise(plan.ops))
    may_follow = {
        "down": {OpKind.START},
        "up": {OpKind.BEAT, OpKind.ASK, OpKind.TOUCH, OpKind.REGISTER, OpKind.CLOSE, OpKind.SILENCE, OpKind.LEAVE,
               OpKind.UNLINK, OpKind.RELINK},
        "hung": {OpKind.EXPIRE},
    }  # fmt: skip
    state = defaultdict(lambda: "down")
    for op in plan.ops:
        if op.id is not None:
            process = op.broker, op.id
            assert op.kind in may_follow[state[process]], op
            if op.kind in (OpKind.CLOSE, OpKind.LEAVE, OpKind.EXPIRE):
                state[process] = "down"
            elif op.kind in (OpKind.START, OpKind.SILENCE):
                state[process] = "up" if op.kind is OpKind.START else "hung"
        elif op.kind is not OpKind.LOOKUP:  # nobody knows to the millisecond when a broker that hangs is dropped
            hung = {name for (name, _), its in state.items() if its == "hung"}
            assert not hung.intersection([op.broker, *op.brokers]), op
    assert set(state.values()) == {"down"}, "every broker says goodbye"


@pytest.mark.parametrize("seed", SEEDS)
def test_planned_silence_is_longer_than_any_other(seed):
    plan = make_plan(msgspec.structs.replace(SHORT, seed=seed))
    members = plan.members()
    last, longest = {}, Counter()
    for op in plan.ops:
        if op.id is not None:
            process = op.broker, op.id
            if op.kind in (OpKind.BEAT, OpKind.ASK, OpKind.TOUCH) and process in last:
                longest[process] = max(longest[process], op.at_ms - last[process])
            if op.kind in (OpKind.CLOSE, OpKind.LEAVE, OpKind.SILENCE):
                last.pop(process, None)
            else:
                last[process] = op.at_ms
    for process, silence_ms in longest.items():
        assert silence_ms < 0.75 * members[process].timeout_ms, process


def test_topics_are_looked_up_by_zipf_some_never_and_some_do_not_exist():
    plan = make_plan(msgspec.structs.replace(SHORT, lookups_per_s=500.0))
    asked = Counter(op.topic for op in plan.ops if op.kind is OpKind.LOOKUP)
    known = {topic for broker in plan.brokers for topic in broker.topics}
    assert set(plan.never) & set(asked)
    assert not set(plan.never) & known
    assert plan.quiet
    assert not set(plan.quiet) & set(asked)
    most = [count for topic, count in asked.most_common() if topic not in plan.never]
    assert most[0] > 4 * most[9] > 0
    assert plan.always
    assert set(plan.always) <= known


def test_goodbye_is_left_out_when_it_is_not_wanted():
    ops = make_plan(msgspec.structs.replace(SHORT, goodbye=False)).ops
    gone = {(op.broker, op.id) for op in ops if op.at_ms == SHORT.duration_ms and op.kind is OpKind.LEAVE}
    assert not gone


def test_real_time_is_that_of_rocketmq():
    shape = DayShape.scaled(1, DAY_MS)
    assert (shape.duration_ms, shape.beat_ms, shape.timeout_ms) == (DAY_MS, 30_000, 120_000)
    assert (shape.touch_ms, shape.acting_timeout_ms) == (1_000, 10_000)
    assert DayShape.scaled(1440, DAY_MS).duration_ms == 60_000


# what a plan must make of the tables

EMPTY = make_plan(DayShape(brokers=1, clusters=1, topics=0, clients=0, duration_ms=1_000))


def expected(kind: str, *ids: int, topics: dict | None = None) -> Expected:
    """A plan of one broker, whose operations the test makes itself."""
    from mqregistry.simulate.day import Member

    acting = kind == "acting"
    members = tuple(Member("b", number, "c", f"127.10.0.{number}:1", acting, 3000) for number in ids)
    broker = SimulatedBroker("b", "c", kind, False, members, topics or {"t": (4, 4, 6), "u": (2, 2, 7)})
    return Expected(msgspec.structs.replace(EMPTY, brokers=(broker,)))


def test_a_slave_brings_no_topics_unless_it_acts():
    pair = expected("pair", 0, 1)
    assert pair.apply(Op(0, OpKind.START, "b", 1)).topics == {}
    assert pair.apply(Op(1, OpKind.START, "b", 0)).topics == {"t": (4, 4, 6), "u": (2, 2, 7)}
    acting = expected("acting", 0, 1)
    assert acting.apply(Op(0, OpKind.START, "b", 1)).topics == {"t": (4, 4, 4), "u": (2, 2, 5)}
    assert acting.apply(Op(1, OpKind.START, "b", 0)).topics == {"t": (4, 4, 6), "u": (2, 2, 7)}


def test_a_name_that_loses_its_master_cannot_be_written_to_where_masters_are_stood_in_for():
    for kind, topics in (("pair", {}), ("acting", {"t": (4, 4, 4), "u": (2, 2, 5)})):
        model = expected(kind, 0, 1)
        model.apply(Op(0, OpKind.START, "b", 0))
        model.apply(Op(1, OpKind.START, "b", 1))
        gone = model.apply(Op(2, OpKind.CLOSE, "b", 0))
        assert (gone.type, gone.addrs, gone.topics) == ("broker_closed", {1: "127.10.0.1:1"}, topics)
        assert model.apply(Op(3, OpKind.BEAT, "b", 1)) is None


def test_a_wiped_permission_survives_beats_and_ends_with_a_changed_table():
    model = expected("single", 0)
    model.apply(Op(0, OpKind.START, "b", 0))
    assert model.apply(Op(1, OpKind.WIPE, "b")).topics == {"t": (4, 4, 4), "u": (2, 2, 5)}
    assert model.apply(Op(2, OpKind.WIPE, "b")) is None
    assert model.apply(Op(3, OpKind.BEAT, "b", 0)) is None
    model.apply(Op(4, OpKind.PUT_TOPIC, "b", topic="v", queues=(1, 1, 6)))
    assert model.apply(Op(4, OpKind.REGISTER, "b", 0)).topics == {"t": (4, 4, 6), "u": (2, 2, 7), "v": (1, 1, 6)}
    assert model.apply(Op(5, OpKind.ADD, "b")).topics == {"u": (2, 2, 6)}


def test_a_deleted_topic_returns_with_the_next_beat_of_a_broker_that_has_it():
    model = expected("single", 0)
    model.apply(Op(0, OpKind.START, "b", 0))
    assert model.apply(Op(1, OpKind.DELETE_TOPIC, topic="t", brokers=("b",))).brokers == ("b",)
    assert model.apply(Op(2, OpKind.DELETE_TOPIC, topic="t", brokers=("b",))) is None
    assert model.apply(Op(3, OpKind.BEAT, "b", 0)).topics == {"t": (4, 4, 6)}


def test_beats_are_counted_where_there_is_a_connection():
    model = Expected(make_plan(msgspec.structs.replace(EMPTY.shape, servers=3, incidents=0.0)))
    name = EMPTY.brokers[0].name
    model.apply(Op(0, OpKind.START, name, 0))
    model.apply(Op(1, OpKind.UNLINK, name, 0, 1))
    model.apply(Op(2, OpKind.BEAT, name, 0))
    model.apply(Op(3, OpKind.RELINK, name, 0, 1))
    model.apply(Op(4, OpKind.TOUCH, name, 0))
    assert list(model.beats.values()) == [3 + 2 + 1 + 3]
