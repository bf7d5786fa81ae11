"""An S3 server for tests, moto, which is in a folder of the cache. Run as a module, it is installed there.

It is none of the packages that the other tests need: it wants an older python-dateutil than those have.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.servers.processes import free_port, wait_until
from bench.servers.rocketmq import Unavailable, cache_folder, publish_once, say_where

VERSION = "5.2.5"
PACKAGES = (f"moto[s3]=={VERSION}", "boto3==1.44.5", "flask==3.1.3", "flask-cors==6.0.5")


def installed() -> Path:
    """Where it is, once it has been installed for this Python."""
    return cache_folder() / f"moto-{VERSION}-{sys.implementation.cache_tag}"


def install() -> Path:
    """Install it, unless it is there.

    Raises:
        Unavailable: pip could not.
    """
    publish_once(installed(), _install)
    return installed()


def _install(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*pip, "--target", str(folder), *PACKAGES], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"pip could not install moto {VERSION}: {done.stderr.strip().splitlines()[-1:]}")


@contextlib.contextmanager
def s3_server(bucket: str) -> Iterator[str]:
    """Start one with a bucket; gives its URL.

    It is a process of its own: deltalake holds Python's lock while it waits for an answer.
    """
    if not installed().is_dir():
        pytest.skip("no moto in the cache: python -m tests.pipeline.s3_server installs it there")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(installed())},
    )  # fmt: skip

    def made() -> bool:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(urllib.request.Request(f"{url}/{bucket}", method="PUT")).read()
            return True
        return False

    try:
        wait_until("the S3 server answers", made, 30)
        yield url
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    say_where(install)
