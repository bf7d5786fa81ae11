"""The same random operations at the Java NameServer and at ours: the same answers, the same tables at the end."""

from __future__ import annotations

import pytest

from bench.servers.processes import Processes
from tests.interop.conftest import release_or_skip

from .__main__ import search
from .run import Pair, start_pair

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

RELEASES = ("4.8.0", "5.3.3", "5.5.0")
SEQUENCES = 100


@pytest.fixture(scope="module", params=RELEASES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    release = release_or_skip(request.param)
    processes = Processes(tmp_path_factory.mktemp("differential"))
    try:
        pair = start_pair(processes, release)
        yield pair
        pair.close()
    finally:
        processes.close()


def test_random_sequences_differ_in_nothing_but_what_is_deliberate(pair: Pair, capsys: pytest.CaptureFixture) -> None:
    """The same sequences each time: new ones are for the long runner, where somebody can follow up."""
    found = search(pair, first_seed=1, sequences=SEQUENCES, length=60)
    assert not found, capsys.readouterr().out
