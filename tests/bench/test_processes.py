"""Ports for processes that tests start, and may start again."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench.servers import processes

ASKS = """
import sys
from bench.servers import processes
processes.PORTS = range(int(sys.argv[1]), int(sys.argv[1]) + 1)
processes.free_port()
"""


def test_no_process_on_this_machine_gets_a_port_that_another_one_has(monkeypatch):
    port = processes.free_port()
    monkeypatch.setattr(processes, "PORTS", range(port, port + 1))
    with pytest.raises(RuntimeError, match="found no free port"):
        processes.free_port()
    other = subprocess.run([sys.executable, "-c", ASKS, str(port)], capture_output=True, text=True)
    assert "found no free port" in other.stderr
    processes._signs.pop().close()  # as when this process ends
    assert subprocess.run([sys.executable, "-c", ASKS, str(port)], capture_output=True).returncode == 0
