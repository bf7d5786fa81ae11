"""Rounds of the campaign, always the same; python -m tests.campaign plays as many as there is time for."""

from __future__ import annotations

import pytest

from .round import play
from .schedule import Plan, Step, plan
from .variants import SENTINEL


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_round_without_a_finding(seed):
    outcome = play(plan(seed, length_s=10, steps=7))
    assert not outcome.wrong, "\n".join(outcome.wrong[:5]) + outcome.logs
    assert sum(outcome.done.values()) >= 4


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_master_that_its_sentinels_replace_without_a_finding():
    outcome = play(Plan(1, (Step(0.2, "new_topics", 3), Step(0.3, "master_killed", 4)), SENTINEL))
    assert not outcome.wrong, "\n".join(outcome.wrong[:5]) + outcome.logs
    assert outcome.done["master_killed"] == 1
