"""A failing schedule is made shorter, within its time."""

from __future__ import annotations

import pytest

from .operations import OPERATIONS
from .schedule import PROFILES, Plan, Step, from_json, plan
from .shorten import shorten
from .variants import SENTINEL, SINGLE, VARIANTS


def test_only_what_is_needed_for_the_failure_stays():
    asked = []

    def fails(steps):
        asked.append(list(steps))
        return {3, 11} <= set(steps)

    assert shorten(list(range(14)), fails, within_s=60) == [3, 11]
    assert len(asked) < 40
    assert [] not in asked


def test_one_step_is_not_played_again():
    assert shorten([1], lambda steps: False, within_s=60) == [1]


def test_it_ends_when_its_time_is_over():
    clock = iter(range(1000))
    played = []

    def fails(steps):
        played.append(steps)
        return False

    assert shorten(list(range(64)), fails, within_s=5, now=lambda: next(clock)) == list(range(64))
    assert len(played) <= 5


def test_the_same_seed_gives_the_same_plan_and_a_plan_can_be_written_down():
    for profile, variant in (*((name, SINGLE) for name in PROFILES if name != "failovers"), ("failovers", SENTINEL)):
        first = plan(7, profile=profile, variant=variant)
        assert first == plan(7, profile=profile, variant=variant) == from_json(first.to_json())
        assert first != plan(8, profile=profile, variant=variant)
        assert [step.at_s for step in first.steps] == sorted(step.at_s for step in first.steps)


def test_a_plan_has_the_operations_of_its_variant_alone():
    for variant in VARIANTS:
        for profile in ("all", "losses", "flushall"):
            kinds = {step.kind for step in plan(7, steps=500, profile=profile, variant=variant).steps}
            assert all(variant in OPERATIONS[kind].variants for kind in kinds)
    with pytest.raises(ValueError, match="--schedule failovers has nothing that --redis single can play"):
        plan(7, profile="failovers")
    foreign = Plan(7, (Step(1.0, "link_cut", 1),), SENTINEL)
    with pytest.raises(ValueError, match="a plan of --redis sentinel cannot have link_cut"):
        from_json(foreign.to_json())


def test_a_profile_names_operations_that_there_are():
    for chances in PROFILES.values():
        assert set(chances) <= set(OPERATIONS)
