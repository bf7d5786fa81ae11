"""Measures namespaces on a Redis Cluster: the load of each shard, and how a busy namespace slows down a quiet one."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
from redis.crc import key_slot

from bench.limits.one_redis import BROKERS, FLEET, TOPICS
from bench.load.shapes import Variant, clusters
from bench.load.tool import LoadGenerator
from bench.servers.peers import MeasuredServer, serve
from bench.servers.processes import Processes, free_port
from bench.servers.redis_servers import ClusterSetup, RedisProcess, cluster_setup
from mqregistry.store import keys

LOUD = clusters("loud", "4 brokers of 10,000 topics", 1, 4, 10_000, all_by=4)
QUIET_RATE = 50
"""Registrations a second in the quiet namespace: unchanged and changed ones."""
Say = Callable[[str], None]


def measure(say: Say, seconds: float, cores: tuple[Sequence[int], Sequence[int]]) -> dict[str, Any]:
    """cores: those of the loud namespace and of the quiet one; the four namespaces of the first part share both."""
    with tempfile.TemporaryDirectory(prefix="mqb", ignore_cleanup_errors=True) as name, ExitStack() as stack:
        folder = Path(name)
        FLEET.write(folder), LOUD.write(folder)
        cluster = stack.enter_context(cluster_setup(folder / "cluster"))
        one = stack.enter_context(RedisProcess(folder / "one"))
        # the fourth namespace is on the shard of the first one
        names = [_on_shard(cluster, shard, number) for number, shard in enumerate((0, 1, 2, 0))]
        everywhere = sorted({*cores[0], *cores[1]})
        result: dict[str, Any] = {}
        for what, url, nodes in (("one Redis", one.url, [one]), ("three shards", cluster.url, cluster.nodes)):
            result[what] = _together(folder, url, nodes, names, seconds, everywhere)
            say(f"4 namespaces, {what}: {_shown(result[what])}")
        loud_cores, quiet_cores = cores
        for what, loud, quiet in (("another shard", names[0], names[1]), ("the same shard", names[0], names[3])):
            for shard, node in enumerate(cluster.nodes):
                # the quiet namespace's shard runs on the core of the quiet namespace
                _pin(node, quiet_cores if shard == (1 if quiet == names[1] else 0) else loud_cores)
            result[f"loud on {what}"] = _disturbed(folder, cluster.url, loud, quiet, seconds, loud_cores, quiet_cores)
            say(f"loud namespace on {what}: {result[f'loud on {what}']}")
        return result


def _on_shard(cluster: ClusterSetup, shard: int, number: int) -> str:
    tried = 0
    while cluster.node_of(key_slot(keys.meta(f"team-{number}-{tried}").encode())) is not cluster.nodes[shard]:
        tried += 1
    return f"team-{number}-{tried}"


def _pin(node: RedisProcess, cores: Sequence[int]) -> None:
    if cores:
        _process(node).cpu_affinity(list(cores))


def _process(node: RedisProcess) -> psutil.Process:
    assert node._process is not None
    return psutil.Process(node._process.pid)


def _cpu_s(node: RedisProcess) -> float:
    times = _process(node).cpu_times()
    return float(times.user + times.system)


def _front_end(
    stack: ExitStack, folder: Path, url: str, namespace: str, cores: Sequence[int]
) -> tuple[MeasuredServer, Processes]:
    processes = Processes(Path(tempfile.mkdtemp(prefix="mq", dir=folder)))
    stack.callback(processes.close)
    port, began = free_port(), time.monotonic()
    running = serve(processes, url, port, cores, "--namespace", namespace)
    return MeasuredServer(namespace, port, [running], began), processes


def _together(
    folder: Path, url: str, nodes: Sequence[RedisProcess], names: Sequence[str], seconds: float, cores: Sequence[int]
) -> dict[str, Any]:
    """Load all namespaces at once: with heartbeats, then with changes."""
    lookups, registrations = FLEET.write(folder)
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        generators = []
        for name in names:
            server, _ = _front_end(stack, folder, url, name, cores)
            generators.append(stack.enter_context(LoadGenerator(server.port, lookups, registrations, cores)))
            done = generators[-1].run(reg_parallel=BROKERS, reg_each=1).registrations
            assert done.codes == {"0": BROKERS}, done
        for what, per, options in (
            ("heartbeats", 1, {"reg_keep": 1}),
            ("changed topics", TOPICS, {"reg_a": int(Variant.ALL), "reg_b": int(Variant.BASE)}),
        ):
            before, began = [_cpu_s(node) for node in nodes], time.monotonic()
            for generator in generators:
                generator.begin(reg_parallel=BROKERS, seconds=seconds, drain_s=30, **options)
            results = [generator.finish().registrations for generator in generators]
            elapsed_s = time.monotonic() - began
            wrong = [each.codes for each in results if each.codes.keys() - {"0"}]
            assert not wrong, wrong
            found[what] = {
                "rate": sum(each.answered for each in results) * per / elapsed_s,
                "redis_load": [(_cpu_s(node) - cpu_s) / elapsed_s for node, cpu_s in zip(nodes, before, strict=True)],
            }
    return found


def _shown(found: dict[str, Any]) -> str:
    return "; ".join(
        f"{values['rate']:,.0f} {what}/s, Redis busy {', '.join(f'{load:.0%}' for load in values['redis_load'])}"
        for what, values in found.items()
    )


def _disturbed(
    folder: Path,
    url: str,
    loud_name: str,
    quiet_name: str,
    seconds: float,
    loud_cores: Sequence[int],
    quiet_cores: Sequence[int],
) -> dict[str, Any]:
    """Latency of the quiet namespace's registrations: alone, and while the loud one changes all of its topics."""
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        server, _ = _front_end(stack, folder, url, quiet_name, quiet_cores)
        quiet = stack.enter_context(LoadGenerator(server.port, *FLEET.write(folder), quiet_cores))
        server, _ = _front_end(stack, folder, url, loud_name, loud_cores)
        loud = stack.enter_context(LoadGenerator(server.port, *LOUD.write(folder), loud_cores))
        quiet.run(reg_parallel=BROKERS, reg_each=1)
        loud.run(reg_parallel=len(LOUD.brokers), reg_each=1)
        for what in ("alone", "disturbed"):
            if what == "disturbed":
                loud.begin(
                    reg_parallel=len(LOUD.brokers), seconds=seconds + 1, drain_s=30,
                    reg_a=int(Variant.ALL), reg_b=int(Variant.BASE),
                )  # fmt: skip
            done = quiet.run(
                reg_rate=QUIET_RATE, warmup_s=0.5, seconds=seconds, drain_s=30,
                reg_a=int(Variant.ALL), reg_b=int(Variant.BASE),
            ).registrations  # fmt: skip
            assert not done.codes.keys() - {"0"}, done
            found[what] = {"p50_ms": done.latency.percentile_ms(50), "p99_ms": done.latency.percentile_ms(99)}
        changed = loud.finish().registrations
        found["loud_topics_a_second"] = changed.answered * 10_000 / (seconds + 1)
    return found
