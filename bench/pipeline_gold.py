"""Gold on Spark: silver rows of 32 brokers x 10,000 topics over a day to figures; the time is to grow with the rows.

Each size in a process of its own, so that its memory is its own: ``local[2]``, 4 GB of driver memory.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

BROKERS, TOPICS = 32, 10_000
START_MS, DAY_MS = 1_767_225_600_000, 86_400_000
LARGEST_GROWTH = 1.4  # of the time a row takes, from the smallest size to the largest
_FILE_ROWS = 500_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench gold", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000], help="silver rows, rising")
    parser.add_argument("--driver-memory", default="4g")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(_measure(Path(options.one), options.driver_memory)))
        return 0
    found = []
    print(
        "| silver rows | seconds | CPU s | rows/s | peak memory MB (JVM, Python) |\n| --- | --- | --- | --- | --- |",
        flush=True,
    )
    for rows in options.rows:
        folder = Path(tempfile.mkdtemp(prefix="mqgold"))
        try:
            write_lake(folder, rows)
            figures = _watched([sys.executable, "-m", "bench.pipeline_gold", "--one", str(folder),
                                "--driver-memory", options.driver_memory])  # fmt: skip
        finally:
            shutil.rmtree(folder)
        found.append((rows, figures))
        print(
            f"| {rows:,} | {figures['seconds']:.1f} | {figures['cpu_s']:.1f} | {rows / figures['seconds']:,.0f} "
            f"| {figures['java_mb']:,.0f}, {figures['python_mb']:,.0f} |", flush=True,
        )  # fmt: skip
    (small, first), (large, last) = found[0], found[-1]
    growth = (last["cpu_s"] / large) / (first["cpu_s"] / small)
    held = growth <= LARGEST_GROWTH
    verdict = f"{growth:.2f}x (bar: {LARGEST_GROWTH}): {'held' if held else 'MISSED'}"
    print(f"\nCPU time a row, {large:,} against {small:,}: {verdict}")
    return 0 if held else 1


def write_lake(folder: Path, rows: int) -> None:
    """Every cell changes rows / 320,000 times at moments of its own; the last value holds. Brokers stay."""
    from pipeline.lake import Lake, places
    from pipeline.schema import SILVER

    lake, place = Lake(str(folder)), places("default", "bench")
    random = np.random.default_rng(1)
    cells = BROKERS * TOPICS
    files: list[dict[str, Any]] = []
    per_cell = max(1, rows // cells)

    def add(table: str, columns: dict[str, Any], state: str) -> None:
        path = f"silver/{table}/{place}/{state}/batch=000000000/{len(files)}.parquet"
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        arrow = pa.Table.from_arrays([pa.array(columns[f.name], f.type) for f in SILVER[table]], schema=SILVER[table])
        pq.write_table(arrow, folder / path, row_group_size=65_536)
        files.append({"table": table, "state": state, "bucket": 0, "path": path, "rows": arrow.num_rows, "level": 0,
                      "from_us": START_MS * 1000, "to_us": None})  # fmt: skip

    brokers = np.array([f"broker-{number:02d}" for number in range(BROKERS)])
    topics = np.array([f"topic-{number:05d}" for number in range(TOPICS)])
    step = max(1, _FILE_ROWS // per_cell)
    for first in range(0, cells, step):
        cell = np.repeat(np.arange(first, min(first + step, cells)), per_cell)
        at = np.sort(random.integers(0, DAY_MS - 1, (len(cell) // per_cell, per_cell)), axis=1)
        at[:, 0] = 1000
        start = (START_MS + at).ravel()
        end = np.append(start[1:], 0)
        last = np.arange(len(cell)) % per_cell == per_cell - 1
        columns = {
            "topic": topics[cell // BROKERS], "broker_name": brokers[cell % BROKERS],
            "read_queue_nums": np.full(len(cell), 8), "write_queue_nums": random.integers(1, 17, len(cell)),
            "perm": np.where(random.random(len(cell)) < 0.1, 4, 6), "flag": np.zeros(len(cell), np.int64),
            "valid_from": start * 1000, "valid_to": pa.array(end * 1000, mask=last), "from_seq": start - START_MS + 1,
            "to_seq": pa.nulls(len(cell), pa.int64()), "ended_by": pa.nulls(len(cell), pa.string()),
        }  # fmt: skip
        add("queue_data", columns, "open")
    none = pa.nulls(BROKERS, pa.int64())
    add(
        "broker_addr",
        {"broker_name": brokers, "broker_id": np.zeros(BROKERS, np.int64), "cluster": ["c1"] * BROKERS,
         "addr": [f"10.0.0.{number}:10911" for number in range(BROKERS)],
         "valid_from": np.full(BROKERS, START_MS * 1000),
         "valid_to": none, "from_seq": np.ones(BROKERS, np.int64), "to_seq": none,
         "ended_by": pa.nulls(BROKERS, pa.string())},
        "open",
    )  # fmt: skip
    end_ms = START_MS + DAY_MS - 1
    content = {"seq": DAY_MS, "ms": end_ms, "bronze_batch": -1, "begin_seq": 0, "begin_ms": START_MS, "files": files}
    lake.commit(f"silver/{place}", 0, content)


def _measure(folder: Path, driver_memory: str) -> dict[str, float]:
    from pipeline import gold
    from pipeline.lake import Lake
    from pipeline.session import open_session

    spark = open_session(
        master="local[2]", driver_memory=driver_memory, config={"spark.local.dir": str(folder / "tmp")}
    )
    before, began = _cpu_s(), time.monotonic()
    assert gold.refresh(spark, Lake(str(folder)), "default", "bench", spark_from_rows=0)
    figures = {"seconds": time.monotonic() - began, "cpu_s": _cpu_s() - before}
    assert gold.read(Lake(str(folder)), "topic", "default", "bench", grain="day").num_rows == TOPICS
    return figures


def _family() -> list[psutil.Process]:
    me = psutil.Process()
    return [me, *me.children(recursive=True)]


def _cpu_s() -> float:
    """Of this process and all that it started and that still run (Spark keeps its Python workers)."""
    total = 0.0
    for process in _family():
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def _watched(command: list[str]) -> dict[str, float]:
    """Run it, and see how much memory its JVM and its Python processes take at most."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    most = {"java_mb": 0.0, "python_mb": 0.0}
    while process.poll() is None:
        now = dict.fromkeys(most, 0.0)
        for one in psutil.Process().children(recursive=True):
            try:
                now["java_mb" if "java" in one.name() else "python_mb"] += one.memory_info().rss / 1e6
            except psutil.NoSuchProcess:
                continue
        most = {name: max(value, now[name]) for name, value in most.items()}
        time.sleep(0.5)
    assert process.stdout is not None
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return {**json.loads(process.stdout.read().splitlines()[-1]), **most}


if __name__ == "__main__":
    sys.exit(main())
