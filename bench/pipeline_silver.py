"""Bronze to silver, and time travel, of many changes: 32 brokers with 10,000 topics each.

Changes as the scripts write them: registrations of one changed topic, topics deleted and registered by hand, wiped
permissions, and now and then a broker that expires with all its topics and comes back with them.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.lake import Lake, places
from pipeline.schema import BRONZE

NAMESPACE, EPOCH = "bench", "e1"
BROKERS, TOPICS = 32, 10_000
BATCH_ROWS = 1_000_000
STEP_MS = 7
BEGIN_MS = 1_780_000_000_000
EXPIRY_EVERY = 100_000
BAR_GROWTH = 1.3  # of the time for ten times as many changes, against ten times the time
BAR_ROUTE_S = 1.5


class Writer:
    """Batches of bronze, a file each."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.number = 0
        self.seq = 0
        self.rows: list[tuple[Any, ...]] = []

    def add(self, kind: str, members: str, part: int = 1, parts: int = 1) -> None:
        self.seq += 1
        ms = BEGIN_MS + self.seq // BROKERS * STEP_MS
        of_parts = f',"part":{part},"parts":{parts}' if parts > 1 else ""
        e = f'{{"seq":{self.seq},"ms":{ms},"type":"{kind}"{of_parts}{members}}}'
        self.rows.append((ms, self.seq, self.seq, ms, kind, part, parts, e))
        if len(self.rows) >= BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        if not self.rows:
            return
        place, schema = places(NAMESPACE, EPOCH), BRONZE["changes"]
        path = self.lake.path("bronze", "changes", place, f"batch={self.number:09d}", "day=2026-05-28", "0.parquet")
        self.lake.filesystem.create_dir(path.rpartition("/")[0], recursive=True)
        columns = [
            pa.array(values, f.type) for values, f in zip(zip(*self.rows, strict=True), schema, strict=True)
        ]  # fmt: skip
        table = pa.Table.from_arrays(columns, schema=schema)
        pq.write_table(table, path, filesystem=self.lake.filesystem, row_group_size=100_000)
        content = {"rows": len(self.rows), "first_id": "0-0", "last_id": f"{self.rows[-1][0]}-{self.seq}",
                   "first_seq": self.rows[0][2], "last_seq": self.seq, "quarantined": 0}  # fmt: skip
        self.lake.commit(f"bronze/changes/{place}", self.number, content)
        self.number, self.rows = self.number + 1, []


def write(lake: Lake, events: int, seed: int = 1) -> None:
    """That many changes, and the snapshot before them."""
    pick, writer = random.Random(seed), Writer(lake)
    counters = [0] * BROKERS

    def name(broker: int) -> str:
        return f'"broker_name":"broker-{broker}","rev":{writer.seq + 1}'

    def who(broker: int, *, row: bool) -> str:
        counters[broker] += 1
        addr = f"10.0.{broker}.1:10911"
        live = f'{{"timeout_ms":120000,"counter":{counters[broker]},"timestamp":{BEGIN_MS},"state_version":0}}'
        of_row = f',"row":{{"cluster":"c1","acting":false,"addrs":{{"0":"{addr}"}}}}' if row else ""
        return f',"who":"c1|{addr}","cluster":"c1","broker_id":0,"addr":"{addr}","live":{live}{of_row}'

    def come(broker: int) -> None:
        for part in range(1, TOPICS // 500 + 1):
            first = (part - 1) * 500
            topics = ",".join(f'"topic-{n}":{{"r":8,"w":8,"p":6,"f":0}}' for n in range(first, first + 500))
            members = f',{name(broker)}{who(broker, row=True) if part == 1 else ""},"topics":{{{topics}}}'
            writer.add("broker_registered", members, part, TOPICS // 500)

    for broker in range(BROKERS):
        come(broker)
    expire_at = EXPIRY_EVERY
    while writer.seq < events:
        broker, topic, chance = pick.randrange(BROKERS), pick.randrange(TOPICS), pick.random()
        if writer.seq >= expire_at:
            expire_at += EXPIRY_EVERY
            addr = f"10.0.{broker}.1:10911"
            writer.add(
                "broker_expired",
                f',{name(broker)},"who":"c1|{addr}","cluster":"c1","addr":"{addr}","broker_id":0,"row":null',
            )
            come(broker)
        elif chance < 0.9:
            data = f'"topic-{topic}":{{"r":8,"w":{pick.randrange(1, 17)},"p":6,"f":0}}'
            writer.add("broker_registered", f',{name(broker)}{who(broker, row=False)},"topics":{{{data}}}')
        elif chance < 0.94:
            members = f',"topic":"topic-{topic}","rev":{writer.seq + 1},"broker_names":["broker-{broker}"]'
            writer.add("topic_deleted", members)
        elif chance < 0.98:
            data = f'"broker-{broker}":{{"r":4,"w":4,"p":6,"f":0}}'
            writer.add("topic_registered", f',"topic":"topic-{topic}","rev":{writer.seq + 1},"queue_datas":{{{data}}}')
        else:
            data = f'"topic-{topic}":{{"r":8,"w":8,"p":4,"f":0}}'
            writer.add("write_perm_set", f',{name(broker)},"topics":{{{data}}}')
    writer.flush()
    lake.commit(f"snapshots/{places(NAMESPACE, EPOCH)}", 0, {"seq": 0, "ms": BEGIN_MS, "last_id": "0-0"})


def build(root: str, memory: str) -> None:
    """In a process of its own: the whole replay; prints what it took as JSON."""
    from pipeline.session import open_session
    from pipeline.silver import Run

    spark = open_session(master="local[2]", driver_memory=memory)
    spark.range(10).count()
    begun, steps = time.monotonic(), []
    for step in Run(spark, Lake(root), NAMESPACE, EPOCH).steps():
        steps.append((step.rows, round(time.monotonic() - begun, 1)))
        print(f"   change {step.seq:,} after {steps[-1][1]} s", file=sys.stderr, flush=True)
    taken = time.monotonic() - begun
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"s": taken, "cpu_s": cpu_s(), "python_mb": usage.ru_maxrss / 1024, "steps": steps}))
    spark.stop()


def cpu_s() -> float:
    """Of this process and all below it, with those of theirs that have ended: Java, and the Python of its tasks."""
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    times = [process.cpu_times() for process in processes]
    return sum(t.user + t.system + t.children_user + t.children_system for t in times)


def routes(root: str, number: int = 5) -> list[float]:
    """Seconds that the command takes for a topic at an instant, from its start."""
    from pipeline.travel import all_pasts

    past = all_pasts(Lake(root), NAMESPACE)[0]
    taken = []
    for at in range(number):
        ms = past.begin_ms + (past.manifest.ms - past.begin_ms) * (at + 1) // (number + 1)
        instant = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ms / 1000))
        begun = time.monotonic()
        subprocess.run(
            [sys.executable, "-m", "registry", "route", f"topic-{at * 1999}", "--at", instant, "--lake", root,
             "--namespace", NAMESPACE],
            check=True, capture_output=True,
        )  # fmt: skip
        taken.append(time.monotonic() - begun)
    return taken


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench silver", description=__doc__)
    parser.add_argument("--events", type=int, nargs="*", default=[1_000_000, 10_000_000])
    parser.add_argument("--memory", default="4g", help="of the driver")
    parser.add_argument("--folder", type=Path, help="keep the lakes here, and use those that are there")
    parser.add_argument("--build", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.build:
        build(options.build, options.memory)
        return 0
    failed = False
    with tempfile.TemporaryDirectory(prefix="mqsilver") as temporary:
        per_million: list[float] = []
        for events in options.events:
            root = (options.folder or Path(temporary)) / f"lake-{events}"
            lake = Lake(str(root))
            if not lake.commits(f"snapshots/{places(NAMESPACE, EPOCH)}"):
                begun = time.monotonic()
                write(lake, events)
                print(f"{events:,} changes written as bronze in {time.monotonic() - begun:.0f} s", flush=True)
            lake.remove("commits", "silver")
            lake.remove("silver")
            done = subprocess.run(
                [sys.executable, "-m", "bench.pipeline_silver", "--build", str(root), "--memory", options.memory],
                check=True, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            told = json.loads(done.stdout.splitlines()[-1])
            per_million.append(told["cpu_s"] / events * 1e6)
            size = sum(path.stat().st_size for path in (root / "silver").rglob("*.parquet")) / 1e6
            print(f"{events:,} changes to silver: {told['s']:.0f} s, {events / told['s']:,.0f} changes/s, CPU "
                  f"{told['cpu_s']:.0f} s with Spark's start; {size:.0f} MB on disk; driver's Python "
                  f"{told['python_mb']:.0f} MB", flush=True)  # fmt: skip
            taken = routes(str(root))
            print(f"route --at: {', '.join(f'{s:.2f}' for s in taken)} s", flush=True)
            failed = failed or max(taken) > BAR_ROUTE_S
        if len(per_million) > 1:
            growth = per_million[-1] / per_million[0]
            print(f"CPU time for a million: {growth:.2f} times that of the smaller one (bar {BAR_GROWTH})")
            failed = failed or growth > BAR_GROWTH
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
