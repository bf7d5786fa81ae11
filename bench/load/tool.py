"""Builds the C programs and controls the load generator: one generator process for the whole run of a server."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from bench.load.histogram import Histogram

SOURCES = Path(__file__).parent
BUILD = SOURCES.parents[1] / "build" / "bench"
FLAGS = ("-O2", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror")


class NoCompiler(Exception):
    """There is no C compiler; the text says what is needed."""


class LoadFailed(Exception):
    """The server closed a connection, stopped answering, or sent an answer without a request: the run is invalid."""


def compiler() -> str:
    """The C compiler; raises NoCompiler when there is none."""
    found = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc") or shutil.which("clang")
    if found is None:
        raise NoCompiler(
            "no C compiler (cc, gcc, clang, or $CC): the load generator cannot be built; apt-get install gcc"
        )
    return found


def build(program: str) -> Path:
    """The path of a C program of this folder, which is compiled first if its sources changed.

    Raises:
        NoCompiler: there is no C compiler.
        RuntimeError: the program does not compile; the text has the compiler's messages.
    """
    sources = sorted([*SOURCES.glob("*.h"), SOURCES / f"{program}.c"])
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    binary = BUILD / f"{program}-{digest}"
    if not binary.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        partial = binary.with_suffix(f".{os.getpid()}")
        command = [compiler(), *FLAGS, "-o", str(partial), str(SOURCES / f"{program}.c")]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}:\n{done.stderr}")
        partial.rename(binary)
    return binary


def pinned(command: Sequence[str], cores: Sequence[int]) -> list[str]:
    """The command pinned to these cores; not pinned if there are none."""
    return ["taskset", "-c", ",".join(map(str, cores)), *command] if cores else list(command)


@dataclass(frozen=True)
class StreamCounts:
    """The counts of the lookups, or of the registrations, of one run.

    lost: requests without an answer (open loop; in `latency` they count with the time until the run's end). wrong:
    answers that differ from the expected ones (`sampled` were compared), or whose code was not 0.
    """

    asked: int
    answered: int
    lost: int
    sampled: int
    wrong: int
    codes: dict[str, int]
    remark: str
    latency: Histogram

    @classmethod
    def read(cls, raw: dict[str, Any]) -> StreamCounts:
        return cls(**{**raw, "latency": Histogram.read(raw["latency"])})


@dataclass(frozen=True)
class LoadResult:
    """The result of one run. seconds: its length without the warm-up. late: how late the generator sent requests.

    series: (answers, p50, p99, longest) of each measured second; latencies in ns.
    """

    raw: dict[str, Any]
    seconds: float

    @cached_property
    def lookups(self) -> StreamCounts:
        return StreamCounts.read(self.raw["lookups"])

    @cached_property
    def registrations(self) -> StreamCounts:
        return StreamCounts.read(self.raw["registrations"])

    @cached_property
    def late(self) -> Histogram:
        return Histogram.read(self.raw["late"])

    @property
    def registrations_s(self) -> float:
        """From the first registration's start to the last one's answer."""
        return float(self.raw["registrations_s"])

    @property
    def elapsed_s(self) -> float:
        """Of the whole run: connecting, warm-up, measurement and waiting for late answers."""
        return float(self.raw["elapsed_s"])

    @property
    def generator_load(self) -> float:
        """How busy the generator was, 1.0 = one core; an open loop always spins."""
        return float(self.raw["cpu_s"]) / max(self.elapsed_s, 1e-9)

    @property
    def series(self) -> list[tuple[int, int, int, int]]:
        return [tuple(row) for row in self.raw["series"]]

    @property
    def rate(self) -> float:
        """Answered lookups per second."""
        return self.lookups.latency.count / self.seconds


class LoadGenerator:
    """The generator process for one server; a context manager. Its brokers' connections stay open between runs."""

    def __init__(self, port: int, lookups: Path | None, registrations: Path | None, cores: Sequence[int] = ()) -> None:
        command = [str(build("loadgen")), str(port), str(lookups or "-"), str(registrations or "-")]
        self._process = subprocess.Popen(
            pinned(command, cores), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def once(self, bodies: Path | None = None) -> LoadResult:
        """Look up every topic once: later answers are compared with these answers.

        Raises:
            LoadFailed: the run is invalid.
        """
        self._say("once", {"bodies": bodies} if bodies else {})
        return self._hear(1.0)

    def run(self, **options: object) -> LoadResult:
        """Run a load; `options` in traffic.h lists the options.

        Raises:
            LoadFailed: the run is invalid.
        """
        self.begin(**options)
        return self.finish()

    def begin(self, **options: object) -> None:
        """Begin a run; `finish` waits for it."""
        self._seconds = float(str(options.get("seconds", 0))) or 1.0
        self._say("run", options)

    def finish(self) -> LoadResult:
        return self._hear(self._seconds)

    @contextlib.contextmanager
    def lookups_beside(self, rate: float) -> Iterator[list[Histogram]]:
        """Look up at this rate from a second before the context until its end; then the list has the latencies."""
        ended, parts = threading.Event(), list[Histogram]()

        def ask_on() -> None:
            while not ended.is_set():
                result = self.run(connections=16, rate=rate, seconds=2, warmup_s=0.2, drain_s=20, sample=0)
                parts.append(result.lookups.latency)

        thread = threading.Thread(target=ask_on)
        thread.start()
        try:
            time.sleep(1)
            yield parts
        finally:
            ended.set()
            thread.join()

    def leave(self) -> None:
        """Close the brokers' connections."""
        self._say("leave", {})
        self._line()

    def histogram(self, values: Sequence[int]) -> Histogram:
        """The generator's histogram of these values, for tests."""
        self._say("values", {})
        self._write(" ".join(map(str, values)))
        return Histogram.read(self._line())

    def _say(self, verb: str, options: dict[str, Any]) -> None:
        self._write(" ".join([verb, *(f"{key}={value}" for key, value in options.items())]))

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._ended()
        return dict(json.loads(line))

    def _ended(self) -> LoadFailed:
        assert self._process.stderr is not None
        code = self._process.wait(10)
        return LoadFailed(f"the generator ended with {code}: {self._process.stderr.read().strip()}")

    def _hear(self, seconds: float) -> LoadResult:
        result = LoadResult(self._line(), seconds)
        if result.raw["error"]:
            raise LoadFailed(f"{result.raw['error']} ({result.lookups.remark or result.registrations.remark})")
        return result

    def close(self) -> None:
        if self._process.stdin is not None and not self._process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def __enter__(self) -> LoadGenerator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
