"""Records a terminal beside a registry, into a folder (``make pictures``): ``python -m docs.record docs/terminal``.

It writes ``route.cast``, which ``asciinema play`` shows (asciicast v2), and ``route.svg``, which plays the same once in
a browser. The commands are those of docs/tutorial.md, and run in a shell of a real terminal. While the last command
follows a route, a broker leaves and comes back.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import io
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.cli.process.world import World

PORT = 9876  # the commands' default
COLUMNS, ROWS = 130, 36
PROMPT = "$ "
BROKER = ("broker", "run", "--name", "broker-a", "--topic", "orders:4:4:6", "--topic", "bills:2:2:6")
TYPED_EVERY_S = 0.05
READ_FOR_S = 1.5  # pause before the next command
FAR_S = 30.0
WAITED_S = 1.2  # the longest pause in the SVG

# The template of rich, without its fonts, which a browser would load from other sites.
SVG = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, monospace; font-size: {char_height}px;
line-height: {line_height}px; white-space: pre; }} {styles}
@keyframes come {{ from {{ opacity: 0 }} }} @keyframes type {{ from {{ clip-path: inset(0 100% 0 0) }} }}
@media (prefers-reduced-motion: reduce) {{ text {{ animation: none !important }} }}</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>{lines}</defs>{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""


class Terminal:
    """A shell in a terminal of its own; records its output with times."""

    def __init__(self, world: World) -> None:
        (world.folder / "inputrc").write_text("set enable-bracketed-paste off\n")
        environment = {
            **world.env, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PS1": PROMPT, "TERM": "xterm",
            "INPUTRC": str(world.folder / "inputrc"), "PYTHONWARNINGS": "",
        }  # fmt: skip
        self._shell, self._terminal = pty.fork()
        if self._shell == 0:
            os.execvpe("bash", ["bash", "--norc", "--noprofile"], environment)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._began = time.monotonic()
        self.shown: list[tuple[float, str]] = []
        self.wait_for(PROMPT)

    def run(self, command: str, until: str = "\n" + PROMPT) -> None:
        """Type a command letter by letter, wait until the terminal shows this text, and leave time to read it."""
        for letter in command:
            os.write(self._terminal, letter.encode())
            self.look(TYPED_EVERY_S)
        self.wait_for(until, lambda: os.write(self._terminal, b"\n"))
        self.look(READ_FOR_S)

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.wait_for(PROMPT, lambda: os.write(self._terminal, b"\x03"))

    def wait_for(self, text: str, act: Callable[[], object] = lambda: None) -> None:
        """Call ``act``, and wait until the terminal shows this text."""
        before = len(self.text())
        act()
        end = time.monotonic() + FAR_S
        while text not in self.text()[before:]:
            self.look(0.05)
            if time.monotonic() > end:
                raise TimeoutError(f"the terminal did not show {text!r}: {self.text()[before:]!r}")

    def look(self, for_s: float) -> None:
        """Record the terminal's output for this time."""
        end = time.monotonic() + for_s
        while (left := end - time.monotonic()) > 0:
            if select.select([self._terminal], [], [], left)[0]:
                data = os.read(self._terminal, 65536).decode()
                self.shown.append((round(time.monotonic() - self._began, 3), data))

    def text(self) -> str:
        """All output, without carriage returns."""
        return "".join(data for _, data in self.shown).replace("\r", "")

    def close(self) -> None:
        """End the shell."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._shell, signal.SIGKILL)
        os.waitpid(self._shell, 0)
        os.close(self._terminal)


def record(folder: Path) -> Terminal:
    """Start a registry and a broker in this folder, and run the commands."""
    world = World(folder)
    try:
        world.up(port=PORT)
        broker = world.start(*BROKER)
        broker.wait_for("registered after")
        terminal = Terminal(world)
        try:
            terminal.run("mqregistry brokers")
            terminal.run("mqregistry route orders")
            terminal.run("mqregistry route order")
            terminal.run("mqregistry route orders --follow", "producers: 4 queues")
            terminal.wait_for("-> none", broker.interrupt)
            terminal.look(READ_FOR_S)
            terminal.wait_for("-> 4 queues", lambda: world.start(*BROKER))
            terminal.look(READ_FOR_S)
            terminal.interrupt()
        finally:
            terminal.close()
        return terminal
    finally:
        world.close()


def write_cast(terminal: Terminal, file: Path) -> None:
    """Write the recording in asciinema's format: a header, then each output with its time."""
    header = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "mqregistry: a route, and how it changes"}
    lines = [json.dumps(header), *(json.dumps([at, "o", data]) for at, data in terminal.shown)]
    file.write_text("\n".join(lines) + "\n")


def write_svg(shown: list[tuple[float, str]], file: Path) -> None:
    """Write the whole text as one long screen, on which each line appears at its time."""
    text = "".join(data for _, data in shown).replace("\r", "").removesuffix(PROMPT)
    console = Console(width=COLUMNS, record=True, file=io.StringIO(), force_terminal=True)
    for line in text.splitlines():
        console.print(Text(line, style="bold" if line.startswith(PROMPT) else ""), overflow="fold", highlight=False)
    svg = console.export_svg(title="mqregistry", code_format=SVG, unique_id="t")
    styles = row_styles(text, moments(shown))

    def animated(row: re.Match[str]) -> str:
        return f'<text style="{styles[int(row[2])]}" {row[1]}>' if int(row[2]) < len(styles) else row[0]

    svg = re.sub(r"<text [^>]*>\n</text>", "", svg)
    svg = re.sub(r'<text ([^>]*clip-path="url\(#t-line-(\d+)\)"[^>]*)>', animated, svg)
    file.write_text(re.sub(r"[ \t]+$", "", svg, flags=re.M))


def moments(shown: list[tuple[float, str]]) -> list[float]:
    """When each character came, in seconds from the first; longer pauses count as ``WAITED_S``."""
    found, now, before = list[float](), 0.0, shown[0][0]
    for at, data in shown:
        now, before = now + min(at - before, WAITED_S), at
        found += [round(now, 2)] * len(data.replace("\r", ""))
    return found


def row_styles(text: str, times: list[float]) -> list[str]:
    """How each row of the screen appears: a command letter by letter, any other line at once."""
    styles, at = list[str](), 0
    for line in text.splitlines():
        rows = max(1, -(-len(line) // COLUMNS))
        if line.startswith(PROMPT) and len(line) > len(PROMPT):
            begin, end = times[at + len(PROMPT)], times[at + len(line) - 1]
            style = f"animation:type {max(0.1, end - begin):.2f}s steps({len(line)}) {begin:.2f}s backwards"
        else:
            style = f"animation:come 1ms {times[at]:.2f}s backwards"
        styles += [style] * rows
        at += len(line) + 1
    return styles


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mq") as name:
        terminal = record(Path(name))
    write_cast(terminal, asked.folder / "route.cast")
    write_svg(terminal.shown, asked.folder / "route.svg")
    for file in sorted(asked.folder.glob("route.*")):
        print(file, file.stat().st_size // 1024, "kB")


if __name__ == "__main__":
    main()
