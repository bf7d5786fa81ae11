"""What a round of ``pipeline run`` costs early and late in a day: 100 brokers, about 70 entries every ten seconds.

A day's entries are written to a Redis of its own with the stamps of that day. What was before the last hour is taken in
at once and merged, the last hour round by round, so that its files are not merged yet, which is the dearest moment of
an hour; then six rounds are measured, in one of which gold is due. Of the
days before (30d23:50 is on the thirtieth), every sixtieth round takes place; they are taken in four times a day.
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psutil

from bench.pipeline.memory import MemoryWatch
from bench.pipeline.throughput import cpu_of
from bench.servers.redis_servers import RedisProcess
from mqregistry.events.changes import SCHEMA_MAJOR
from mqregistry.pipeline import jobs
from mqregistry.pipeline.lake import maintain
from mqregistry.pipeline.lake.lake import Lake
from mqregistry.store import keys

BROKERS: Final = 100
TOPICS: Final = 50  # of each broker
DAY_MS: Final = 1_767_312_000_000  # 2026-01-02T00:00Z
ROUND_MS: Final = 10_000
DAY_ROUNDS: Final = 8640
SETTLE_S: Final = 45.0  # for Spark to start, and a first round to go through
MEASURED: Final = 6  # a minute: in one of them gold is due


class FleetDay:
    """Writes what happens in each ten seconds: beats to two front ends, two lookup entries, two changed topics."""

    def __init__(self, client: Any, namespace: str) -> None:
        self._client, self._namespace, self._seq = client, namespace, 0
        self._entries = 0
        self._random = random.Random(1)
        meta: dict[Any, Any] = {
            "epoch": "e1",
            "seq": 0,
            "n": 0,
            "config_rev": 0,
            "schema": SCHEMA_MAJOR,
            "compat": "5.x",
        }
        client.hset(keys.meta(namespace), mapping=meta)

    def begin(self) -> None:
        """Every broker registers."""
        pipeline = self._client.pipeline(transaction=False)
        for broker in range(BROKERS):
            live = {"timeout_ms": 120_000, "counter": 1, "timestamp": 1, "state_version": 0}
            addr = f"10.0.0.{broker}:10911"
            row = {"cluster": "c1", "addrs": {"0": addr}}
            topics = {f"topic-{number}": {"r": 8, "w": 8, "p": 6, "f": 0} for number in range(TOPICS)}
            self._change(pipeline, DAY_MS, "broker_registered", who=f"c1|{addr}", cluster="c1", addr=addr,
                         broker_name=f"broker-{broker}", broker_id=0, live=live, row=row, topics=topics)  # fmt: skip
        self._end(pipeline)

    def rounds(self, first: int, end: int, step: int = 1) -> None:
        """What happens in these rounds since the first day."""
        pipeline = self._client.pipeline(transaction=False)
        for number in range(first, end, step):
            begin_ms = DAY_MS + number * ROUND_MS
            for broker in range(number % 3, BROKERS, 3):  # each beats every 30 s
                at_ms = begin_ms + 10 * broker + self._random.randrange(8)
                for front_end in ("fe1", "fe2"):
                    entry = {"ms": at_ms, "who": f"c1|10.0.0.{broker}:10911", "front_end": front_end, "kind": "same",
                             "interval_ms": 30_000, "bytes": 300, "broker_name": f"broker-{broker}"}  # fmt: skip
                    pipeline.xadd(keys.heartbeats(self._namespace), {"e": json.dumps(entry)}, id=self._id(begin_ms))
            for front_end in ("fe1", "fe2"):
                found = {f"topic-{topic}": 7 for topic in range(TOPICS)}
                entry = {"ms": begin_ms, "front_end": front_end, "since_ms": begin_ms - ROUND_MS, "found": found,
                         "missing": {"typo": 1}}  # fmt: skip
                pipeline.xadd(keys.lookups(self._namespace), {"e": json.dumps(entry)}, id=self._id(begin_ms))
            for change in range(2):
                datas = {"broker-1": {"r": 8, "w": 4 + (number + change) % 5, "p": 6, "f": 0}}
                self._change(pipeline, begin_ms + change, "topic_registered", topic=f"topic-{number % TOPICS}",
                             queue_datas=datas, rev=number)  # fmt: skip
            if len(pipeline) > 5000:
                self._end(pipeline)
        self._end(pipeline)

    def _id(self, ms: int) -> str:
        self._entries += 1  # Redis 6.2 has no <ms>-*
        return f"{ms}-{self._entries}"

    def _change(self, pipeline: Any, at_ms: int, kind: str, **members: Any) -> None:
        self._seq += 1
        event = {"seq": self._seq, "ms": at_ms, "type": kind, **members}
        pipeline.xadd(keys.changes(self._namespace), {"e": json.dumps(event)}, id=self._id(at_ms))

    def _end(self, pipeline: Any) -> None:
        pipeline.hset(keys.meta(self._namespace), "seq", self._seq)
        pipeline.execute()


def cpu_s() -> float:
    """CPU of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measured(at: int, running_s: float) -> Iterator[tuple[float, float]]:
    """CPU and time of rounds from round ``at`` of the day on."""
    with tempfile.TemporaryDirectory(prefix="mqrounds") as folder, RedisProcess(Path(folder) / "redis") as server:
        lake = Lake(f"{folder}/lake")
        day = FleetDay(server.client(), "default")
        settings = jobs.PipelineSettings(server.url, limit=10**9)
        job = jobs.Job(None, lake, settings, tell=lambda text: None)
        day.begin()
        today = at // DAY_ROUNDS * DAY_ROUNDS
        for first in range(0, today, DAY_ROUNDS // 4):
            day.rounds(first, first + DAY_ROUNDS // 4, 60)
            job._gold_due_s = 0.0
            job.round()
            if first % DAY_ROUNDS == 0:
                maintain.maintain(lake)
        before = max(today, at - 360)  # an hour of rounds that are not merged
        day.rounds(today, before)
        job.round()
        maintain.maintain(lake)
        for number in range(before, at + MEASURED):
            day.rounds(number, number + 1)
            if (number + 1 - at) % MEASURED == 0:
                job._gold_due_s = 0.0
            begun, used = time.monotonic(), cpu_s()
            job.round()
            if number >= at:
                yield cpu_s() - used, time.monotonic() - begun
        if running_s:
            _run(day, at + MEASURED, server.url, lake, running_s)


def _run(day: FleetDay, first_round: int, url: str, lake: Lake, seconds: float) -> None:
    """The command itself for a while, as a user starts it: CPU of its processes by ten seconds, and their memory."""
    command = [sys.executable, "-m", "mqregistry", "pipeline", "run", "--redis", url, "--lake", lake.root]
    day.rounds(first_round, first_round + 1)  # so that its first round has something to do, and gold reads the day
    first_round += 1
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
        watch, process = MemoryWatch(running.pid), psutil.Process(running.pid)
        time.sleep(SETTLE_S)
        first = watch.take()
        used = cpu_of(process)
        for number in range(first_round, first_round + int(seconds * 1000) // ROUND_MS):
            day.rounds(number, number + 1)
            time.sleep(ROUND_MS / 1000)
        by_round = (cpu_of(process) - used) * ROUND_MS / 1000 / seconds
        peaks = watch.take()
        watch.close()
        running.terminate()
    print(
        f"  as a command: {by_round:.2f} s of CPU in ten seconds; Java {peaks.java_mb:.0f}, Python "
        f"{peaks.python_mb:.0f} MB; as it began, {first.java_mb:.0f} and {first.python_mb:.0f} MB",
        flush=True,
    )


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = ["00:10", "12:00", "23:50", "30d00:10", "30d23:50"]
    parser.add_argument("--at", nargs="+", default=default, metavar="[DAYd]HH:MM")
    parser.add_argument("--running", type=float, default=0, metavar="S", help="also the command, for so many seconds")
    arguments = parser.parse_args()
    for at in arguments.at:
        day, _, clock = at.rpartition("d")
        hour, minute = map(int, clock.split(":"))
        found = list(measured((int(day or 1) - 1) * DAY_ROUNDS + (hour * 60 + minute) * 6, arguments.running))
        mean = sum(cpu for cpu, _ in found) / len(found)
        most = max(found)
        print(f"{at}: mean round {mean:.2f} s of CPU, most {most[0]:.2f} s ({most[1]:.2f} s of time)", flush=True)


if __name__ == "__main__":
    main()
