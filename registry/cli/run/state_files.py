"""Files that tell the operators' commands which ``up`` and ``demo`` run on this machine.

There are a lock and a state file in the data folder, and a copy of the state file in the user's run-time folder, where
the commands look. A state file is valid only while the lock of its data folder is held, and while the folder's own
state file has the same content. So files that a crash left are ignored, even if the folder is in use again.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from ...errors import ConfigError, StartError
from .private_folder import make_private

logger = logging.getLogger(__name__)

_LOCK: Final = "up.lock"
_STATE: Final = "up.json"
# A command that checks the lock also holds it for a moment; only a lock that stays held means that an "up" runs.
_LOCK_TRIES: Final = 10
_LOCK_PAUSE_S: Final = 0.02


class Running(msgspec.Struct, frozen=True):
    """The content of a state file: one running ``up`` or ``demo``."""

    kind: str
    pid: int
    redis: str
    namespace: str
    host: str
    port: int
    http_port: int
    data_dir: str


def runtime_folder() -> Path:
    """The user's run-time folder: $XDG_RUNTIME_DIR/mqregistry, else mqregistry-UID in the temporary folder."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if base.startswith("/") and os.access(base, os.W_OK):
        return Path(base) / "mqregistry"
    import tempfile  # not needed where there is a run-time folder

    return Path(tempfile.gettempdir()) / f"mqregistry-{os.getuid()}"


def _is_ours(folder: Path) -> bool:
    """Whether this user owns the folder: in the temporary folder, anybody can make one with this name."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


@contextlib.contextmanager
def locked(data_dir: Path) -> Iterator[None]:
    """Lock a data folder (made if missing) while in the context.

    Raises:
        StartError: another process holds the lock (the message says which), or the folder cannot be made.
    """
    try:
        make_private(data_dir)
        lock = (data_dir / _LOCK).open("a+b")
    except OSError as error:
        raise StartError(
            f"cannot use the data folder {data_dir}: {error.strerror or error}; choose another with --data-dir"
        ) from error
    with lock:
        if not _try_lock(lock.fileno()):
            other = _read(data_dir / _STATE)
            where = f" (process {other.pid}, name server on {other.host}:{other.port})" if other else ""
            raise StartError(
                f"another 'mqregistry up' already runs on the data folder {data_dir}{where}: stop it, or choose "
                "another folder with --data-dir (and another --port)"
            )
        with contextlib.suppress(OSError):  # an ``up`` that crashed left it
            (data_dir / _STATE).unlink(missing_ok=True)
        yield


def _try_lock(fd: int) -> bool:
    for _ in range(_LOCK_TRIES):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(_LOCK_PAUSE_S)
    return False


@contextlib.contextmanager
def announced(running: Running) -> Iterator[None]:
    """Keep the state files while in the context. A folder that cannot be written is only logged."""
    files = [Path(running.data_dir) / _STATE]
    folder = runtime_folder()
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if _is_ours(folder):
        files.append(folder / f"{running.pid}.json")
    text = msgspec.json.format(msgspec.json.encode(running), indent=2) + b"\n"
    try:
        for file in files:
            try:
                beside = file.with_suffix(".new")
                beside.write_bytes(text)
                beside.replace(file)
            except OSError as error:
                logger.warning("cannot write %s, so commands need --redis: %s", file, error)
        yield
    finally:
        for file in files:
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)


def find_running() -> list[Running]:
    """Each ``up`` and ``demo`` that runs, by the state files in the run-time folder; removes invalid state files."""
    folder = runtime_folder()
    if not _is_ours(folder):
        return []
    found = []
    for file in sorted(folder.glob("*.json")):
        running = _read(file)
        if running is not None and _is_current(running):
            found.append(running)
        else:
            with contextlib.suppress(OSError):
                file.unlink()
    return found


def name_servers_or(given: str | None, advice: str) -> str:
    """Name servers of an option or of NAMESRV_ADDR, else the one that runs here, else a ConfigError (``advice``)."""
    from ...client.addresses import NAMESRV_ADDR  # few commands need it

    if found := given or os.environ.get(NAMESRV_ADDR, ""):
        return found
    running = find_running()
    if len(running) != 1:
        raise ConfigError(advice)
    return f"{running[0].host}:{running[0].port}"


def _read(file: Path) -> Running | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Running)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _is_current(running: Running) -> bool:
    data_dir = Path(running.data_dir)
    return _read(data_dir / _STATE) == running and _is_held(data_dir / _LOCK)


def _is_held(lock_file: Path) -> bool:
    try:
        with lock_file.open("rb") as lock:
            fcntl.flock(lock.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False
