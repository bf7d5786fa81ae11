"""A failing schedule is made shorter, within its time."""

from __future__ import annotations

from .operations import OPERATIONS
from .schedule import PROFILES, from_json, plan
from .shorten import shorten


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
    for profile in (*PROFILES, "flushall"):
        first = plan(7, profile=profile)
        assert first == plan(7, profile=profile) == from_json(first.to_json())
        assert first != plan(8, profile=profile)
        assert [step.at_s for step in first.steps] == sorted(step.at_s for step in first.steps)


def test_a_profile_names_operations_that_there_are():
    for chances in PROFILES.values():
        assert set(chances) <= set(OPERATIONS)
