"""Measures what registrations cost: CPU time and memory of the worker, of Redis and of the supervisor.

    python -m bench registrations [--seconds 4] [--storms 2] [--folder DIR]

A front end with one worker, its sweeper and its Redis get the tables of S2: 32 brokers with 10,000 topics each register
at once (a storm). Then one broker registers again and again: with no, one, ten, all topics changed. CPU time is
measured, so a busy machine disturbs little. Memory (PSS) is read after the storm, after every route was asked for
once, after the registrations, and after further storms on emptied tables.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import psutil

from bench.compare.life import Effort, Life, Record
from bench.load.shapes import S2, Variant
from bench.load.tool import LoadGenerator, build
from bench.servers.peers import Ours, OurServer
from bench.servers.processes import Processes

KINDS = (
    ("unchanged", Variant.BASE, Variant.BASE, 1),
    ("1 changed", Variant.ONE, Variant.BASE, 0),
    ("10 changed", Variant.TEN, Variant.BASE, 0),
    ("all changed", Variant.ALL, Variant.BASE, 0),
)


def parts(server: OurServer) -> dict[str, psutil.Process]:
    """The server's processes by kind; the supervisor also runs the sweeper."""
    redis, supervisor, worker = server.processes()
    return {"Redis": redis, "supervisor": supervisor, "worker": worker}


def cpu_s(processes: dict[str, psutil.Process]) -> dict[str, float]:
    return {kind: sum(process.cpu_times()[:2]) for kind, process in processes.items()}


class FilledServer:
    """A server with S2's tables; its methods measure one step each and print a row."""

    def __init__(self, server: OurServer, generator: LoadGenerator, folder: Path) -> None:
        self.server, self.generator = server, generator
        self.parts = parts(server)
        self.life = Life(server, generator, S2, Effort(), Record("ours", 1), folder, lambda text: None)

    def storm(self, what: str) -> None:
        before, began = cpu_s(self.parts), time.monotonic()
        result = self.life.register_all(Variant.BASE)
        elapsed_s = time.monotonic() - began
        spent = {kind: after - before[kind] for kind, after in cpu_s(self.parts).items()}
        refused = self.life.refused(result)
        row(what, f"{elapsed_s:.2f} s", f"{refused} refused", *(f"{spent[kind]:.2f}" for kind in self.parts),
            f"{sum(spent.values()):.2f} s")  # fmt: skip

    def leave(self) -> None:
        before, began = cpu_s(self.parts), time.monotonic()
        self.life.leave()
        spent = {kind: after - before[kind] for kind, after in cpu_s(self.parts).items()}
        row("all leave", f"{time.monotonic() - began:.2f} s", "", *(f"{spent[kind]:.2f}" for kind in self.parts),
            f"{sum(spent.values()):.2f} s")  # fmt: skip

    def memory(self, what: str) -> None:
        held = {kind: process.memory_full_info().pss / 1e6 for kind, process in self.parts.items()}
        row(f"PSS {what}", "", "", *(f"{held[kind]:.0f}" for kind in self.parts), f"{sum(held.values()):.0f} MB")

    def kind(self, what: str, first: Variant, second: Variant, keep: int, seconds: float) -> None:
        self.generator.run(reg_parallel=1, reg_a=int(first), reg_b=int(second), reg_keep=keep, drain_s=60,
                           warmup_s=0, seconds=1.0)  # fmt: skip
        before = cpu_s(self.parts)
        result = self.generator.run(reg_parallel=1, reg_a=int(first), reg_b=int(second), reg_keep=keep, drain_s=60,
                                    warmup_s=0, seconds=seconds)  # fmt: skip
        spent = {kind: after - before[kind] for kind, after in cpu_s(self.parts).items()}
        done = result.registrations
        count = max(1, done.answered)
        refused = done.codes.keys() - {"0"}
        row(what, f"{done.latency.count / result.seconds:.0f}/s", f"{refused or ''} p50 "
            f"{done.latency.percentile_ms(50):.1f}", *(f"{spent[kind] / count * 1e3:.2f}" for kind in self.parts),
            f"{sum(spent.values()) / count * 1e3:.2f} ms")  # fmt: skip


def row(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each kind of registration")
    parser.add_argument("--storms", type=int, default=2, help="further storms, on emptied tables")
    parser.add_argument("--settle", type=float, default=0.0, metavar="S", help="wait before the last look at memory")
    parser.add_argument("--folder", type=Path, help="keeps the generator's files, 200 MB")
    parser.add_argument("--server-cores", type=int, nargs="*", default=[0])
    parser.add_argument("--generator-cores", type=int, nargs="*", default=[1])
    options = parser.parse_args()
    build("loadgen")
    with tempfile.TemporaryDirectory(prefix="mqb", ignore_cleanup_errors=True) as own:
        folder = options.folder or Path(own)
        folder.mkdir(parents=True, exist_ok=True)
        lookups, registrations = S2.write(folder)
        processes = Processes(Path(tempfile.mkdtemp(prefix="mq", dir=own)))
        try:
            server = Ours().start(processes, options.server_cores)
            with LoadGenerator(server.port, lookups, registrations, options.generator_cores) as generator:
                run = FilledServer(server, generator, Path(own))
                row("what", "", "", *(f"{kind}" for kind in run.parts), "in all")
                row(*["---"] * (4 + len(run.parts)))
                run.memory("empty")
                run.storm("storm on empty tables")
                run.memory("after it")
                wrong = run.life.wrong_routes()
                run.memory("every route asked once")
                for what, first, second, keep in KINDS:
                    run.kind(what, first, second, keep, options.seconds)
                run.memory("after the registrations")
                for _ in range(options.storms):
                    run.leave()
                    run.storm("another storm")
                run.life.register_all(Variant.BASE)
                wrong += run.life.wrong_routes()
                time.sleep(options.settle)
                run.memory("after them, every route asked")
                print("\n".join(wrong[:3]))
            server.stop()
        finally:
            processes.close()
    return 1 if wrong else 0


if __name__ == "__main__":
    main()
