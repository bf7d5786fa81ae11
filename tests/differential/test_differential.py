"""The same random operations at the Java NameServer and at ours: the same answers, the same tables at the end."""

from __future__ import annotations

import hypothesis
import pytest
from hypothesis import strategies as st

from bench.servers.processes import Processes
from tests.interop.conftest import release_or_skip

from .run import Pair, start_pair
from .steps import Step, draw_step

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

# release of the Java NameServer -> sequences
SEQUENCES = {"4.8.0": 100, "5.3.3": 100, "5.5.0": 100}
STEPS = 60


@st.composite
def a_step(draw: st.DrawFn) -> Step:
    return draw_step(lambda bound: draw(st.integers(0, bound - 1)))


@pytest.fixture(scope="module", params=SEQUENCES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    release = release_or_skip(request.param)
    processes = Processes(tmp_path_factory.mktemp("differential"))
    try:
        pair = start_pair(processes, release)
        yield pair
        pair.close()
    finally:
        processes.close()


def test_random_sequences_differ_in_nothing_but_what_is_deliberate(pair: Pair) -> None:
    @hypothesis.settings(
        max_examples=SEQUENCES[pair.version],
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    # All of one length: the plainest step is "nothing", which is what shrinking makes of the superfluous.
    @hypothesis.given(st.lists(a_step(), min_size=STEPS, max_size=STEPS))
    def run(steps: list[Step]) -> None:
        pair.run(steps)

    run()
