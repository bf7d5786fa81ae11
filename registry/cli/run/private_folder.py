"""Lets only the user who runs ``up`` read what it writes: the folder has mode 0700, its files 0600.

A user who may read the append-only file can read every table; a user who may write to the socket can change them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

_PRIVATE_FOLDER: Final = 0o700
_OTHERS: Final = 0o077

# What up and its Redis (also one of version 7, which writes a folder of append-only files) make in the data folder.
_OURS: Final = (
    "up.lock", "up.json", "up.new", "redis.lock", "redis.sock", "redis.log", "redis.log.1", "appendonly.aof",
    "temp-*.aof", "dump.rdb", "temp-*.rdb", "appendonlydir",
    "before-schema-*", "damaged-*",
)  # fmt: skip


def write_private_files() -> None:
    """Make this process, and the processes that it starts, create files without rights for other users from now on."""
    os.umask(os.umask(_OTHERS) | _OTHERS)


def make_private(folder: Path) -> None:
    """Make the data folder if it is missing; remove the rights of others from what an earlier ``up`` left in it.

    A folder with other files than those of ``up`` is not changed, and the log says what to do: it may be a
    home or shared folder.

    Raises:
        OSError: it cannot be made.
    """
    folder.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
    names = list(folder.iterdir())
    ours = [path for path in names if any(path.match(pattern) for pattern in _OURS)]
    for path in ours:
        _close(path)
    mode = folder.stat().st_mode
    if mode & _OTHERS:
        said = f"others may look into the data folder {folder} (mode {stat.S_IMODE(mode):04o})"
        if len(ours) == len(names) and _close(folder):
            logger.warning("%s: now nobody else may", said)
        else:
            logger.warning("%s, and it holds other files than ours: chmod 700 it, or choose another --data-dir", said)


def _close(path: Path) -> bool:
    """Remove the rights of others from a file or folder that this user owns; returns whether others have none now."""
    with contextlib.suppress(OSError):
        found = path.lstat()
        if found.st_uid == os.getuid() and not stat.S_ISLNK(found.st_mode):
            if found.st_mode & _OTHERS:
                path.chmod(found.st_mode & ~_OTHERS)
            return True
    return False
