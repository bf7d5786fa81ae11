"""The whole tool, with tiny tables: fills, loads, restarts, and writes its report. Speeds mean nothing here."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bench.compare import SMOKE, Comparison, cores, peers_of, read_records, save
from bench.report import HERE
from bench.shapes import S2
from tests.interop.rocketmq import Unavailable


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
    assert [record["wrong"] for record in data["records"]] == [[]] * 5, done.stdout
    steps = {}
    for record in data["records"]:
        steps.setdefault(record["peer"], {}).update(record["values"])
    assert steps["ours"]["S2 64x1"]["sampled"] > 0
    assert steps["ours"]["S4 changed"]["registrations"] > 0
    assert steps["ours"]["register all changed"]["rate"] > 0
    assert steps["ours"]["restart"]["wrong"] == 0
    assert steps["C echo server"].keys() >= {"S1 16x1", "S2 64x1", "S2 64x16", "S2 2000x1"}
    assert len(steps["ours, changes"]["lag"]["lags_ms"]) > 0
    assert "| ≥ 0.75 × the C echo server |" in (tmp_path / "RESULTS.md").read_text()
    assert (tmp_path / "latency-smoke.svg").exists()


def test_peers_are_named_whole_or_by_pattern():
    def names(choice, full=False):
        return [peer.name for peer in peers_of(choice, full, 100, 40_000)]

    assert names("") == ["ours", "Java 5.5.0", "C echo server"]
    assert names("ours") == ["ours"]
    assert names("c echo server*") == ["C echo server", "C echo server, 40,000 answers"]
    assert names("OURS*;java 5.5.0*") == ["ours", "ours, 2 workers", "Java 5.5.0", "Java 5.5.0, 1g heap"]
    assert len(names("", full=True)) == 8


ABOUT = {"commit": "abc", "machine": "m", "python": "3", "cores": {"server": [0]}, "effort": {"ladder": (1, 2)},
         "rounds_planned": 5, "date": "today"}  # fmt: skip


def comparison(tmp_path, records=()):
    about = dict(ABOUT)
    run = Comparison(SMOKE, S2, tmp_path, [], [], records)
    run.save = lambda: save(tmp_path / "full.json", about, run.records)
    return run


def test_interrupted_run_keeps_what_it_measured_and_does_not_measure_it_again(tmp_path):
    def measure(record):
        record.add("S2 64x1", rate=1.0)

    def interrupted(record):
        raise KeyboardInterrupt

    run = comparison(tmp_path)
    run.record("ours", "S2", 1, measure)
    with pytest.raises(KeyboardInterrupt):
        run.record("ours", "S2", 2, interrupted)

    later = {**ABOUT, "date": "tomorrow"}
    again = comparison(tmp_path, read_records(tmp_path / "full.json", later))
    assert later["date"] == "today"
    for number in (1, 2):
        again.record("ours", "S2", number, measure if number == 2 else interrupted)
    assert [(record.round, record.values) for record in again.records] == [
        (number, {"S2 64x1": {"rate": 1.0}}) for number in (1, 2)
    ]


def test_what_another_commit_or_effort_measured_is_not_gone_on_with(tmp_path):
    comparison(tmp_path).save()
    for what, other in (("commit", "def"), ("effort", {"ladder": (1,)})):
        with pytest.raises(SystemExit, match=f"is of another {what}"):
            read_records(tmp_path / "full.json", {**ABOUT, what: other})
    assert read_records(tmp_path / "nothing.json", dict(ABOUT)) == []


def test_server_that_fails_is_a_record_with_a_reason(tmp_path):
    def fails(record):
        raise Unavailable("no such peer")

    run = comparison(tmp_path)
    run.record("Java 9", "S2", 1, fails)
    assert run.records[0].wrong == ["S2: no such peer"]
    assert json.loads((tmp_path / "full.json").read_text())["records"][0]["peer"] == "Java 9"


def test_nothing_is_pinned_on_request_or_on_one_core(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {3, 5, 7})
    assert cores(None, None) == ([3], [5])
    assert cores("3,5", "7") == ([3, 5], [7])
    assert cores("", "") == ([], [])
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0})
    assert cores(None, None) == ([], [])
