"""Writes stdout, stderr and log files in threads, so that no slow reader or disk can block a process.

A pipe holds 64 kB. When it is full, a write waits until somebody reads, perhaps for ever: a terminal after Ctrl-S, a
pager, a log driver that hangs. So a write only puts text into a queue of limited size, and a thread writes the queue.
Text that does not fit is dropped, and later the log says how many lines are missing.

A process that forks must not have threads: :func:`pause_output` ends them, and the next write starts them again.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, TextIO

logger = logging.getLogger(__name__)

_MOST_BYTES: Final = 1 << 20
_PAUSE_S: Final = 0.2
_FLUSH_S: Final = 1.0
_READ_BYTES: Final = 1 << 16


class Outlet:
    """A queue of texts, and the thread that writes them.

    Args:
        name: the file's name in the log.
        write: writes one text; it may wait, and raises OSError when the text is lost.
    """

    def __init__(self, name: str, write: Callable[[str], object], *, most_bytes: int = _MOST_BYTES) -> None:
        self._name, self._write, self._most_bytes = name, write, most_bytes
        self._changed = threading.Condition()
        self._texts: deque[str] = deque()
        self._held_bytes = 0  # queued or being written
        self._thread: threading.Thread | None = None
        self._pausing = False
        self.dropped = 0
        """How many lines were dropped."""
        self._not_told, self._since = 0, 0.0  # dropped lines that the log has not told yet, and when the first was lost

    def put(self, text: str) -> None:
        """Queue a text if there is room for it; else drop it."""
        with self._changed:
            if self._held_bytes + len(text) > self._most_bytes:
                self._lost(text)
                return
            self._texts.append(text)
            self._held_bytes += len(text)
            if self._thread is None:
                self._pausing = False
                self._thread = threading.Thread(target=self._run, name=f"write {self._name}", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, within_s: float) -> bool:
        """Wait until all is written; False: that took longer than ``within_s``."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._held_bytes, within_s)

    def pause(self) -> None:
        """Let the thread write all texts and end; wait at most 0.2 s for its end."""
        with self._changed:
            thread, self._pausing = self._thread, True
            self._changed.notify_all()
        if thread is not None:
            thread.join(_PAUSE_S)

    def _lost(self, text: str) -> None:
        lines = max(1, text.count("\n"))
        if not self._not_told:
            self._since = time.monotonic()
        self.dropped += lines
        self._not_told += lines

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._texts or self._pausing)
                if not self._texts:
                    self._thread = None
                    return
                text = self._texts.popleft()
            written = True
            try:
                self._write(text)
            except OSError:  # a closed terminal, or a full disk that may have room later
                written = False
            with self._changed:
                self._held_bytes -= len(text)
                if not written:
                    self._lost(text)
                lost, since = self._not_told, self._since
                tells = written and lost and self._held_bytes < self._most_bytes // 2
                if tells:
                    self._not_told = 0
                self._changed.notify_all()
            if tells:
                logger.warning(
                    "%d line%s missing here: %s took none for %.1f s", lost, "s are" if lost > 1 else " is", self._name,
                    time.monotonic() - since,
                )  # fmt: skip


class QueuedStream:
    """Replaces the text file of ``sys.stdout`` or ``sys.stderr``: writes go to an outlet."""

    encoding, errors = "utf-8", "backslashreplace"

    def __init__(self, outlet: Outlet, fd: int) -> None:
        self._outlet, self._fd = outlet, fd

    def write(self, text: str) -> int:
        """Queue a text, as a text file writes it; returns at once."""
        if not isinstance(text, str):
            raise TypeError(f"write() takes a str, not {type(text).__name__}")
        if text:
            self._outlet.put(text)
        return len(text)

    def writelines(self, texts: list[str]) -> None:
        """Queue several texts, as a text file does."""
        self.write("".join(texts))

    def flush(self) -> None:
        """Do nothing: :func:`flush_output` waits at the end of the process."""

    def fileno(self) -> int:
        """The descriptor of the file that the outlet writes."""
        return self._fd

    def isatty(self) -> bool:
        """Whether that file is a terminal."""
        return os.isatty(self._fd)

    def writable(self) -> bool:
        """Return True: this stream can only be written."""
        return True

    closed = False


_outlets: list[Outlet] = []
_owner = 0


def queue_output() -> None:
    """Queue writes to ``sys.stdout`` and ``sys.stderr`` from now on; if both are one file, they share a queue."""
    global _owner
    if _owner == os.getpid():
        return
    if not _owner:
        atexit.register(flush_output)
    _owner = os.getpid()
    _outlets.clear()  # the parent's, after a fork
    found: dict[tuple[int, int], Outlet] = {}
    for fd, name in ((1, "stdout"), (2, "stderr")):
        file: TextIO = getattr(sys, name)
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed
            if file.fileno() != fd:  # the program collects the text itself, as tests do
                continue
            file.flush()
            state = os.fstat(fd)
            outlet = found.get((state.st_dev, state.st_ino))
            if outlet is None:
                outlet = found[state.st_dev, state.st_ino] = new_outlet(name, _writer(fd))
            setattr(sys, name, QueuedStream(outlet, fd))


def new_outlet(name: str, write: Callable[[str], object]) -> Outlet:
    """An outlet that :func:`flush_output` and :func:`dropped_lines` know."""
    _outlets.append(Outlet(name, write))
    return _outlets[-1]


def _writer(fd: int) -> Callable[[str], None]:
    def write(text: str) -> None:
        left = memoryview(text.encode("utf-8", "backslashreplace"))
        while left:
            try:
                left = left[os.write(fd, left) :]
            except BlockingIOError:  # another process made the file non-blocking
                select.select([], [fd], [])

    return write


def queue_children_output() -> None:
    """Queue also what child processes (Spark's Java) write to stderr: they get a pipe that this process reads."""
    stderr = sys.stderr
    if not isinstance(stderr, QueuedStream):
        return
    outlet = new_outlet("stderr", _writer(os.dup(stderr.fileno())))
    read_fd, write_fd = os.pipe()
    os.dup2(write_fd, stderr.fileno())
    os.close(write_fd)

    def relay() -> None:
        while text := os.read(read_fd, _READ_BYTES):
            outlet.put(text.decode("utf-8", "backslashreplace"))

    sys.stderr = QueuedStream(outlet, stderr.fileno())
    threading.Thread(target=relay, name="stderr of children", daemon=True).start()


def pause_output() -> None:
    """End the threads before a fork, except those that are blocked in a write."""
    for outlet in _outlets:
        outlet.pause()


def flush_output(within_s: float = _FLUSH_S) -> None:
    """At the end of a process, wait at most ``within_s`` until all texts are written."""
    if _owner == os.getpid():
        until = time.monotonic() + within_s
        for outlet in _outlets:
            outlet.flush(max(0.0, until - time.monotonic()))


def dropped_lines() -> int:
    """How many lines of output this process dropped."""
    return sum(outlet.dropped for outlet in _outlets)
