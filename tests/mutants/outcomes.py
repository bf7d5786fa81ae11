"""A plugin of pytest (``-p tests.mutants.outcomes``): writes each test's outcome to the file that OUTCOMES names.

One line of JSON for each test: its node id, whether it passed, and the first line of what was wrong.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

FILE = "MQREGISTRY_MUTANTS_OUTCOMES"


def pytest_runtest_logreport(report):
    """A test is told once it was called, and when its fixtures fail."""
    if report.when != "call" and report.passed:
        return
    crash = getattr(report.longrepr, "reprcrash", None)
    why = str(crash.message if crash is not None else report.longrepr or "").strip()
    told = {"test": report.nodeid, "passed": report.passed, "why": why.split("\n")[0][:300]}
    with Path(os.environ[FILE]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(told) + "\n")
