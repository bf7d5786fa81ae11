"""Measures the CPU time of Lua scripts in Redis, and compares it with bare loops of the same commands.

    python -m bench scripts [--rounds 9] [--topics 10000] [--json FILE]

It starts a Redis of its own. Redis measures the times (INFO commandstats: usec of evalsha), so client and socket do not
count. Every round measures each script once, in an emptied Redis; the table shows medians. A ratio is the median of the
rounds' ratios, so that a busy machine disturbs both sides alike. The exit status is 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from mqregistry.embedded import EmbeddedRedis
from mqregistry.model import DataVersion, QueueData, Registration
from mqregistry.store import keys, scripts
from mqregistry.store.leases import LeaseStore
from mqregistry.store.route_writes import Channel, RegistrationDiff, RouteStore
from mqregistry.store.snapshot import read_head, read_tables
from mqregistry.store.store import Store

HEARTBEATS = 300
CHANGES = 30

# The writes that a first registration needs at least, without decisions or events.
BARE_HSET = """
for i = 1, #ARGV, 1000 do
  redis.call("HSET", KEYS[1], unpack(ARGV, i, math.min(i + 999, #ARGV)))
end
"""


class ScriptBar(NamedTuple):
    """One line of the table: a value in milliseconds or a ratio, with its limit."""

    what: str
    unit: str
    limit: float
    values: list[float]
    note: str

    @property
    def measured(self) -> float:
        return statistics.median(self.values)

    @property
    def held(self) -> bool:
        return self.measured <= self.limit


class Bench:
    def __init__(self, store: Store, topics: int) -> None:
        self.store = store
        self.routes = RouteStore(store)
        self.leases = LeaseStore(store)
        self.names = [f"topic-of-some-length-{i:05d}" for i in range(topics)]
        # as with real brokers, many topics have equal queue data
        self.queue_datas = {name: QueueData(8, 8, 6 if i % 7 else 4) for i, name in enumerate(self.names)}
        self.channel = Channel("fe1", "w1/1")
        self.samples: dict[str, list[float]] = {}

    async def usec(
        self, action: Callable[[], Awaitable[Any]], commands: tuple[str, ...] = ("evalsha",)
    ) -> tuple[float, float]:
        """Run the action; the microseconds that Redis spent in scripts (or these commands), and the number of calls."""
        await self.fresh_lua()
        await self.store.client.config_resetstat()
        await action()
        stats = await self.store.client.info("commandstats")
        found = [stats[f"cmdstat_{command}"] for command in commands if f"cmdstat_{command}" in stats]
        return sum(one["usec"] for one in found), sum(one["calls"] for one in found)

    async def measure(
        self, what: str, action: Callable[[], Awaitable[Any]], commands: tuple[str, ...] = ("evalsha",)
    ) -> float:
        """Measure the milliseconds of one call, and keep them under a name."""
        usec, calls = await self.usec(action, commands)
        self.samples.setdefault(what, []).append(usec / calls / 1000)
        return usec / calls / 1000

    async def fresh_lua(self) -> None:
        """Give Redis a new Lua heap, so that no run has to collect the garbage of an earlier run."""
        await self.store.client.script_flush()
        for source in (*(script.source for script in scripts.load().values()), BARE_HSET):
            await self.store.client.script_load(source)

    async def bare(self, script: str, prefix: str, *arguments: Any) -> None:
        await self.store.client.evalsha(hashlib.sha1(script.encode()).hexdigest(), 1, prefix, *arguments)

    async def empty(self) -> None:
        await self.store.client.flushall()
        await self.store.init_namespace()

    def registration(self, name: str, addr: str, topics: dict[str, QueueData], counter: int = 1) -> Registration:
        return Registration("c1", name, 0, addr, data_version=DataVersion(counter, 1, 0), topics=topics)

    async def register(self, r: Registration, topics: dict[str, QueueData]) -> None:
        """Write a registration whose changed topics are these."""
        head = await read_head(self.store)
        row_rev = await self.store.client.hget(keys.broker(self.store.namespace, r.broker_name), "rev")
        beat = await self.routes.heartbeat("c1", r.broker_name, 0, r.broker_addr, "no", self.channel)
        diff = RegistrationDiff(head.epoch, int(row_rev or 0), beat.n, head.config_rev, topics, [], [])
        usec, _ = await self.usec(lambda: self._write(r, diff))
        self.last_ms = usec / 1000

    async def _write(self, r: Registration, diff: RegistrationDiff) -> None:
        result = await self.routes.register_broker(r, diff, digest="d", channel=self.channel, body_bytes=1)
        assert result.status == "OK", result

    def keep(self, what: str) -> float:
        self.samples.setdefault(what, []).append(self.last_ms)
        return self.last_ms

    async def round(self) -> None:
        flat: list[Any] = []
        for name, data in self.queue_datas.items():
            flat += (name, f'{{"r":8,"w":8,"p":{data.perm},"f":0}}')
        prefix = keys.prefix(self.store.namespace) + "bare:"
        big = self.registration("broker-a", "10.0.0.1:10911", self.queue_datas)
        other = self.registration("broker-b", "10.0.0.2:10911", self.queue_datas)

        await self.empty()
        hset = await self.measure("bare HSET loop", lambda: self.bare(BARE_HSET, prefix + "broker-a", *flat))

        await self.empty()
        await self.register(big, self.queue_datas)
        self.ratio("first registration", self.keep("first registration"), hset)
        await self.register(other, self.queue_datas)
        await self.measure("removal", lambda: self.routes.unregister_broker("c1", "10.0.0.2:10911", "broker-b"))

        async def heartbeats() -> None:
            for _ in range(HEARTBEATS):
                beat = await self.routes.heartbeat("c1", "broker-a", 0, "10.0.0.1:10911", "d", self.channel, 1)
                assert beat.same

        await self.measure("heartbeat", heartbeats)
        await self.measure("snapshot page", lambda: read_tables(self.store), ("evalsha", "hgetall", "hscan"))
        await self.one_changed_topic()

    async def one_changed_topic(self) -> None:
        """Change one topic of the broker with 10,000 topics and of a broker with two topics, in turn."""
        two = {"a": QueueData(8, 8, 6), "b": QueueData(8, 8, 6)}
        small = self.registration("small", "10.0.0.3:10911", two)
        await self.register(small, two)
        totals = {"broker-a": 0.0, "small": 0.0}
        for i in range(CHANGES):
            queue_data = QueueData(i + 1, i + 1, 6)
            for name, addr, topics, topic in (
                ("broker-a", "10.0.0.1:10911", self.queue_datas, self.names[i]),
                ("small", "10.0.0.3:10911", two, "a"),
            ):
                await self.register(self.registration(name, addr, topics, i + 2), {topic: queue_data})
                totals[name] += self.last_ms / CHANGES
        self.samples.setdefault("one changed topic among 10,000", []).append(totals["broker-a"])
        self.samples.setdefault("one changed topic of a broker of two", []).append(totals["small"])
        self.ratio("one changed topic", totals["broker-a"], totals["small"])

    def ratio(self, what: str, measured: float, bare: float) -> None:
        self.samples.setdefault(f"{what} ratio", []).append(measured / bare)

    def bars(self) -> list[ScriptBar]:
        def note(measured: str, bare: str) -> str:
            first, second = (statistics.median(self.samples[name]) for name in (measured, bare))
            return f"{first:.2f} ms against {second:.2f} ms"

        s = self.samples
        return [
            ScriptBar("heartbeat of a 10,000-topic registration", "ms", 0.1, s["heartbeat"], ""),
            ScriptBar("first registration of 10,000 topics / bare HSET of these", "x", 1.6,
                s["first registration ratio"], note("first registration", "bare HSET loop")),
            ScriptBar("one changed topic among 10,000 / of a broker of two", "x", 1.5, s["one changed topic ratio"],
                note("one changed topic among 10,000", "one changed topic of a broker of two")),
            ScriptBar("removal of 10,000 topics", "ms", 1.0, s["removal"], ""),
            ScriptBar("snapshot page (mean of a whole snapshot)", "ms", 1.0, s["snapshot page"], ""),
        ]  # fmt: skip


async def run(url: str, rounds: int, topics: int) -> Bench:
    async with Store(url, "bench", timeout_ms=20_000) as store:
        bench = Bench(store, topics)
        await bench.fresh_lua()
        for _ in range(rounds):
            await bench.round()
        return bench


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--json", type=Path, help="also write every sample to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mq") as folder, EmbeddedRedis(Path(folder)) as server:
        bench = asyncio.run(run(server.url, options.rounds, options.topics))
    bars = bench.bars()
    print(f"{options.rounds} rounds, medians (lowest); times as Redis counts them\n")
    print("| what | bar | measured | held | |\n| --- | --- | --- | --- | --- |")
    for bar in bars:
        print(
            f"| {bar.what} | ≤ {bar.limit:g} {bar.unit} | {bar.measured:.3f} {bar.unit} ({min(bar.values):.3f}) "
            f"| {'yes' if bar.held else 'NO'} | {bar.note} |"
        )
    if options.json:
        options.json.write_text(json.dumps(bench.samples, indent=1))
    return 0 if all(bar.held for bar in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
