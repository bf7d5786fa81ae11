"""Starts child processes that end with their parent; each has a log file and a process group of its own."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import IO, TypeVar

LEASH = Path(__file__).with_name("leash.py")
LOG_TAIL_LINES = 25
LOG_LINE_LENGTH = 400
# 5.x prints several hundred such lines about its logging set-up.
LOG_NOISE = "|-INFO in "
COMPLAINT = re.compile(r" (WARN|ERROR) ")

# Below the range that Linux uses for outgoing connections, which could take a port before the server binds it.
PORTS = range(20_000, 32_000)
_signs: list[contextlib.ExitStack] = []

T = TypeVar("T")


def wait_until(what: str, probe: Callable[[], T], within_s: float, every_s: float = 0.05) -> T:
    """Call `probe` until it returns a true value, and return this value; after the deadline, fail with the last value.

    An OSError of the probe counts as "not yet", because peers that start refuse connections.
    """
    deadline = time.monotonic() + within_s
    while True:
        last: object
        try:
            value = probe()
            if value:
                return value
            last = value
        except OSError as error:
            last = error
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {within_s:g} s: {what}; last seen: {last!r}")
        time.sleep(every_s)


def free_port(before: int = 0, after: int = 0) -> int:
    """A free port, whose `before` ports below and `after` ports above are also free.

    Until this process ends, other calls of this function on this machine do not return these ports: so a server may
    bind its port late, or be started again.
    """
    random = Random(os.urandom(8))
    for _ in range(1_000):
        port = random.randrange(PORTS.start + before, PORTS.stop - after)
        wanted = range(port - before, port + after + 1)
        if all(map(is_free, wanted)) and _reserve(wanted):
            return port
    raise RuntimeError(f"found no free port in {PORTS}")


def _reserve(ports: range) -> bool:
    """Bind the datagram ports of these numbers, to mark them as taken; False if another process has marked one."""
    with contextlib.ExitStack() as stack:
        for port in ports:
            sign = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
            try:
                sign.bind(("127.0.0.1", port))
            except OSError:
                return False
        _signs.append(stack.pop_all())
    return True


def is_free(port: int) -> bool:
    """Whether a server could listen there now."""
    with socket.socket() as probe:
        # Servers set this option, too, so a port whose last connections are in TIME_WAIT is free for them.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
        return True


def on_leash(command: Sequence[str], on_parent_death: signal.Signals = signal.SIGKILL) -> list[str]:
    """The command that runs `command` with the same process id, and ends it when this process ends."""
    leash = [sys.executable, "-I", "-S", str(LEASH), str(os.getpid()), str(int(on_parent_death))]
    return [*leash, *command]


class ChildProcess:
    """A child process in a process group of its own, with its output in a log file."""

    def __init__(self, name: str, popen: "subprocess.Popen[str]", log: Path, patience_s: float) -> None:
        self.name = name
        self.log = log
        self.patience_s = patience_s
        self._popen = popen

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def stdin(self) -> IO[str]:
        assert self._popen.stdin is not None, f"{self.name} takes no input"
        return self._popen.stdin

    def exit_code(self) -> int | None:
        return self._popen.poll()

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def tail(self) -> str:
        """The last lines of its output, for messages."""
        return _last_lines(line for line in self.output().splitlines() if LOG_NOISE not in line)

    def logged(self) -> str:
        """The text of all log files in its home folder."""
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.log.parent.rglob("*.log")))

    def complaints(self) -> str:
        """The last warnings and errors in the log files of its home folder, without its output."""
        found = []
        for path in sorted(self.log.parent.rglob("*.log")):
            if path != self.log:
                lines = path.read_text(errors="replace").splitlines()
                found.append(_last_lines(f"{path.name}: {line}" for line in lines if COMPLAINT.search(line)))
        return "\n".join(filter(None, found))

    def wait_for_output(self, text: str, within_s: float) -> None:
        def said_or_dead() -> bool:
            return text in self.output() or self.exit_code() is not None

        wait_until(f"{self.name} says {text!r}", said_or_dead, within_s)
        if text not in self.output():
            raise AssertionError(f"{self.name} ended with {self.exit_code()} at start:\n{self.tail()}")

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """Send SIGKILL, as if the machine had failed."""
        self._signal(signal.SIGKILL)
        self._reap(within_s=10)

    def terminate(self, within_s: float) -> int:
        """Send SIGTERM and wait; the exit code."""
        self._signal(signal.SIGTERM)
        code = self._reap(within_s)
        if code is None:
            raise AssertionError(f"{self.name} still runs {within_s:g} s after SIGTERM:\n{self.tail()}")
        return code

    def end(self) -> None:
        """End it in any state: first by SIGTERM, so that it can end its own children, then by SIGKILL."""
        if self.exit_code() is None:
            self._signal(signal.SIGCONT)
            self._signal(signal.SIGTERM)
            self._reap(within_s=self.patience_s)
        self.kill()
        if self._popen.stdin is not None:
            with contextlib.suppress(OSError):
                self._popen.stdin.close()

    def _signal(self, number: signal.Signals) -> None:
        # The number of a process group is not reused while the group has a member.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def _reap(self, within_s: float) -> int | None:
        try:
            return self._popen.wait(within_s)
        except subprocess.TimeoutExpired:
            return None


class Processes:
    """Starts processes and ends them all on close, the last started first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[ChildProcess] = []
        folder.mkdir(parents=True, exist_ok=True)

    def home(self, name: str) -> Path:
        """A new empty folder for one process."""
        for number in range(1, 1_000):
            home = self.folder / f"{name}-{number}"
            with contextlib.suppress(FileExistsError):
                home.mkdir()
                return home
        raise RuntimeError(f"too many folders {name}-*")

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        home: Path,
        steered: bool = False,
        env: Mapping[str, str] | None = None,
        patience_s: float = 0.0,
    ) -> ChildProcess:
        """Start `command` in `home`. If `steered`, its input is a pipe, else it has no input.

        With `patience_s` it first gets SIGTERM when it is to end (also when this process dies), and SIGKILL only after
        this time.
        """
        on_parent_death = signal.SIGTERM if patience_s else signal.SIGKILL
        log = home / "output.log"
        with log.open("ab") as output:
            popen = subprocess.Popen(
                on_leash(command, on_parent_death),
                cwd=home,
                env=env,
                stdin=subprocess.PIPE if steered else subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        running = ChildProcess(name, popen, log, patience_s)
        self.started.append(running)
        return running

    def close(self) -> None:
        while self.started:
            self.started.pop().end()

    def reports(self) -> Iterator[tuple[str, str]]:
        """Name and last output of everything that runs or ran here, for a failed test's report."""
        for running in self.started:
            state = "runs" if running.exit_code() is None else f"ended with {running.exit_code()}"
            told = f"{running.tail()}\n{running.complaints()}"
            yield f"{running.name}, pid {running.pid}, {state}: {running.log}", told


def _last_lines(lines: Iterable[str]) -> str:
    return "\n".join(line[:LOG_LINE_LENGTH] for line in deque(lines, maxlen=LOG_TAIL_LINES))
