"""Output that nobody takes: what is put aside, what is left out, what is said of it."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
import threading
import time

from mqregistry.queued_output import Outlet

from ..server.harness import wait_until


class Reader:
    """Takes texts while it may; a writer waits meanwhile."""

    def __init__(self):
        self.texts = []
        self.may = threading.Event()

    def write(self, text):
        self.may.wait(20)
        self.texts.append(text)


def test_lines_come_in_their_order():
    reader = Reader()
    reader.may.set()
    outlet = Outlet("stderr", reader.write)
    for number in range(1000):
        outlet.put(f"{number}\n")
    assert outlet.flush(20)
    assert "".join(reader.texts) == "".join(f"{number}\n" for number in range(1000))
    assert outlet.dropped == 0


def test_what_does_not_fit_is_left_out_counted_and_said_where_it_is_missing(caplog):
    reader = Reader()
    outlet = Outlet("stderr", reader.write, most_bytes=100)
    began = time.monotonic()
    for number in range(50):
        outlet.put(f"line {number:03}\n")
    assert time.monotonic() - began < 5  # nobody waited
    assert outlet.dropped == 50 - 100 // len("line 000\n")
    assert not outlet.flush(0.05)
    with caplog.at_level(logging.WARNING):
        reader.may.set()
        wait_until(lambda: caplog.messages, "it is said")
    assert caplog.messages[0].startswith(f"{outlet.dropped} lines are missing here: stderr took none for ")
    assert reader.texts[0] == "line 000\n"
    outlet.put("later\n")
    assert outlet.flush(20)
    assert reader.texts[-1] == "later\n"
    assert len(caplog.messages) == 1


def test_a_full_disk_loses_lines_and_the_next_one_is_written(caplog):
    texts, full = [], [True]

    def write(text):
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        texts.append(text)

    outlet = Outlet("/var/log/x", write)
    outlet.put("a\n")
    assert outlet.flush(20)
    assert (outlet.dropped, texts) == (1, [])
    full.clear()
    with caplog.at_level(logging.WARNING):
        outlet.put("b\n")
        wait_until(lambda: caplog.messages, "it is said")
    assert texts == ["b\n"]
    assert caplog.messages[0].startswith("1 line is missing here: /var/log/x took none for ")


def run(source, **options):
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, **options)


def test_a_process_that_ends_writes_what_it_said_and_so_does_its_fork():
    done = run(
        """
import os, sys, threading
from mqregistry.queued_output import flush_output, pause_output, queue_output
queue_output()
print("one")
print("two", file=sys.stderr)
pause_output()
assert threading.active_count() == 1
if not os.fork():
    queue_output()
    print("three")
    flush_output()
    os._exit(0)
os.wait()
print("four")
raise ValueError("five")
"""
    )
    assert done.stdout == "one\nthree\nfour\n"
    assert done.stderr.startswith("two\nTraceback")
    assert done.stderr.endswith("ValueError: five\n")
    assert done.returncode == 1


def test_stdout_and_stderr_that_are_one_file_keep_their_order():
    done = run(
        "import os, sys\nos.dup2(1, 2)\nfrom mqregistry.queued_output import queue_output\nqueue_output()\n"
        "for n in range(200): print(n, file=(sys.stdout, sys.stderr)[n % 2])\n"
    )
    assert done.stdout.split() == [str(number) for number in range(200)]


def test_what_a_child_writes_to_a_blocked_stderr_does_not_hold_it_up():
    """As Spark's Java, which logs to the stderr that it inherits."""
    read_fd, write_fd = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-c", """
import subprocess, sys
from mqregistry.queued_output import queue_children_output, queue_output
queue_output()
queue_children_output()
child = "import os\\nfor _ in range(300): os.write(2, 9999 * b'x' + bytes([10]))"
subprocess.run([sys.executable, "-c", child], check=True)
"""],
            stderr=write_fd, timeout=60, check=False,
        )  # fmt: skip
    finally:
        os.close(read_fd)
        os.close(write_fd)
    assert done.returncode == 0
