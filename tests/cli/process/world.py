"""Processes of the command line, each test's in surroundings of its own: no other registry is seen from there."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import psutil

from bench.servers.processes import free_port
from mqregistry.embedded import die_with_parent

from ...forked import Forked, command, run_command
from ...server.harness import Client, wait_until

ROOT = Path(__file__).resolve().parents[3]
COMMAND = (sys.executable, "-m", "mqregistry")
BOOT_LINE = "The Name Server boot success. serializeType=JSON"


def lives(process: psutil.Process) -> bool:
    """Whether it runs; one that ended and that nobody has waited for does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    return False


def http_get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


CHOSEN_SERVER = "MQREGISTRY_REDIS_SERVER"
"""Tests are run on another Redis by this one: it is kept."""
DRAIN = {"MQREGISTRY_SHUTDOWN_WAIT_TIME_SECONDS": "300"}
"""For programs that go on: one that ends before has waited for no client, however busy the machine is."""


class World:
    """A home, a run-time folder, an environment without settings of ours; and what was started there.

    forked: commands are forked (:mod:`tests.forked`) instead of started as new interpreters, where that is the same.
    """

    def __init__(
        self, folder: Path, command: tuple[str, ...] = COMMAND, cwd: Path = ROOT, *, forked: bool = False
    ) -> None:
        self.forked = forked
        self.folder = folder
        self.command = command
        self.cwd = cwd
        self.started: list[Program] = []
        self.run_time = folder / "run"
        self.run_time.mkdir(mode=0o700)
        (folder / "tmp").mkdir()
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("MQREGISTRY_", "XDG_", "PYTHON", "VIRTUAL_ENV")) or name == CHOSEN_SERVER
        }
        self.env = {
            **kept,
            "HOME": str(folder),
            "TMPDIR": str(folder / "tmp"),
            "XDG_RUNTIME_DIR": str(self.run_time),
            "XDG_DATA_HOME": str(folder / "data"),
        }

    def run(self, *arguments: object, expect: int | None = 0, **env: str) -> subprocess.CompletedProcess[str]:
        """One command to its end; never a traceback."""
        if self.forks(env):
            done = run_command(*map(str, arguments), env={**self.env, **env}, cwd=self.cwd)
        else:
            done = subprocess.run(
                [*self.command, *map(str, arguments)],
                env={**self.env, **env}, cwd=self.cwd, capture_output=True, text=True, timeout=60, check=False,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        assert expect is None or done.returncode == expect, (done.returncode, done.stdout, done.stderr)
        return done

    def start(self, *arguments: object, **env: str) -> Program:
        """One command that goes on."""
        return self._started(Program([*map(str, arguments)], env, self))

    def up(self, *arguments: object, port: int | None = None, http_port: int = 0, **env: str) -> Up:
        """``mqregistry up``, once it has booted."""
        port = port or free_port(after=4)  # --console takes the fourth above
        ports = ["--port", str(port), "--http-port", str(http_port)]
        up = Up(["up", *ports, *map(str, arguments)], env, self)
        up.port = port
        self._started(up)
        up.wait_for(BOOT_LINE)
        return up

    def forks(self, env: dict[str, str]) -> bool:
        """Whether a command with these variables is forked: only a new interpreter reads those of Python."""
        return self.forked and not any(name.startswith("PYTHON") for name in env)

    def _started(self, program: Program) -> Program:
        self.started.append(program)
        return program

    def states(self) -> list[Path]:
        """State files of running registries, as the operators' commands look for them."""
        return sorted(self.run_time.glob("mqregistry/*"))

    def close(self) -> None:
        for program in self.started:
            program.close()


class Program:
    """One process in a session of its own, as in a terminal of its own."""

    def __init__(self, arguments: list[str], env: dict[str, str], world: World) -> None:
        name = f"program-{len(world.started)}"
        env = {**DRAIN, **env}
        self._out, self._err = world.folder / f"{name}.out", world.folder / f"{name}.err"
        self.process: subprocess.Popen[bytes] | Forked
        with open(os.devnull, "rb") as nothing, self._out.open("wb") as out, self._err.open("wb") as err:
            if world.forks(env):
                self.process = Forked(
                    command, arguments, stdio=(nothing.fileno(), out.fileno(), err.fileno()), env={**world.env, **env},
                    cwd=world.cwd, dies_with_tests=True,
                )  # fmt: skip
            else:
                self.process = subprocess.Popen(
                    [*world.command, *arguments], env={**world.env, **env}, cwd=world.cwd, stdin=nothing, stdout=out,
                    stderr=err, start_new_session=True, preexec_fn=die_with_parent,
                )  # fmt: skip
        self._seen: dict[int, psutil.Process] = {}

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def out(self) -> str:
        return self._out.read_text(errors="replace")

    @property
    def err(self) -> str:
        return self._err.read_text(errors="replace")

    def wait_for(self, text: str, timeout_s: float = 60.0) -> None:
        """Until it printed this."""

        def said() -> bool:
            return text in self.out or text in self.err

        wait_until(lambda: said() or self.process.poll() is not None, f"it says {text!r}", timeout_s)
        assert said(), (self.process.returncode, self.out, self.err)

    def descendants(self) -> list[psutil.Process]:
        """What it started and what those started; remembered, to be looked after once it has gone."""
        if self.process.poll() is None:
            found = psutil.Process(self.pid).children(recursive=True)
            self._seen.update((process.pid, process) for process in found)
        return [process for process in self._seen.values() if lives(process)]

    def redis_processes(self) -> list[psutil.Process]:
        return [process for process in self.descendants() if process.name() in ("redis-server", "valkey-server")]

    def interrupt(self, *, group: bool = False) -> int:
        """Ctrl-C, to it alone or to its group as a terminal sends it; the exit status, once all of it has ended.

        It waits for much less than :data:`DRAIN`.
        """
        self.descendants()
        (os.killpg if group else os.kill)(self.pid, signal.SIGINT)
        code = self.process.wait(60)
        psutil.wait_procs(self.descendants(), 1)  # a process that has ended may still be leaving memory
        left = self.descendants()
        assert not left, left
        return code

    def kill(self) -> None:
        """SIGKILL to it alone."""
        self.descendants()
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()
        for process in self.descendants():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


class Up(Program):
    """A running ``up``."""

    port: int

    def client(self) -> Client:
        return Client(self.port)
