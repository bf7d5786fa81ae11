"""What a result must say about where it comes from."""

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

from registry.embedded import find_server


def about(server_cores: Sequence[int], generator_cores: Sequence[int]) -> dict[str, Any]:
    """Date, machine, versions, and how busy the machine is besides."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _commit(),
        "machine": f"{_cpu_model()}, {os.cpu_count()} cores, {_memory_gb():.0f} GB, Linux {platform.release()}",
        "cores": {"server": list(server_cores), "generator": list(generator_cores)},
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "python": platform.python_version(),
        "java": _said("java", "-version").splitlines()[0] if shutil.which("java") else "none",
        "redis": _first(r"v=\S+", _said(find_server(), "--version")),
        "packages": {name: metadata.version(name) for name in ("uvloop", "msgspec", "redis", "hiredis")},
    }


def _commit() -> str:
    """With "-dirty" when anything differs from it but what measurements write."""
    git = ("git", "-C", str(Path(__file__).parents[1]))
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
