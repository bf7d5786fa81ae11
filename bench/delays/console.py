"""Measures the console: how soon a change stands in open pages, how long large pages take, its memory, and what it
costs lookups.

An embedded Redis, a front end, brokers that write to Redis themselves, `mqregistry console` as its own process, 50 open
event streams. Bars: a change made at the front end in every stream within 250 ms (p99); a page of 100 brokers 50 ms;
40,000 topics filtered and paged 100 ms; memory 80 MB and the tables; a lookup's p99 as without a console.
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

from bench.delays import beside_console
from bench.delays.beside_console import put
from bench.delays.lag import NAMESPACE, FrontEndProcess
from bench.servers import machine
from bench.servers.console_pages import console
from mqregistry.client.broker.registrar import BrokerConfig, BrokerRegistrar, RedisWriter, TopicTable
from mqregistry.embedded import EmbeddedRedis
from mqregistry.model import TopicConfig
from mqregistry.store.store import Store

STREAMS, BROKERS, TOPICS, CHANGES, PAGES = 50, 100, 40_000, 200, 20
BARS_MS = {"change": 250.0, "brokers": 50.0, "topics": 100.0}
MEMORY_MB = 80
# Of the lookups' p99 beside a console over that without: what rounds of one server differ by on a quiet machine.
RATIO = 1.2


async def fill(stack: list[BrokerRegistrar], writer: RedisWriter) -> None:
    """100 brokers that share 40,000 topics, each topic at one of them."""
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


async def measure(redis: str, folder: Path, *, empty: bool) -> dict[str, list[float]]:
    """Everything of one console; ``empty``: with no table but the changes', for the memory that is not the tables'."""
    registrars: list[BrokerRegistrar] = []
    found: dict[str, list[float]] = {}
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
    parser.add_argument("--rounds", type=int, default=5, help="of lookups, without a console and with one")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each of these")
    asked = parser.parse_args()
    held = True
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
    print("| what | median | p99 | bar |\n| --- | --- | --- | --- |")
    for name, bar in BARS_MS.items():
        values = sorted(full[name])
        p99 = values[min(len(values) - 1, int(len(values) * 0.99))]
        held = held and (p99 if name == "change" else statistics.median(values)) <= bar
        print(f"| {name} | {statistics.median(values):.1f} ms | {p99:.1f} ms | {bar:.0f} ms |")
    memory_mb = alone["memory"][0]
    print(f"| memory without tables | {memory_mb:.0f} MB | | {MEMORY_MB} MB |")
    print(f"| memory with {TOPICS} topics, {BROKERS} brokers | {full['memory'][0]:.0f} MB | | |")
    print(
        f"\nLookups at {beside_console.RATE:,.0f}/s, medians of {asked.rounds} rounds of {asked.seconds:g} s in turn:\n"
    )
    print("| lookups | p50 | p99 | CPU of the worker each | p99 of each round |\n| --- | --- | --- | --- | --- |")
    for what, rounds in (("without a console", lookups.without), (f"beside one with {STREAMS} pages", lookups.beside)):
        each = ", ".join(f"{one.p99:.2f}" for one in rounds)
        p50, p99, cpu_us = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(f"| {what} | {p50:.2f} ms | {p99:.2f} ms | {cpu_us:.0f} µs | {each} |")
    ratio = lookups.ratio("p99")
    cpu_ratio = lookups.ratio("cpu_us")
    print(f"| ratio | {lookups.ratio('p50'):.2f} | {ratio:.2f} (bar: {RATIO}) | {cpu_ratio:.2f} | |")
    return 0 if held and memory_mb <= MEMORY_MB and ratio <= RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
