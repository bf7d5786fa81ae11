"""What pages say of extras: which there are, and how they are installed while no package index has the project."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec

import pytest

from mqregistry import __version__

from .test_links import PAGES, ROOT, name

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"].keys()
WHEEL = f"dist/mqregistry-{__version__}-py3-none-any.whl"
FOR_DEVELOPERS = {"dev", "docs"}
THERE_ALREADY = ("source .venv/bin/activate", "commands.md#extras)", "Where mqregistry is installed already")


def test_every_extra_is_listed():
    (table,) = re.findall(
        r"^\| extra \|.*?\n\n", (ROOT / "docs" / "commands.md").read_text(encoding="utf-8"), re.M | re.S
    )
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.M)) == EXTRAS - FOR_DEVELOPERS


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_what_pip_is_asked_for_can_be_had(page):
    """A folder or a file; or an extra of the mqregistry that is installed, and then the page says that it has to be."""
    text = page.read_text(encoding="utf-8")
    for asked in re.finditer(r"""pip install [^\n]*?(?P<what>[\w/.*-]*)\[(?P<extras>[\w,]+)\]""", text):
        assert set(asked["extras"].split(",")) <= EXTRAS, asked[0]
        if asked["what"] == PROJECT["name"]:
            near = text[max(0, asked.start() - 300) : asked.end() + 300]
            assert [said for said in THERE_ALREADY if said in near], asked[0]
        else:
            assert asked["what"] in (".", "PATH_OF_THE_CLONE", WHEEL), asked[0]
    assert not re.search(rf"pip install (?:-\S+ )*'?{PROJECT['name']}'?(?:[^\[\w]|$)", text, re.M)


@pytest.mark.skipif(find_spec("pip") is None, reason="no pip beside this Python: python -m ensurepip")
def test_pip_needs_no_index_for_an_extra_of_what_is_installed():
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", "--no-deps", "mqregistry[console]"],
        capture_output=True, text=True, check=False, env={},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "already satisfied: mqregistry[console]" in done.stdout
