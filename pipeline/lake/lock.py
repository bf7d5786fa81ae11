"""Allows one run at a time on a lake, and none before the Java of a killed one has ended, which may still be writing.

Only for a lake on this machine's disk: of another machine's processes it is not known whether they live.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from mqregistry.errors import StartError

from .lake import Lake

logger = logging.getLogger(__name__)

_PATIENCE_S: Final = 30.0
_POLL_S: Final = 0.1


class _Owner(msgspec.Struct, frozen=True):
    """A process: its pid counts only with its host and the moment of its start (clock ticks since boot)."""

    host: str
    pid: int
    started: str


@contextlib.contextmanager
def run_lock(lake: Lake, pid: int, *, patience_s: float = _PATIENCE_S) -> Iterator[None]:
    """Hold the lake for as long as the block runs, or the process lives.

    This process may hold it already, before it has started its Java: then the inner block takes it over.

    Args:
        pid: the process that writes: Spark's Java, or this one while there is none yet.

    Raises:
        StartError: another run holds it; or the lake's folder cannot be made or written.
    """
    if not lake.root.startswith("file://"):
        yield
        return
    file = Path(lake.path("running.json"))
    mine = msgspec.json.encode(_Owner(socket.gethostname(), pid, _started(pid)))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        _wait_for_others(lake, file, {pid, os.getpid()}, patience_s)
        unfinished = file.with_suffix(f".{pid}")
        unfinished.write_bytes(mine)
        unfinished.replace(file)
    except OSError as error:
        reason = "it is no folder" if isinstance(error, FileExistsError | NotADirectoryError) else error.strerror
        raise StartError(f"cannot write the lake at {lake.root}: {reason}; --lake DIR names another") from error
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            if file.read_bytes() == mine:
                file.unlink()


def _wait_for_others(lake: Lake, file: Path, own: set[int], patience_s: float) -> None:
    until = time.monotonic() + patience_s
    told = False
    while (owner := _alive(file)) is not None and owner.pid not in own:
        if time.monotonic() > until:
            raise StartError(f"another run (process {owner.pid}) works on the lake at {lake.root}: end it first")
        if not told:
            logger.warning("another run (process %d) works on the lake at %s: waiting %.0f s for its end", owner.pid,
                           lake.root, patience_s)  # fmt: skip
        told = True
        time.sleep(_POLL_S)


def _alive(file: Path) -> _Owner | None:
    try:
        owner = msgspec.json.decode(file.read_bytes(), type=_Owner)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    here = owner.host == socket.gethostname() and owner.started == _started(owner.pid)
    return owner if here else None


def _started(pid: int) -> str:
    """Which of all processes with this pid; another text when there is none."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return "gone"
    return "gone" if state[0] == "Z" else state[19]


def java_of(spark: object) -> int:
    """The process that writes for a session: its own Java, or the one that started us (spark-submit)."""
    proc = getattr(getattr(getattr(spark, "sparkContext", None), "_gateway", None), "proc", None)
    return int(proc.pid) if proc is not None else os.getppid()
