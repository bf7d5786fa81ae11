"""Fetches Apache RocketMQ's jars once from Maven, into a cache that several runs may share.

The cache is MQREGISTRY_CACHE, else .cache/rocketmq of the repository.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from bench.servers.processes import on_leash

REPOSITORY = Path(__file__).resolve().parents[2]
MODULES = ("namesrv", "broker", "client", "tools")
FETCH_TIMEOUT_S = 800
OPENS = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED", "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
)  # fmt: skip
"""RocketMQ uses internals of the JDK; the start scripts of 5.x pass these flags, too."""


class Unavailable(Exception):
    """This machine cannot run RocketMQ; the text says why."""


def cache_folder() -> Path:
    configured = os.environ.get("MQREGISTRY_CACHE")
    return Path(configured).absolute() if configured else REPOSITORY / ".cache" / "rocketmq"


def need_jdk() -> None:
    for tool in ("java", "javac", "jar"):
        if shutil.which(tool) is None:
            raise Unavailable(f"no {tool} on PATH (a JDK, 17 or later, is needed: apt-get install openjdk-17-jdk)")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def say_where(make: Callable[[], Path]) -> None:
    """Put something into the cache, and print its path, or why that failed: the main program of a module."""
    try:
        print(make())
    except Unavailable as error:
        sys.exit(str(error))


def publish_once(folder: Path, fill: Callable[[Path], None]) -> None:
    """Fill a folder if it does not exist, under a temporary name at first, so that an existing folder is complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_name(folder.name + ".lock")):
        if folder.is_dir():
            return
        partial = folder.with_name(folder.name + ".partial")
        if partial.exists():  # we hold the lock, so no other process is filling it
            shutil.rmtree(partial)
        partial.mkdir()
        fill(partial)
        partial.rename(folder)


def fetch_jars(version: str) -> Path:
    """The folder with a release's jars, from the cache or by Maven; raises Unavailable if Maven cannot fetch them."""
    need_jdk()
    folder = cache_folder() / f"v{version}"
    publish_once(folder, lambda partial: _download(version, partial))
    return folder / "lib"


def _download(version: str, folder: Path) -> None:
    copy_jars(folder, f"RocketMQ {version}", [f"org.apache.rocketmq:rocketmq-{module}:{version}" for module in MODULES])


def copy_jars(folder: Path, what: str, artifacts: Sequence[str]) -> None:
    """Have Maven put these artifacts (GROUP:NAME:VERSION) and what they need into folder/lib."""
    if shutil.which("mvn") is None:
        raise Unavailable(
            f"{what} is not in {folder.parent}, and there is no mvn on PATH to fetch it: apt-get install maven"
        )
    dependencies = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>".format(
            *artifact.split(":")
        )
        for artifact in artifacts
    )
    pom = folder / "pom.xml"
    pom.write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>interop</groupId><artifactId>jars</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>\n"
    )
    command = ["mvn", "-q", "-B", "-Dstyle.color=never", "-f", str(pom), "dependency:copy-dependencies"]
    command += [f"-DoutputDirectory={folder / 'lib'}", "-DincludeScope=runtime"]
    try:
        done = subprocess.run(
            on_leash(command), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"Maven did not fetch {what} within {FETCH_TIMEOUT_S} s") from None
    name, version = artifacts[-1].split(":")[1:]
    if done.returncode or not (folder / "lib" / f"{name}-{version}.jar").is_file():
        said = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line] or ["nothing"]
        raise Unavailable(f"Maven cannot fetch {what}: {said[0]}")


def write_properties(path: Path, properties: Mapping[str, object]) -> None:
    path.write_text("".join(f"{key}={_property(value)}\n" for key, value in properties.items()))


def _property(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
