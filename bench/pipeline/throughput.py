"""Measures how fast the pipeline is on this machine, together with the Redis that it reads.

    python -m bench pipeline [--only bronze] [--events 1000000] [--entries 20000] [--master local[2]] [--json FILE]

It reads two streams into bronze, the pipeline's first layer: a million changes of one topic each, and changes of 500
topics each. Then it brings the first stream from bronze to silver and gold, and measures the peak memory of all
processes (not with --only bronze). The entries are copies of an entry that the real scripts wrote, with other numbers
and topics. The time counts from the start of the streaming query to its end, in a session that has run a query before.

On a busy machine wall-clock time says little, so the table also has the rate by CPU time (of Redis, Java and Python
together, on two cores). The exit status is 1 when that rate misses a bar.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import redis

from bench.pipeline.memory import MemoryWatch
from mqregistry.embedded import EmbeddedRedis
from mqregistry.model import DataVersion, QueueData, Registration
from mqregistry.pipeline.bronze.query import start
from mqregistry.pipeline.bronze.snapshot import Snapshot, write
from mqregistry.pipeline.gold.refresh import refresh
from mqregistry.pipeline.lake.lake import Lake
from mqregistry.pipeline.silver.advance import Silver
from mqregistry.pipeline.spark.session import open_session
from mqregistry.store import keys
from mqregistry.store.route_writes import Channel, RegistrationDiff, RouteStore
from mqregistry.store.snapshot import read_head
from mqregistry.store.store import Store

CORES = 2
TOPICS = 10_000
BROKERS = 32


class ThroughputRow(NamedTuple):
    """One row of the table: wall-clock seconds, and CPU seconds of Redis and of all of Spark's processes."""

    what: str
    count: int
    seconds: float
    redis_cpu_s: float
    spark_cpu_s: float
    bar: float

    @property
    def by_cpu(self) -> float:
        return self.count / ((self.redis_cpu_s + self.spark_cpu_s) / CORES)

    def line(self) -> str:
        return (
            f"| {self.what} | {self.count:,} | {self.seconds:.1f} | {self.redis_cpu_s:.1f} | {self.spark_cpu_s:.1f} | "
            f"{self.count / self.seconds:,.0f} | {self.by_cpu:,.0f} | {self.bar:,.0f} | "
            f"{'yes' if self.by_cpu >= self.bar else 'NO'} |"
        )


def topic(i: int) -> str:
    return f"topic-of-some-length-{i % TOPICS:05d}"


async def sample(url: str, namespace: str, topics: int) -> bytes:
    """Have the scripts write the event of a broker that changes this number of topics, and return it."""
    async with Store(url, namespace) as store:
        await store.init_namespace()
        routes = RouteStore(store)
        channel = Channel("front-end-1", "w1/1")
        entries: list[Any] = []
        for counter in (1, 2):
            r = Registration(
                "c1", "broker-00", 0, "10.0.0.100:10911", ha_server_addr="10.0.0.100:10912",
                data_version=DataVersion(counter, 1_732_000_000_000, 0),
                topics={topic(i): QueueData(8, 8, 6) for i in range(topics + 1)},
            )  # fmt: skip
            head = await read_head(store)
            row_rev = await store.client.hget(keys.prefix(namespace) + "broker:broker-00", "rev")
            beat = await routes.heartbeat("c1", "broker-00", 0, r.broker_addr, "no", channel)
            datas = {topic(i): QueueData(8, 8, 6 - 2 * (counter - 1)) for i in range(topics)}
            diff = RegistrationDiff(head.epoch, int(row_rev or 0), beat.n, head.config_rev, datas, [], [])
            await routes.register_broker(r, diff, digest="d", channel=channel)
            entries = await store.client.xrevrange(keys.changes(namespace), count=1)
        event: bytes = entries[0][1][b"e"]
        return event


def events(model: bytes, topics: int, count: int) -> Iterator[bytes]:
    """Events like ``model``, numbered from 1, with varying topics and brokers."""
    at = 0
    body = re.search(rb'"topics":\{(.*)\},"at"', model)
    assert body is not None
    cell = re.search(rb'":(\{[^}]*\})', body[1])
    assert cell is not None
    head, tail = model[: body.start(1)], model[body.end(1) : model.rindex(b":") + 1]
    now_ms = int(time.time() * 1000)
    bodies = [
        b",".join(b'"%s":%s' % (topic(first + i).encode(), cell[1]) for i in range(topics))
        for first in range(0, TOPICS, topics)
    ]
    heads = [
        head.replace(b"broker-00", b"broker-%02d" % i).replace(b".0.100:", b".0.1%02d:" % i) for i in range(BROKERS)
    ]
    numbers = re.compile(rb'\{"seq":\d+,"ms":\d+')
    heads = [numbers.sub(b"", text) for text in heads]
    for seq in range(1, count + 1):
        event = b'{"seq":%d,"ms":%d%s%s%s' % (seq, now_ms, heads[seq % BROKERS], bodies[seq % len(bodies)], tail)
        at += len(event)
        yield event + b"%d}" % at


def fill(client: Any, namespace: str, texts: Iterator[bytes]) -> int:
    """Add the events to the stream, and return their number."""
    key, seq = keys.changes(namespace), 0
    client.delete(key)
    pipeline = client.pipeline(transaction=False)
    for seq, text in enumerate(texts, 1):
        pipeline.xadd(key, {"e": text})
        if seq % 500 == 0:
            pipeline.execute()
    pipeline.execute()
    client.hset(keys.meta(namespace), "seq", seq)
    return seq


def cpu_of(process: psutil.Process) -> float:
    """CPU seconds of a process and its children, including those that have ended."""
    try:
        times, children = process.cpu_times(), process.children()
    except psutil.NoSuchProcess:  # its CPU time now counts for its parent
        return 0.0
    total: float = times.user + times.system + times.children_user + times.children_system
    return total + sum(map(cpu_of, children))


class Bed:
    """A Redis, a Spark session and a lake."""

    def __init__(self, folder: Path, server: EmbeddedRedis, master: str, driver_memory: str) -> None:
        self.url = server.url
        self.client = redis.Redis.from_url(server.url)
        self.redis_process = psutil.Process(self.client.info("server")["process_id"])
        self.lake = Lake(str(folder / "lake"))
        self.spark = open_session(master=master, driver_memory=driver_memory)

    def bronze(self, namespace: str) -> tuple[int, float, float, float]:
        """Load the whole stream; return rows, seconds, CPU seconds of Redis and of Spark."""
        epoch = self.client.hget(keys.meta(namespace), "epoch").decode()
        first = self.client.xrange(keys.changes(namespace), count=1)[0][0].decode()
        write(self.spark, self.lake, namespace, Snapshot(epoch, 0, int(first.partition("-")[0]), "0-0"), [])
        me = psutil.Process()
        before = cpu_of(self.redis_process), cpu_of(me), time.perf_counter()
        query = start(
            self.spark, self.lake, (namespace, epoch), "changes", {"availableNow": True}, url=self.url, reader=None,
            limit=250_000,
        )  # fmt: skip
        query.awaitTermination()
        after = cpu_of(self.redis_process), cpu_of(me), time.perf_counter()
        rows = sum(progress["numInputRows"] for progress in query.recentProgress)
        return rows, after[2] - before[2], after[0] - before[0], after[1] - before[1]

    def above(self, namespace: str, count: int) -> None:
        """Bring silver and gold up to date, and print time, CPU time and memory."""
        epoch = self.client.hget(keys.meta(namespace), "epoch").decode()
        me, watch = psutil.Process(), MemoryWatch(psutil.Process().pid)

        def silver() -> None:
            list(Silver(self.spark, self.lake, namespace, epoch).advance())

        def gold() -> None:
            refresh(self.spark, self.lake, namespace, epoch)

        for stage in (silver, gold):
            cpu_s, seconds = cpu_of(me), time.perf_counter()
            stage()
            seconds = time.perf_counter() - seconds
            print(f"{stage.__name__}: {count:,} changes in {seconds:.1f} s, {cpu_of(me) - cpu_s:.1f} s of CPU; at most "
                  f"{watch.take().all_mb:,.0f} MB", file=sys.stderr, flush=True)  # fmt: skip
        watch.close()


def bench_bronze(bed: Bed, options: argparse.Namespace) -> list[ThroughputRow]:
    results = []
    shapes: list[tuple[str, int, int, float, Callable[[int], int]]] = [
        ("changes of one topic", 1, options.events, 80_000, lambda rows: rows),
        ("changed topics, 500 an entry", 500, options.entries, 500_000, lambda rows: rows * 500),
    ]
    for what, topics, count, bar, counted in shapes:
        model = asyncio.run(sample(bed.url, f"sample{topics}", topics))
        for namespace, some in ((f"warm{topics}", max(1, count // 2)), (f"bench{topics}", count)):
            asyncio.run(sample(bed.url, namespace, 1))
            fill(bed.client, namespace, events(model, topics, some))
            rows, seconds, redis_cpu_s, spark_cpu_s = bed.bronze(namespace)
            assert rows == some, f"{rows} rows of {some} entries"
            bed.client.delete(keys.changes(namespace))
        if not options.only and topics == 1:
            bed.above(f"bench{topics}", count)
        results.append(ThroughputRow(what, counted(rows), seconds, redis_cpu_s, spark_cpu_s, bar))
        print(results[-1].line(), flush=True)
    return results


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench pipeline")
    parser.add_argument("--only", choices=["bronze"], help="this part alone")
    parser.add_argument("--events", type=int, default=1_000_000, help="changes of one topic")
    parser.add_argument("--entries", type=int, default=20_000, help="changes of 500 topics")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--driver-memory", default="1g")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="mq") as folder,
        EmbeddedRedis(Path(folder), extra=("--appendfsync", "no", "--save", "")) as server,
    ):
        bed = Bed(Path(folder), server, options.master, options.driver_memory)
        print("| what | number | s | CPU s Redis | CPU s Spark | /s | /s by CPU time, 2 cores | bar | held |")
        print("|---|---|---|---|---|---|---|---|---|", flush=True)
        results = bench_bronze(bed, options)
        bed.spark.stop()
    if options.json:
        options.json.write_text(json.dumps([result._asdict() for result in results]))
    return 0 if all(result.by_cpu >= result.bar for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
