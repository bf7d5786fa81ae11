"""A few seconds of what `python -m tests.fuzz` does for minutes, and everything that it ever found."""

from __future__ import annotations

import re
from random import Random

import pytest

from bench.servers.processes import wait_until
from tests.hostile.request_fields import CODES

from . import __main__ as fuzz
from .found import FOUND
from .live import Live, Wrong
from .mutate import Stream, requests_by_code, stream
from .protocol import Tally, try_stream

SEED = 1
STREAMS, LIVE_STREAMS = 1000, 1500
CHECK_EVERY = 100
MB = 1 << 20
HELD_UP_S = 10.0
"""How long another client may wait at most, on a machine that is busy with other tests."""


@pytest.fixture(scope="module")
def live():
    live = Live()
    yield live
    live.close()


def test_streams_without_a_network_raise_nothing_of_their_own() -> None:
    tally = Tally()
    for number in range(STREAMS):
        try_stream(stream(SEED, number).data, Random(number), tally)
    # that it still gets beyond the front door
    assert tally.frames > STREAMS
    assert tally.commands > STREAMS
    assert tally.refusals > STREAMS


def test_streams_over_the_wire_are_answered_or_hung_up_on_and_harm_nobody(live: Live) -> None:
    live.check()
    before = live.rss()
    for number in range(LIVE_STREAMS):
        live.try_stream(stream(SEED, number))
        if number % CHECK_EVERY == 0:
            live.check()
    live.check()
    assert live.rss() < before + 64 * MB
    # that some of it is good, some bad, and some no frame at all
    assert live.hung_up > 0
    assert live.codes[0] > LIVE_STREAMS / 2
    assert live.codes[1] > LIVE_STREAMS / 20


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_once_stays_found(name: str) -> None:
    live = Live()  # its log has the first of all refusals
    try:
        live.try_stream(Stream(FOUND[name](), framed=True))
        assert live.check() < HELD_UP_S
        refusal = re.compile(r"request 103 .*: at most \d+ are taken")
        wait_until("its refusal is logged", lambda: any(map(refusal.search, list(live.log))), 60)
    finally:
        live.close()


def test_a_stream_comes_from_its_number_alone() -> None:
    assert [stream(3, number) for number in range(20)] == [stream(3, number) for number in range(20)]
    assert len({stream(3, number).data for number in range(100)}) > 95


def test_every_request_code_is_fuzzed() -> None:
    groups, weights = requests_by_code()
    assert set(CODES) <= {group[0].header.get("code") for group in groups}
    assert min(weights) > 0


def test_a_finding_is_told_and_the_run_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(*_: object) -> None:
        raise Wrong("it complained")

    monkeypatch.setattr("sys.argv", ["fuzz", "--no-live", "--minutes", "0.001", "--seed", "3"])
    assert fuzz.main() == 0
    assert "seed 3: 0 findings" in capsys.readouterr().out
    monkeypatch.setattr(fuzz, "try_stream", wrong)
    monkeypatch.setattr("sys.argv", ["fuzz", "--no-live", "--seed", "3", "--findings", "2"])
    assert fuzz.main() == 1
    told = capsys.readouterr().out
    assert "FINDING 1: seed 3 stream 0: Wrong: it complained" in told
    assert "seed 3: 2 findings" in told
