"""Ours beside the Java NameServer, under the same load in the same run.

    python -m bench compare                 a selection, about five minutes
    python -m bench compare --full          everything, five interleaved rounds, about 40 minutes
    python -m bench compare --full --resume go on where such a run was interrupted
    python -m bench compare --render        write RESULTS.md again from what was measured

Each round takes the servers one after the other, another one first each time, each freshly started on the server
core and loaded from the generator core. Answers are compared with what is right; wrong ones are listed.
Writes results/<selection|full>.json after each server, RESULTS.md and the plot after each round. Status 1 when a bar
is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from bench import growth, machine, report
from bench.beside import lag, up
from bench.life import Effort, Life, Record
from bench.load.tool import LoadFailed, LoadGenerator, NoCompiler, build
from bench.peers import Echo, Java, Ours, OurServer, Peer, Unavailable, available
from bench.programme import run_programme
from bench.shapes import S1, S2, Shape, clusters
from tests.interop.processes import Processes

QUICK = Effort(
    warm_s=4, settle_s=0.5, measure_s=3, stretch_s=6, registrations_s=2.5, ladder=(2_000, 10_000, 25_000, 60_000),
    ladder_s=1, lag_s=10,
)  # fmt: skip
SMOKE = Effort(
    warm_s=0.2, settle_s=0.1, measure_s=0.3, stretch_s=1.2, registrations_s=0.3, ladder=(500, 1_000), ladder_s=0.3,
    lag_s=1,
)  # fmt: skip
TINY = clusters("S2", "a tiny S2: 40 topics", 2, 2, 20, ten_by=4, all_by=1)
EFFORTS = {"smoke": SMOKE, "selection": QUICK, "full": Effort()}


class Comparison:
    """One run: which shapes, how long, on which cores; collects the records.

    records: those of an interrupted run are not measured again.
    """

    def __init__(
        self,
        effort: Effort,
        big: Shape,
        folder: Path,
        server_cores: Sequence[int],
        generator_cores: Sequence[int],
        records: Sequence[Record] = (),
        save: Callable[[], None] = lambda: None,
    ) -> None:
        self.effort, self.big, self.folder = effort, big, folder
        self.server_cores, self.generator_cores = server_cores, generator_cores
        self.records = list(records)
        self.save = save
        self.began = time.monotonic()

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self.began:7.1f} s  {text}", flush=True)

    def record(self, peer: str, what: str, number: int, measure: Callable[[Record], None]) -> None:
        """Measure unless it is there already, and keep it. A server that fails has no result, but a reason."""
        record = Record(peer, number, what)
        if any((each.peer, each.round, each.shape) == (peer, number, what) for each in self.records):
            return
        began = time.monotonic()
        self.say(f"-- round {number}: {peer}, {what}")
        try:
            measure(record)
        except (LoadFailed, Unavailable) as error:
            record.wrong.append(f"{what}: {error}")
            self.say(f"{peer}: {error}")
        record.took_s = time.monotonic() - began
        self.records.append(record)
        self.save()

    def life(self, peer: Peer, shape: Shape, number: int) -> None:
        """Start a peer, measure it with this shape, end it."""

        def measure(record: Record) -> None:
            lookups, registrations = shape.write(self.folder)
            processes = Processes(Path(tempfile.mkdtemp(prefix="mq", dir=self.folder)))
            try:
                server = peer.start(processes, self.server_cores)
                with LoadGenerator(server.port, lookups, registrations, self.generator_cores) as generator:
                    checked = not isinstance(peer, Echo)
                    life = Life(server, generator, shape, self.effort, record, self.folder, self.say, checked)
                    run_programme(life, peer, small=shape is S1)
                    if isinstance(server, OurServer):
                        server.stop()
            finally:
                processes.close()

        self.record(peer.name, shape.name, number, measure)

    def round(self, number: int, peers: Sequence[Peer], small: Sequence[Peer]) -> None:
        """Everybody once; another one begins each time."""
        for shape, those in ((self.big, peers), (S1, small)):
            turn = number % len(those) if those else 0
            for peer in [*those[turn:], *those[:turn]]:
                self.life(peer, shape, number)


def peers_of(choice: str, full: bool, route_bytes: int, topics: int) -> list[Peer]:
    """The servers of a run: `choice` names some, "" takes what belongs to the selection."""
    everybody: list[Peer] = [
        Ours(), Ours(workers=2), Java("4.8.0"), Java("5.3.3"), Java("5.5.0"), Java("5.5.0", heap="1g"),
        Echo(route_bytes), Echo(route_bytes, topics),
    ]  # fmt: skip
    if choice:
        names = [name.strip().lower() for name in choice.split(";")]
        return [peer for peer in everybody if any(fnmatch(peer.name.lower(), name) for name in names)]
    return everybody if full else [Ours(), Java("5.5.0"), Echo(route_bytes)]


def small_of(peers: Sequence[Peer]) -> list[Peer]:
    """Those that S1 is measured with: one of each kind."""
    return [
        Echo(S1.route_bytes()) if isinstance(peer, Echo) else peer
        for peer in peers
        if not (isinstance(peer, Ours) and peer.workers > 1)
        and not (isinstance(peer, Java) and peer.heap == "1g")
        and not (isinstance(peer, Echo) and peer.bodies > 1)
    ]


def main() -> int:
    """Measure, write, say which bars held."""
    options = parse()
    if options.render:
        return report.write(options.output)
    everywhere = sorted(os.sched_getaffinity(0))
    server_cores, generator_cores = cores(options.server_cores, options.generator_cores)
    if generator_cores:
        os.sched_setaffinity(0, generator_cores)  # this process too keeps off the server's core
    name = "smoke" if options.smoke else "full" if options.full else "selection"
    rounds = options.rounds or (5 if options.full else 1)
    big = TINY if options.smoke else S2
    path = options.output / "results" / f"{name}.json"
    try:
        build("loadgen"), build("echo")
    except NoCompiler as error:
        print(error, file=sys.stderr)
        return 2
    about = {
        **machine.about(server_cores, generator_cores), "rounds_planned": rounds, "effort": asdict(EFFORTS[name]),
    }  # fmt: skip
    before = read_records(path, about) if options.resume else []
    with tempfile.TemporaryDirectory(prefix="mqb", ignore_cleanup_errors=True) as folder:
        run = Comparison(EFFORTS[name], big, Path(folder), server_cores, generator_cores, before)
        run.save = lambda: save(path, about, run.records)
        peers = available(peers_of(options.peers, options.full, big.route_bytes(), len(big.topics)), run.say)
        alone = not options.peers
        for number in range(1, rounds + 1):
            run.round(number, peers, small_of(peers))
            if alone or options.smoke:
                lag(run, number, everywhere, tiny=options.smoke)
            about["rounds"] = number
            run.save()
            report.write(options.output)
        if options.full and alone and not options.no_growth:
            growth.measure(run)
        if options.full and alone:
            up(run, everywhere)
        about["took_min"] = round(sum(record.took_s for record in run.records) / 60)
        run.save()
    return report.write(options.output, name)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="every server and scenario, five rounds")
    parser.add_argument("--smoke", action="store_true", help="tiny tables, moments: whether the tool works")
    parser.add_argument("--rounds", type=int, help="default 5 with --full, else 1")
    parser.add_argument("--resume", action="store_true", help="keep what an interrupted run of this commit measured")
    parser.add_argument("--peers", default="", help='such as "ours;java 5.5.0*;c echo server"')
    parser.add_argument("--server-cores", default=None, help='default "0"; "" for no pinning')
    parser.add_argument("--generator-cores", default=None, help='default "1"')
    parser.add_argument("--no-growth", action="store_true", help="leave S8 out of --full")
    parser.add_argument("--output", type=Path, default=report.HERE, help="folder for RESULTS.md and results/")
    parser.add_argument("--render", action="store_true", help="measure nothing")
    return parser.parse_args()


def cores(server: str | None, generator: str | None) -> tuple[list[int], list[int]]:
    """Which cores the servers get, and which the generator; nothing is pinned where there is one core only."""
    here = sorted(os.sched_getaffinity(0))
    if len(here) < 2:
        return [], []

    def read(text: str | None, default: int) -> list[int]:
        return [default] if text is None else [int(core) for core in text.split(",") if core]

    return read(server, here[0]), read(generator, here[1])


def save(path: Path, about: dict[str, Any], records: Sequence[Record]) -> None:
    """Write what there is so far, whole or not at all: an interrupted run keeps its finished servers."""
    about["load_average"] = [round(load, 2) for load in os.getloadavg()]
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps({"about": about, "records": [asdict(record) for record in records]}, indent=1) + "\n")
    partial.replace(path)


def read_records(path: Path, about: dict[str, Any]) -> list[Record]:
    """What an interrupted run measured; its date and load average stay.

    Raises:
        SystemExit: it is of another commit, machine or effort, so its numbers do not belong to this run.
    """
    if not path.exists():
        return []
    data = json.loads(path.read_text())
    for what in ("commit", "machine", "python", "cores", "effort", "rounds_planned"):
        if data["about"].get(what) != json.loads(json.dumps(about[what])):
            raise SystemExit(
                f"{path} is of another {what} ({data['about'].get(what)}, now {about[what]}): run without --resume"
            )
    about.update(date=data["about"]["date"], resumed=True)
    return [Record(**record) for record in data["records"]]


if __name__ == "__main__":
    sys.exit(main())
