"""The whole tool, with tiny tables: fills, loads, restarts, and writes its report. Speeds mean nothing here."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bench.compare import cores, peers_of
from bench.report import HERE


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("programs")
def test_smoke_run_measures_ours_beside_the_limit(tmp_path):
    command = [sys.executable, "-m", "bench", "compare", "--smoke", "--peers", "ours;c echo server"]
    done = subprocess.run(
        [*command, "--server-cores", "", "--generator-cores", "", "--output", str(tmp_path)],
        cwd=HERE.parent, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    data = json.loads((tmp_path / "results" / "smoke.json").read_text())
    assert [record["wrong"] for record in data["records"]] == [[]] * 4, done.stdout
    steps = {}
    for record in data["records"]:
        steps.setdefault(record["peer"], {}).update(record["values"])
    assert steps["ours"]["S2 64x1"]["sampled"] > 0
    assert steps["ours"]["S4 changed"]["registrations"] > 0
    assert steps["ours"]["register all changed"]["rate"] > 0
    assert steps["ours"]["restart"]["wrong"] == 0
    assert steps["C echo server"].keys() >= {"S1 16x1", "S2 64x1", "S2 64x16", "S2 2000x1"}
    assert "| ≥ 0.75 × the C echo server |" in (tmp_path / "RESULTS.md").read_text()
    assert (tmp_path / "results" / "smoke.svg").exists()


def test_peers_are_named_whole_or_by_pattern():
    def names(choice, full=False):
        return [peer.name for peer in peers_of(choice, full, 100)]

    assert names("") == ["ours", "Java 5.5.0", "C echo server"]
    assert names("ours") == ["ours"]
    assert names("OURS*;java 5.5.0*") == ["ours", "ours, 2 workers", "Java 5.5.0", "Java 5.5.0, 1g heap"]
    assert len(names("", full=True)) == 7


def test_nothing_is_pinned_on_request_or_on_one_core(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {3, 5, 7})
    assert cores(None, None) == ([3], [5])
    assert cores("3,5", "7") == ([3, 5], [7])
    assert cores("", "") == ([], [])
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0})
    assert cores(None, None) == ([], [])
