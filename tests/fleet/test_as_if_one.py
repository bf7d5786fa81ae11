"""The same random operations at one front end, and at three in turn: the same answers, tables, events."""

from __future__ import annotations

import os

import hypothesis
import pytest
from hypothesis import strategies as st

from bench.servers.processes import Processes
from tests.differential.steps import Step, draw_step

from .run import FleetPair
from .start import start_pair

FRONT_ENDS = 3
SEQUENCES = 12 * int(os.environ.get("MQREGISTRY_TEST_TIMES", "1"))  # more of them by hand
STEPS = 60


@st.composite
def a_step(draw: st.DrawFn) -> Step:
    return draw_step(lambda bound: draw(st.integers(0, bound - 1)))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory):
    processes = Processes(tmp_path_factory.mktemp("fleet"))
    try:
        pair = start_pair(processes, FRONT_ENDS)
        yield pair
        pair.close()
    finally:
        processes.close()


@pytest.mark.timeout(300)
def test_random_sequences_spread_over_three_front_ends_are_as_at_one(pair: FleetPair) -> None:
    @hypothesis.settings(
        max_examples=SEQUENCES, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.given(st.lists(a_step(), min_size=STEPS, max_size=STEPS))
    def run(steps: list[Step]) -> None:
        pair.run(steps)

    run()
