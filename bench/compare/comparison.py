"""One run of a comparison: measures one server after the other in interleaved rounds, and collects the records."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.compare.life import Effort, Life, Record
from bench.compare.programme import run_programme
from bench.load.shapes import S1, TableShape
from bench.load.tool import LoadFailed, LoadGenerator
from bench.servers.peers import Echo, OurServer, Peer
from bench.servers.processes import Processes
from bench.servers.rocketmq import Unavailable


class Comparison:
    """One run: its shapes, durations, cores and records.

    records: the records of an interrupted run, whose steps are not measured again.
    """

    def __init__(
        self,
        effort: Effort,
        big: TableShape,
        folder: Path,
        server_cores: Sequence[int],
        generator_cores: Sequence[int],
        records: Sequence[Record],
    ) -> None:
        self.effort, self.big, self.folder = effort, big, folder
        self.server_cores, self.generator_cores = server_cores, generator_cores
        self.records = list(records)
        self.save: Callable[[], None] = lambda: None
        self.began = time.monotonic()

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self.began:7.1f} s  {text}", flush=True)

    def record(self, peer: str, what: str, number: int, measure: Callable[[Record], None]) -> None:
        """Measure, unless an interrupted run did, and keep the record, or the reason why the server failed."""
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

    def life(self, peer: Peer, shape: TableShape, number: int) -> None:
        """Start a server, measure it with this shape, and end it."""

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
        """Measure every server once; each round begins with a different server."""
        for shape, those in ((self.big, peers), (S1, small)):
            turn = number % len(those) if those else 0
            for peer in [*those[turn:], *those[:turn]]:
                self.life(peer, shape, number)


def save(path: Path, about: dict[str, Any], records: Sequence[Record]) -> None:
    """Write the records so far in one step, so that an interrupted run keeps what it has measured."""
    about["load_average"] = [round(load, 2) for load in os.getloadavg()]
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps({"about": about, "records": [asdict(record) for record in records]}, indent=1) + "\n")
    partial.replace(path)


def read_records(path: Path, about: dict[str, Any]) -> list[Record]:
    """The records of an interrupted run; ``about`` gets its date.

    Raises:
        SystemExit: that run had a different commit, machine or effort, so its numbers do not belong to this run.
    """
    if not path.exists():
        return []
    data = json.loads(path.read_text())
    for what in ("commit", "machine", "python", "cores", "effort", "rounds_planned", "beside"):
        if data["about"].get(what) != json.loads(json.dumps(about[what])):
            raise SystemExit(
                f"{path} is of another {what} ({data['about'].get(what)}, now {about[what]}): run without --resume"
            )
    about.update(date=data["about"]["date"], resumed=True)
    return [Record(**record) for record in data["records"]]
