"""Measures this checkout and a second one, each load in turn: ``python -m bench pairs --beside ../before``.

``compare --beside`` measures one server a minute after the other, and a shared host may be half as fast by then. Here
the servers of both checkouts run all the time, with the tables of S2, and each load of one or two seconds goes to one
server and then to the other. The median of the pairs' ratios counts; the quartiles show how certain the median is.
Other programs disturb the CPU time of front end and Redis less than the wall-clock time.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bench.compare.life import Effort, Life, Record
from bench.compare.paired import Pairs, Took, slower
from bench.load.shapes import S2, Variant
from bench.load.tool import LoadFailed, LoadGenerator, build
from bench.servers import machine
from bench.servers.checkout import Checkout, NoCheckout, checkouts
from bench.servers.peers import OurServer
from bench.servers.processes import Processes

MOST_PERCENT: Final = 3.0
LOOKUPS: Final = {"lookups 64 x 1": (64, 1), "lookups 64 x 16": (64, 16), "lookups 2,000 x 1": (2000, 1)}
REGISTRATIONS: Final = {
    "registrations, unchanged": (Variant.BASE, Variant.BASE, 1),
    "registrations, 1 changed": (Variant.ONE, Variant.BASE, 0),
    "registrations, all changed": (Variant.ALL, Variant.BASE, 0),
}
WARM_TIMES: Final = 3
"""How often each topic is asked for before lookups are measured, so that the lookup cache knows their bytes."""
LEAVE, STORM = "all brokers leave", "storm on a warm server"
LOADS: Final = (*LOOKUPS, *REGISTRATIONS, LEAVE, STORM)


class LoadedCheckout:
    """The server of one checkout, and its generator."""

    def __init__(self, server: OurServer, generator: LoadGenerator, folder: Path) -> None:
        self._server, self._generator = server, generator
        self._life = Life(server, generator, S2, Effort(), Record(server.name, 1), folder, lambda text: None)
        self.storm()
        wrong = self._life.wrong_routes()
        if wrong:
            raise LoadFailed(f"{server.name}: {wrong[0]}")

    def put(self, load: str, seconds: float) -> Took:
        """Put one load on the server.

        Raises:
            LoadFailed: the server refused a request, or did not answer.
        """
        if load == STORM:
            if self._there:
                self._life.leave()
            return self.storm()
        if load == LEAVE:
            self._there = False
            return self._timed(self._life.leave)
        if load in LOOKUPS:
            for _ in range(WARM_TIMES):
                self._generator.once()
        before = self._server.cost().cpu_s
        if load in LOOKUPS:
            connections, inflight = LOOKUPS[load]
            result = self._generator.run(
                connections=connections, inflight=inflight, warmup_s=0.3, seconds=seconds, drain_s=10
            )
            done, rate = result.lookups, result.rate
        else:
            first, second, keep = REGISTRATIONS[load]
            result = self._generator.run(reg_parallel=1, reg_a=int(first), reg_b=int(second), reg_keep=keep,
                                         warmup_s=0.3, seconds=seconds, drain_s=60)  # fmt: skip
            done = result.registrations
            rate = done.latency.count / result.seconds
        if done.codes.keys() != {"0"}:
            raise LoadFailed(f"{self._server.name}: {load}: {done.codes} {done.remark}")
        return Took(1 / rate, (self._server.cost().cpu_s - before) / done.answered)

    def storm(self) -> Took:
        """All brokers register at once, over new connections."""
        before = self._server.cost().cpu_s
        result = self._life.register_all(Variant.BASE)
        self._there = True
        if self._life.refused(result):
            raise LoadFailed(f"{self._server.name}: a storm was refused: {result.registrations.codes}")
        return Took(result.registrations_s, self._server.cost().cpu_s - before)

    def beat(self) -> None:
        """Keep the brokers registered while the other side is loaded."""
        self._life.beat()

    def _timed(self, step: Callable[[], object]) -> Took:
        before, began = self._server.cost().cpu_s, time.monotonic()
        step()
        return Took(time.monotonic() - began, self._server.cost().cpu_s - before)


def measure(
    checkout: Checkout, loads: list[str], pairs: int, seconds: float, say: Callable[[str], None]
) -> dict[str, list[tuple[Took, Took]]]:
    """Load -> its pairs of costs: at this checkout, and at the other one."""
    server_cores, generator_cores = machine.cores(None, None)
    found: dict[str, list[tuple[Took, Took]]] = {load: [] for load in loads}
    build("loadgen")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mq")))
        files = S2.write(folder)
        processes = Processes(folder)
        stack.callback(processes.close)
        sides = []
        for name, other in (("ours", None), (checkout.name, checkout)):
            server = OurServer(1, 1, processes, server_cores, name, checkout=other)
            stack.callback(server.stop)
            generator = stack.enter_context(LoadGenerator(server.port, *files, generator_cores))
            own = folder / str(len(sides))
            own.mkdir()
            sides.append(LoadedCheckout(server, generator, own))
        for number in range(pairs):
            for load in loads:
                took = {}
                for side in sides if number % 2 == 0 else sides[::-1]:
                    for one in sides:
                        one.beat()
                    took[side] = side.put(load, seconds)
                found[load].append((took[sides[0]], took[sides[1]]))
            say(f"pair {number + 1} of {pairs}")
    return found


def row(load: str, pairs: list[tuple[Took, Took]]) -> tuple[str, bool]:
    """One line of the table, and whether the median is slower by no more than the bar."""
    ours_all, theirs_all = zip(*pairs, strict=True)
    times = slower([one.time for one in ours_all], [one.time for one in theirs_all])
    cpu = slower([one.cpu for one in ours_all], [one.cpu for one in theirs_all])
    ours, theirs = (statistics.median(pair[side].time for pair in pairs) for side in (0, 1))
    each = f"{theirs:.2f} s | {ours:.2f} s" if load in (LEAVE, STORM) else f"{1 / theirs:,.0f}/s | {1 / ours:,.0f}/s"
    held = load == LEAVE or times.median <= MOST_PERCENT  # a checkout may remove topics from Redis after the answer
    return f"| {load} | {each} | {_spread(times)} | {_spread(cpu)} | {'' if held else 'slower'} |", held


def _spread(found: Pairs) -> str:
    return f"{found.median:+.1f} % ({found.lower_quartile:+.0f} to {found.upper_quartile:+.0f})"


def main() -> int:
    """Print the table; 0 when no load takes more than 3 % longer than with the other checkout."""
    parser = argparse.ArgumentParser(
        prog="python -m bench pairs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--beside", type=Path, required=True, metavar="CHECKOUT", help="the other checkout, with its own .venv"
    )
    parser.add_argument("--pairs", type=int, default=10, help="of each load (default: 10)")
    parser.add_argument("--seconds", type=float, default=1.5, help="of one load of one server")
    parser.add_argument("--loads", nargs="+", choices=LOADS, default=list(LOADS), metavar="LOAD", help="; ".join(LOADS))
    asked = parser.parse_args()
    try:
        (checkout,) = checkouts([asked.beside])
    except NoCheckout as error:
        parser.error(str(error))
    about = machine.about(*machine.cores(None, None))
    found = measure(checkout, asked.loads, asked.pairs, asked.seconds, lambda text: print(f"   {text}", flush=True))
    print(f"\n{about['commit']} beside {checkout.name}, {about['machine']}, {asked.pairs} pairs\n")
    print("| load | before | now | more time: median (quartiles) | more CPU | |\n| --- | --- | --- | --- | --- | --- |")
    rows = [row(load, pairs) for load, pairs in found.items()]
    print("\n".join(line for line, _ in rows))
    return 0 if all(held for _, held in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
