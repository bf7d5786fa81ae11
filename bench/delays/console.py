"""Measures the console: when open pages show a change, large pages, memory, and how much it slows lookups down.

It starts an embedded Redis, a front end, brokers that write to Redis themselves, `mqregistry console`, and 50 open
pages. Bars: every page shows a change at the front end within 250 ms (p99); a page of 100 brokers takes 50 ms, one of
40,000 filtered topics 100 ms; memory is 80 MB besides the tables; the p99 of lookups is at most 1.2 times as long.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import statistics
import sys
import tempfile
import time
import urllib.request
from functools import partial
from pathlib import Path

import psutil

from bench.compare import report
from bench.delays import beside_console
from bench.delays.beside_console import Beside, put
from bench.delays.lag import NAMESPACE, FrontEndProcess
from bench.servers import machine, marked
from bench.servers.console_pages import console
from mqregistry.client.broker.registrar import BrokerConfig, BrokerRegistrar, RedisWriter, TopicTable
from mqregistry.embedded import EmbeddedRedis
from mqregistry.model import TopicConfig
from mqregistry.store.store import Store

STREAMS, BROKERS, TOPICS, CHANGES, PAGES = 50, 100, 40_000, 200, 20
BARS_MS = {
    "change": (f"a change at the front end, until it stands in each of {STREAMS} open pages", "p99", 250.0),
    "brokers": (f"the page of {BROKERS} brokers", "median", 50.0),
    "topics": (f"the page of {TOPICS:,} topics, filtered, the second one", "median", 100.0),
}
MEMORY_MB = 80
# The most for p99 of lookups beside a console, divided by p99 without: rounds of one server differ by this much.
RATIO = 1.2
VERDICT = {True: "OK", False: "**MISSED**", None: ""}
HOW = """One machine runs an embedded Redis, a front end with one worker, the console, and readers of its pages. For the
lookups Redis, front end and console share one core, and the load generator has the other one; the tables change all the
time, and the data for 50 pages stays in the buffers of their sockets."""

Found = dict[str, list[float]]


async def fill(stack: list[BrokerRegistrar], writer: RedisWriter) -> None:
    """Register 100 brokers with 40,000 topics, each topic at one broker."""
    for number in range(BROKERS):
        topics = TopicTable(
            TopicConfig(f"topic-{number:03}-{one:05}", 8, 8, 6) for one in range(TOPICS // BROKERS)
        )  # fmt: skip
        config = BrokerConfig(
            broker_name=f"broker-{number:03}", broker_addr=f"10.0.{number}.1:10911", cluster_name=f"c{number % 5}"
        )
        registrar = BrokerRegistrar(config, topics, transport="redis", redis=writer)
        await registrar.__aenter__()
        stack.append(registrar)


def page_ms(url: str) -> list[float]:
    """How long a page takes, from the request to its last byte."""
    found = []
    for _ in range(PAGES):
        began = time.monotonic()
        with urllib.request.urlopen(url) as answer:
            answer.read()
        found.append((time.monotonic() - began) * 1000)
    return found


async def measure(redis: str, folder: Path, *, empty: bool) -> Found:
    """Measure one console. ``empty``: without brokers and topics, for the memory that the console needs by itself."""
    registrars: list[BrokerRegistrar] = []
    found: Found = {}
    front_end = FrontEndProcess(redis, workers=1)
    writer = RedisWriter(redis, NAMESPACE)
    try:
        if not empty:
            async with Store(redis, NAMESPACE) as store:
                await store.connect()
                await fill(registrars, writer)
        async with console(redis, NAMESPACE, folder) as opened:
            await opened.open_pages(STREAMS)
            written = {}
            with socket.create_connection(("127.0.0.1", front_end.port), timeout=30) as connection:
                for number in range(CHANGES):
                    key = str(number)
                    written[key] = time.monotonic()
                    await asyncio.to_thread(put, connection, key, "x")
                    await asyncio.sleep(0.02)
            async with asyncio.timeout(30):
                await opened.shown(written, STREAMS)
            found["change"] = [(at - written[key]) * 1000 for key in written for at in opened.seen[key]]
            for name, path in (("brokers", "/brokers"), ("topics", "/topics?filter=99&page=2")):
                found[name] = await asyncio.to_thread(page_ms, f"http://127.0.0.1:{opened.port}{path}")
            found["memory"] = [psutil.Process(opened.process.pid).memory_full_info().pss / 1e6]
    finally:
        for registrar in registrars:
            await registrar.__aexit__(None, None, None)
        await writer.close()
        front_end.stop()
    return found


def main() -> int:
    """Print the tables; 0 when the bars held."""
    parser = argparse.ArgumentParser(prog="python -m bench console", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="of lookups, each without and with a console")
    parser.add_argument("--seconds", type=float, default=8.0, help="of lookups in each round")
    parser.add_argument("--write", action="store_true", help="also write the tables into RESULTS.md")
    asked = parser.parse_args()
    server_cores, generator_cores = machine.cores(None, None)
    with tempfile.TemporaryDirectory(prefix="mq") as name:
        folder = Path(name)
        for one in ("alone", "full", "lookups"):
            (folder / one).mkdir()
        with EmbeddedRedis(folder / "alone") as redis:
            alone = asyncio.run(measure(redis.url, folder / "alone", empty=True))
        with EmbeddedRedis(folder / "full") as redis:
            full = asyncio.run(measure(redis.url, folder / "full", empty=False))
        with EmbeddedRedis(folder / "lookups") as redis:
            lookups = asyncio.run(
                beside_console.measure(
                    redis.url,
                    folder / "lookups",
                    rounds=asked.rounds,
                    seconds=asked.seconds,
                    pages=STREAMS,
                    generator_cores=generator_cores,
                    started=partial(beside_console.share, server_cores),
                )
            )
    text, held = render(alone, full, lookups, f"medians of {asked.rounds} rounds of {asked.seconds:g} s in turn")
    print(text)
    if asked.write:
        about = machine.about(server_cores, generator_cores)
        where = "{date}, commit {commit}. {machine}; load average at the end {load_average}.".format(**about)
        page = f"## The console\n\n`python -m bench console --write`. {where}\n\n{HOW}\n\n{text}"
        marked.put(report.FOLDER / "RESULTS.md", "console", page)
    return 0 if held else 1


def render(alone: Found, full: Found, lookups: Beside, rounds: str) -> tuple[str, bool]:
    """The tables, and whether every bar held."""
    held, lines = True, ["| what | median | p99 | bar | |", "| --- | --- | --- | --- | --- |"]

    def line(what: str, median: str, p99: str, bar: str, good: bool | None) -> None:
        nonlocal held
        held = held and good is not False
        lines.append(f"| {what} | {median} | {p99} | {bar} | {VERDICT[good]} |")

    for name, (what, of, bar) in BARS_MS.items():
        values = sorted(full[name])
        median, p99 = statistics.median(values), values[min(len(values) - 1, int(len(values) * 0.99))]
        good = (p99 if of == "p99" else median) <= bar
        line(what, f"{median:.1f} ms", f"{p99:.1f} ms", f"{of} ≤ {bar:.0f} ms", good)
    memory_mb = alone["memory"][0]
    line("memory without tables", f"{memory_mb:.0f} MB", "", f"≤ {MEMORY_MB} MB", memory_mb <= MEMORY_MB)
    line(f"memory with {TOPICS:,} topics, {BROKERS} brokers", f"{full['memory'][0]:.0f} MB", "", "", None)
    lines += [
        f"\nLookups at {beside_console.RATE:,.0f}/s, {rounds}:\n",
        "| lookups | p50 | p99 | CPU of the worker each | p99 of each round | |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for what, of in (("without a console", lookups.without), (f"beside one with {STREAMS} pages", lookups.beside)):
        each = ", ".join(f"{one.p99:.2f}" for one in of)
        p50, p99, cpu_us = (statistics.median(column) for column in zip(*of, strict=True))
        lines.append(f"| {what} | {p50:.2f} ms | {p99:.2f} ms | {cpu_us:.0f} µs | {each} | |")
    ratio, good = lookups.ratio("p99"), lookups.ratio("p99") <= RATIO
    p50, cpu_us = lookups.ratio("p50"), lookups.ratio("cpu_us")
    lines.append(f"| ratio | {p50:.2f} | {ratio:.2f} | {cpu_us:.2f} | p99 ≤ {RATIO} | {VERDICT[good]} |")
    return "\n".join(lines), held and good


if __name__ == "__main__":
    sys.exit(main())
