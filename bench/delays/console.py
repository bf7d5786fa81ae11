"""Measures the console: how soon a change stands in open streams, how long large pages take, and its memory.

An embedded Redis, brokers that write to it themselves, `mqregistry console` as its own process, 50 open streams. Bars:
a change in every stream within 250 ms (p99); a page of 100 brokers 50 ms; 40,000 topics filtered and paged 100 ms;
memory 80 MB and the tables.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import psutil

from mqregistry.client.broker.registrar import BrokerConfig, BrokerRegistrar, RedisWriter, TopicTable
from mqregistry.embedded import EmbeddedRedis
from mqregistry.model import TopicConfig
from mqregistry.store.config_writes import KvStore
from mqregistry.store.store import Store

STREAMS, BROKERS, TOPICS, CHANGES, PAGES = 50, 100, 40_000, 200, 20
BARS_MS = {"change": 250.0, "brokers": 50.0, "topics": 100.0}


async def fill(store: Store, stack: list[BrokerRegistrar], writer: RedisWriter) -> None:
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


async def listen(port: int, seen: dict[str, list[float]], ready: asyncio.Semaphore) -> None:
    """One open page: when each change arrived."""
    reader, sender = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    sender.write(b"GET /events?changes=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    while line := await reader.readline():
        if b"event: status" in line:
            ready.release()
        for key in re.findall(rb"bench/(\d+)", line):
            seen.setdefault(key.decode(), []).append(time.monotonic())


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
    """Everything; ``empty``: with no table but the changes', for the memory that is not the tables'."""
    registrars: list[BrokerRegistrar] = []
    found: dict[str, list[float]] = {}
    namespace = "empty" if empty else "full"
    writer = RedisWriter(redis, namespace, create_namespace=True)
    async with Store(redis, namespace) as store:
        await store.connect()
        if not empty:
            await fill(store, registrars, writer)
        command = [sys.executable, "-m", "mqregistry", "console", "--redis", redis, "--namespace", namespace]
        process = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs yet
            [*command, "--port", "0", "--checkpoints", str(folder)], stdout=subprocess.PIPE, text=True,
            env={**os.environ, "HOME": str(folder)},
        )  # fmt: skip
        listeners: list[asyncio.Task[None]] = []
        try:
            assert process.stdout is not None
            port = int(re.search(r":(\d+)/", await asyncio.to_thread(process.stdout.readline))[1])  # type: ignore[index]
            seen: dict[str, list[float]] = {}
            ready = asyncio.Semaphore(0)
            listeners += [asyncio.create_task(listen(port, seen, ready)) for _ in range(STREAMS)]
            for _ in range(STREAMS):
                await ready.acquire()
            written = {}
            for number in range(CHANGES):
                written[str(number)] = time.monotonic()
                await KvStore(store).put("bench", str(number), "x")
                await asyncio.sleep(0.02)
            await asyncio.sleep(2)
            assert all(len(seen[key]) == STREAMS for key in written), "a stream lacks a change"
            found["change"] = [(at - written[key]) * 1000 for key in written for at in seen[key]]
            base = f"http://127.0.0.1:{port}"
            for name, path in (("brokers", "/brokers"), ("topics", "/topics?filter=99&page=2")):
                found[name] = await asyncio.to_thread(page_ms, base + path)
            found["memory"] = [psutil.Process(process.pid).memory_full_info().pss / 1e6]
        finally:
            for listener in listeners:
                listener.cancel()
            process.terminate()
            await asyncio.to_thread(process.wait)
            for registrar in registrars:
                await registrar.__aexit__(None, None, None)
            await writer.close()
    return found


def main() -> int:
    """Print the table; 0 when the bars held."""
    argparse.ArgumentParser(prog="python -m bench console", description=(__doc__ or "").partition("\n")[0]).parse_args()
    with tempfile.TemporaryDirectory(prefix="mq") as folder, EmbeddedRedis(Path(folder)) as redis:
        alone = asyncio.run(measure(redis.url, Path(folder), empty=True))
        full = asyncio.run(measure(redis.url, Path(folder), empty=False))
    print("| what | median | p99 | bar |\n| --- | --- | --- | --- |")
    held = True
    for name, bar in BARS_MS.items():
        values = sorted(full[name])
        p99 = values[min(len(values) - 1, int(len(values) * 0.99))]
        held = held and (p99 if name == "change" else statistics.median(values)) <= bar
        print(f"| {name} | {statistics.median(values):.1f} ms | {p99:.1f} ms | {bar:.0f} ms |")
    print(f"| memory without tables | {alone['memory'][0]:.0f} MB | | 80 MB |")
    print(f"| memory with {TOPICS} topics, {BROKERS} brokers | {full['memory'][0]:.0f} MB | | |")
    return 0 if held and alone["memory"][0] <= 80 else 1


if __name__ == "__main__":
    sys.exit(main())
