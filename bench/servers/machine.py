"""Describes the machine for a result, and chooses the cores of the servers and of the generator."""

from __future__ import annotations

import datetime
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from mqregistry.embedded import find_server


def about(server_cores: Sequence[int], generator_cores: Sequence[int]) -> dict[str, Any]:
    """Date, commit, machine, versions, and the load average before the run."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit_of(),
        "machine": f"{_cpu_model()}, {os.cpu_count()} cores, {_memory_gb():.0f} GB, Linux {platform.release()}",
        "cores": {"server": list(server_cores), "generator": list(generator_cores)},
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "python": platform.python_version(),
        "java": _said("java", "-version").splitlines()[0] if shutil.which("java") else "none",
        "redis": _first(r"v=\S+", _said(find_server(), "--version")),
        "packages": {name: metadata.version(name) for name in ("uvloop", "msgspec", "redis", "hiredis")},
    }


def cores(server: str | None, generator: str | None) -> tuple[list[int], list[int]]:
    """The cores of the servers and those of the generator; empty lists (no pinning) on a machine with one core."""
    here = sorted(os.sched_getaffinity(0))
    if len(here) < 2:
        return [], []

    def read(text: str | None, default: int) -> list[int]:
        return [default] if text is None else [int(core) for core in text.split(",") if core]

    return read(server, here[0]), read(generator, here[1])


def commit_of(checkout: Path = Path(__file__).parents[2]) -> str:
    """The commit of a checkout, with "-dirty" if files other than results differ from it; "?" without a repository."""
    git = ("git", "-C", str(checkout))
    if not (checkout / ".git").exists():
        return "?"
    written = (":!bench/RESULTS.md", ":!bench/SCALE.md", ":!bench/*.svg")
    changed = _said(*git, "status", "--porcelain", "--untracked-files=no", "--", ".", *written)
    return _said(*git, "describe", "--always") + ("" if changed == "?" else "-dirty")


def _said(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except OSError:
        return "?"
    return (done.stdout or done.stderr).strip() or "?"


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found[0] if found else "?"


def _cpu_model() -> str:
    return _first(r"(?<=model name\t: ).*", Path("/proc/cpuinfo").read_text())


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
