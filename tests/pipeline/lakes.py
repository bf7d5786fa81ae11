"""Random lakes: gold in one go, and in steps of which each is taken in process or on Spark, comes to the same rows.

In most of them changes of some time were lost, and heartbeats of another.

python -m tests.pipeline.lakes --lakes 200 [--seed 1] [--without-spark]
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from mqregistry.pipeline import gold
from mqregistry.pipeline.gold import on_spark
from mqregistry.pipeline.lake.lake import Lake
from mqregistry.pipeline.lake.schema import GOLD
from tests.pipeline.gold_lake import Written
from tests.pipeline.test_gold_gaps import MINUTE, Gaps
from tests.pipeline.test_gold_refresh import DAY, HOUR, NOON, a_past


def figures(written):
    found = {}
    for table in GOLD:
        rows = gold.read(written.lake, table, written.namespace, written.epoch).to_pylist()
        found[table] = sorted(map(str, rows))
    return found


def differences(folder: Path, seed: int, spark, steps: int = 3) -> list[str]:
    """Of one random past: between a lake that was worked out at once, and one that was in steps."""
    chance = random.Random(seed)
    end = NOON + 26 * HOUR + chance.choice([0, 1, HOUR, DAY // 3 + 7])
    past = a_past(seed, end=end)
    hole_ms, lost_ms = (NOON + chance.randrange(25 * HOUR) // MINUTE * MINUTE for _ in range(2))
    hole = hole_ms, min(end, hole_ms + chance.choice([0, MINUTE, 2 * HOUR, 13 * HOUR]))
    alarm_ms = end - 5 if hole[1] < end - 5 else hole[0]  # one that is not lost: every table is to have rows
    past[2].append({"seq": 999, "ms": alarm_ms, "type": "stream_alarm", "alarm": "lag", "reader": "p"})
    gaps = Gaps(past, hole, (lost_ms, lost_ms + chance.choice([0, HOUR])))
    whole, in_steps = (Written(Lake(str(folder / name))) for name in ("whole", "steps"))
    gaps.write(whole, 0, 0, end)
    gold.refresh(None, whole.lake, whole.namespace, whole.epoch, now_ms=end)
    before = 0
    moments = sorted(chance.choice([chance.randrange(NOON, end), NOON + 12 * HOUR]) for _ in range(steps - 1))
    for number, upto in enumerate([*moments, end]):
        gaps.write(in_steps, number, before, upto)
        before = upto
        lake = in_steps.lake if chance.random() < 0.7 else Lake(in_steps.lake.root)  # else another process
        engine = spark if chance.random() < 0.7 else None
        gold.refresh(engine, lake, in_steps.namespace, in_steps.epoch, now_ms=upto, spark_from_rows=0)
    one, other = figures(whole), figures(in_steps)
    return [table for table in one if one[table] != other[table] or (table != "missing_topic" and not one[table])]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.pipeline.lakes", description=__doc__)
    parser.add_argument("--lakes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="of the first")
    parser.add_argument("--without-spark", action="store_true", help="all steps in process")
    options = parser.parse_args()
    spark = None
    if not options.without_spark:
        from mqregistry.pipeline.spark.session import open_session

        spark = open_session(master="local[2]", driver_memory="1g", config={"spark.sql.shuffle.partitions": "2"})
    on_spark.GROUP_ROWS = 100  # several groups
    wrong, begun_s = 0, time.monotonic()
    for seed in range(options.seed, options.seed + options.lakes):
        with tempfile.TemporaryDirectory(prefix="mqlakes") as folder:
            found = differences(Path(folder), seed, spark)
        if found:
            wrong += 1
            print(f"seed {seed}: {', '.join(found)} differ", flush=True)
    print(f"{options.lakes} lakes from seed {options.seed}: {wrong} differ ({time.monotonic() - begun_s:.0f} s)")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
