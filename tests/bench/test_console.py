"""The measurement of the console, small: its steps run, and what it compares is comparable."""

from __future__ import annotations

import pytest

from bench.delays import beside_console, console
from bench.delays.beside_console import Beside, Latency
from mqregistry.embedded import EmbeddedRedis

for library in ("starlette", "uvicorn", "jinja2"):
    pytest.importorskip(library, reason=f"no {library}: pip install -e '.[console]'")


def test_the_ratio_is_of_medians():
    rounds = Beside([Latency(1, 2), Latency(1, 4), Latency(1, 100)], [Latency(2, 6), Latency(3, 1), Latency(4, 8)])
    assert (rounds.ratio("p50"), rounds.ratio("p99")) == (3, 1.5)


def test_a_bar_that_is_missed_is_said():
    full = {"change": [9.0] * 99 + [251.0], "brokers": [20.0], "topics": [40.0], "memory": [120.0]}
    lookups = Beside([Latency(1, 2, 10)], [Latency(1, 2.2, 11)])
    text, held = console.render({"memory": [70.0]}, full, lookups, "one round")
    assert not held
    assert [line for line in text.splitlines() if "MISSED" in line] == [
        "| a change at the front end, until it stands in each of 50 open pages | 9.0 ms | 251.0 ms | p99 ≤ 250 ms | "
        "**MISSED** |"
    ]
    assert console.render({"memory": [70.0]}, full | {"change": [9.0]}, lookups, "one round")[1]
    assert not console.render({"memory": [81.0]}, full | {"change": [9.0]}, lookups, "one round")[1]
    slower = Beside([Latency(1, 2, 10)], [Latency(1, 2.5, 11)])
    assert not console.render({"memory": [70.0]}, full | {"change": [9.0]}, slower, "one round")[1]


@pytest.mark.usefixtures("programs")
@pytest.mark.timeout(180)
async def test_lookups_are_measured_without_a_console_and_beside_one(home, monkeypatch):
    monkeypatch.setattr(beside_console, "TOPICS", 20)
    monkeypatch.setattr(beside_console, "RATE", 200.0)
    with EmbeddedRedis(home) as redis:
        found = await beside_console.measure(redis.url, home, rounds=2, seconds=0.5, pages=3)
    assert [len(rounds) for rounds in found] == [2, 2]
    assert all(0 < one.p50 <= one.p99 and one.cpu_us > 0 for rounds in found for one in rounds)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("empty", [True, False])
async def test_changes_pages_and_memory_are_measured(home, monkeypatch, empty):
    for name, value in (("STREAMS", 3), ("BROKERS", 3), ("TOPICS", 30), ("CHANGES", 5), ("PAGES", 2)):
        monkeypatch.setattr(console, name, value)
    with EmbeddedRedis(home) as redis:
        found = await console.measure(redis.url, home, empty=empty)
    assert {name: len(values) for name, values in found.items()} == {
        "change": 15, "brokers": 2, "topics": 2, "memory": 1,
    }  # fmt: skip
    assert all(value > 0 for values in found.values() for value in values)
