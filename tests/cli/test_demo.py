"""``demo``: the worked example over the real wire, from a checkout and from a built wheel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

CLUSTERS = """\
CLUSTER  BROKER NAME  ID  ADDRESS
c1       broker-a      0  10.0.0.1:10911
c1       broker-a      1  10.0.0.2:10911
c1       broker-b      0  10.0.0.3:10911
c1       broker-b      1  10.0.0.4:10911
"""
ROUTE = """\
topic topic1
BROKER NAME  CLUSTER  READ  WRITE  PERM  ID  ADDRESS
broker-a     c1          4      4  6 RW   0  10.0.0.1:10911
                                          1  10.0.0.2:10911
broker-b     c1          4      4  6 RW   0  10.0.0.3:10911
                                          1  10.0.0.4:10911
"""
ROUTE_AFTER = """\
topic topic1
BROKER NAME  CLUSTER  READ  WRITE  PERM  ID  ADDRESS
broker-a     c1          4      4  6 RW   1  10.0.0.2:10911
broker-b     c1          4      4  6 RW   0  10.0.0.3:10911
                                          1  10.0.0.4:10911
"""


def assert_the_show(out):
    places = [out.index(part) for part in (CLUSTERS, ROUTE, "dies: its connection closes", ROUTE_AFTER)]
    assert places == sorted(places)


def test_demo_once_shows_the_worked_example(finished, home):
    result = finished("demo", "--once")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert_the_show(result.stdout)
    assert not list(home.glob("mqregistry-demo-*"))


def test_demo_stays_to_play_with_until_ctrl_c(start, command, home):
    process = start("demo", MQREGISTRY_PORT="1")  # the user's settings are for something else
    process.wait_for("Ctrl-C ends it")
    family = process.family()
    assert command("route", "topic1").stdout == ROUTE_AFTER
    assert process.end() == 0
    assert process.err == ""
    assert not [one for one in family if one.is_running()]
    assert not list(home.glob("mqregistry-demo-*"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_demo_from_the_built_wheel_in_an_empty_environment(home, env):
    def run(*arguments, **options):
        done = subprocess.run(arguments, capture_output=True, text=True, check=False, env=env, cwd=home, **options)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    env = {name: value for name, value in env.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    # pip's own configuration and cache are the user's
    env |= {"HOME": os.environ.get("HOME", str(home))}
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(home / "dist"), str(ROOT))
    (wheel,) = (home / "dist").glob("*.whl")
    run(sys.executable, "-m", "venv", str(home / "venv"))
    python = str(home / "venv" / "bin" / "python")
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt"),
        f"{wheel}[embedded]")  # fmt: skip
    assert_the_show(run(str(home / "venv" / "bin" / "mqregistry"), "demo", "--once"))
