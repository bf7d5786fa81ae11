"""The figures of bench/RESULTS.md are of a state that is not long ago."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_COMMITS = 150


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)


def test_the_selection_was_measured_within_the_last_150_commits():
    """The first commit that the page names is that of `make bench`, which takes eight minutes."""
    measured = re.search(r"commit ([0-9a-f]{7,40})", (ROOT / "bench" / "RESULTS.md").read_text(encoding="utf-8"))
    assert measured is not None, "bench/RESULTS.md names no commit"
    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("no whole git history here: how old the figures are is not known")
    counted = git("rev-list", "--count", f"{measured[1]}..HEAD")
    if counted.returncode:
        pytest.skip(f"this clone does not have commit {measured[1]}, of which the figures are")
    age = int(counted.stdout)
    assert age <= MOST_COMMITS, (
        f"bench/RESULTS.md is of {measured[1]}, {age} commits ago: measure again, with nothing else on the machine "
        "(make bench), or say in the page why the figures still hold and name the commit that was looked at"
    )
