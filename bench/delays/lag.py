"""Measures how long a change takes to reach every front end: from the end of its script to the first answer with it.

A probe runs a script on Redis (`put_kv`) and then asks every worker process of every front end without a pause, each
over a connection of its own, until the new value comes. Meanwhile there is a load: brokers register again and again
with a few changed topics, at all front ends, and clients look up routes.

Bars: p50 <= 3 ms, p99.9 <= 50 ms, over all workers.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import psutil
import redis

from bench.servers.processes import free_port
from bench.servers.wire import answers, ask, registration_frame
from mqregistry.embedded import EmbeddedRedis
from mqregistry.events.by import DIRECT, this_process
from mqregistry.protocol.codes import RequestCode
from mqregistry.protocol.command import Command, decode_command, encode_command
from mqregistry.protocol.frame import FrameReader
from mqregistry.store import keys, scripts

NAMESPACE = "lag"
FIRST_PORT = 20_000  # of the brokers; a broker's port is part of its name
KV_NAMESPACE, KV_KEY = "lag", "probe"
GIVE_UP_S = 30.0
BAR_P50_MS, BAR_P999_MS = 3.0, 50.0


class FrontEndProcess:
    """`mqregistry serve`, and a connection to each of its workers."""

    def __init__(self, redis_url: str, workers: int) -> None:
        self.port = free_port()
        command = [
            sys.executable, "-m", "mqregistry", "serve", "--redis", redis_url, "--namespace", NAMESPACE,
            "--host", "127.0.0.1", "--port", str(self.port), "--http-port", "0", "--workers", str(workers),
            "--log-level", "error",
        ]  # fmt: skip
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
        while not answers(self.port):
            if self.process.poll() is not None:
                raise SystemExit(f"mqregistry serve ended with {self.process.returncode}")
            time.sleep(0.01)

    def connections(self) -> list[socket.socket]:
        """Open one connection to each worker; the kernel chooses the worker, so connect until each worker has one."""
        workers = psutil.Process(self.process.pid).children()
        found: dict[int, socket.socket] = {}
        while len(found) < len(workers):
            connection = socket.create_connection(("127.0.0.1", self.port), timeout=GIVE_UP_S)
            ask(connection, Command(code=RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, opaque=1, version=479))
            mine = connection.getsockname()[1]
            (holder,) = (
                worker.pid
                for worker in workers
                if any(other.raddr and other.raddr.port == mine for other in worker.net_connections("tcp"))
            )
            if holder in found:
                connection.close()
            else:
                found[holder] = connection
        return list(found.values())

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


class Prober:
    """Runs scripts on Redis, and measures when each worker shows their change."""

    def __init__(self, redis_url: str, workers: list[socket.socket]) -> None:
        self._redis = redis.Redis.from_url(redis_url, protocol=2)
        self._put = scripts.load()["put_kv"]
        self._by = this_process(DIRECT).encoded()
        self._workers = workers
        self._opaque = 0
        self.lags_ms: list[list[float]] = [[] for _ in workers]
        self.script_ms: list[float] = []

    def probe(self, number: int) -> None:
        """Make one change and wait until every worker shows it."""
        value = str(number)
        began = time.perf_counter()
        self._redis.eval(self._put.source, 1, keys.meta(NAMESPACE), KV_NAMESPACE, KV_KEY, "1", value, self._by)
        ended = time.perf_counter()
        self.script_ms.append((ended - began) * 1000)
        waiting = {worker: (number_, FrameReader()) for number_, worker in enumerate(self._workers)}
        for worker in waiting:
            self._ask(worker)
        while waiting:
            readable, _, _ = select.select(list(waiting), [], [], GIVE_UP_S)
            if not readable:
                raise SystemExit(f"a worker has not answered, or not shown a change, in {GIVE_UP_S:g} s")
            for worker in readable:
                index, reader = waiting[worker]
                for frame in reader.feed(worker.recv(1 << 16)):
                    answer = decode_command(frame)
                    if answer is not None and (answer.ext_fields or {}).get("value") == value:
                        self.lags_ms[index].append((time.perf_counter() - ended) * 1000)
                        del waiting[worker]
                    else:
                        self._ask(worker)

    def _ask(self, worker: socket.socket) -> None:
        self._opaque += 1
        ext = {"namespace": KV_NAMESPACE, "key": KV_KEY}
        worker.sendall(encode_command(Command(code=101, opaque=self._opaque, version=479, ext_fields=ext)))


def brokers(ports: list[int], count: int, topics: int, changed: int, every_s: float, ready: Event, stop: Event) -> None:
    """Run in a process: each broker registers at every front end, and again after its period."""
    connections = [
        [socket.create_connection(("127.0.0.1", port), timeout=GIVE_UP_S) for port in ports] for _ in range(count)
    ]
    counter, due = 0, time.monotonic()
    while not stop.is_set():
        number, counter = counter % count, counter + 1
        command = registration_frame(
            topics, changed=changed, counter=1 + counter // count, port=FIRST_PORT + number
        )  # fmt: skip
        frame = encode_command(command)
        for connection in connections[number]:
            connection.sendall(frame)
        for connection in connections[number]:
            if read_answer(connection).code != 0:
                raise SystemExit("a registration was refused")
        if counter == count:
            ready.set()
            due = time.monotonic()
        if counter >= count:
            due += every_s / count
            stop.wait(max(0.0, due - time.monotonic()))


def lookups(ports: list[int], topics: int, rate: int, stop: Event) -> None:
    """Run in a process: `rate` lookups per second in all, in bursts every 10 ms, over four connections per port."""
    connections = [socket.create_connection(("127.0.0.1", port), timeout=GIVE_UP_S) for port in ports * 4]
    frames = [
        encode_command(
            Command(code=105, opaque=n, version=479, ext_fields={"topic": f"a-topic-of-usual-length-{n:05}"})
        )
        for n in range(0, topics, max(1, topics // 500))
    ]
    due = time.monotonic()
    while not stop.is_set():
        asked = []
        for _ in range(rate // 100):
            connection = random.choice(connections)
            connection.sendall(random.choice(frames))
            asked.append(connection)
        for connection in asked:
            read_answer(connection)
        due = max(due + 0.01, time.monotonic() - 0.1)
        time.sleep(max(0.0, due - time.monotonic()))


_readers: dict[socket.socket, tuple[FrameReader, list[bytes]]] = {}


def read_answer(connection: socket.socket) -> Command:
    """The next answer of a connection on which several requests may wait for answers."""
    reader, frames = _readers.setdefault(connection, (FrameReader(), []))
    while not frames:
        data = connection.recv(1 << 18)
        if not data:
            raise ConnectionError("the name server closed the connection")
        frames += reader.feed(data)
    answer = decode_command(frames.pop(0))
    assert answer is not None
    return answer


@contextmanager
def load(ports: list[int], options: argparse.Namespace) -> Iterator[None]:
    """Register all brokers, then run the load during the context."""
    context = multiprocessing.get_context("spawn")
    ready, stop = context.Event(), context.Event()
    processes = [
        context.Process(
            target=brokers,
            args=(ports, options.brokers, options.topics, options.changed, options.every_s, ready, stop),
            daemon=True,
        ),
        context.Process(target=lookups, args=(ports, options.topics, options.lookups, stop), daemon=True),
    ]
    if options.brokers:
        processes[0].start()
        while not ready.wait(0.2):
            if not processes[0].is_alive():
                raise SystemExit("the brokers could not register")
    if options.lookups:
        processes[1].start()
    try:
        yield
        for process in processes:
            if process.pid is not None and not process.is_alive():
                raise SystemExit("the load ended early: the measured figures are invalid")
    finally:
        stop.set()
        for process in processes:
            if process.pid is not None:
                process.join(GIVE_UP_S)


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def report(prober: Prober, workers: int) -> dict[str, Any]:
    """Print the table; returns the figures over all workers."""
    print("| changes seen at | probes | p50 | p99 | p99.9 | longest |\n| --- | --- | --- | --- | --- | --- |")
    everything = [lag for lags in prober.lags_ms for lag in lags]
    rows = [(f"front end {n // workers + 1}, worker {n % workers + 1}", lags) for n, lags in enumerate(prober.lags_ms)]
    for what, lags in [*rows, ("all", everything)]:
        figures = " | ".join(f"{quantile(lags, share):.2f} ms" for share in (0.5, 0.99, 0.999, 1.0))
        print(f"| {what} | {len(lags)} | {figures} |")
    print(f"\nThe probe's own script, there and back: {quantile(prober.script_ms, 0.5):.2f} ms (p50), "
          f"{quantile(prober.script_ms, 0.999):.2f} ms (p99.9)")  # fmt: skip
    return {
        "p50_ms": quantile(everything, 0.5),
        "p99_ms": quantile(everything, 0.99),
        "p99.9_ms": quantile(everything, 0.999),
        "longest_ms": max(everything),
        "lags_ms": prober.lags_ms,
    }


def main() -> int:
    """Print the table; 0 when every bar held."""
    parser = argparse.ArgumentParser(prog="python -m bench lag", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--probes", type=float, default=40.0, help="a second")
    parser.add_argument("--front-ends", type=int, default=2)
    parser.add_argument("--workers", type=int, default=1, help="of each front end")
    parser.add_argument("--brokers", type=int, default=32)
    parser.add_argument("--topics", type=int, default=10_000, help="of each broker; all have the same")
    parser.add_argument("--changed", type=int, default=10, help="topics that a broker changes between registrations")
    parser.add_argument("--every-s", type=float, default=30.0, help="between two registrations of a broker")
    parser.add_argument("--lookups", type=int, default=2000, help="a second, at all front ends together")
    parser.add_argument("--json", type=Path, help="also write every sample to this file")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="mqlag"))
        url = stack.enter_context(EmbeddedRedis(Path(folder))).url
        front_ends = []
        for _ in range(options.front_ends):
            front_ends.append(FrontEndProcess(url, options.workers))
            stack.callback(front_ends[-1].stop)
        prober = Prober(url, [connection for front_end in front_ends for connection in front_end.connections()])
        with load([front_end.port for front_end in front_ends], options):
            end = time.monotonic() + options.seconds
            number = 0
            while time.monotonic() < end:
                number += 1
                prober.probe(number)
                time.sleep(random.expovariate(options.probes))
        print(
            f"{options.brokers} brokers of {options.topics:,} topics registering every {options.every_s:g} s with "
            f"{options.changed} changed, {options.lookups:,} lookups a second; {options.front_ends} front end(s) of "
            f"{options.workers} worker(s), {psutil.cpu_count()} cores, load {psutil.getloadavg()[0]:.1f}\n"
        )
        figures = report(prober, options.workers)
    if options.json:
        options.json.write_text(json.dumps(figures))
    held = figures["p50_ms"] <= BAR_P50_MS and figures["p99.9_ms"] <= BAR_P999_MS
    print(f"\nBars: p50 ≤ {BAR_P50_MS:g} ms, p99.9 ≤ {BAR_P999_MS:g} ms: {'held' if held else 'NOT held'}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
