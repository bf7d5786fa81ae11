"""Processes of ours for tests: forked by a process that has imported what they need, which takes a fifth of the time of
a new interpreter.

A front end makes its first workers in the same way (:mod:`mqregistry.server.process.spawning`). What only a new
interpreter shows (its command line, its flags, what an import costs or lacks) needs one: ``subprocess``.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import wait as wait_for
from multiprocessing.reduction import DupFd
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from mqregistry.embedded import die_with_parent

_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(["tests.forked_imports"])
STDERR = 2


class _File:
    """An open file that the forked process gets, too; it has another number there."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __reduce__(self) -> tuple[Any, ...]:
        return _number, (DupFd(self._fd),)


def _number(file: Any) -> int:
    return int(file.detach())


class Forked:
    """A process of ours, with the methods of :class:`subprocess.Popen` that tests use.

    work: what it runs, a function of a module; it is given the numbers that ``files`` have there, then ``arguments``.
    stdio: its files 0, 1 and 2.
    """

    def __init__(
        self, work: Any, arguments: Sequence[Any] = (), *, stdio: Sequence[int], files: Sequence[int] = (),
        env: Mapping[str, str] | None = None, cwd: Path | None = None, dies_with_tests: bool = False,
    ) -> None:  # fmt: skip
        self.args = (work.__name__, *arguments)
        begun, begins = os.pipe()
        try:
            self._process = _FORKING.Process(
                target=_run, daemon=True,
                args=(
                    work, arguments, [*map(_File, stdio)], [*map(_File, files)], _File(begins),
                    dict(os.environ if env is None else env), str(cwd or Path.cwd()), _umask(),
                    resource.getrlimit(resource.RLIMIT_NOFILE), dies_with_tests,
                ),
            )  # fmt: skip
            with _without_main():
                self._process.start()
        finally:
            os.close(begins)
        with open(begun, "rb") as pipe:
            pipe.read()  # until it is a session of its own, which a signal to its group finds
        self.pid = int(self._process.pid or 0)

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        if not wait_for([self._process.sentinel], timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        self._process.join()
        assert self._process.exitcode is not None
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """A new process of multiprocessing imports the main module, which is pytest or one of our tools: not needed."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _umask() -> int:
    """That of this process; to ask os.umask would change it."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("Umask"))
    return int(line.split()[1], 8)


def _run(
    work: Any, arguments: Sequence[Any], stdio: Sequence[int], files: Sequence[int], begins: int,
    env: dict[str, str], cwd: str, umask: int, most_files: tuple[int, int], dies_with_tests: bool,
) -> None:  # fmt: skip
    """In the forked process: make it what a new interpreter would be, then do its work."""
    os.setsid()
    # who runs the tests under nohup, or behind "&" in a script, hands "ignore it" down
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if dies_with_tests:
        die_with_parent()
    for number, fd in enumerate(stdio):
        os.dup2(fd, number)
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > STDERR and fd not in files and fd != begins:
            with contextlib.suppress(OSError):  # that of the listing itself
                os.close(fd)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 (these three as long as the process)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    os.umask(umask)
    resource.setrlimit(resource.RLIMIT_NOFILE, most_files)
    gc.freeze()
    os.close(begins)
    try:
        work(*files, *arguments)
    finally:
        gc.collect()  # an interpreter that ends complains of what nobody awaited or closed


def worker(connections_fd: int, status_fd: int, spec: bytes, constants: Mapping[str, float]) -> None:
    """One worker of a front end, as its supervisor forks it.

    constants: values of its modules instead of those there, by ``server.process.worker._STATUS_EVERY_S`` and the like.
    """
    from mqregistry.server.process.worker import main

    for name, value in constants.items():
        module, _, constant = f"mqregistry.{name}".rpartition(".")
        assert hasattr(sys.modules[module], constant), name
        setattr(sys.modules[module], constant, value)
    gc.disable()
    told = {**msgspec.json.decode(spec), "connections_fd": connections_fd, "status_fd": status_fd}
    sys.exit(main(msgspec.json.encode(told)))


def command(*arguments: str) -> None:
    """``python -m mqregistry`` with these arguments."""
    from mqregistry.__main__ import main

    sys.argv = ["mqregistry", *arguments]
    main()


def run_command(
    *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None, timeout_s: float = 60
) -> subprocess.CompletedProcess[str]:
    """The same to its end."""
    with open(os.devnull, "rb") as nothing, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = Forked(
            command, arguments, stdio=(nothing.fileno(), out.fileno(), err.fileno()), env=env, cwd=cwd,
            dies_with_tests=True,
        )  # fmt: skip
        try:
            code = process.wait(timeout_s)
        finally:
            process.kill()
        told = [file.seek(0) or file.read().decode() for file in (out, err)]
    return subprocess.CompletedProcess(arguments, code, *told)
