"""Cuts off the incomplete commands that a power cut left at the end of an append-only file (a torn end).

After a power cut a part of the last commands may be missing, or may be zeros or foreign bytes, and Redis refuses to
start. This module cuts off the bytes after the last whole command, and keeps a copy of the file. If whole commands
follow the damage, it changes nothing, because a cut would lose these commands.
"""

from __future__ import annotations

import logging
import mmap
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

from ..errors import StartError

logger = logging.getLogger(__name__)

_ROOM_BYTES: Final = 64 << 20
_GOOD_UP_TO: Final = re.compile(r"AOF analyzed: .*\bok_up_to=(\d+)")
_COMMAND: Final = re.compile(rb"\*([1-9]\d{0,9})\r\n")
_ARGUMENT: Final = re.compile(rb"\$(\d{1,10})\r\n")
_ANY_COMMAND: Final = re.compile(rb"\*[1-9]\d{0,9}\r\n\$")
_MANIFEST_LINE: Final = re.compile(r"file (\S+) seq \d+ type [bi]")

NAME: Final = "appendonly.aof"
FOLDER: Final = "appendonlydir"


def current_file(folder: Path) -> Path | None:
    """The file that the server appends to; from Redis 7 on it is the last file of the manifest. None: no file."""
    manifest = folder / FOLDER / f"{NAME}.manifest"
    if manifest.exists() and (found := _MANIFEST_LINE.findall(manifest.read_text())):
        return manifest.with_name(found[-1])
    file = folder / NAME
    return file if file.exists() and file.stat().st_size else None


def cut_torn_end(folder: Path, server: str) -> bool:
    """Cut off what follows the last whole command; False: nothing follows it.

    Raises:
        StartError: whole commands follow the damage, or the file cannot be changed; nothing was changed.
    """
    file = current_file(folder)
    if file is None or not file.is_file() or not file.stat().st_size:
        return False
    good = _good_up_to(file, server)
    size = file.stat().st_size
    if good is None or good >= size:
        return False
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        behind = _command_behind(data, good)
        is_torn = behind is None and (good > 0 or file.parent != folder or not any(data[: 1 << 20]))
    if not is_torn:
        what = f"whole commands follow from byte {behind} on" if behind is not None else "it has no command at all"
        raise StartError(
            f"the append-only file {file} is damaged at byte {good} of {size}, and {what}: this is no torn end of a "
            "power cut. Nothing was changed. Either restore a backup (mqregistry restore FILE), or go on with what is "
            f"before the damage: copy the folder {folder}, then truncate -s {good} {file}, and start again. Routes "
            "return with the brokers' heartbeats; KV configuration, settings and users are as before the damage"
        )
    try:
        kept = _keep(file, good, folder)
        with file.open("r+b") as changed:
            changed.truncate(good)
            os.fsync(changed.fileno())
    except OSError as error:
        raise StartError(
            f"the append-only file {file} is damaged from byte {good} on, and cannot be mended: {error}"
        ) from error
    logger.warning(
        "the append-only file %s had a torn end, as after a power cut: its last %d of %d bytes, from byte %d on, hold "
        "no whole command and were cut off; %s",
        file, size - good, size, good, kept,
    )  # fmt: skip
    return True


def _good_up_to(file: Path, server: str) -> int | None:
    """Where the last whole command (or transaction) ends; None: the server's checker does not say."""
    # the binary of the server runs as the checker when it is started under this name
    done = subprocess.run(
        ["redis-check-aof", str(file)], executable=server, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    found = _GOOD_UP_TO.search(done.stdout.decode("utf-8", "replace"))
    return int(found[1]) if found else None


def _command_behind(data: mmap.mmap, at: int) -> int | None:
    """Where the first whole command after the damage begins; None: there is none."""
    while (end := _end_of_command(data, at)) is not None:  # skip the commands of a transaction whose end is missing
        at = end
    for found in _ANY_COMMAND.finditer(data, at + 1):
        if _end_of_command(data, found.start()) is not None:
            return found.start()
    return None


def _end_of_command(data: mmap.mmap, at: int) -> int | None:
    """The end of the command that begins at ``at``; None: no command begins there, or it is not whole."""
    head = _COMMAND.match(data, at)
    if head is None:
        return None
    at = head.end()
    for _ in range(int(head[1])):
        argument = _ARGUMENT.match(data, at)
        if argument is None:
            return None
        at = argument.end() + int(argument[1]) + 2
        if data[at - 2 : at] != b"\r\n":
            return None
    return at


def _keep(file: Path, good: int, folder: Path) -> str:
    """Copy the file, or without room for it only the part to cut off; returns a clause that names the copy."""
    name = f"damaged-{time.strftime('%Y%m%dT%H%M%S')}-{file.name}"
    if shutil.disk_usage(folder).free > file.stat().st_size + _ROOM_BYTES:
        copy, begin, said = folder / name, 0, "the file as it was is kept as"
    else:
        copy, begin, said = folder / f"{name}.from-{good}", good, "there is no room for a copy; what was cut off is in"
    with file.open("rb") as source, copy.open("xb") as target:
        source.seek(begin)
        shutil.copyfileobj(source, target, 1 << 20)
        target.flush()
        os.fsync(target.fileno())
    return f"{said} {copy}"
