"""The whole tool, with tiny tables: fills, loads, restarts, and writes its report. Speeds mean nothing here."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bench.compare import growth, suites
from bench.compare.command import SMOKE, peers_of, small_of, with_checkouts
from bench.compare.comparison import Comparison, read_records, save
from bench.compare.life import is_steady
from bench.compare.report import FOLDER
from bench.load.shapes import GROWTH, S2
from bench.servers.checkout import NoCheckout, checkouts
from bench.servers.machine import cores
from bench.servers.peers import Ours, serve
from bench.servers.processes import Processes
from bench.servers.rocketmq import Unavailable


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("programs")
def test_smoke_run_measures_ours_beside_the_limit(tmp_path):
    command = [sys.executable, "-m", "bench", "compare", "--smoke", "--peers", "ours;c echo server"]
    done = subprocess.run(
        [*command, "--server-cores", "", "--generator-cores", "", "--output", str(tmp_path)],
        cwd=FOLDER.parent, capture_output=True, text=True,
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
    assert "| ≥ 0.75 × the C echo server with 40,000 answers |" in (tmp_path / "RESULTS.md").read_text()
    assert (tmp_path / "latency-smoke.svg").exists()


def test_peers_are_named_whole_or_by_pattern():
    def names(choice, full=False):
        return [peer.name for peer in peers_of(choice, full, 100, 40_000)]

    assert names("") == ["ours", "Java 5.5.0", "C echo server", "C echo server, 40,000 answers"]
    assert names("ours") == ["ours"]
    assert names("c echo server*") == ["C echo server", "C echo server, 40,000 answers"]
    assert names("OURS*;java 5.5.0*") == ["ours", "ours, 2 workers", "Java 5.5.0", "Java 5.5.0, 1g heap"]
    assert len(names("", full=True)) == 8


@pytest.mark.parametrize(
    ("rates", "steady"),
    [([], False), ([9, 9], False), ([5, 9, 9.1, 9.2], True), ([9, 9, 9, 9.4], False), ([10, 9, 9.1], False)],
)
def test_a_server_is_warm_when_three_windows_are_alike(rates, steady):
    assert is_steady(rates) == steady


def checkout(folder, scripts=("mqregistry", "python")):
    """A folder that looks like a checkout with a ``.venv``."""
    (folder / ".venv" / "bin").mkdir(parents=True)
    for script in scripts:
        (folder / ".venv" / "bin" / script).touch()
    return folder


def test_checkouts_of_one_commit_have_names_of_their_own(tmp_path, monkeypatch):
    (unpacked,) = checkouts([checkout(tmp_path / "release")])
    assert unpacked.name == "ours at release"
    monkeypatch.setattr("bench.servers.checkout.commit_of", lambda folder: "abc")
    first, second = checkouts([checkout(tmp_path / "before"), checkout(tmp_path / "other")])
    assert [first.name, second.name] == ["ours at abc", "ours at abc (other)"]
    assert first.command == [str(tmp_path / "before" / ".venv" / "bin" / "mqregistry")]


def test_a_checkout_without_this_project_is_refused(tmp_path):
    with pytest.raises(NoCheckout, match=r"there is no .*/bin/mqregistry"):
        checkouts([checkout(tmp_path / "before", scripts=["python"])])


def test_a_checkout_is_measured_next_to_ours_and_first_in_every_second_round(tmp_path):
    (before,) = checkouts([checkout(tmp_path / "before")])
    peers = peers_of("ours*;c echo server", False, 100, 40_000)
    odd, even = (with_checkouts(peers, [before], number) for number in (1, 2))
    name = before.name
    assert [peer.name for peer in odd] == ["ours", name, "ours, 2 workers", f"{name}, 2 workers", "C echo server"]
    assert [peer.name for peer in even] == [name, "ours", f"{name}, 2 workers", "ours, 2 workers", "C echo server"]
    assert [peer.name for peer in small_of(odd)] == ["ours", name, "C echo server"]
    assert with_checkouts(peers, [], 1) == peers


def test_growth_lag_and_start_are_recorded_for_a_checkout_too(tmp_path):
    (before,) = checkouts([checkout(tmp_path / "before")])
    recorded = []
    run = comparison(tmp_path)
    run.record = lambda peer, shape, number, measure: recorded.append((peer, shape))
    growth.measure(run, [before])
    for each in (None, before):
        suites.lag(run, 1, [], tiny=True, checkout=each)
        suites.up(run, [], each)
    ours = [(peer, shape) for peer, shape in recorded if before.name not in peer]
    assert ("S8 1", GROWTH[-1].name) in ours
    assert {("ours, changes", "lag"), ("mqregistry up", "start")} < set(ours)
    assert len(recorded) == 2 * len(ours) == 2 * len(set(ours))
    assert (growth.peer_name(4, before.name), GROWTH[1].name) in recorded


def test_a_checkouts_suites_are_run_by_its_own_python(tmp_path):
    python = checkout(tmp_path / "before") / ".venv" / "bin" / "python"
    python.write_text('#!/bin/sh\nwhile [ "$1" != --json ]; do shift; done\necho "{\\"again\\": 0.5}" > "$2"\n')
    python.chmod(0o755)
    (before,) = checkouts([tmp_path / "before"])
    run = comparison(tmp_path)
    suites.up(run, [], before)
    assert [(record.peer, record.values) for record in run.records] == [
        (f"{before.name}, mqregistry up", {"again": {"seconds": 0.5}})
    ]


def test_a_checkouts_front_end_is_started_by_its_own_command(tmp_path):
    script = checkout(tmp_path / "before") / ".venv" / "bin" / "mqregistry"
    script.write_text('#!/bin/sh\necho "$0 $@"\n')
    script.chmod(0o755)
    (before,) = checkouts([tmp_path / "before"])
    processes = Processes(tmp_path / "processes")
    try:
        running = serve(processes, "unix:///nowhere", 1, [], "--workers", "1", mqregistry=before.command)
        running.wait_for_output(f"{script} serve --redis unix:///nowhere", 10)
        with pytest.raises(Unavailable, match=r"ended with 0"):
            Ours(checkout=before).start(processes, [])
    finally:
        processes.close()


ABOUT = {"commit": "abc", "machine": "m", "python": "3", "cores": {"server": [0]}, "effort": {"ladder": (1, 2)},
         "rounds_planned": 5, "beside": [], "date": "today"}  # fmt: skip


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
