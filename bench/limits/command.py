"""Measures the limits: one Redis, many brokers and topics, namespaces over a Redis Cluster, and many clients.

    python -m bench scale                        all of them, about seven minutes
    python -m bench scale --part redis           one part
    python -m bench scale --part size --brokers 10000   in full size

Writes results/scale.json, and puts the numbers into SCALE.md, whose prose says what they mean. There are no bars.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.compare import report
from bench.limits import clients, one_redis, shards, size
from bench.limits import report as scale_report
from bench.load.tool import NoCompiler, build
from bench.servers import machine
from bench.servers.machine import cores

PARTS = ("redis", "size", "shards", "clients")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench scale", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", action="append", choices=PARTS, help="default all")
    parser.add_argument("--brokers", type=int, default=2_500, help="of size")
    parser.add_argument("--topics", type=int, default=400, help="of size, of each broker; each is on 4 brokers")
    parser.add_argument("--connections", type=int, default=50_000, help="of clients")
    parser.add_argument("--watches", type=int, default=20_000, help="of clients: how many of them watch one route")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measured load")
    parser.add_argument("--output", type=Path, default=report.FOLDER, help="folder of SCALE.md and results/")
    options = parser.parse_args()
    try:
        build("loadgen")
    except NoCompiler as error:
        print(error, file=sys.stderr)
        return 2
    run(options.part or PARTS, options)
    return 0


def run(parts: Sequence[str], options: argparse.Namespace) -> None:
    """Measure these parts, and write the results after each part."""
    first, second = cores(None, None)
    about = machine.about(first, second)
    if second:
        os.sched_setaffinity(0, second)
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {text}", flush=True)

    for part in parts:
        part_began = time.monotonic()
        say(f"-- {part}")
        if part == "redis":
            found = one_redis.measure(say, options.seconds, first, second)
        elif part == "clients":
            found = clients.measure(say, options.connections, options.watches, options.seconds, first, second)
        elif part == "size":
            found = size.measure(say, options.brokers, options.topics, options.seconds, first, second)
        else:
            found = shards.measure(say, options.seconds, (first, second))
        load = [round(each, 2) for each in os.getloadavg()]
        took_s = time.monotonic() - part_began
        name = f"{part}-{options.brokers}" if part == "size" else part
        keep(options.output / "results" / "scale.json", name, {**found, "about": about, "load": load, "took_s": took_s})
    scale_report.write(options.output)


def keep(path: Path, part: str, found: dict[str, Any]) -> None:
    """Write a part's results into the file, keeping those of the other parts."""
    everything = json.loads(path.read_text()) if path.exists() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps({**everything, part: found}, indent=1) + "\n")
    partial.replace(path)


if __name__ == "__main__":
    sys.exit(main())
