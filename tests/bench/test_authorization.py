"""The costs of a decision are those of requests that are decided on."""

from __future__ import annotations

import pytest

from bench.costs import signed_load
from bench.costs.authorization import TINY, measured
from bench.costs.signed_load import BEFORE, LOADS, MODES, OFF, PLAIN, SIGNED, Took
from bench.load.tool import NoCompiler, build


async def test_every_step_runs_and_takes_time():
    tables = await measured(1)
    assert [len(steps) for steps in tables] == [30, 5]
    assert all(ns > 0 for steps in tables for _, ns in steps)


def test_every_kind_of_front_end_takes_every_load_and_refuses_nothing():
    """A refusal ends it: so rules, signatures and the brokers' addresses fit."""
    try:
        build("loadgen")
    except NoCompiler as error:
        pytest.skip(str(error))
    said = []
    times = signed_load.measure(TINY, 1, 0.1, None, [], [], said.append)
    assert {kind: {*loads} for kind, loads in times.items()} == {kind: {*LOADS} for kind in MODES}
    assert all(took.time > 0 and took.cpu >= 0 for loads in times.values() for one in loads.values() for took in one)
    assert said == ["round 1 of 1"]


def times_of(**factors):
    """Three rounds, each on a machine of another speed."""
    rounds = (1.0, 5.0, 2.0)
    took = {kind: [Took(one * by, one * by) for one in rounds] for kind, by in factors.items()}
    return {kind: dict.fromkeys(LOADS, each) for kind, each in took.items()}


def test_pairs_of_one_round_are_compared():
    lines, held = signed_load.report(times_of(**{BEFORE: 1.0, OFF: 1.0, "not signed": 1.01, SIGNED: 1.04}))
    assert held
    assert "| lookups | not signed | before | +1.0 % (+1.0 to +1.0) | +1.0 % (+1.0 to +1.0) | 2 % | OK |" in lines
    times = times_of(**{BEFORE: 1.0, OFF: 1.0, PLAIN: 1.0, SIGNED: 1.07})
    lines, held = signed_load.report(times)
    assert not held
    assert [line.split(" | ")[0] for line in lines if "MISSED" in line] == ["| lookups"]


def test_what_was_not_measured_is_not_held():
    lines, held = signed_load.report(times_of(**{OFF: 1.0, PLAIN: 1.0, SIGNED: 1.0}))
    assert not held
    assert sum("not measured (--before)" in line for line in lines) == len(LOADS)
