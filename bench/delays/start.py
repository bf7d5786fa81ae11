"""Measures how long `mqregistry up` takes: first start, starting again, starting again with full tables, Ctrl-C.

A start counts from the command to the first answered request. Bars: starting again <= 1.0 s; all processes ended within
5 s of Ctrl-C. Other commands are timed from start to end (bar: 0.15 s); for comparison also Python alone, and an import
of redis-py, which every command needs that reads the tables.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.servers.processes import free_port
from bench.servers.wire import answers, registration

ROUNDS = 5
TOPICS = 10_000


class Up:
    """One run of `mqregistry up`."""

    def __init__(self, data_dir: Path) -> None:
        port = free_port()
        began = time.perf_counter()
        self._process = subprocess.Popen(
            [
                sys.executable, "-m", "mqregistry", "up", "--port", str(port), "--data-dir", str(data_dir),
                "--http-port", "0", "--log-level", "error",
            ],
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        self.port = port
        while not answers(port):
            if self._process.poll() is not None:
                raise SystemExit(f"mqregistry up ended with {self._process.returncode}")
            time.sleep(0.002)
        self.start_s = time.perf_counter() - began

    def stop(self) -> float:
        """Send SIGINT, as Ctrl-C does; return the seconds until the process has ended."""
        began = time.perf_counter()
        self._process.send_signal(signal.SIGINT)
        self._process.wait(30)
        return time.perf_counter() - began


def timed_commands(data_dir: Path) -> Iterator[tuple[str, float]]:
    """Run each command; yield it, and the seconds from its start to its end."""
    tables = ("--redis", f"unix://{data_dir / 'redis.sock'}")
    for what, arguments in (
        ("`python -c pass`", ("-c", "pass")),
        ("`python -c 'import redis'`", ("-c", "import redis")),
        ("`mqregistry --help`", ("-m", "mqregistry", "--help")),
        ("`mqregistry brokers`", ("-m", "mqregistry", "brokers", *tables)),
        ("`mqregistry route TOPIC`", ("-m", "mqregistry", "route", "a-topic-of-usual-length-00000", *tables)),
    ):
        began = time.perf_counter()
        subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
        yield what, time.perf_counter() - began


def main() -> int:
    """Print the table; 0 when every bar held."""
    parser = argparse.ArgumentParser(prog="python -m bench start", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the medians to this file, in seconds")
    options = parser.parse_args()
    first: list[float] = []
    again: list[float] = []
    full: list[float] = []
    stop: list[float] = []
    commands: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory(prefix="mqb", ignore_cleanup_errors=True) as folder:
            data_dir = Path(folder)
            up = Up(data_dir)
            first.append(up.start_s)
            stop.append(up.stop())
            up = Up(data_dir)
            again.append(up.start_s)
            with contextlib.closing(socket.create_connection(("127.0.0.1", up.port))) as broker:
                registration(broker, TOPICS)
                stop.append(up.stop())  # with a broker connected
            up = Up(data_dir)
            full.append(up.start_s)
            for what, took_s in timed_commands(data_dir):
                commands.setdefault(what, []).append(took_s)
            stop.append(up.stop())
    print(f"{ROUNDS} rounds, medians (worst)\n\n| what | bar | measured | held |\n| --- | --- | --- | --- |")
    held = True
    for what, bar_s, values in (
        ("`up`, first start in a new folder", None, first),
        ("`up`, starting again", 1.0, again),
        (f"`up`, starting again with a broker of {TOPICS:,} topics in the tables", 1.0, full),
        ("Ctrl-C until everything is gone", 5.0, stop),
        *((what, 0.15 if what.startswith("`mqregistry") else None, values) for what, values in commands.items()),
    ):
        median = statistics.median(values)
        good = bar_s is None or median <= bar_s
        held = held and good
        bar = "" if bar_s is None else f"≤ {bar_s:g} s"
        print(f"| {what} | {bar} | {median:.2f} s ({max(values):.2f}) | {'yes' if good else 'NO'} |")
    if options.json:
        medians = {name: statistics.median(values) for name, values in
                   (("first", first), ("again", again), ("full", full), ("stop", stop))}  # fmt: skip
        options.json.write_text(json.dumps(medians))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
