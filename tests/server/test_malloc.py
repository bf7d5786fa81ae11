"""Memory that large registrations need is kept while they come, and given back after them."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from mqregistry.server.process import memory as malloc

FAULTS = """
import resource, sys
from mqregistry.server.process.memory import keep_large_blocks
if not keep_large_blocks():
    sys.exit(77)
def read_one():
    pieces = [bytes(256 << 10) for _ in range(7)]
    return len(b"".join(pieces))
read_one()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    read_one()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_blocks_as_large_as_registrations_are_used_again():
    done = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, timeout=60)
    if done.returncode == 77:
        pytest.skip("this C library has no mallopt: glibc has one")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 2_000  # 20 times 870 pages otherwise


async def counted(numbers, monkeypatch):
    """How often memory was given back while the count of changed registrations went like this."""
    given, left, all_seen = [], iter(numbers), asyncio.Event()

    def changed():
        try:
            return next(left)
        except StopIteration:
            all_seen.set()
            return numbers[-1]

    monkeypatch.setattr(malloc, "trim", lambda: given.append(1))
    task = asyncio.create_task(malloc.trim_after_bursts(changed, quiet_s=0))
    await all_seen.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return len(given)


@pytest.mark.parametrize(
    ("numbers", "times"),
    [
        ([0, 0, 0, 0], 0),
        ([0, 32, 64, 64, 64, 64], 1),
        ([0, 32, 32, 32, 64, 64], 2),
        ([5, 6, 6, 7, 7], 0),
        ([0, 40, 50, 60, 70], 1),  # only once it is quiet, which the last look finds
    ],
)
def test_memory_is_given_back_once_after_each_storm(numbers, times, monkeypatch):
    assert asyncio.run(counted(numbers, monkeypatch)) == times


GIVEN_BACK = """
import resource, sys
from mqregistry.server.process.memory import KEPT_BYTES, keep_large_blocks, trim
if not keep_large_blocks():
    sys.exit(77)
def held_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
blocks = [b"x" * (1 << 20) for _ in range(64)]
last = b"x" * (1 << 20)  # behind them: without trim they could not be given back
blocks.clear()
kept = held_bytes()
trim()
print(kept - held_bytes())
"""


def test_trim_returns_free_memory_to_the_system():
    done = subprocess.run([sys.executable, "-c", GIVEN_BACK], capture_output=True, text=True, timeout=60)
    if done.returncode == 77:
        pytest.skip("this C library has no mallopt: glibc has one")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 48 << 20
