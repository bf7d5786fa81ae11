"""Two rounds of the campaign, always the same; python -m tests.campaign plays as many as there is time for."""

from __future__ import annotations

import pytest

from .round import play
from .schedule import plan


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_round_without_a_finding(seed):
    outcome = play(plan(seed, length_s=10, steps=7))
    assert not outcome.wrong, "\n".join(outcome.wrong[:5]) + outcome.logs
    assert sum(outcome.done.values()) >= 4
