"""Measures what grows with brokers and topics: memory, a round of heartbeats, a restart, and the largest routes.

Like real brokers, each broker also has the default topics. The route of a default topic has an entry for every broker,
so it grows with the number of brokers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import redis

from bench.load import plan
from bench.load.histogram import Histogram
from bench.load.plan import read_answers
from bench.load.shapes import VERSION, TableShape, Variant, narrow
from bench.load.tool import LoadFailed, LoadGenerator
from bench.servers.peers import OurServer
from bench.servers.processes import Processes
from bench.servers.wire import ask
from mqregistry.protocol.command import Command

WIDTH = 4
DEFAULT_TOPICS = (
    "TBW102", "SCHEDULE_TOPIC_XXXX", "BenchmarkTest", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT",
    "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC",
)  # fmt: skip
LEAVERS = 50
SAMPLE = 10_000
"""How many topics are looked up and checked."""
STALL_S = 900.0
"""Longer than it takes until all brokers have registered at once, also on a busy machine."""
SILENT_MS = 3_600_000
"""So long that no broker expires and no connection is idle for too long, even on a slow machine."""
PATIENT = f"serverChannelMaxIdleTimeSeconds={SILENT_MS // 1000}\n"
BIG_ROUTES_A_SECOND = 10
LOOKUPS_A_SECOND = 1000
Say = Callable[[str], None]


def fleet(brokers: int, topics_each: int) -> TableShape:
    """The tables: topics on 4 brokers each, then the default topics on all brokers."""
    own = narrow("size", "", brokers * topics_each // WIDTH, brokers, WIDTH)
    count = len(own.topics)
    everywhere = tuple(range(count, count + len(DEFAULT_TOPICS)))
    return TableShape(
        f"size-{brokers}",
        f"{brokers:,} brokers, {count:,} topics on {WIDTH} brokers each, {len(DEFAULT_TOPICS)} default topics on all",
        (*own.topics, *DEFAULT_TOPICS),
        tuple(dataclasses.replace(broker, topics=(*everywhere, *broker.topics)) for broker in own.brokers),
        all_by=1,
        timeout_ms=SILENT_MS,
    )


def measure(
    say: Say, brokers: int, topics_each: int, seconds: float, server_cores: Sequence[int], other_cores: Sequence[int]
) -> dict[str, Any]:
    """Run all steps, with all processes of mqregistry on the server core."""
    shape = fleet(brokers, topics_each)
    say(shape.what)
    with tempfile.TemporaryDirectory(prefix="mqb", ignore_cleanup_errors=True) as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        _, registrations = shape.write(folder)
        asked = list(range(0, len(shape.topics) - len(DEFAULT_TOPICS), max(1, len(shape.topics) // SAMPLE)))
        lookups = folder / "sample"
        plan.write_lookups(lookups, [plan.lookup(shape.topics[number], VERSION) for number in asked])
        processes = Processes(Path(tempfile.mkdtemp(prefix="mq", dir=folder)))
        stack.callback(processes.close)
        patient = folder / "patient.properties"
        patient.write_text(PATIENT)
        server = OurServer(1, 1, processes, server_cores, "size", settings=("-c", str(patient)))
        stack.callback(server.stop)
        generator = stack.enter_context(LoadGenerator(server.port, lookups, registrations, other_cores))
        asker = stack.enter_context(LoadGenerator(server.port, lookups, None, other_cores))
        found: dict[str, Any] = {"brokers": brokers, "topics": len(shape.topics), "what": shape.what}
        step = _Step(server, generator, asker, shape, found, say)
        try:
            step.fill()
            step.check(asked, folder / "bodies")
            step.heartbeats()
            step.lookups(seconds)
            step.big_answers()
            step.beside_big_routes(seconds)
            step.leave_and_come()
            step.rebuild()
        except LoadFailed as error:
            raise LoadFailed(f"{error}; the server said last:\n{server.tail()}") from error
    return found


class _Step:
    def __init__(
        self, server: OurServer, generator: LoadGenerator, asker: LoadGenerator, shape: TableShape,
        found: dict[str, Any], say: Say,
    ) -> None:  # fmt: skip
        self.server, self.generator, self.asker = server, generator, asker
        self.shape, self.found, self.say = shape, found, say

    @contextlib.contextmanager
    def _cost(self, what: str) -> Iterator[None]:
        """Record the seconds that the context takes, and the CPU seconds of Redis and of the front end."""
        redis_s, all_s, began = self.server.redis_cpu_s(), self.server.cost().cpu_s, time.monotonic()
        yield
        elapsed_s = time.monotonic() - began
        redis_s, all_s = self.server.redis_cpu_s() - redis_s, self.server.cost().cpu_s - all_s
        self.found[what] = {"s": elapsed_s, "redis_cpu_s": redis_s, "front_end_cpu_s": all_s - redis_s}
        self.say(f"{what}: {elapsed_s:.2f} s, CPU: Redis {redis_s:.2f} s, front end {all_s - redis_s:.2f} s")

    def _memory(self, what: str) -> None:
        parts = self.server.pss_by_process()
        # while Redis rewrites its append-only file, it is two processes that share most of their memory
        redis_mb = sum(mb for name, mb in parts.items() if "redis" in name)
        worker_mb = max(mb for name, mb in parts.items() if "redis" not in name)
        self.found[what] = {"redis_mb": redis_mb, "worker_mb": worker_mb}
        self.say(f"{what}: Redis {redis_mb:.0f} MB, worker {worker_mb:.0f} MB")

    def _register_all(self, variant: Variant = Variant.BASE, count: int = 0, *, keep: bool = True) -> int:
        """Let all brokers (or the first few) register at once; returns how many were refused.

        Raises:
            LoadFailed: the front end closed a broker's connection.
        """
        count = count or len(self.shape.brokers)
        done = self.generator.run(
            reg_parallel=count, reg_each=1, reg_a=int(variant), reg_b=int(variant), reg_keep=int(keep), stall_s=STALL_S
        ).registrations
        return count - done.codes.get("0", 0)

    @contextlib.contextmanager
    def _small_lookups_beside(self, what: str) -> Iterator[None]:
        """Look up small routes during this context and up to two seconds longer, over connections opened before."""
        with self.asker.lookups_beside(LOOKUPS_A_SECOND) as parts:
            yield
        self._latency(what, Histogram.sum(parts))

    def _latency(self, what: str, latency: Histogram) -> None:
        self.found[what] = {"p50_ms": latency.percentile_ms(50), "p99_ms": latency.percentile_ms(99)}
        self.say(f"{what}: p50 {latency.percentile_ms(50):.2f}, p99 {latency.percentile_ms(99):.2f} ms")

    def fill(self) -> None:
        with self._small_lookups_beside("small lookups while all register"), self._cost("fill"):
            refused = self._register_all(keep=False)
        assert not refused, f"{refused} brokers were refused"
        self._memory("filled")

    def check(self, asked: Sequence[int], bodies: Path) -> None:
        self.generator.once(bodies)
        answers = read_answers(bodies)
        wrong = [text for n, answer in zip(asked, answers, strict=True) if (text := self.shape.wrongs(n, answer))]
        assert not wrong, wrong[:3]

    def heartbeats(self) -> None:
        with self._small_lookups_beside("small lookups while all beat"), self._cost("heartbeat round"):
            refused = self._register_all()
        assert not refused, f"{refused} heartbeats were refused"

    def lookups(self, seconds: float) -> None:
        before = self.server.cost().cpu_s
        result = self.generator.run(connections=64, inflight=1, seconds=seconds)
        cpu_us = (self.server.cost().cpu_s - before) / max(1, result.lookups.answered) * 1e6
        assert not result.lookups.wrong
        self.found["lookup"] = {"rate": result.rate, "cpu_us": cpu_us}
        self.say(f"lookups: {result.rate:,.0f}/s, {cpu_us:.1f} µs CPU")

    def big_answers(self) -> None:
        """Record the size of large answers, and the milliseconds of the first request and of later ones."""
        with contextlib.closing(socket.create_connection(("127.0.0.1", self.server.port), timeout=60)) as line:
            for what, code, fields in (
                ("TBW102", 105, {"topic": "TBW102"}), ("clusters (106)", 106, {}), ("topics (206)", 206, {}),
            ):  # fmt: skip
                took_ms, size = [], 0
                for _ in range(8):
                    began = time.perf_counter()
                    answer = ask(line, Command(code=code, opaque=1, version=VERSION, ext_fields=fields))
                    took_ms.append((time.perf_counter() - began) * 1e3)
                    assert answer.code == 0, answer
                    size = len(answer.body)
                self.found[what] = {"bytes": size, "first_ms": took_ms[0], "ms": statistics.median(took_ms[1:])}
                self.say(f"{what}: {size / 1e6:.2f} MB, {took_ms[0]:.1f} ms, again {self.found[what]['ms']:.1f} ms")

    def beside_big_routes(self, seconds: float) -> None:
        """Look up small routes alone, while a client asks for a default topic, and while that topic also changes."""
        self._small_lookups("small lookups alone", seconds)
        for what, changes in (("beside TBW102", False), ("beside TBW102 that changes", True)):
            stop = threading.Event()
            thread = threading.Thread(target=self._ask_big, args=(stop, changes))
            thread.start()
            try:
                self._small_lookups(f"small lookups {what}", seconds)
            finally:
                stop.set()
                thread.join()

    def _small_lookups(self, what: str, seconds: float) -> None:
        result = self.generator.run(
            connections=16, rate=LOOKUPS_A_SECOND, seconds=seconds, warmup_s=0.3, drain_s=20
        )  # fmt: skip
        self._latency(what, result.lookups.latency)

    def _ask_big(self, stop: threading.Event, changes: bool) -> None:
        """changes: each second a broker loses its write permission and gets it back, which changes all its topics."""
        fields, asked = {"brokerName": self.shape.brokers[0].name}, 0
        with contextlib.closing(socket.create_connection(("127.0.0.1", self.server.port), timeout=60)) as line:
            while not stop.wait(1 / BIG_ROUTES_A_SECOND):
                ask(line, Command(code=105, opaque=1, version=VERSION, ext_fields={"topic": "TBW102"}))
                asked += 1
                if changes and asked % BIG_ROUTES_A_SECOND == 0:
                    ask(line, Command(code=205, opaque=2, version=VERSION, ext_fields=fields))
                    ask(line, Command(code=327, opaque=3, version=VERSION, ext_fields=fields))

    def leave_and_come(self) -> None:
        """Let some brokers unregister at once, and register again."""
        self.found["leavers"] = leavers = min(LEAVERS, len(self.shape.brokers) // 2)
        with self._cost("brokers leave"):
            refused = self._register_all(Variant.LEAVE, leavers)
        with self._cost("and come again"):
            refused += self._register_all(Variant.BASE, leavers, keep=False)
        assert not refused

    @contextlib.contextmanager
    def _lookups_go_on(self) -> Iterator[list[float]]:
        """Look up routes from one client without a pause; the list gets the times between right answers."""
        pauses_s, done = list[float](), threading.Event()

        def ask_on() -> None:
            number, answered_at = 0, time.monotonic()
            while not done.is_set():
                with (
                    contextlib.suppress(OSError),
                    socket.create_connection(("127.0.0.1", self.server.port), 20) as line,
                ):
                    while not done.wait(0.02):
                        number = (number + 997) % (len(self.shape.topics) - len(DEFAULT_TOPICS))
                        fields = {"topic": self.shape.topics[number]}
                        if ask(line, Command(code=105, opaque=1, version=VERSION, ext_fields=fields)).code == 0:
                            pauses_s.append(time.monotonic() - answered_at)
                            answered_at = time.monotonic()

        asking = threading.Thread(target=ask_on)
        asking.start()
        try:
            yield pauses_s
        finally:
            done.set()
            asking.join()

    def rebuild(self) -> None:
        """Restart the front end, which reads all tables from Redis; no broker registers meanwhile."""
        self._register_all()
        with redis.Redis(unix_socket_path=self.server.redis_socket, protocol=2) as client:
            client.config_set("slowlog-log-slower-than", 1000)
            client.config_set("slowlog-max-len", 100_000)
            client.slowlog_reset()
            redis_s = self.server.redis_cpu_s()
            with self._lookups_go_on() as pauses_s:
                self.server.restart_front_end()
            redis_s, all_s = self.server.redis_cpu_s() - redis_s, self.server.cost().cpu_s - self.server.redis_cpu_s()
            longest_ms = max((entry["duration"] / 1000 for entry in client.slowlog_get(100_000)), default=0.0)
        lookup_s = max(pauses_s, default=0.0)  # empty if the front end was ready before the first lookup
        self.found["rebuild"] = {
            "s": self.server.start_s, "redis_cpu_s": redis_s, "front_end_cpu_s": all_s, "longest_ms": longest_ms,
            "lookup_s": lookup_s,
        }  # fmt: skip
        self.say(
            f"rebuild: {self.server.start_s:.2f} s, a route after {lookup_s:.2f} s, CPU: Redis {redis_s:.2f} s, "
            f"front end {all_s:.2f} s; "
            f"longest page {longest_ms:.1f} ms"
        )
        self._memory("rebuilt")
