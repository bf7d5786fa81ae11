"""Programs that are built with Go into the cache, once."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from bench.servers.rocketmq import Unavailable, publish_once


def build_once(program: Path, fill: Callable[[Path], None], without_go: str) -> Path:
    """The program, in a folder of its own, which ``fill`` gets while it is not there yet.

    Raises:
        Unavailable: there is no Go (``without_go`` says so), or it could not build it.
    """
    if shutil.which("go") is None:
        raise Unavailable(without_go)
    publish_once(program.parent, fill)
    return program


def go(what: str, *arguments: str, timeout_s: float, folder: Path | None = None, bin_folder: Path | None = None) -> str:
    """What a command of Go prints.

    Args:
        what: begins the error. bin_folder: where ``go install`` puts programs.

    Raises:
        Unavailable: it failed.
    """
    env = {**os.environ, "CGO_ENABLED": "0"} | ({"GOBIN": str(bin_folder)} if bin_folder else {})
    done = subprocess.run(
        ["go", *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    if done.returncode:
        raise Unavailable(f"{what}: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout
