"""Killed at random moments while changes come, Python, Java or both: all tables are those of an undisturbed run.

MQREGISTRY_KILLS=20 for more kills; MQREGISTRY_SEED.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import psutil
import pytest

pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")

from mqregistry.events.journal import STREAMS
from mqregistry.pipeline.gold import read
from mqregistry.pipeline.lake.gold_schema import FIGURES
from mqregistry.pipeline.lake.lake import Lake
from mqregistry.pipeline.lake.schema import BRONZE
from mqregistry.pipeline.silver.progress import last
from mqregistry.store.streams import StreamStore, lookup_entries

from .test_run import once
from .world import World, all_rows

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(3000)]

KILLS = int(os.environ.get("MQREGISTRY_KILLS", "3"))


class Filled:
    """A namespace in which more happens before each kill: of all streams, and some that cannot be read."""

    def __init__(self, store, seed):
        self.world, self.store = World(store, seed), store
        self.streams = StreamStore(store)
        self.number = 0

    async def go_on(self, operations):
        self.number += 1
        for _ in range(operations):
            await self.world.step()
        counts = lookup_entries({"topic-1": self.number, "topic-2": 7}, {f"none-{self.number}": 3})
        await self.streams.write_lookups("fe1", "w1", self.number, 10_000, counts)
        for stream in STREAMS:  # a stranger in changes takes no number, and is no hole
            await self.store.client.xadd(f"mq:{{{self.store.namespace}}}:{stream}", {"e": b"\xff%d" % self.number})


def started(store, lake, out):
    """A run in processes of its own."""
    command = [sys.executable, "-m", "mqregistry", "pipeline", "run", "--interval", "1", "--redis", store.url,
               "--namespace", store.namespace, "--lake", lake.root, "--driver-memory", "512m"]  # fmt: skip
    env = {name: value for name, value in os.environ.items() if name == "MQREGISTRY_DELTA_JARS" or "MQREG" not in name}
    with out.open("wb") as file:  # no pipe: a Java that outlives its Python would hold it
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True, env=env)


def kill(process, what):
    """Kill -9 Python, its Java, or both at once."""
    python = psutil.Process(process.pid)
    java = [child for child in python.children() if "java" in child.name()]
    for victim in ([python] if what != "Java" else []) + (java if what != "Python" else []):
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.send_signal(signal.SIGKILL)
    process.wait(120)


def tables(lake, namespace, epoch):
    """Everything that is in the tables, but when it was written."""
    found = {f"silver/{name}": rows for name, rows in all_rows(lake, namespace, epoch).items()}
    for stream in BRONZE:
        rows = lake.read(f"bronze/{stream}", namespace=namespace, epoch=epoch, columns=BRONZE[stream].names)
        found[f"bronze/{stream}"] = sorted(map(str, rows.to_pylist()))
    for name in FIGURES:
        found[f"gold/{name}"] = sorted(map(str, read(lake, name, namespace, epoch).to_pylist()))
    return found


def test_killed_at_random_moments_the_tables_are_those_of_an_undisturbed_run(spark, run, store, tmp_path):
    seed = int(os.environ.get("MQREGISTRY_SEED", "7"))
    pick = random.Random(seed)
    filled = Filled(store, seed)
    killed, whole = Lake(str(tmp_path / "killed")), Lake(str(tmp_path / "whole"))
    for number in range(KILLS):
        out = tmp_path / f"run-{number}"
        process = started(store, killed, out)
        end_s = time.monotonic() + 600
        told = ["changes: ", "tables as of", "figures", "tables in"]
        wanted = pick.choice(told if number else [*told, "snapshot"])  # which only the first run takes
        while wanted not in out.read_text(errors="replace") and time.monotonic() < end_s:
            run(filled.go_on(5))
            assert process.poll() is None, out.read_text(errors="replace")
            time.sleep(2)  # hours pass in some operations, and each is an hour of figures
        time.sleep(pick.random() * 2)  # a random moment is what is wanted
        kill(process, pick.choice(["Python", "Java", "both"]))
    run(filled.go_on(20))
    epoch = run(filled.world.bed.head()).epoch
    process = started(store, killed, tmp_path / "last")  # Java of the one before may have to end first
    wait_until_done(process, store, killed, epoch, run(filled.world.bed.head()).seq)
    for lake in (killed, whole):
        once(spark, lake, SimpleNamespace(url=store.url, namespace=store.namespace))
    one, other = tables(killed, store.namespace, epoch), tables(whole, store.namespace, epoch)
    assert {name for name in one if one[name] != other[name]} == set()


def wait_until_done(process, store, lake, epoch, seq):
    """Let the run go on until it has all, and end it as an operator does."""
    end_s = time.monotonic() + 900
    while time.monotonic() < end_s:
        assert process.poll() is None
        reached = last(lake, store.namespace, epoch)
        if reached is not None and reached.seq >= seq:
            break
        time.sleep(1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(300) == 0
