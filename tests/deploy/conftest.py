"""A Redis with the configuration and the users of deploy/."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest

from bench.servers.redis_servers import RedisProcess

from .files import text


@pytest.fixture(scope="module")
def deployed():
    """redis.conf and users.acl as they are, but for folder, port and address; and a user for this test to look with."""
    with tempfile.TemporaryDirectory(prefix="mq") as name:
        folder = Path(name)
        acl = folder / "users.acl"
        acl.write_text(text("users.acl") + "user tester on >tester ~* &* +@all\n")
        lines, count = re.subn(r"^aclfile .*$", f"aclfile {acl}", text("redis.conf"), flags=re.M)
        assert count == 1
        lines, count = re.subn(r"^(bind|port|dir) .*$", "", lines, flags=re.M)
        assert count == 3
        server = RedisProcess(folder / "node", [lines], login={"username": "tester", "password": "tester"})
        with server:
            yield server
