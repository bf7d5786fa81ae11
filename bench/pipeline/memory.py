"""Measures the peak memory of a process tree: proportional set size, which counts pages shared after a fork once."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import NamedTuple

import psutil

_PSS = re.compile(rb"^Pss:\s+(\d+) kB", re.MULTILINE)


class Peaks(NamedTuple):
    """The highest values in MB: the driver's Java, its Python, both together; Python of Spark's tasks; all together."""

    java_mb: float = 0.0
    python_mb: float = 0.0
    driver_mb: float = 0.0
    tasks_mb: float = 0.0
    all_mb: float = 0.0


def pss_mb(process: psutil.Process) -> float:
    """Proportional set size in MB; 0 if the process has ended."""
    try:
        found = _PSS.search(Path(f"/proc/{process.pid}/smaps_rollup").read_bytes())
    except OSError:
        return 0.0
    return int(found[1]) / 1e3 if found else 0.0


def now(driver: psutil.Process) -> Peaks:
    """The present memory of a driver's Python, of the Java that it started, and of the tasks' Python of this Java."""
    java = python = tasks = 0.0
    try:
        python = pss_mb(driver)
        for child in driver.children():
            if "java" in child.name():
                java += pss_mb(child)
                tasks += sum(pss_mb(task) for task in child.children(recursive=True))
    except psutil.NoSuchProcess:
        pass
    return Peaks(java, python, java + python, tasks, java + python + tasks)


class MemoryWatch:
    """Samples the memory of another process twice a second, in a thread."""

    def __init__(self, pid: int) -> None:
        self._driver = psutil.Process(pid)
        self._peaks = Peaks()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def take(self) -> Peaks:
        """The peaks since the last call."""
        seen = now(self._driver)
        with self._lock:
            peaks, self._peaks = _most(self._peaks, seen), Peaks()
        return peaks

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(0.5):
            seen = now(self._driver)
            with self._lock:
                self._peaks = _most(self._peaks, seen)


def _most(one: Peaks, other: Peaks) -> Peaks:
    return Peaks(*map(max, one, other))
