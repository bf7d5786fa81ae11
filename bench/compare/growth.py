"""S8: measures what a lookup, a heartbeat, a changed topic and a topic's memory cost as tables and front ends grow."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.compare.comparison import Comparison
from bench.compare.life import Life, Record
from bench.load.shapes import GROWTH, TableShape, Variant
from bench.load.tool import LoadGenerator
from bench.servers.checkout import Checkout
from bench.servers.peers import Ours, OurServer
from bench.servers.processes import Processes

FRONT_ENDS = (2, 4)
TIMES = 3
"""How many times each cost is measured; the median counts."""
ASKS_BEFORE = 2
"""How many times every topic is looked up before measuring, so that all answers are encoded."""


def measure(run: Comparison, beside: Sequence[Checkout] = ()) -> None:
    """Measure every size with one front end, then the middle size with more, for this and each other checkout."""
    for front_ends, shape in (*((1, shape) for shape in GROWTH), *((count, GROWTH[1]) for count in FRONT_ENDS)):
        for checkout in (None, *beside):
            _one(run, Ours(front_ends=front_ends, checkout=checkout), shape)


def peer_name(front_ends: int, checkout: str = "") -> str:
    """The name in the records for this checkout, or for the one with the given name."""
    return f"S8 {front_ends}, {checkout}" if checkout else f"S8 {front_ends}"


def _one(run: Comparison, peer: Ours, shape: TableShape) -> None:
    def measured(record: Record) -> None:
        lookups, registrations = shape.write(run.folder)
        processes = Processes(Path(tempfile.mkdtemp(prefix="mq", dir=run.folder)))
        try:
            server = peer.start(processes, run.server_cores)
            empty_mb = server.cost().pss_mb
            with LoadGenerator(server.port, lookups, registrations, run.generator_cores) as generator:
                life = Life(server, generator, shape, run.effort, record, run.folder, run.say)
                _costs(life, peer.front_ends, empty_mb)
            server.stop()
        finally:
            processes.close()
            registrations.unlink()  # of the biggest, a gigabyte

    name = peer_name(peer.front_ends, peer.checkout.name if peer.checkout else "")
    run.record(name, shape.name, 1, measured)


def _costs(life: Life, front_ends: int, empty_mb: float) -> None:
    shape, record = life.shape, life.record
    life.storm(f"{shape.name} fill")
    filled_mb = float(record.values[f"{shape.name} fill"]["pss_mb"])
    asked_mb = life.server.cost().pss_mb
    for _ in range(ASKS_BEFORE):
        life.generator.once()
    life.warm(life.effort.settle_s)
    lookup_us = statistics.median(_lookup_us(life) for _ in range(TIMES))
    heartbeat_ms = statistics.median(_registration_ms(life, Variant.BASE, keep=True) for _ in range(TIMES))
    changed_ms = statistics.median(_registration_ms(life, Variant.ALL) for _ in range(TIMES))
    record.add(
        shape.name,
        topics=len(shape.topics),
        brokers=len(shape.brokers),
        front_ends=front_ends,
        lookup_us=lookup_us,
        heartbeat_ms=heartbeat_ms,
        changed_topic_us=changed_ms * 1e3 / len(shape.brokers[0].topics),
        topic_bytes=(filled_mb - empty_mb) * 1e6 / len(shape.topics),
        asked_topic_bytes=(asked_mb - empty_mb) * 1e6 / len(shape.topics),
    )


def _lookup_us(life: Life) -> float:
    what = f"{life.shape.name} 64x1"
    life.lookups(what, connections=64, inflight=1, seconds=life.effort.measure_s / 2)
    return float(life.record.values[what]["cpu_us"])


def _registration_ms(life: Life, variant: Variant, *, keep: bool = False) -> float:
    """CPU of all front ends and Redis for one registration of the first broker."""
    assert isinstance(life.server, OurServer)
    before = life.server.cost().cpu_s
    result = life.generator.run(
        reg_parallel=1, reg_a=int(variant), reg_b=int(Variant.BASE), reg_keep=int(keep), drain_s=60,
        seconds=life.effort.registrations_s / 2,
    )  # fmt: skip
    return (life.server.cost().cpu_s - before) / max(1, result.registrations.answered) * 1e3
