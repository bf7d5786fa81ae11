"""What many BrokerRegistrars in one process cost, against one real front end; and how fast a dead writer is noticed.

One process holds all registrars, each with 10 to 50 topics and the pace of a Java broker (30 s). Measured over a time
in which each registers several times, after all have entered: CPU and memory of that process. Bars: at most one core,
at most 200 MB. With --transport redis they write to Redis themselves, under one lease; and --deaths N kills a writer
process N times and measures until its broker is out of the tables.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil

from bench.servers.processes import free_port
from bench.servers.wire import answers
from mqregistry.client.broker.registrar import BrokerConfig, BrokerRegistrar, RedisWriter, TopicTable
from mqregistry.embedded import EmbeddedRedis
from mqregistry.model import TopicConfig
from mqregistry.store.snapshot import read_tables
from mqregistry.store.store import Store

BAR_CORES, BAR_MB = 1.0, 200.0
# A front end that gets all unregistrations at once refuses some; those brokers go when their connections close.
GONE_S = 30.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench registrars", description=__doc__)
    parser.add_argument("--registrars", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=75.0, help="the time that is measured")
    parser.add_argument("--topics", type=int, nargs=2, default=(10, 50), metavar=("LEAST", "MOST"))
    parser.add_argument("--transport", choices=["wire", "redis"], default="wire")
    parser.add_argument("--acting-master", action="store_true", help="with a heartbeat each second")
    parser.add_argument("--deaths", type=int, default=0, metavar="N")
    parser.add_argument("--child", nargs=2, metavar=("TARGET", "NAMESPACE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        asyncio.run(hold(options, *options.child))
        return 0
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory(prefix="mq") as folder, EmbeddedRedis(Path(folder)) as redis:
        if options.deaths:
            return deaths(redis.url, options.deaths)
        return crowd(redis.url, options)


@contextlib.contextmanager
def front_end(redis_url: str, namespace: str):
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "mqregistry", "serve", "--redis", redis_url, "--namespace", namespace,
         "--host", "127.0.0.1", "--port", str(port), "--http-port", "0", "--workers", "1", "--log-level", "error"],
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while not answers(port):
            if process.poll() is not None:
                raise SystemExit(f"mqregistry serve ended with {process.returncode}")
            time.sleep(0.02)
        yield port, process
    finally:
        process.terminate()
        process.wait()


# the crowd


def crowd(redis_url: str, options: argparse.Namespace) -> int:
    with front_end(redis_url, "crowd") as (port, server):
        target = redis_url if options.transport == "redis" else f"127.0.0.1:{port}"
        # The bar is about the process that an application has: a fresh one, with nothing of ours but the registrars.
        child = subprocess.Popen(
            [sys.executable, "-m", "bench.registrars", *sys.argv[1:], "--child", target, "crowd"],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert child.stdout is not None
        try:
            entered = json.loads(next(child.stdout))
            watched = [psutil.Process(child.pid), *psutil.Process(server.pid).children()]
            before, began = [process_cpu_s(process) for process in watched], time.perf_counter()
            peak_mb = 0.0
            while time.perf_counter() - began < options.seconds:
                peak_mb = max(peak_mb, watched[0].memory_info().rss / 1e6)
                time.sleep(1.0)
            elapsed_s = time.perf_counter() - began
            cores = [(process_cpu_s(one) - cpu) / elapsed_s for one, cpu in zip(watched, before, strict=True)]
            registered, topics = asyncio.run(stands(redis_url, "crowd"))
            child.send_signal(2)
            left = json.loads(next(child.stdout))
        finally:
            child.kill()
            child.wait()
        began = time.perf_counter()
        while (remaining := asyncio.run(stands(redis_url, "crowd"))[0]) and time.perf_counter() - began < GONE_S:
            time.sleep(0.1)
    n = options.registrars
    print(f"{n} registrars ({options.transport}), {topics} topics in all, 30 s periods")
    print(f"  entering      {entered['s']:.1f} s, {entered['cpu_s']:.1f} s of CPU: {entered['statuses']}")
    print(f"                all are registered after {entered['all_s']:.1f} s")
    print(f"  in {elapsed_s:.0f} s       {left['rounds']} registrations, not ok: {left['failed']}")
    print(f"  CPU           {cores[0]:.3f} cores (bar {BAR_CORES:g}); the front end's worker {sum(cores[1:]):.3f}")
    print(f"  memory        {peak_mb:.0f} MB (bar {BAR_MB:g}), {entered['bare_mb']:.0f} MB of it before the first one")
    print(f"  leaving       {left['s']:.1f} s for all; {remaining} brokers are left behind")
    good = (
        cores[0] <= BAR_CORES and peak_mb <= BAR_MB and registered == n and remaining == 0 and left["failed"] == 0
        and left["rounds"] >= n * int(options.seconds // 33)
    )  # fmt: skip
    print("  OK" if good else f"  MISSED ({registered} of {n} brokers were registered)")
    return 0 if good else 1


def process_cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


async def stands(redis_url: str, namespace: str) -> tuple[int, int]:
    """How many brokers and topics the tables have."""
    async with Store(redis_url, namespace) as store:
        _, tables = await read_tables(store)
        return len(tables.brokers), len(tables.topics)


async def hold(options: argparse.Namespace, target: str, namespace: str) -> None:
    """The measured process: register all, print that it is done, and unregister on SIGINT."""
    logging.disable()  # the front end's first refusals, a line each
    bare_mb = psutil.Process().memory_info().rss / 1e6
    rounds: Counter[bool] = Counter()
    writer = RedisWriter(target, namespace, create_namespace=True) if options.transport == "redis" else None
    registrars = []
    for number in range(options.registrars):
        topics = TopicTable(
            TopicConfig(f"topic-{number}-{index}", 8, 8, 6) for index in range(random.randint(*options.topics))
        )
        config = BrokerConfig(
            broker_name=f"broker-{number}", broker_addr=f"127.0.0.1:{20000 + number}",
            enable_slave_acting_master=options.acting_master,
        )  # fmt: skip
        place = {"transport": "redis", "redis": writer} if writer else {"name_servers": target}
        registrars.append(BrokerRegistrar(config, topics, **place, on_result=lambda result: rounds.update([result.ok])))
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(2, stop.set)
    began = time.perf_counter()
    await asyncio.gather(*(registrar.__aenter__() for registrar in registrars))
    statuses = Counter(result.status for registrar in registrars for result in registrar.results.values())
    entered = {"s": time.perf_counter() - began, "cpu_s": process_cpu_s(psutil.Process()), "statuses": statuses}
    # A front end that gets all registrations at once refuses some; those registrars try again by themselves.
    while not all(result.ok for registrar in registrars for result in registrar.results.values()):  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    entered["all_s"] = time.perf_counter() - began
    print(json.dumps({**entered, "bare_mb": bare_mb}), flush=True)
    rounds.clear()
    await stop.wait()
    told = {"rounds": rounds.total(), "failed": rounds[False]}
    began = time.perf_counter()
    await asyncio.gather(*(registrar.__aexit__() for registrar in registrars))
    if writer:
        await writer.close()
    print(json.dumps({**told, "s": time.perf_counter() - began}), flush=True)


# deaths


def deaths(redis_url: str, count: int) -> int:
    """Measure how long a dead writer stays. Bar: the lease time, a sweeper period (about 1 s) and 1 s."""
    bar_s = 5.0 + 1.2 + 1.0
    with front_end(redis_url, "deaths"):
        time.sleep(11.0)  # nothing is reaped in the first ten seconds of a registry
        found = [death(redis_url, bar_s * 3) for _ in range(count)]
    print(f"{count} writers killed: gone after {min(found):.1f} to {max(found):.1f} s, median "
          f"{statistics.median(found):.1f} s (bar {bar_s:g}; the broker's own timeout is 120 s)")  # fmt: skip
    return 0 if max(found) <= bar_s else 1


def death(redis_url: str, patience_s: float) -> float:
    writer = subprocess.Popen(
        [sys.executable, "-m", "mqregistry", "broker", "run", "--name", "broker-a", "--topic", "a", "--topic", "b",
         "--redis", redis_url, "--namespace", "deaths"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert writer.stdout is not None
    while "registered after" not in (line := writer.stdout.readline()):
        assert line, "the writer ended"
    time.sleep(random.uniform(0.0, 1.0))
    writer.kill()
    began = time.perf_counter()
    writer.wait()
    while asyncio.run(stands(redis_url, "deaths"))[0]:
        if time.perf_counter() - began > patience_s:
            raise SystemExit(f"not gone after {patience_s:g} s")
        time.sleep(0.02)
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
