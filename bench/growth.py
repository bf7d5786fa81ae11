"""S8: what a lookup, a heartbeat, a changed topic and a kept topic cost as the tables and the front ends grow."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench.life import Life, Record
from bench.load.tool import LoadFailed, LoadGenerator
from bench.peers import Ours, OurServer, Unavailable
from bench.shapes import GROWTH, Shape, Variant
from tests.interop.processes import Processes

if TYPE_CHECKING:
    from bench.compare import Comparison

FRONT_ENDS = (2, 4)


def measure(run: Comparison) -> None:
    """Every size with one front end, then the middle one with more; one record each."""
    for shape in GROWTH:
        _one(run, Ours(), shape)
    for count in FRONT_ENDS:
        _one(run, Ours(front_ends=count), GROWTH[1])


def _one(run: Comparison, peer: Ours, shape: Shape) -> None:
    run.say(f"-- growth: {shape.what}, {peer.front_ends} front end(s)")
    record = Record(f"S8 {peer.front_ends}", 1)
    run.records.append(record)
    lookups, registrations = shape.write(run.folder)
    processes = Processes(Path(tempfile.mkdtemp(prefix="mq", dir=run.folder)))
    try:
        server = peer.start(processes, run.server_cores)
        empty_mb = server.cost().pss_mb
        with LoadGenerator(server.port, lookups, registrations, run.generator_cores) as generator:
            life = Life(server, generator, shape, run.effort, record, run.folder, run.say)
            life.storm(f"{shape.name} fill")
            filled_mb = float(record.values[f"{shape.name} fill"]["pss_mb"])
            asked_mb = server.cost().pss_mb
            life.warm(run.effort.settle_s)
            lookup_us = _lookup_us(life)
            heartbeat_ms = _registration_ms(life, Variant.BASE, keep=True)
            changed_ms = _registration_ms(life, Variant.ALL)
            record.add(
                shape.name,
                topics=len(shape.topics),
                brokers=len(shape.brokers),
                front_ends=peer.front_ends,
                lookup_us=lookup_us,
                heartbeat_ms=heartbeat_ms,
                changed_topic_us=changed_ms * 1e3 / len(shape.brokers[0].topics),
                topic_bytes=(filled_mb - empty_mb) * 1e6 / len(shape.topics),
                asked_topic_bytes=(asked_mb - empty_mb) * 1e6 / len(shape.topics),
            )
        server.stop()
    except (LoadFailed, Unavailable) as error:
        record.wrong.append(f"{shape.name}: {error}")
        run.say(str(error))
    finally:
        processes.close()


def _lookup_us(life: Life) -> float:
    what = f"{life.shape.name} 64x1"
    life.lookups(what, connections=64, inflight=1)
    return float(life.record.values[what]["cpu_us"])


def _registration_ms(life: Life, variant: Variant, *, keep: bool = False) -> float:
    """CPU of all front ends and Redis for one registration of the first broker."""
    assert isinstance(life.server, OurServer)
    before = life.server.cost().cpu_s
    result = life.generator.run(
        reg_parallel=1, reg_a=int(variant), reg_b=int(Variant.BASE), reg_keep=int(keep), drain_s=60,
        seconds=life.effort.registrations_s,
    )  # fmt: skip
    return (life.server.cost().cpu_s - before) / max(1, result.registrations.answered) * 1e3
