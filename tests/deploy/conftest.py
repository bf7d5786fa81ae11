"""Redis servers with the configuration and the users of deploy/."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.servers.redis_servers import RedisProcess

from .files import acl_text, text

REDIS_7 = os.environ.get("REDIS_7_SERVER") or shutil.which("redis-server") or ""
"""A Redis of version 7 or later: Debian's package redis-server has one, beside the embedded one, which is 6.2."""


def redis_7_or_skip() -> str:
    said = subprocess.run([REDIS_7, "--version"], capture_output=True, text=True).stdout if REDIS_7 else ""
    found = re.search(r"v=(\d+)\.", said)
    if found is None or int(found[1]) < 7:
        pytest.skip(
            f"no Redis 7 on PATH or in REDIS_7_SERVER (found: {said.strip() or 'none'}): apt-get install redis-server"
        )
    return REDIS_7


@contextmanager
def deployed_with(acl_file: str, program: str = "") -> Iterator[RedisProcess]:
    """redis.conf and an ACL file as they are, but for folder, port, address and passwords; and a user for this test."""
    with tempfile.TemporaryDirectory(prefix="mq") as name:
        folder = Path(name)
        acl = folder / "users.acl"
        acl.write_text(acl_text(acl_file) + "user tester on >tester ~* &* +@all\n")
        lines, count = re.subn(r"^aclfile .*$", f"aclfile {acl}", text("redis.conf"), flags=re.M)
        assert count == 1
        lines, count = re.subn(r"^(bind|port|dir) .*$", "", lines, flags=re.M)
        assert count == 3
        login = {"username": "tester", "password": "tester"}
        with RedisProcess(folder / "node", [lines], login=login, program=program) as server:
            yield server


@pytest.fixture(scope="module")
def deployed():
    """As it would be on Redis 6.2."""
    with deployed_with("users.acl") as server:
        yield server
