"""Lets only one application at a time write to a lake, because two may overwrite each other's commits.

Delta commits by renaming a file to a name that must not exist yet: it checks, then renames. Its lock (LocalLogStore)
covers one Java only, and a rename on a local file system replaces what another Java put there in between.

Spark's Java holds our lock, because it may still write for some seconds after its Python was killed.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from ..lake.lake import Lake, OtherWriter

_PATIENCE_S: Final = 120.0
_TRY_S: Final = 0.5


@contextlib.contextmanager
def locked(spark: SparkSession, lake: Lake, tell: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of a lake for the length of a block.

    Raises:
        OtherWriter: another application has it.
    """
    file, owner = Path(lake.path("_lock")), Path(lake.path("_lock_owner"))
    file.parent.mkdir(parents=True, exist_ok=True)
    jvm: Any = spark._jvm
    channel = jvm.java.io.RandomAccessFile(str(file), "rw").getChannel()
    end_s, told = time.monotonic() + _PATIENCE_S, False
    while channel.tryLock() is None:
        who = owner.read_text() if owner.exists() else ""
        if not _is_gone(who) or time.monotonic() > end_s:
            channel.close()
            raise OtherWriter(
                f"another application writes to the lake at {lake.root}"
                f"{' (process ' + who.replace(' ', ' on ') + ')' if who else ''}: only one may "
                "write at a time. One 'pipeline run' can read several namespaces (--also); stop it before backfill, "
                "requarantine or maintain"
            )
        if not told:
            tell(f"waiting for the Java of process {who.partition(' ')[0]}, which ended, to end too")
            told = True
        time.sleep(_TRY_S)
    owner.write_text(f"{os.getpid()} {socket.gethostname()}")
    try:
        yield
    finally:
        channel.close()


def _is_gone(who: str) -> bool:
    """Whether the Python that took the lock ran on this machine and has ended."""
    pid, _, host = who.partition(" ")
    if host != socket.gethostname() or not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    return state == "Z"
