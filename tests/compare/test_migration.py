"""Which step of a migration is done, which may be done now, and which was done in the wrong order."""

from __future__ import annotations

import pytest

from mqregistry.compare.migration import Server, Step, StepState, steps

A, B = "10.0.0.11:10911", "10.0.0.12:10911"
CLIENT = "10.0.0.21:40000"


def java(*brokers, clients=(), error="", address="10.0.0.1:9876"):
    return Server(address, error, frozenset(brokers), clients)


def ours(*brokers, error="", address="10.0.0.3:9876"):
    return Server(address, error, frozenset(brokers))


def states(*arguments):
    return {one.step: one.state for one in steps(*arguments)}


def so_far(*done_then_next):
    """The states when these steps are done but the last, which is next; those behind are later."""
    *done, next_one = done_then_next
    return {
        step: StepState.DONE if step in done else StepState.NEXT if step is next_one else StepState.LATER
        for step in Step
    }  # fmt: skip


def test_the_whole_way_in_the_safe_order():
    old = [java(A, B, clients=[CLIENT])]
    assert states(old, [ours(error="nobody listens")], None) == so_far(Step.SERVERS)
    assert states(old, [ours()], ["topic orders"]) == so_far(Step.SERVERS, Step.BROKERS_JOIN)
    assert states(old, [ours(A)], ["topic orders"]) == so_far(Step.SERVERS, Step.BROKERS_JOIN)
    assert states(old, [ours(A, B)], ["topic orders"]) == so_far(Step.SERVERS, Step.BROKERS_JOIN, Step.AGREE)
    joined = (Step.SERVERS, Step.BROKERS_JOIN, Step.AGREE)
    assert states(old, [ours(A, B)], []) == so_far(*joined, Step.CLIENTS_LEAVE)
    assert states([java(A, B)], [ours(A, B)], []) == so_far(*joined, Step.CLIENTS_LEAVE, Step.BROKERS_LEAVE)
    assert states([java(B)], [ours(A, B)], ["topic orders"])[Step.BROKERS_LEAVE] is not StepState.DONE
    left = (*joined, Step.CLIENTS_LEAVE, Step.BROKERS_LEAVE, Step.STOP)
    assert states([java()], [ours(A, B)], ["topic orders"]) == so_far(*left)
    assert set(states([java(error="nobody listens")], [ours(A, B)], None).values()) == {StepState.DONE}


def test_each_new_name_server_needs_each_broker():
    both = [ours(A, B), ours(A, address="10.0.0.4:9876")]
    (join,) = (one for one in steps([java(A, B)], both, []) if one.step is Step.BROKERS_JOIN)
    assert (join.state, join.why) == (StepState.NEXT, f"10.0.0.4:9876 lacks {B}")


@pytest.mark.parametrize("there", [(), (B,)], ids=["all of them", "one of them"])
def test_brokers_that_leave_before_clients_are_the_wrong_order(there):
    found = {one.step: one for one in steps([java(*there, clients=[CLIENT])], [ours(A, B)], [])}
    wrong = found[Step.CLIENTS_LEAVE]
    assert wrong.state is StepState.WRONG
    assert A in wrong.why
    assert f"{CLIENT} at 10.0.0.1:9876" in wrong.why
    assert (found[Step.BROKERS_LEAVE].state, found[Step.STOP].state) == (StepState.LATER, StepState.LATER)


def test_who_is_connected_may_be_unknown_and_then_nobody_leaves():
    found = states([java(A, clients=None)], [ours(A)], [])
    assert found[Step.CLIENTS_LEAVE] is StepState.UNKNOWN
    assert found[Step.BROKERS_LEAVE] is StepState.LATER


def test_a_registry_without_brokers_is_not_at_its_end():
    for old in (java(), java(error="nobody listens")):
        assert states([old], [ours()], [])[Step.STOP] is StepState.LATER
        assert states([old], [ours()], [])[Step.BROKERS_JOIN] is StepState.NEXT
