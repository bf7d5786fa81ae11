"""The costs of a decision are those of requests that are decided on."""

from __future__ import annotations

from bench.costs.authorization import measured


async def test_every_step_runs_and_takes_time():
    tables = await measured(1)
    assert [len(steps) for steps in tables] == [12, 5]
    assert all(ns > 0 for steps in tables for _, ns in steps)
