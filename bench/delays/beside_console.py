"""Measures how a console with open pages slows lookups down: their latency at a front end without and with it.

Rounds with and without a console run in turn, at the same steady rate of lookups; the tables change in both. A console
on a different machine would cost less. The load generator, which never sleeps, has a core of its own; Redis, front end
and console share the other one. Browsers would run on other machines: so what the console sends to the pages stays in
the buffers of their sockets, and is counted when a round is over.
"""

from __future__ import annotations

import asyncio
import socket
import statistics
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

from bench.delays.lag import NAMESPACE, FrontEndProcess
from bench.load.plan import lookup, write_lookups
from bench.load.tool import LoadGenerator
from bench.servers.console_pages import KV_NAMESPACE, console
from bench.servers.wire import ask, registration
from mqregistry.protocol.command import Command

TOPICS = 1_000
RATE = 2_000.0
CONNECTIONS = 64
CHANGES_PER_S = 20.0
_VERSION = 479
_BEAT_EVERY = 600  # changes: half a minute


class Latency(NamedTuple):
    """Latency of the lookups of one round, in ms; cpu_us: CPU time of the front end's worker for each lookup."""

    p50: float
    p99: float
    cpu_us: float = 0.0


class Beside(NamedTuple):
    """The rounds without a console and those beside a console, each in the order in which they ran."""

    without: list[Latency]
    beside: list[Latency]

    def ratio(self, of: str) -> float:
        """The median of the rounds with a console over the median of those without."""
        return statistics.median(getattr(one, of) for one in self.beside) / statistics.median(
            getattr(one, of) for one in self.without
        )


def put(connection: socket.socket, key: str, value: str) -> None:
    """Set a key of the KV configuration at a front end (100)."""
    answer = ask(
        connection,
        Command(code=100, opaque=1, version=_VERSION,
                ext_fields={"namespace": KV_NAMESPACE, "key": key, "value": value}),
    )  # fmt: skip
    if answer.code != 0:
        raise RuntimeError(f"request 100 failed: {answer.remark}")


@contextmanager
def changing(port: int) -> Iterator[None]:
    """Register a broker with the topics, and change the tables over its connection until the context ends."""
    end = threading.Event()
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        registration(connection, TOPICS)

        def change() -> None:
            number = 0
            while not end.wait(1 / CHANGES_PER_S):
                number += 1
                put(connection, str(number % 100), str(number))
                if number % _BEAT_EVERY == 0:
                    registration(connection, TOPICS)

        thread = threading.Thread(target=change)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()


def share(server_cores: Sequence[int]) -> None:
    """Pin this process and all of its child processes to these cores."""
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        if server_cores:
            process.cpu_affinity(list(server_cores))


async def measure(
    redis: str, folder: Path, *, rounds: int, seconds: float, pages: int, generator_cores: Sequence[int] = (),
    started: Callable[[], None] = lambda: None,
) -> Beside:  # fmt: skip
    """Measure rounds without and with a console in turn; which comes first alternates.

    Args:
        started: is called when Redis and the front end run.
    """
    front_end = FrontEndProcess(redis, workers=1)
    try:
        topics = [f"a-topic-of-usual-length-{number:05}" for number in range(TOPICS)]
        write_lookups(folder / "lookups", [lookup(topic, _VERSION) for topic in topics])
        started()
        generator = LoadGenerator(front_end.port, folder / "lookups", None, generator_cores)
        with changing(front_end.port), generator:
            generator.once()
            (worker,) = psutil.Process(front_end.process.pid).children()

            async def load() -> Latency:
                before_s = sum(worker.cpu_times()[:2])
                done = await asyncio.to_thread(
                    generator.run, rate=RATE, connections=CONNECTIONS, seconds=seconds, warmup_s=min(1.0, seconds)
                )
                latency = done.lookups.latency
                if done.lookups.wrong or done.lookups.lost:
                    raise RuntimeError(f"{done.lookups.wrong} wrong answers, {done.lookups.lost} that never came")
                cpu_us = (sum(worker.cpu_times()[:2]) - before_s) / done.lookups.answered * 1e6
                return Latency(latency.percentile_ms(50), latency.percentile_ms(99), cpu_us)

            async def load_beside() -> Latency:
                async with console(redis, NAMESPACE, folder) as opened:
                    opened.open_unread_pages(pages)
                    latency = await load()
                    if not all(opened.read_all()):
                        raise RuntimeError("a page got no change")
                    return latency

            found = Beside([], [])
            for number in range(rounds):
                order = [(found.without, load), (found.beside, load_beside)]
                for into, one in order if number % 2 == 0 else reversed(order):
                    into.append(await one())
            return found
    finally:
        front_end.stop()
