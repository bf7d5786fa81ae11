"""Runs the suites that belong to a comparison: the delay of a change, and the start of `mqregistry up`.

Each suite (`python -m bench lag`, `start`) runs in a process of its own on all cores. For a second checkout that
checkout's suite runs, with its own Python.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.compare.comparison import Comparison
from bench.compare.life import Record
from bench.load.tool import LoadFailed, pinned
from bench.servers.checkout import Checkout

LAG, UP = "ours, changes", "mqregistry up"
PATIENCE_S = 300
_TINY = ("--brokers", "2", "--topics", "20", "--lookups", "100", "--every-s", "1")


def lag_peer(checkout: str = "") -> str:
    """The name of the lag's records for this checkout, or for the one with the given name."""
    return f"{checkout}, changes" if checkout else LAG


def up_peer(checkout: str = "") -> str:
    """The name of the records of `mqregistry up` for this checkout, or for the one with the given name."""
    return f"{checkout}, mqregistry up" if checkout else UP


def lag(run: Comparison, number: int, cores: Sequence[int], *, tiny: bool, checkout: Checkout | None = None) -> None:
    """Measure how long a change takes to reach every worker of two front ends, while S4's load runs."""

    def measure(record: Record) -> None:
        options = ["--seconds", str(run.effort.lag_s), *(_TINY if tiny else ())]
        figures = _suite(run.folder, "lag", options, cores, checkout)
        lags_ms = sorted(lag_ms for lags in figures["lags_ms"] for lag_ms in lags)
        record.add("lag", p50_ms=figures["p50_ms"], p999_ms=figures["p99.9_ms"], lags_ms=lags_ms)
        run.say(f"lag: p50 {figures['p50_ms']:.2f}, p99.9 {figures['p99.9_ms']:.1f} ms of {len(lags_ms)}")

    run.record(lag_peer(checkout.name if checkout else ""), "lag", number, measure)


def up(run: Comparison, cores: Sequence[int], checkout: Checkout | None = None) -> None:
    """Measure how long `mqregistry up` takes to start and to end."""

    def measure(record: Record) -> None:
        for what, seconds in _suite(run.folder, "start", [], cores, checkout).items():
            record.add(what, seconds=seconds)

    run.record(up_peer(checkout.name if checkout else ""), "start", 1, measure)


def _suite(
    folder: Path, name: str, options: Sequence[str], cores: Sequence[int], checkout: Checkout | None
) -> dict[str, Any]:
    """Run a suite; return the content of the file that it writes with ``--json``.

    Raises:
        LoadFailed: the suite wrote no file.
    """
    path = folder / f"{name}.json"
    path.unlink(missing_ok=True)
    python, home = (checkout.python, checkout.folder) if checkout else (sys.executable, Path(__file__).parents[2])
    command = pinned([python, "-m", "bench", name, *options, "--json", str(path)], cores)
    try:
        done = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired as error:
        raise LoadFailed(f"bench {name} was not done after {PATIENCE_S} s") from error
    if not path.exists():
        raise LoadFailed(f"bench {name} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return dict(json.loads(path.read_text()))
