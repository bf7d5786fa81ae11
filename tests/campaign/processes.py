"""The processes of one round: front ends and sweepers behind links of their own, and what their logs say."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

import psutil

from mqregistry.embedded import die_with_parent
from tests.server.serving import free_ports

from .links import Link

BOOT_S = 60.0
# of the pipe that a process logs to: a reader that stands still is felt soon
_PIPE_BYTES = 4096
# Everything that the registry logs as an error or with a traceback is a finding, but for these, each with its reason.
EXPECTED_ERRORS = re.compile(
    "|".join(
        (
            r"worker \d+ ended: killed by SIGKILL",  # by this campaign; a restart that nobody asked for is counted
            r"process\.worker - .*Redis (?:is away|cannot write now)",  # one that starts meanwhile
            r"cannot attach this worker's channels, it is tried again",
            r"the sweep failed, and is tried again: ",
            r"cannot read the state of Redis and its streams",
            r"lookup counts cannot be written, and are tried again",
            r"Redis is at its maxmemory",
            r"is left out: ",
            r"not ready yet, the tables are read again",
            r"the streams cannot be trimmed, and may outgrow",
            r"the shared configuration cannot be read",
            r"no sweeper has run for",
            r"worker\(s\) did not end within",  # it was stopped meanwhile
            r"runs but has told nothing for",
            r"worker \d+ ended: (?!exit status)[^;]*Redis",  # while Redis is away; it is started again
        )
    )
)
COMPLAINT = re.compile(r"Traceback|Logging error|was never (?:awaited|retrieved)|\bERROR\b|\bCRITICAL\b")

CLOCK_HOOK = """\
import mmap, os, struct, time
_file = open(os.environ["CAMPAIGN_CLOCK"], "rb")
_page = mmap.mmap(_file.fileno(), 8, access=mmap.ACCESS_READ)
_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + struct.unpack("<d", _page[:8])[0]
time.time_ns = lambda: _time_ns() + int(struct.unpack("<d", _page[:8])[0] * 1e9)
"""


class WallClock:
    """The wall clock that the registry's processes see: the true one and an offset, which may change as they run."""

    def __init__(self, folder: Path) -> None:
        (folder / "hook").mkdir()
        (folder / "hook" / "sitecustomize.py").write_text(CLOCK_HOOK)
        self._path = folder / "clock"
        self.hook = str(folder / "hook")
        self.offset_s = 0.0
        self._path.write_bytes(struct.pack("<d", 0.0))

    def step(self, by_s: float) -> None:
        self.offset_s += by_s
        with self._path.open("r+b") as file:
            file.write(struct.pack("<d", self.offset_s))

    def environ(self) -> dict[str, str]:
        paths = [self.hook, *filter(None, [os.environ.get("PYTHONPATH")])]
        return {"PYTHONPATH": os.pathsep.join(paths), "CAMPAIGN_CLOCK": str(self._path)}


class Daemon:
    """A command of mqregistry that is to run as long as nobody stops it.

    asked_to_end: whether the campaign is ending it, or has; any other end is a finding. redis_url: its way to Redis.
    log_is_read: what it says goes through a pipe, which nobody reads while this is not set.
    """

    def __init__(
        self, name: str, arguments: list[str], settings: dict[str, object], environ: dict[str, str], folder: Path,
        booted: str,
    ) -> None:  # fmt: skip
        self.name = name
        self.link, self.redis_url = Link(), ""
        self._arguments, self._settings, self._environ = arguments, settings, environ
        self._folder, self._booted = folder, booted
        self.asked_to_end = True
        self.killed_workers = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.logs: list[Path] = []
        self.log_is_read = threading.Event()
        self.log_is_read.set()
        self._read: dict[Path, int] = {}

    def start(self) -> None:
        log = self._folder / f"{self.name}-{len(self.logs)}.log"
        self.logs.append(log)
        environ = {name: value for name, value in os.environ.items() if not name.startswith("MQREGISTRY_")}
        given = self._settings | {"redis": self.redis_url}
        environ |= self._environ | {f"MQREGISTRY_{name.upper()}": str(value) for name, value in given.items()}
        log.touch()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mqregistry", *self._arguments], env=environ, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=die_with_parent,
        )  # fmt: skip
        assert self.process.stdout is not None
        fcntl.fcntl(self.process.stdout, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        threading.Thread(target=self._keep_log, args=(self.process.stdout, log), daemon=True).start()
        self.asked_to_end = False

    def _keep_log(self, pipe: IO[bytes], log: Path) -> None:
        with pipe, log.open("ab", buffering=0) as out:
            while data := os.read(pipe.fileno(), _PIPE_BYTES):
                out.write(data)
                self.log_is_read.wait()

    @property
    def log(self) -> str:
        return self.logs[-1].read_text(errors="replace") if self.logs else ""

    def booted(self) -> bool:
        return self._booted in self.log

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def family(self) -> list[psutil.Process]:
        """It and its workers."""
        if not self.runs:
            return []
        with contextlib.suppress(psutil.Error):
            assert self.process is not None
            parent = psutil.Process(self.process.pid)
            return [parent, *parent.children()]
        return []

    def signal_all(self, number: int) -> None:
        for process in self.family():
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)

    async def end(self, number: int, within_s: float = 30.0) -> str | None:
        """Send SIGTERM or SIGKILL and wait; returns what was wrong with its end."""
        self.asked_to_end = True
        if not self.runs:
            return None
        assert self.process is not None
        workers = self.family()[1:]
        self.process.send_signal(number)
        began = time.monotonic()
        while self.process.poll() is None and time.monotonic() < began + within_s:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        wrong = None
        if self.process.poll() is None:
            wrong = f"{self.name} did not end within {within_s:g} s of {signal.Signals(number).name}"
            self.signal_all(signal.SIGKILL)
            self.process.wait()
        elif number == signal.SIGTERM and self.process.returncode != 0:
            wrong = f"{self.name} ended with {self.process.returncode} after SIGTERM"
        for worker in workers:  # of a supervisor that was killed: they notice it, and end
            while worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE:
                if time.monotonic() > began + within_s:
                    wrong = wrong or f"a worker of {self.name} runs {within_s:g} s after its supervisor was killed"
                    with contextlib.suppress(psutil.Error):
                        worker.kill()
                await asyncio.sleep(0.02)
        return wrong

    def complaints(self) -> list[str]:
        """What its logs say since the last time, and should not."""
        found = []
        for log in self.logs:
            text = log.read_text(errors="replace")
            new = text[self._read.get(log, 0) :]
            new = new[: new.rfind("\n") + 1]
            self._read[log] = self._read.get(log, 0) + len(new)
            for line in new.splitlines():
                if COMPLAINT.search(line) and not EXPECTED_ERRORS.search(line):
                    found.append(f"{self.name} logged: {line[:400]}")
        if not self.runs and not self.asked_to_end:
            assert self.process is not None
            self.asked_to_end = True
            last = "\n    ".join(self.log.splitlines()[-8:])
            found.append(f"{self.name} ended by itself with {self.process.returncode}:\n    {last}")
        return found

    def rss_bytes(self) -> int:
        total = 0
        for process in self.family():
            with contextlib.suppress(psutil.Error):
                total = max(total, process.memory_info().rss)
        return total


class FrontEnd(Daemon):
    """``mqregistry serve``."""

    def __init__(self, index: int, workers: int, folder: Path, clock: WallClock, settings: dict[str, object]) -> None:
        self.index, self.workers = index, workers
        self.port, self.http_port = free_ports(2)
        own = {"host": "127.0.0.1", "port": self.port, "http_port": self.http_port, "workers": workers}
        super().__init__(f"fe{index}", ["serve"], settings | own, clock.environ(), folder, "boot success")


class DedicatedSweeper(Daemon):
    """``mqregistry sweep``."""

    def __init__(self, namespace: str, folder: Path, clock: WallClock, settings: dict[str, object]) -> None:
        settings = settings | {"namespace": namespace}
        super().__init__("sweeper", ["sweep"], settings, clock.environ(), folder, "sweeping namespace")
