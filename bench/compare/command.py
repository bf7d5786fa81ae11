"""Measures ours and the Java NameServer under the same load in the same run.

    python -m bench compare                 a selection, about eight minutes
    python -m bench compare --full          everything, five interleaved rounds, about an hour
    python -m bench compare --full --resume continue an interrupted run
    python -m bench compare --render        write RESULTS.md again from the measured figures
    python -m bench compare --full --beside ../before    also measure a second checkout, in the same rounds

Each round measures one server after the other, and begins with a different one. Each server is newly started on the
server core, and loaded from the generator core. Answers are checked, and wrong ones are listed. The command writes
results/<selection|full>.json after each server, RESULTS.md and the plot after each round. The exit status is 1 when a
bar is missed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from fnmatch import fnmatch
from pathlib import Path

from bench.compare import growth, report
from bench.compare.comparison import Comparison, read_records, save
from bench.compare.life import Effort
from bench.compare.suites import lag, up
from bench.load.shapes import S1, S2, clusters
from bench.load.tool import NoCompiler, build
from bench.servers import machine
from bench.servers.checkout import Checkout, NoCheckout, checkouts
from bench.servers.peers import Echo, Java, Ours, Peer, available

QUICK = Effort(
    warm_most_s=60, settle_s=0.5, measure_s=3, stretch_s=6, registrations_s=2.5,
    ladder=(2_000, 10_000, 25_000, 60_000), ladder_s=1, lag_s=10,
)  # fmt: skip
SMOKE = Effort(
    window_s=0.1, java_warm_least_s=0.3, warm_most_s=0.3, settle_s=0.1, measure_s=0.3, stretch_s=1.2,
    registrations_s=0.3, ladder=(500, 1_000), ladder_s=0.3, lag_s=1,
)  # fmt: skip
TINY = clusters("S2", "a tiny S2: 40 topics", 2, 2, 20, ten_by=4, all_by=1)
EFFORTS = {"smoke": SMOKE, "selection": QUICK, "full": Effort()}


def peers_of(choice: str, full: bool, route_bytes: int, topics: int) -> list[Peer]:
    """The servers of a run.

    Args:
        choice: names or patterns, separated by semicolons; "" means the selection, or with ``full`` all servers.
    """
    everybody: list[Peer] = [
        Ours(), Ours(workers=2), Java("4.8.0"), Java("5.3.3"), Java("5.5.0"), Java("5.5.0", heap="1g"),
        Echo(route_bytes), Echo(route_bytes, topics),
    ]  # fmt: skip
    if choice:
        names = [name.strip().lower() for name in choice.split(";")]
        return [peer for peer in everybody if any(fnmatch(peer.name.lower(), name) for name in names)]
    return everybody if full else [Ours(), Java("5.5.0"), Echo(route_bytes), Echo(route_bytes, topics)]


def with_checkouts(peers: Sequence[Peer], beside: Sequence[Checkout], number: int) -> list[Peer]:
    """The servers of a round: each of ours next to that of every other checkout, which comes first in every second."""
    found: list[Peer] = []
    for peer in peers:
        if isinstance(peer, Ours):
            pair = [peer, *(Ours(peer.workers, checkout=checkout) for checkout in beside)]
            found += pair if number % 2 else reversed(pair)
        else:
            found.append(peer)
    return found


def small_of(peers: Sequence[Peer]) -> list[Peer]:
    """The servers that are measured with S1: one of each kind."""
    return [
        Echo(S1.route_bytes()) if isinstance(peer, Echo) else peer
        for peer in peers
        if not (isinstance(peer, Ours) and peer.workers > 1)
        and not (isinstance(peer, Java) and peer.heap == "1g")
        and not (isinstance(peer, Echo) and peer.bodies > 1)
    ]


def main() -> int:
    """Measure, write the report, and print which bars held."""
    options = parse()
    if options.render:
        return report.write(options.output)
    everywhere = sorted(os.sched_getaffinity(0))
    server_cores, generator_cores = machine.cores(options.server_cores, options.generator_cores)
    if generator_cores:
        os.sched_setaffinity(0, generator_cores)  # this process also leaves the server's core free
    name = "smoke" if options.smoke else "full" if options.full else "selection"
    rounds = options.rounds or (5 if options.full else 1)
    big = TINY if options.smoke else S2
    path = options.output / "results" / f"{name}.json"
    try:
        beside = checkouts(options.beside)
        build("loadgen"), build("echo")
    except (NoCheckout, NoCompiler) as error:
        print(error, file=sys.stderr)
        return 2
    about = {
        **machine.about(server_cores, generator_cores), "rounds_planned": rounds, "effort": asdict(EFFORTS[name]),
        "beside": [checkout.name for checkout in beside],
    }  # fmt: skip
    before = read_records(path, about) if options.resume else []
    with tempfile.TemporaryDirectory(prefix="mqb", ignore_cleanup_errors=True) as folder:
        run = Comparison(EFFORTS[name], big, Path(folder), server_cores, generator_cores, before)
        run.save = lambda: save(path, about, run.records)
        peers = available(peers_of(options.peers, options.full, big.route_bytes(), len(big.topics)), run.say)
        suites = not options.peers or bool(beside)
        for number in range(1, rounds + 1):
            both = with_checkouts(peers, beside, number)
            run.round(number, both, small_of(both))
            if suites or options.smoke:
                for checkout in (None, *beside):
                    lag(run, number, everywhere, tiny=options.smoke, checkout=checkout)
            about["rounds"] = number
            run.save()
            report.write(options.output)
        if options.full and suites and not options.no_growth:
            growth.measure(run, beside)
        if options.full and suites:
            for checkout in (None, *beside):
                up(run, everywhere, checkout)
        about["took_min"] = round(sum(record.took_s for record in run.records) / 60)
        run.save()
    return report.write(options.output, name)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="every server and scenario, five rounds")
    parser.add_argument("--smoke", action="store_true", help="tiny tables, a few seconds: shows whether the tool works")
    parser.add_argument("--rounds", type=int, help="default 5 with --full, else 1")
    parser.add_argument("--resume", action="store_true", help="keep what an interrupted run of this commit measured")
    parser.add_argument(
        "--beside", type=Path, action="append", default=[], metavar="CHECKOUT",
        help="measure this checkout of the project, by its .venv/bin/mqregistry, beside ours (any number)",
    )  # fmt: skip
    parser.add_argument("--peers", default="", help='such as "ours;java 5.5.0*;c echo server"')
    parser.add_argument("--server-cores", default=None, help='default "0"; "" for no pinning')
    parser.add_argument("--generator-cores", default=None, help='default "1"')
    parser.add_argument("--no-growth", action="store_true", help="leave S8 out of --full")
    parser.add_argument("--output", type=Path, default=report.FOLDER, help="folder for RESULTS.md and results/")
    parser.add_argument("--render", action="store_true", help="measure nothing")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
