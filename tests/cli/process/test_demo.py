"""``mqregistry demo``, from the checkout and from the wheel."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

import pytest

from ...server.harness import wait_until
from .test_tables import CLUSTERS, ROUTE
from .world import ROOT, World

GONE = ROUTE.replace("  0  192.168.56.1:10000\n" + " " * 42 + "1", "  1")
_WHERE = """
import mqregistry, mqregistry.worker
from mqregistry.store import scripts
print(mqregistry.__file__, mqregistry.worker.__file__, scripts._find_folder(), sep="\\n")
"""


def assert_shown(text):
    """Clusters, the route, the close and the route without it, in this order."""
    places = [text.find(part) for part in (CLUSTERS, ROUTE, "dies: its connection closes.", "left the route", GONE)]
    assert -1 not in places, (places, text)
    assert places == sorted(places)


def test_once_shows_it_all_and_leaves_nothing(world):
    program = world.start("demo", "--once", MQREGISTRY_PORT="none")  # the user's settings are for something else
    wait_until(program.redis_processes, "its Redis runs")
    program.wait_for("Four brokers register")
    program.descendants()
    assert program.process.wait(30) == 0, program.err
    assert_shown(program.out)
    assert program.err == ""
    assert not program.descendants()
    assert world.states() == []
    assert list((world.folder / "tmp").iterdir()) == []


@pytest.mark.usefixtures("new_interpreters")
def test_it_goes_on_until_ctrl_c_and_leaves_nothing(world):
    program = world.start("demo")
    program.wait_for("Ctrl-C ends it")
    assert_shown(program.out)
    (state,) = world.states()
    assert json.loads(state.read_text())["kind"] == "demo"
    assert world.run("route", "topic1").stdout == GONE
    # what it proposes to try is true
    url = re.search(r"mqregistry brokers --redis (\S+)", program.out)[1]
    assert len(json.loads(world.run("brokers", "--json", "--redis", url).stdout)) == 3
    assert len(program.descendants()) == 2
    assert program.interrupt(group=True) == 0
    assert program.err == ""
    assert world.states() == []
    assert list((world.folder / "tmp").iterdir()) == []


@pytest.mark.slow
def test_the_wheel_shows_it_from_an_empty_environment():
    """No network: what it depends on is lent by this environment; the source is not."""
    with tempfile.TemporaryDirectory(prefix="mq") as name:
        folder = Path(name)
        subprocess.run(
            [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)],
            check=True, capture_output=True, timeout=100,
        )  # fmt: skip
        (wheel,) = folder.glob("mqregistry-*.whl")
        scripts = {path.name for path in ROOT.glob("lua/*.lua")}
        assert scripts
        assert scripts <= {Path(entry).name for entry in zipfile.ZipFile(wheel).namelist()}
        environment = folder / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True, timeout=60)
        python = environment / "bin" / "python"
        subprocess.run(
            [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index",
             "--disable-pip-version-check", str(wheel)],
            check=True, capture_output=True, timeout=100,
        )  # fmt: skip
        (packages,) = environment.glob("lib/python*/site-packages")
        # a .pth inside of that folder (an editable installation of the source) is not followed from here
        (packages / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
        elsewhere = folder / "elsewhere"
        elsewhere.mkdir()
        (folder / "world").mkdir()

        world = World(folder / "world", (str(python),), elsewhere)
        try:
            found = world.run("-c", _WHERE).stdout.splitlines()
            assert len(found) == 3
            assert all(Path(path).is_relative_to(packages) for path in found), found
            program = world.run("-I", environment / "bin" / "mqregistry", "demo", "--once")
            assert_shown(program.stdout)
            assert program.stderr == ""
            assert world.states() == []
        finally:
            world.close()
