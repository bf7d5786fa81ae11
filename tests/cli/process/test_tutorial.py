"""docs/tutorial.md, done step by step: what its terminals show is what a user sees."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

from bench.servers.processes import free_port

from ...server.harness import wait_until
from .world import ROOT, Up, World

PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
# What is different each time: moments, durations, ports of clients, the name of the machine, whose turn it is.
VARIES = (
    (r"\d{4}-\d\d-\d\d [\d:.]+ +\d+", "MOMENT"),
    (r"\d{4}-\d\d-\d\d [\d:]+\.\d+", "MOMENT"), (r"(?<![\w.:])(?:\d+m)?\d+(?:\.\d+)?(?:ms| ms|s)(?!\w)", "TIME"),
    (r"\d@\d{13}", "VERSION"), (r"\S+(:\d+) from 127\.0\.0\.1:\d+", r"FRONT_END\1 from CLIENT"),
    (r"from 127\.0\.0\.1:\d+ at [^\s:]+:", "from CLIENT at FRONT_END:"), (r"queue \d", "queue N"), (r" +", " "),
)  # fmt: skip


def settled(text: str) -> list[str]:
    """The lines of an output, without what is different each time."""
    for pattern, instead in VARIES:
        text = re.sub(pattern, instead, text)
    return [line.strip() for line in text.strip().splitlines()]


def steps() -> list[tuple[str, str, str]]:
    """(terminal, command, expected output) of each command of the page, in order; ^C stands for Ctrl-C."""
    found, terminal = [], ""
    for before, block in re.findall(r"(.*?)```console\n(.*?)```", PAGE, re.S):
        terminal = ([terminal, *re.findall(r"\*\*(\w+) terminal\*\*", before)])[-1]
        for command, output in re.findall(r"^(\$ .*|\^C)\n((?:(?!\$ |\^C).*\n)*)", block, re.M):
            found.append((terminal, command.removeprefix("$ "), output))
    return found


class Terminals:
    """Somebody who follows the page, with another port."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.port = free_port()
        self.running: dict[str, Up] = {}

    def here(self, text: str) -> str:
        return text.replace("9876", str(self.port))

    def do(self, terminal: str, command: str) -> str:
        """Do one step; what the terminal shows then."""
        words = shlex.split(self.here(command))
        if words == ["^C"]:
            program = self.running.pop(terminal)
            shown = program.out
            assert program.interrupt() == 0
            return program.out.removeprefix(shown)
        if words == ["make", "run"]:
            self.running[terminal] = self.world.up(port=self.port)
            return re.findall("^The Name Server.*$", self.running[terminal].out, re.M)[0]
        if words[0] == "python":
            # unbuffered: as in a terminal, where stdout and stderr come in their order
            return subprocess.check_output(
                [sys.executable, "-u", *words[1:]], cwd=self.world.folder, text=True, stderr=subprocess.STDOUT
            )
        assert words[0] == "mqregistry"
        if words[1:3] == ["broker", "run"]:
            self.running[terminal] = self.world.start(*words[1:])
            self.running[terminal].wait_for("registered after")
            return self.running[terminal].out
        ended = self.world.run(*words[1:], expect=None)
        assert bool(ended.returncode) == bool(ended.stderr)
        return ended.stdout + ended.stderr

    def sees(self, terminal: str, command: str, expected: str) -> None:
        """Do one step; it shows what is expected."""
        wanted = settled(self.here(expected))
        shown = settled(self.do(terminal, command))
        if command == "mqregistry brokers":  # a worker tells once a second from where its brokers are connected
            wait_until(lambda: shown == wanted or settled(self.do(terminal, command)) == wanted, f"it shows {wanted}")
        else:
            assert shown == wanted, command


def test_every_step_shows_what_the_page_says(world):
    user = Terminals(world)
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    (world.folder / "find.py").write_text(user.here(program))
    todo = [step for step in steps() if not step[1].startswith("source ")]
    assert len(todo) == 13
    for terminal, command, expected in todo:
        user.sees(terminal, command, expected)
    assert [user.running[terminal].interrupt() for terminal in ("second", "first")] == [0, 0]
