"""helm: the one on PATH, or one that is built with Go into the cache. Run as a module, it builds that if need be."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.servers.rocketmq import cache_folder, say_where

from .files import DEPLOY
from .go_builds import build_once, go

CHART = DEPLOY / "helm" / "mqregistry"
VERSION = "v3.22.0"
BUILD_TIMEOUT_S = 1800


def built() -> Path:
    """Where the one of this version is, once it has been built."""
    return cache_folder() / f"helm-{VERSION}" / "helm"


def build() -> Path:
    """Build it, unless it is there: some minutes.

    Raises:
        Unavailable: there is no Go, or it could not build it.
    """
    return build_once(built(), _build, "no helm and no go on PATH, which would build one")


def _build(folder: Path) -> None:
    module = f"helm.sh/helm/v3/cmd/helm@{VERSION}"
    go(f"go could not build helm {VERSION}", "install", module, timeout_s=BUILD_TIMEOUT_S, bin_folder=folder)


def helm_or_skip() -> str:
    on_path = shutil.which("helm")
    if on_path is None and not built().exists():
        pytest.skip("no helm on PATH, and none was built: make k8s builds one with Go")
    return on_path or str(built())


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of helm; nothing of this machine's own is used."""
    return subprocess.run(
        [helm_or_skip(), *arguments],
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def run(command: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """A command of helm on the chart, as for the oldest Kubernetes that it is for."""
    name = ("r",) if command == "template" else ()
    return helm(command, *name, str(CHART), "--kube-version", "1.29.0", *map(str, arguments))


@cache
def rendered(values: str = "", *arguments: str) -> list[dict[str, Any]]:
    """What the chart makes of a file of ci/, and of further options."""
    files = ("--values", str(CHART / "ci" / f"{values}.yaml")) if values else ()
    done = run("template", "--namespace", "mq", *files, *arguments)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


if __name__ == "__main__":
    say_where(lambda: Path(shutil.which("helm") or build()))
