"""The same random operations at one front end, and at three in turn: the same answers, tables, events."""

from __future__ import annotations

import os

import pytest

from bench.servers.processes import Processes
from tests.differential.__main__ import search

from .run import FleetPair
from .start import start_pair

FRONT_ENDS = 3
SEQUENCES = 12 * int(os.environ.get("MQREGISTRY_TEST_TIMES", "1"))  # more of them by hand


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
def test_random_sequences_spread_over_three_front_ends_are_as_at_one(
    pair: FleetPair, capsys: pytest.CaptureFixture
) -> None:
    found = search(pair, first_seed=1, sequences=SEQUENCES, length=60)
    assert not found, capsys.readouterr().out
