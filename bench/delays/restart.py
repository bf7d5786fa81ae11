"""Measures how soon a restarted front end answers, with S2's tables in Redis: first answer (S6), and every route.

Redis, supervisor and worker share one core, as in `compare`. A start never waits for anything, so on a busy machine the
CPU time until the first answer says more than the clock. Bar: every route <= 2 s. (`compare` has a bar for the first
answer: a quarter of the time of Java 5.5.0's start on empty tables.)
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from bench.compare.life import Effort, Life, Record
from bench.load.shapes import S2, TableShape, clusters
from bench.load.tool import LoadGenerator
from bench.servers.machine import cores
from bench.servers.peers import Ours, OurServer
from bench.servers.processes import Processes

ROUNDS = 7
MOST_S = 2.0
TINY = clusters("tiny", "40 topics", 2, 2, 20)


class Start(NamedTuple):
    """One start. cpu_s: of all processes until just after the first answer. pss_mb: after every route was asked for."""

    first_s: float
    cpu_s: float
    redis_cpu_s: float
    all_routes_s: float
    pss_mb: float


def restart(life: Life, server: OurServer) -> Start:
    """Restart the front end, and ask for every route."""
    redis_s = server.redis_cpu_s()
    server.restart_front_end()
    cpu_s, redis_s = server.cost().cpu_s - redis_s, server.redis_cpu_s() - redis_s
    life.generator.leave()
    began = time.monotonic()
    life.generator.once()
    all_routes_s = server.start_s + time.monotonic() - began
    pss_mb = server.cost().pss_mb
    if wrong := life.wrong_routes():
        raise SystemExit(f"after a restart {len(wrong)} routes are wrong: {wrong[0]}")
    return Start(server.start_s, cpu_s, redis_s, all_routes_s, pss_mb)


def measure(shape: TableShape, rounds: int, folder: Path) -> list[Start]:
    """Fill a registry, then restart its front end ``rounds`` times."""
    server_cores, generator_cores = cores(None, None)
    lookups, registrations = shape.write(folder)
    processes = Processes(folder)
    try:
        server = Ours().start(processes, server_cores)
        with LoadGenerator(server.port, lookups, registrations, generator_cores) as generator:
            life = Life(server, generator, shape, Effort(), Record("ours", 1), folder, lambda text: None)
            life.storm("fill")
            if life.record.wrong:
                raise SystemExit(f"the registry could not be filled: {life.record.wrong[0]}")
            starts = [restart(life, server) for _ in range(rounds)]
            server.stop()
    finally:
        processes.close()
    return starts


def main() -> int:
    """Print the table; 0 when the bar held."""
    parser = argparse.ArgumentParser(prog="python -m bench restart", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--tiny", action="store_true", help="40 topics: what a start costs without tables")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mqb", ignore_cleanup_errors=True) as folder:
        starts = measure(TINY if options.tiny else S2, options.rounds, Path(folder))
    print(f"{len(starts)} starts\n\n| what | median | least | most |\n| --- | --- | --- | --- |")
    for place, (what, unit) in enumerate(
        (("first answer", "s"), ("CPU until then", "s"), ("of it Redis", "s"), ("every route", "s"), ("PSS", "MB"))
    ):
        values = [start[place] for start in starts]
        figures = " | ".join(f"{value:.3g} {unit}" for value in (statistics.median(values), min(values), max(values)))
        print(f"| {what} | {figures} |")
    return 0 if statistics.median(start.all_routes_s for start in starts) <= MOST_S else 1


if __name__ == "__main__":
    sys.exit(main())
