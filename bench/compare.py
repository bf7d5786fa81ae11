"""Ours beside the Java NameServer, under the same load in the same run.

    python -m bench compare                 a selection, about five minutes
    python -m bench compare --full          everything, five interleaved rounds, about 80 minutes
    python -m bench compare --render        write RESULTS.md again from what was measured

Each round takes the servers one after the other, another one first each time, each freshly started on the server
core and loaded from the generator core. Answers are compared with what is right; wrong ones are listed.
Writes bench/results/<selection|full>.json and .svg, and bench/RESULTS.md. Status 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from fnmatch import fnmatch
from pathlib import Path

from bench import growth, machine, report
from bench.life import Effort, Life, Record
from bench.load.tool import LoadFailed, LoadGenerator, NoCompiler, build
from bench.peers import Echo, Java, Ours, OurServer, Peer, Unavailable, available
from bench.shapes import S1, S2, Shape, clusters
from tests.interop.processes import Processes

CLOSED = ((64, 1), (64, 16), (2000, 1))
QUICK = Effort(
    warm_s=4, settle_s=0.5, measure_s=3, stretch_s=6, registrations_s=2.5, ladder=(2_000, 10_000, 25_000, 60_000),
    ladder_s=1,
)  # fmt: skip
SMOKE = Effort(
    warm_s=0.2, settle_s=0.1, measure_s=0.3, stretch_s=1.2, registrations_s=0.3, ladder=(500, 1_000), ladder_s=0.3
)  # fmt: skip
TINY = clusters("S2", "a tiny S2: 40 topics", 2, 2, 20, ten_by=4, all_by=1)


class Comparison:
    """One run: which shapes, how long, on which cores; collects the records."""

    def __init__(
        self, effort: Effort, big: Shape, folder: Path, server_cores: Sequence[int], generator_cores: Sequence[int]
    ) -> None:
        self.effort, self.big, self.folder = effort, big, folder
        self.server_cores, self.generator_cores = server_cores, generator_cores
        self.records: list[Record] = []
        self.began = time.monotonic()

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self.began:7.1f} s  {text}", flush=True)

    def life(self, peer: Peer, shape: Shape, number: int) -> None:
        """Start a peer, measure it with this shape, end it. A server that fails has no result, but a reason."""
        record = Record(peer.name, number)
        self.records.append(record)
        lookups, registrations = shape.write(self.folder)
        processes = Processes(Path(tempfile.mkdtemp(prefix="mq", dir=self.folder)))
        self.say(f"-- round {number}: {peer.name}, {shape.name}")
        try:
            server = peer.start(processes, self.server_cores)
            with LoadGenerator(server.port, lookups, registrations, self.generator_cores) as generator:
                life = Life(
                    server, generator, shape, self.effort, record, self.folder, self.say, not isinstance(peer, Echo)
                )
                if shape is S1:
                    self.small(life)
                elif isinstance(peer, Echo):
                    self.limit(life)
                elif isinstance(peer, Ours) and peer.workers > 1:
                    self.workers(life)
                elif isinstance(peer, Java) and peer.heap != Java(peer.version).heap:
                    self.frugal(life)
                else:
                    self.big_life(life)
                if isinstance(server, OurServer):
                    server.stop()
        except (LoadFailed, Unavailable) as error:
            record.wrong.append(f"{shape.name}: {error}")
            self.say(f"{peer.name}: {error}")
        finally:
            processes.close()

    def big_life(self, life: Life) -> None:
        record, server = life.record, life.server
        record.add("start", seconds=server.start_s)
        life.storm("S7 fresh")
        life.memory("asked")
        life.warm(self.effort.warm_s)
        life.closed_loops(CLOSED)
        life.memory("loaded")
        life.open_loops(rate=2_000)
        life.ladder()
        life.registrations()
        life.leave()
        life.storm("S7 warm")
        if isinstance(server, OurServer):
            life.restart(server)

    def small(self, life: Life) -> None:
        if life.checked:
            life.storm("S1 fill")
        else:
            life.wrong_routes()
        life.warm(self.effort.warm_s)
        life.closed_loops([(16, 1)])

    def limit(self, life: Life) -> None:
        life.wrong_routes()
        life.closed_loops(CLOSED)
        life.ladder()

    def workers(self, life: Life) -> None:
        life.storm("S7 fresh")
        life.warm(self.effort.warm_s)
        life.closed_loops(CLOSED)
        if isinstance(life.server, OurServer):
            life.spread(life.server)
        life.memory("loaded")

    def frugal(self, life: Life) -> None:
        """Less memory than the official settings: what it holds, and what that costs."""
        life.storm("S7 fresh")
        life.memory("asked")
        life.warm(self.effort.warm_s)
        life.closed_loops([(64, 1)])
        life.memory("loaded")

    def round(self, number: int, peers: Sequence[Peer], small: Sequence[Peer]) -> None:
        """Everybody once; another one begins each time."""
        for shape, those in ((self.big, peers), (S1, small)):
            turn = number % len(those) if those else 0
            for peer in [*those[turn:], *those[:turn]]:
                self.life(peer, shape, number)


def peers_of(choice: str, full: bool, route_bytes: int) -> list[Peer]:
    """The servers of a run: `choice` names some, "" takes what belongs to the selection."""
    everybody: list[Peer] = [
        Ours(), Ours(workers=2), Java("4.8.0"), Java("5.3.3"), Java("5.5.0"), Java("5.5.0", heap="1g"),
        Echo(route_bytes),
    ]  # fmt: skip
    if choice:
        names = [name.strip().lower() for name in choice.split(";")]
        return [peer for peer in everybody if any(fnmatch(peer.name.lower(), name) for name in names)]
    return everybody if full else [Ours(), Java("5.5.0"), Echo(route_bytes)]


def main() -> int:
    """Measure, write, say which bars held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="every server and scenario, five rounds")
    parser.add_argument("--smoke", action="store_true", help="tiny tables, moments: whether the tool works")
    parser.add_argument("--rounds", type=int, help="default 5 with --full, else 1")
    parser.add_argument("--peers", default="", help='such as "ours;java 5.5.0*;c echo server"')
    parser.add_argument("--server-cores", default=None, help='default "0"; "" for no pinning')
    parser.add_argument("--generator-cores", default=None, help='default "1"')
    parser.add_argument("--no-growth", action="store_true", help="leave S8 out of --full")
    parser.add_argument("--output", type=Path, default=report.HERE, help="folder for RESULTS.md and results/")
    parser.add_argument("--render", action="store_true", help="measure nothing")
    options = parser.parse_args()
    if options.render:
        return report.write(options.output)
    server_cores, generator_cores = cores(options.server_cores, options.generator_cores)
    if generator_cores:
        os.sched_setaffinity(0, generator_cores)  # this process too keeps off the server's core
    name = "smoke" if options.smoke else "full" if options.full else "selection"
    effort = SMOKE if options.smoke else Effort() if options.full else QUICK
    big = TINY if options.smoke else S2
    rounds = options.rounds or (5 if options.full else 1)
    try:
        build("loadgen"), build("echo")
    except NoCompiler as error:
        print(error, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="mqb", ignore_cleanup_errors=True) as folder:
        run = Comparison(effort, big, Path(folder), server_cores, generator_cores)
        peers = available(peers_of(options.peers, options.full, big.route_bytes()), run.say)
        small = [
            replace_echo(peer, S1.route_bytes())
            for peer in peers
            if not (isinstance(peer, Ours) and peer.workers > 1) and not (isinstance(peer, Java) and peer.heap == "1g")
        ]
        for number in range(1, rounds + 1):
            run.round(number, peers, small)
            save(options.output, name, run, rounds, number)
        if options.full and not options.no_growth:
            with contextlib.suppress(KeyboardInterrupt):
                growth.measure(run)
            save(options.output, name, run, rounds, rounds)
    return report.write(options.output, name)


def replace_echo(peer: Peer, route_bytes: int) -> Peer:
    return Echo(route_bytes) if isinstance(peer, Echo) else peer


def cores(server: str | None, generator: str | None) -> tuple[list[int], list[int]]:
    """Which cores the servers get, and which the generator; nothing is pinned where there is one core only."""
    here = sorted(os.sched_getaffinity(0))
    if len(here) < 2:
        return [], []

    def read(text: str | None, default: int) -> list[int]:
        return [default] if text is None else [int(core) for core in text.split(",") if core]

    return read(server, here[0]), read(generator, here[1])


def save(output: Path, name: str, run: Comparison, rounds: int, done: int) -> None:
    """Write what there is so far: an interrupted run keeps its finished rounds."""
    about = machine.about(run.server_cores, run.generator_cores)
    data = {
        "about": {**about, "rounds": done, "rounds_planned": rounds, "effort": asdict(run.effort)},
        "records": [asdict(record) for record in run.records],
    }
    path = output / "results" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
