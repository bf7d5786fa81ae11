"""``mqregistry demo``, from the checkout and from the wheel."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import sysconfig
import tempfile
import termios
import time
import urllib.request
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from mqregistry.cli.run.demo_goes_on import CULPRIT, play_minute

from ...server.harness import wait_until
from .test_tables import CLUSTERS, ROUTE
from .world import COMMAND, ROOT, World

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
    assert program.process.wait(60) == 0, program.err
    assert_shown(program.out)
    assert program.err == ""
    assert not program.descendants()
    assert world.states() == []
    assert list((world.folder / "tmp").iterdir()) == []


@pytest.mark.usefixtures("new_interpreters")
def test_it_goes_on_until_ctrl_c_and_leaves_nothing(world):
    program = world.start("demo", "--no-console")
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


@pytest.mark.usefixtures("new_interpreters")
@pytest.mark.skipif(find_spec("starlette") is None, reason="no console: pip install -e '.[console]'")
def test_it_opens_the_console_beside_itself_and_ends_it_too(world):
    program = world.start("demo")
    program.wait_for("The console is at http://")
    address = re.search(r"The console is at (\S+)", program.out)[1]
    with urllib.request.urlopen(address, timeout=60) as answer:
        page = answer.read().decode()
    assert "broker-a" in page  # whose master is missing
    assert "Press k" not in program.out  # there is no terminal
    assert len(program.descendants()) == 3
    assert program.interrupt(group=True) == 0
    assert not program.descendants()


def test_on_a_terminal_a_key_kills_the_name_server_and_nothing_is_lost(world):
    ours, terminal = pty.openpty()
    before = termios.tcgetattr(ours)
    with subprocess.Popen(
        [*COMMAND, "demo", "--no-console"], env=world.env, cwd=world.folder, stdin=terminal, stdout=terminal,
        stderr=subprocess.PIPE, start_new_session=True,
    ) as process:  # fmt: skip
        os.close(terminal)
        shown = ""

        def read_until(text):
            nonlocal shown
            end = time.monotonic() + 60
            while text not in shown:
                assert time.monotonic() < end, shown
                if select.select([ours], [], [], 0.1)[0]:
                    shown += os.read(ours, 65536).decode()

        try:
            read_until("Press k to kill the name server")
            os.write(ours, b"xk")
            read_until("found no route since then.")
            workers = {int(pid) for pid in re.findall(r"SIGKILL to process ([\d, ]+)\.", shown)[0].split(", ")}
            assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
            assert re.search(r"The client waited for \d+ ms at most; 0 of its [\d,]+ lookups found no route", shown)
            os.write(ours, b"k")  # as often as one likes
            shown = ""
            read_until("found no route since then.")
            assert termios.tcgetattr(ours)[3] != before[3]
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
            assert termios.tcgetattr(ours)[3] == before[3]
        finally:
            process.kill()
            os.close(ours)


async def test_the_minute_has_a_culprit_and_ends_as_it_began(bed, capsys):
    for name, addr in (("broker-a", "10.0.0.1:10911"), ("broker-b", "10.0.0.2:10911")):
        await bed.register(addr, name, topics={"topic1": (4, 4, 6), "other": (1, 1, 6)})
    back = []

    async def come_back():
        back.append(True)

    await play_minute(bed.store, "topic1", "broker-b", come_back, at_s=0.001)
    events = [event for event in await bed.events() if event.type != "broker_registered"]
    assert [(event.type, event.by) for event in events] == [("write_perm_set", CULPRIT), ("topic_deleted", CULPRIT)]
    assert back == [True]
    said = re.findall(r"^(\d:\d\d)  ", capsys.readouterr().out, re.M)
    assert said == ["0:20", "0:35", "0:50", "1:00"]


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
