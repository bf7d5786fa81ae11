"""Measures how many heartbeats and changed topics a second one Redis handles, from one, two and four front ends."""

from __future__ import annotations

import asyncio
import socket
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.load.shapes import Variant, clusters
from bench.load.tool import LoadGenerator, LoadResult
from bench.servers.peers import OurServer
from bench.servers.processes import Processes
from mqregistry.model import DataVersion, QueueData, Registration
from mqregistry.store import keys, scripts
from mqregistry.store.route_writes import Channel, RegistrationDiff, RouteStore
from mqregistry.store.snapshot import read_head
from mqregistry.store.store import Store

FRONT_ENDS = (1, 2, 4)
BROKERS, TOPICS = 64, 100
FLEET = clusters("fleet", f"{BROKERS} brokers of {TOPICS} topics", 8, BROKERS // 8, TOPICS, all_by=BROKERS)
Say = Callable[[str], None]


def measure(say: Say, seconds: float, redis_cores: Sequence[int], other_cores: Sequence[int]) -> dict[str, Any]:
    """One row for each number of front ends, and the rate of heartbeat scripts when only Redis limits it.

    Redis shares a core only with the generators; the front ends share the other core.
    """
    with tempfile.TemporaryDirectory(prefix="mqb", ignore_cleanup_errors=True) as name:
        rows = [_through(count, Path(name), say, seconds, redis_cores, other_cores) for count in FRONT_ENDS]
        straight = _straight(Path(name), seconds, redis_cores)
    say(f"heartbeat scripts straight into Redis: {straight:,.0f}/s")
    return {"rows": rows, "scripts_a_second": straight}


def _through(
    count: int, folder: Path, say: Say, seconds: float, redis_cores: Sequence[int], other_cores: Sequence[int]
) -> dict[str, Any]:
    lookups, registrations = FLEET.write(folder)
    processes = Processes(Path(tempfile.mkdtemp(prefix="mq", dir=folder)))
    with ExitStack() as stack:
        stack.callback(processes.close)
        server = OurServer(1, count, processes, redis_cores, f"{count} front ends", other_cores)
        stack.callback(server.stop)
        generators = [
            stack.enter_context(LoadGenerator(port, lookups, registrations, redis_cores)) for port in server.ports
        ]
        for generator in generators:  # every broker at every front end, as brokers do
            result = generator.run(reg_parallel=BROKERS, reg_each=1)
            assert result.registrations.codes == {"0": BROKERS}, result.registrations
        row: dict[str, Any] = {"front_ends": count}
        row |= _costs("heartbeat", server, generators, seconds, reg_parallel=BROKERS, reg_keep=1)
        share = BROKERS // count
        row |= _costs(
            "changed", server, generators, seconds, divide=TOPICS, first=share, reg_parallel=share,
            reg_a=int(Variant.ALL), reg_b=int(Variant.BASE),
        )  # fmt: skip
    say(f"{count} front end(s): {row['heartbeat_rate']:,.0f} heartbeats/s, {row['changed_rate']:,.0f} changed topics/s")
    return row


def _costs(
    what: str,
    server: OurServer,
    generators: Sequence[LoadGenerator],
    seconds: float,
    *,
    divide: int = 1,
    first: int = 0,
    **options: int,
) -> dict[str, float]:
    """Rate and CPU of one kind of registration at all front ends at once.

    divide: topics of a registration. first: generator number N begins with broker number N * first.
    """
    redis_s, all_s, began = server.redis_cpu_s(), server.cost().cpu_s, time.monotonic()
    for place, generator in enumerate(generators):
        generator.begin(seconds=seconds, drain_s=30, reg_first=first * place, **options)
    results: list[LoadResult] = [generator.finish() for generator in generators]
    elapsed_s = time.monotonic() - began
    redis_s, all_s = server.redis_cpu_s() - redis_s, server.cost().cpu_s - all_s
    wrong = [result.registrations.codes for result in results if result.registrations.codes.keys() - {"0"}]
    assert not wrong, wrong
    done = sum(result.registrations.answered for result in results) * divide
    return {
        f"{what}_rate": done / elapsed_s,
        f"{what}_redis_us": redis_s / done * 1e6,
        f"{what}_front_end_us": (all_s - redis_s) / done * 1e6,
        f"{what}_redis_load": redis_s / elapsed_s,
    }


def _straight(folder: Path, seconds: float, cores: Sequence[int]) -> float:
    """Heartbeat scripts a second when only Redis limits them: raw bytes, many requests in flight."""
    processes = Processes(Path(tempfile.mkdtemp(prefix="mq", dir=folder)))
    with ExitStack() as stack:
        stack.callback(processes.close)
        server = OurServer(1, 1, processes, cores, "straight")
        stack.callback(server.stop)
        command = asyncio.run(_a_heartbeat(f"unix://{server.redis_socket}"))
        at_once, done = 200, 0
        batch = command * at_once
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(server.redis_socket)
            line.sendall(command)
            one = line.recv(65536)  # every answer has this length
            assert b"SAME" in one, one
            line.sendall(batch)
            began = time.monotonic()
            while time.monotonic() - began < seconds:
                line.sendall(batch)  # Redis always has the next batch in its buffer
                _receive(line, len(one) * at_once)
                done += at_once
            return done / (time.monotonic() - began)


def _receive(line: socket.socket, count: int) -> None:
    while count:
        got = len(line.recv(min(count, 1 << 20)))
        assert got, "Redis hung up"
        count -= got


async def _a_heartbeat(url: str) -> bytes:
    """Register a broker; the bytes of its heartbeat's call of the script."""
    async with Store(url, "straight") as store:
        await store.init_namespace()
        routes, channel = RouteStore(store), Channel("front-end", "worker/1")
        r = Registration(
            "c1", "broker-a", 0, "10.0.0.1:10911", ha_server_addr="10.0.0.1:10912",
            data_version=DataVersion(1, 1000, 0),
            topics={topic: QueueData(8, 8, 6) for topic in ("t1", "t2")},
        )  # fmt: skip
        head = await read_head(store)
        beat = await routes.heartbeat("c1", r.broker_name, 0, r.broker_addr, "d", channel)
        diff = RegistrationDiff(head.epoch, 0, beat.n, head.config_rev, r.topics, [], [])
        written = await routes.register_broker(r, diff, digest="d", channel=channel, body_bytes=1)
        assert written.status == "OK", written
        return _resp(
            "EVALSHA", scripts.load()["heartbeat"].sha, 1, keys.meta("straight"), f"c1|{r.broker_addr}", "c1",
            r.broker_name, 0, "d", *channel, 1, "",
        )  # fmt: skip


def _resp(*words: str | int) -> bytes:
    encoded = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded)
