"""CONTRIBUTING's table of rooms names each room that tests/test_structure.py knows, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from ..test_structure import ALLOWED

ROOT = Path(__file__).resolve().parents[2]


def room(path):
    """``registry/server/net/`` is server.net, ``worker/`` is worker."""
    return re.sub(r"(?:\.py)?/?$", "", path.removeprefix("registry/")).replace("/", ".")


def test_the_table_of_rooms_is_whole():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"^\| room \|.*?\n\n", page, re.M | re.S)
    named = {
        room(path) for cell in re.findall(r"^\| ([^|]+) \|", table, re.M) for path in re.findall(r"`([^`]+)`", cell)
    }
    # the package itself and its __main__ hold nothing; server is the sum of its folders; lua is no module
    assert named - {"lua", "lua.include"} == set(ALLOWED) - {"", "__main__", "server"}


def test_contributing_can_be_read_at_one_sitting():
    """What else a change needs is in tests/README.md."""
    assert (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").count("\n") <= 150
