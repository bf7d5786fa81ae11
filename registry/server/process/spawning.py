"""Makes worker processes: forked before the supervisor serves, later as new interpreters.

The first workers are forked from a process that has imported everything (:func:`fork_workers`): they share its
memory, and nothing is imported twice. A fork is safe only while there is neither an event loop nor a thread, so later
workers are new interpreters (:func:`spawn`).
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NoReturn

import msgspec

from ...embedded import die_with_parent
from ...queued_output import flush_output, pause_output
from ...store import scripts

# The specification may hold a password, so it comes through stdin: anybody can read a command line. -P: a folder
# named "mqregistry" in the current directory must not be imported.
WORKER_COMMAND: Final = (
    sys.executable,
    "-P",
    "-c",
    # objects that are made before the worker serves are no garbage: it enables the collector when it serves
    "import gc, sys; gc.disable(); from mqregistry.server.process.worker import main; sys.exit(main(sys.stdin.read()))",
)

Main = Callable[[bytes], int]
"""The main function of a worker: takes its specification (JSON), returns its exit status."""

_READ_BYTES: Final = 1 << 16
_FIRST_OTHER_FD: Final = 3


async def spawn(
    command: Sequence[str], spec: dict[str, Any], connections_fd: int, status_fd: int, log_fd: int
) -> asyncio.subprocess.Process:
    """A worker in a new interpreter, which inherits these files; log_fd is its stderr.

    Raises:
        OSError, ValueError: the process could not be started.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stderr=log_fd,
        pass_fds=(connections_fd, status_fd),
        preexec_fn=die_with_parent,
        # Ctrl-C in a terminal goes to the whole process group, but only the supervisor decides when workers end
        start_new_session=True,
    )
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.write(msgspec.json.encode({**spec, "connections_fd": connections_fd, "status_fd": status_fd}))
        process.stdin.close()
    return process


class ForkedWorker:
    """A forked worker process, which waits for its specification."""

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid = pid
        self._channel = channel
        self._ended_as: int | None = None

    def begin(self, spec: dict[str, Any], connections_fd: int, status_fd: int, log_fd: int) -> None:
        """Send the worker its specification and these files. If it has ended already, :meth:`wait` says how.

        Raises:
            OSError: the files cannot be passed on.
        """
        with self._channel, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            socket.send_fds(self._channel, [b"\n"], [connections_fd, status_fd, log_fd])
            self._channel.sendall(msgspec.json.encode(spec))

    async def wait(self) -> int:
        """Wait for the process to end; returns its exit status, or the negative number of the signal that ended it."""
        return await asyncio.to_thread(self._reap)

    def _reap(self) -> int:
        if self._ended_as is None:
            self._ended_as = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._ended_as

    def send_signal(self, number: int, /) -> None:
        """Send a signal to the process; ProcessLookupError: it has ended."""
        if self._ended_as is not None:  # another process may have its pid by now
            raise ProcessLookupError(self.pid)
        os.kill(self.pid, number)

    def end(self) -> None:
        """Kill the process, and wait until it has ended."""
        self._channel.close()
        with contextlib.suppress(ProcessLookupError):
            self.send_signal(signal.SIGKILL)
        self._reap()


@contextlib.contextmanager
def fork_workers(count: int) -> Iterator[list[ForkedWorker]]:
    """Fork this number of workers, which are killed at the end of the context; fewer if a fork fails or is not safe.

    Call it before there is an event loop. Afterwards the garbage collector is enabled in this process; a worker
    enables it when it serves.
    """
    forked: list[ForkedWorker] = []
    pause_output()
    if threading.active_count() > 1 or threading.current_thread() is not threading.main_thread():
        gc.enable()
        yield forked
        return
    from . import worker

    scripts.load()  # here, so that no worker has to
    gc.disable()
    gc.freeze()  # existing objects live as long as this process, and visiting them would copy shared pages
    try:
        with contextlib.suppress(OSError):  # the supervisor starts the missing workers, and logs failures
            for _ in range(count):
                forked.append(_fork(worker.main))
        gc.enable()
        yield forked
    finally:
        for each in forked:
            each.end()


def _fork(main: Main) -> ForkedWorker:
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    # A signal must not unwind the child's copy of this stack: its context managers (an embedded Redis) belong to the
    # parent.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if not pid:
            _be_worker(main, theirs, parent, blocked)
    except OSError:
        ours.close()
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        theirs.close()
    return ForkedWorker(pid, ours)


def _be_worker(main: Main, channel: socket.socket, parent: int, mask: set[int | signal.Signals]) -> NoReturn:
    code = 1
    try:
        os.setsid()  # as start_new_session above
        die_with_parent()
        _drop_files(channel.fileno())
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if os.getppid() == parent:
            code = _told(main, channel)
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001 - a fork must end here; its parent sees the code
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):  # there may be no stderr
            sys.stderr.flush()
        flush_output()
        os._exit(code)


def _drop_files(kept_fd: int) -> None:
    """Close files that a new interpreter would not inherit: an open file would keep its lock until the worker ends."""
    root = logging.getLogger()
    for handler in root.handlers[:]:  # before the loop below closes their files: the numbers may be reused
        root.removeHandler(handler)
        handler.close()
    for fd in map(int, os.listdir("/dev/fd")):  # not all possible numbers, which may be a thousand million
        if fd >= _FIRST_OTHER_FD and fd != kept_fd:
            with contextlib.suppress(OSError):
                os.close(fd)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.close(nothing)


def _told(main: Main, channel: socket.socket) -> int:
    """Wait for the specification and run ``main`` with it; return 0 if the parent closes the channel without one."""
    with channel:
        _, fds, *_ = socket.recv_fds(channel, 1, 3)
        if not fds:
            return 0
        connections_fd, status_fd, log_fd = fds
        text = b"".join(iter(lambda: channel.recv(_READ_BYTES), b""))
    os.dup2(log_fd, 2)
    os.close(log_fd)
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    spec = msgspec.json.decode(text)
    return main(msgspec.json.encode({**spec, "connections_fd": connections_fd, "status_fd": status_fd}))
