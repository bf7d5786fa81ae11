"""Tries one mutant: in a copy of the checkout of its own, with the named tests and with the campaign."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from .outcomes import FILE
from .patches import ROOT, DoesNotApply, Mutant

STILL_WORKS: Final = (
    "tests/server/test_lookups.py::test_lookups_of_a_front_end_are_written_down_at_the_latest_when_it_ends"
)
"""Passes with every mutant: one that breaks everything says nothing about the tests of its row."""
TEST_S: Final = 60
"""Pytest ends a test after this time: with a mutant, tests may wait for what never comes."""
LAST_ROUND_S: Final = 240
"""A round of the campaign that has begun is played to its end."""
CONFIRMED_WITHIN: Final = 3
"""A round that found a mutant finds it again within so many repetitions: not each of them meets the right moment."""


class Options(msgspec.Struct, frozen=True):
    """How mutants are tried.

    campaign_minutes: 0 = without the campaign. schedule: of the campaign; "" = what each mutant names. tests_s: for all
    named tests of one mutant.
    """

    campaign_minutes: float = 0.0
    seed: int = 1
    schedule: str = ""
    named: bool = True
    tests_s: float = 600.0


class Outcome(msgspec.Struct, frozen=True):
    """One test's."""

    test: str
    passed: bool
    why: str = ""


class Played(msgspec.Struct, frozen=True):
    """The campaign's outcome; caught None: it could not be run, and why says the reason."""

    caught: bool | None
    seed: int
    after_s: float
    why: str = ""


class Result(msgspec.Struct, frozen=True):
    """What became of one mutant.

    named: named test -> why it failed, "" when it passed. fault: why the trial says nothing, "" when it does.
    """

    id: str
    row: str
    what: str
    named: dict[str, str] = {}
    campaign: Played | None = None
    fault: str = ""

    @property
    def caught(self) -> bool:
        """Whether every named test failed."""
        return not self.fault and all(self.named.values())


def copy_checkout(target: Path) -> None:
    """Copy the files of the checkout that git knows, or would add; links stay links."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, found.stdout.decode().split("\0")):
        source, copy = ROOT / name, target / name
        if source.is_symlink() or source.is_file():  # else it was removed and git does not know yet
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy, follow_symlinks=False)


@contextmanager
def copied(mutant: Mutant | None = None) -> Iterator[Path]:
    """A copy of the checkout, with the mutant; each has its own, so that no compiled file of another one counts."""
    with tempfile.TemporaryDirectory(prefix="mqmutant") as folder:
        checkout = Path(folder)
        copy_checkout(checkout)
        if mutant is not None:
            mutant.apply(checkout)
        yield checkout


def _environ(checkout: Path, **more: str) -> dict[str, str]:
    """The environment of what runs the code of the copy: its path goes before that of an installed package."""
    return {**os.environ, "PYTHONPATH": str(checkout / "src"), **more}


def _run(checkout: Path, command: Sequence[str], log: Path, timeout_s: float, **more: str) -> int | None:
    """Run a command in the copy; returns its exit status, None when it took too long."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, *command], cwd=checkout, env=_environ(checkout, **more), stdin=subprocess.DEVNULL,
            stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()


def _tail(log: Path, lines: int = 5) -> str:
    return " / ".join(log.read_text(errors="replace").strip().splitlines()[-lines:])


def run_tests(checkout: Path, tests: Sequence[str], timeout_s: float, *arguments: str) -> tuple[list[Outcome], str]:
    """Run tests of a copy; returns their outcomes, and what kept pytest from running them ("" = nothing)."""
    told, log = checkout / "outcomes.jsonl", checkout / "pytest.log"
    status = _run(
        checkout,
        ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.mutants.outcomes", f"--timeout={TEST_S}",
         *arguments, *tests],
        log, timeout_s, **{FILE: str(told)},
    )  # fmt: skip
    lines = told.read_text().splitlines() if told.exists() else []
    outcomes = [msgspec.json.decode(line, type=Outcome) for line in lines]
    if status is None:
        return outcomes, f"the tests took more than {timeout_s:.0f} s"
    return outcomes, "" if status in (0, 1) else f"pytest ended with {status}: {_tail(log)}"


def of_test(test: str, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes of a test, in all of its parametrized forms."""
    return [outcome for outcome in outcomes if outcome.test == test or outcome.test.startswith(f"{test}[")]


def failures(test: str, outcomes: Sequence[Outcome]) -> str:
    """Why a test failed; "" when it passed."""
    return next((outcome.why or "it failed" for outcome in of_test(test, outcomes) if not outcome.passed), "")


def play_campaign(checkout: Path, mutant: Mutant, options: Options) -> Played:
    """Run the campaign on the mutant until it has found it or its time is over.

    A busy machine can make a round fail that has nothing to do with the mutant. So a finding counts if the same round
    fails again with the mutant, and does not without it; else the campaign goes on with another seed.
    """
    schedule = [
        "--schedule", options.schedule or mutant.campaign or "all", "--redis", mutant.redis, "--shorten-s", "0",
    ]  # fmt: skip
    left_s, seed, why = 60 * options.campaign_minutes, options.seed, ""
    while left_s > 0:
        log = checkout / f"campaign-{seed}.log"
        began = time.monotonic()
        status = _run(
            checkout, ["-m", "tests.campaign", "--minutes", str(left_s / 60), "--seed", str(seed), *schedule],
            log, left_s + LAST_ROUND_S,
        )  # fmt: skip
        left_s -= time.monotonic() - began
        if status == 0:
            break
        if status != 1:
            why = "it did not end in time" if status is None else f"it ended with {status}"
            return Played(None, seed, 60 * options.campaign_minutes - left_s, f"{why}: {_tail(log)}")
        number, found = _found(log)
        if _is_confirmed(checkout, [*schedule, "--round-seed", str(number)]):
            return Played(True, seed, 60 * options.campaign_minutes - left_s, f"round {number}: {found}")
        seed, why = seed + 1, f"round {number} failed, which is not the mutant's doing: {found}"
    return Played(False, seed, 60 * options.campaign_minutes - left_s, why)


def _found(log: Path) -> tuple[int, str]:
    """The seed of the round that failed, and what the campaign found in it."""
    lines = log.read_text(errors="replace").splitlines()
    for line, below in itertools.pairwise(lines):
        if match := re.match(r"round (\d+): FAILED", line):
            return int(match[1]), below.strip()
    raise ValueError(f"the campaign says that it found something, and not what: {_tail(log)}")


def _is_confirmed(checkout: Path, arguments: Sequence[str]) -> bool:
    command, log = ["-m", "tests.campaign", *arguments], checkout / "confirmed.log"
    if _run(checkout, [*command, "--repeat", str(CONFIRMED_WITHIN)], log, CONFIRMED_WITHIN * LAST_ROUND_S) != 1:
        return False
    with copied() as without:
        return _run(without, command, log, LAST_ROUND_S) == 0


def try_mutant(mutant: Mutant, options: Options) -> Result:
    """Try one mutant."""
    about = {"id": mutant.id, "row": mutant.row, "what": mutant.what}
    try:
        with copied(mutant) as checkout:
            named: dict[str, str] = {}
            if options.named:
                outcomes, fault = run_tests(checkout, [*mutant.tests, STILL_WORKS], options.tests_s)
                broken = failures(STILL_WORKS, outcomes)
                if broken:
                    fault = fault or f"nothing works with it: {broken}"
                unrun = [test for test in (*mutant.tests, STILL_WORKS) if not of_test(test, outcomes)]
                if unrun:
                    fault = fault or f"not run: {', '.join(unrun)}"
                named = {test: failures(test, outcomes) for test in mutant.tests}
                if fault:
                    return Result(**about, named=named, fault=fault)
            campaign = play_campaign(checkout, mutant, options) if options.campaign_minutes else None
            return Result(**about, named=named, campaign=campaign)
    except DoesNotApply as error:
        return Result(**about, fault=f"it does not apply: {error}")
