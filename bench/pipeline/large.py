"""The whole way from bronze to gold on one lake, of up to ten million changes of 32 brokers x 10,000 topics.

    python -m bench large [--events 1000000 10000000] [--driver-memory 2g] [--folder DIR]

Each size is a lake of its own (`bronze_history.py`) and a process of its own; 20,000 more changes come when all is
done, as to a pipeline that runs. Memory is that of the driver, its Java and its Python at one time, and beside it the
Python of Spark's tasks, which on a cluster run elsewhere. Held when the driver stays below 4 GB and a change of the
largest size takes no more than 1.3 times the CPU time of one of the smallest, without Spark's start; and `route --at`
answers within 1.5 s.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil

from bench.pipeline import bronze_history
from bench.pipeline.memory import MemoryWatch, Peaks
from mqregistry.pipeline.lake.lake import Lake

LATER = 20_000
BAR_DRIVER_MB = 4096 * 1.048576  # 4 GB as Spark counts them
BAR_GROWTH = 1.3
BAR_ROUTE_S = 1.5
STAGES = ("spark", "silver", "gold", "silver more", "gold more")
WHOLE = ("silver", "gold")


def stages(root: str, driver_memory: str) -> Iterator[str]:
    """Run the stages one after the other; yields the name of each when it is done."""
    from mqregistry.pipeline import gold
    from mqregistry.pipeline.silver import SilverRun
    from mqregistry.pipeline.spark.session import open_session

    lake = Lake(root)
    spark = open_session(
        master="local[2]", driver_memory=driver_memory, config={"spark.local.dir": str(Path(root) / "tmp")}
    )
    spark.range(10).count()
    yield "spark"
    for more in ("", " more"):
        begun = time.monotonic()
        for step in SilverRun(spark, lake, bronze_history.NAMESPACE, bronze_history.EPOCH).steps():
            print(f"   change {step.seq:,} after {time.monotonic() - begun:.1f} s", file=sys.stderr, flush=True)
        yield f"silver{more}"
        assert gold.refresh(spark, lake, bronze_history.NAMESPACE, bronze_history.EPOCH)
        yield f"gold{more}"
        if not more:
            later = (Path(root) / "later.json").read_bytes()
            for commit in msgspec.json.decode(later, type=list[bronze_history.BatchCommit]):
                commit.to(lake)
    spark.stop()


def one(root: str, driver_memory: str) -> None:
    """Print a line of JSON when a stage is done; go on when the parent has answered."""
    from bench.pipeline.throughput import cpu_of

    me = psutil.Process()
    seconds, cpu_s = time.monotonic(), cpu_of(me)
    for stage in stages(root, driver_memory):
        now = time.monotonic(), cpu_of(me)
        print(json.dumps({"stage": stage, "seconds": now[0] - seconds, "cpu_s": now[1] - cpu_s}), flush=True)
        sys.stdin.readline()
        seconds, cpu_s = time.monotonic(), cpu_of(me)


def measure(root: Path, events: int, driver_memory: str) -> Iterator[tuple[dict[str, Any], Peaks]]:
    """Run the stages in another process; yields the figures of each and its peak memory."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.pipeline.large", "--one", str(root), "--driver-memory", driver_memory],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdin is not None
    watch = MemoryWatch(process.pid)
    try:
        for line in process.stdout:
            yield json.loads(line), watch.take()
            process.stdin.write("\n")
    finally:
        watch.close()
        process.stdin.close()
        status = process.wait()
    if status:
        raise SystemExit(f"{events:,} events: ended with {status}")


def prepare(root: Path, events: int) -> None:
    """Write a lake with bronze only."""
    shutil.rmtree(root, ignore_errors=True)
    begun = time.monotonic()
    held_back = bronze_history.write(Lake(str(root)), events, later=LATER)
    (root / "later.json").write_bytes(msgspec.json.encode(held_back))
    print(f"{events:,} changes written as bronze in {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)


def routes(root: str, number: int = 5) -> list[float]:
    """Seconds that `route --at` takes for a topic at an instant, from the command's start."""
    from mqregistry.pipeline.past.travel import all_pasts

    found = all_pasts(Lake(root), bronze_history.NAMESPACE)[0]
    taken = []
    for at in range(number):
        ms = found.begin_ms + (found.content.ms - found.begin_ms) * (at + 1) // (number + 1)
        instant = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ms / 1000))
        begun = time.monotonic()
        subprocess.run(
            [sys.executable, "-m", "mqregistry", "route", f"topic-{at * 1999}", "--at", instant, "--lake", root,
             "--namespace", bronze_history.NAMESPACE],
            check=True, capture_output=True,
        )  # fmt: skip
        taken.append(time.monotonic() - begun)
    return taken


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench large", description=__doc__)
    parser.add_argument("--events", type=int, nargs="+", default=[1_000_000, 10_000_000], help="rising")
    parser.add_argument("--driver-memory", default="2g", help="of Java's heap")
    parser.add_argument("--folder", type=Path, help="keep the lakes here")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options.one, options.driver_memory)
        return 0
    print("| events | stage | s | CPU s | events/s | driver MB (Java, Python) | tasks' Python MB | all MB |\n"
          "| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)  # fmt: skip
    failed, per_million = False, []
    with tempfile.TemporaryDirectory(prefix="mqlarge") as temporary:
        for events in options.events:
            root = (options.folder or Path(temporary)) / f"lake-{events}"
            prepare(root, events)
            whole, most = {"seconds": 0.0, "cpu_s": 0.0}, Peaks()
            for done, peaks in measure(root, events, options.driver_memory):
                print(row(events if done["stage"] in WHOLE else LATER, done["stage"], done, peaks), flush=True)
                if done["stage"] in WHOLE:
                    whole = {name: whole[name] + done[name] for name in whole}
                    most = Peaks(*map(max, most, peaks))
            print(row(events, "**bronze to gold**", whole, most), flush=True)
            taken = routes(str(root))
            print(f"route --at: {', '.join(f'{s:.2f}' for s in taken)} s", file=sys.stderr, flush=True)
            failed = failed or most.driver_mb > BAR_DRIVER_MB or max(taken) > BAR_ROUTE_S
            per_million.append({name: value / events * 1e6 for name, value in whole.items()})
    first, last = per_million[0], per_million[-1]
    growth = {name: last[name] / first[name] for name in first}
    print(f"\nA change of the largest size against one of the smallest: {growth['seconds']:.2f} times the seconds, "
          f"{growth['cpu_s']:.2f} times the CPU time (bar {BAR_GROWTH}); driver below {BAR_DRIVER_MB:,.0f} MB and "
          f"routes of the past within {BAR_ROUTE_S} s: {'no' if failed else 'yes'}")  # fmt: skip
    return 1 if failed or growth["cpu_s"] > BAR_GROWTH else 0


def row(events: int, stage: str, done: dict[str, Any], peaks: Peaks) -> str:
    rate = "" if stage == "spark" else f"{events / done['seconds']:,.0f}"
    return (f"| {'' if stage == 'spark' else f'{events:,}'} | {stage} | {done['seconds']:.1f} | {done['cpu_s']:.1f} "
            f"| {rate} | {peaks.driver_mb:,.0f} ({peaks.java_mb:,.0f}, {peaks.python_mb:,.0f}) | {peaks.tasks_mb:,.0f} "
            f"| {peaks.all_mb:,.0f} |")  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
