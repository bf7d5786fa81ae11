"""Killed in every stage, alone or beside a second run, and run on: all tables are those of an undisturbed run.

MQREGISTRY_KILLS=10 for more kills; MQREGISTRY_KILLS_CHANGES=35000 adds so many changes, and half as many
heartbeats, before each of them, so that silver and gold take Spark by themselves; MQREGISTRY_SEED.
"""

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

from mqregistry.cli import COULD_NOT_START  # noqa: E402
from mqregistry.events.journal import STREAMS  # noqa: E402
from mqregistry.pipeline import gold, jobs  # noqa: E402
from mqregistry.pipeline.lake import snapshot  # noqa: E402
from mqregistry.pipeline.lake.lake import Lake, owner  # noqa: E402
from mqregistry.pipeline.lake.schema import BRONZE, GOLD, QUARANTINE  # noqa: E402
from mqregistry.pipeline.past.audit import audit  # noqa: E402
from mqregistry.store.streams import StreamStore, lookup_entries  # noqa: E402

from .conftest import QUICK_JAVA  # noqa: E402
from .world import World, all_rows  # noqa: E402

KILLS = int(os.environ.get("MQREGISTRY_KILLS", "2"))
RIVALS = float(os.environ.get("MQREGISTRY_KILLS_RIVALS", "0.3"))  # of the runs have one
CHANGES = int(os.environ.get("MQREGISTRY_KILLS_CHANGES", "0"))
STAGES = [
    "bronze changes", "silver", "gold", "bronze heartbeats", "commit gold", "commit silver", "bronze lookups",
    "acknowledge", "commit bronze/changes", "commit state", "commit quarantine",
]  # fmt: skip
ONCE, ROUND_AFTER_ROUND = ["--once"], ["--interval", "0.3"]
ROUNDS = 4
DELAYS_S = (0.0, 0.05, 0.3, 1.5)  # how long after its beginning a stage is hit, at most: the moment is the point


def read_or_nothing(file):
    """The text of a file in /proc; "" when its process has ended meanwhile."""
    try:
        return file.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


class Filled:
    """A namespace in which more happens before each run: of all streams, and some that cannot be read."""

    def __init__(self, store, seed):
        self.world, self.store = World(store, seed), store
        self.streams = StreamStore(store)
        self.number = 0

    def key(self, name):
        return f"mq:{{{self.store.namespace}}}:{name}"

    async def go_on(self, operations):
        self.number += 1
        await self.world.run(operations)
        counts = lookup_entries({"topic-1": self.number, "topic-2": 7}, {f"none-{self.number}": 3})
        await self.streams.write_lookups("fe1", "w1", self.number, 10_000, counts)
        for stream in STREAMS:  # a stranger in changes takes no number, and is no hole
            stranger = await self.store.client.xadd(self.key(stream), {"e": b"\xff%d" % self.number})
            if stream == "changes":
                self.world.told.skip(stranger)
        for first in range(0, CHANGES, 500):
            kv = self.world.front_ends[0].kv
            await asyncio.gather(
                *(kv.put("many", f"k{i % 97}", f"{self.number} {i}") for i in range(first, first + 500))
            )
        pipeline = self.store.client.pipeline(transaction=False)
        now_ms = (await self.world.bed.head()).now_ms
        for i in range(CHANGES // 2):
            beat = (
                f'{{"ms":{now_ms},"who":"c1|{i % 50}","front_end":"fe1","kind":"same","interval_ms":30000,"bytes":1}}'
            )
            pipeline.xadd(self.key("heartbeats"), {"e": beat})
            if i % 1000 == 999:
                await pipeline.execute()
        await pipeline.execute()


class Victim:
    """A run in processes of its own that says where it is."""

    def __init__(self, command, out, on_spark):
        env = {name: value for name, value in os.environ.items() if not name.startswith("MQREGISTRY_")}
        env |= {"JAVA_TOOL_OPTIONS": QUICK_JAVA} | ({"KILLABLE_ON_SPARK": "1"} if on_spark else {})
        self._out = out
        with out.open("wb") as file:  # no pipe: a Java that outlives its Python would hold it
            self.process = subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True, env=env
            )

    @property
    def said(self):
        return [line[1:] for line in self._out.read_text(errors="replace").splitlines() if line.startswith("@")]

    def reaches(self, stage):
        """Wait for the stage; False: it came to its end, or through some rounds, without it."""
        while not any(text.startswith(stage) for text in self.said):
            if self.process.poll() is not None or self.said.count("acknowledge") > 2 * ROUNDS:
                return False
            time.sleep(0.005)
        return True

    def may_be_refused(self):
        """Wait for its end: everything went through, or somebody else wrote first."""
        status = self.process.wait(300)
        assert status == 0 or self._refused(status), self._out.read_text()

    def _refused(self, status):
        return status == 1 and "another run writes to the lake" in self._out.read_text()

    def end(self):
        """End it as Ctrl-C does, where it goes on."""
        if self.process.poll() is None:
            self.process.terminate()
        self.may_be_refused()

    def kill(self, kind):
        """SIGKILL Python, Java, or both; gives where it was, None when it was through."""
        if self.process.poll() is not None:
            return None
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/children")  # Spark starts in a thread of its own
        children = {pid for file in threads for pid in read_or_nothing(file).split()}
        java = [int(pid) for pid in children if read_or_nothing(Path(f"/proc/{pid}/comm")).strip() == "java"]
        if not java and kind == "java":
            kind = "python"  # which alone does little
        if kind == "both":
            os.killpg(self.process.pid, signal.SIGKILL)
        elif kind == "python":
            self.process.kill()
        else:
            os.kill(java[0], signal.SIGKILL)
        where = self.said[-1]
        status = self.process.wait(120)
        if status == 0 or self._refused(status):  # it was through before the signal came
            return None
        text = self._out.read_text()
        starting = kind == "java" and status == COULD_NOT_START
        assert starting or status == {"java": 1}.get(kind, -signal.SIGKILL), text
        if starting:
            assert "mqregistry: cannot start: Spark with --master local[2] did not start" in text, text
        elif kind == "java":
            # pyspark's own threads may show their stacks, before it and after
            assert any(line.startswith("mqregistry: Spark's Java ended") for line in text.splitlines()), text
            assert "registry/cli" not in text, text
        return f"{kind} killed at {where}"


def everything(lake, namespace, epoch):
    """All tables, in an order of their own; batches may have been cut elsewhere."""
    found = {}
    for stream in STREAMS:
        files = lake.table(f"bronze/{stream}").files(**owner(namespace, epoch))
        rows = lake.dataset(files, BRONZE[stream]).to_table()
        found["bronze", stream] = rows.sort_by([("id_ms", "ascending"), ("id_n", "ascending")])
        files = lake.table("quarantine").files(**owner(namespace, epoch), stream=stream)
        found["quarantine", stream] = sorted(map(repr, lake.dataset(files, QUARANTINE).to_table().to_pylist()))
    found |= {("silver", table): rows for table, rows in all_rows(lake, namespace, epoch).items()}
    for table in GOLD:
        found["gold", table] = sorted(map(repr, gold.read(lake, table, namespace, epoch).to_pylist()))
    return found


@pytest.mark.timeout(300 * (KILLS + 1))
def test_killed_in_every_stage_the_tables_are_those_of_an_undisturbed_run(run, store, tmp_path):
    seed = int(os.environ.get("MQREGISTRY_SEED", "0")) or random.randrange(2**32)
    print("seed", seed)
    pick = random.Random(seed)
    filled = Filled(store, seed)
    while run(store.client.xlen(filled.key("changes"))) <= 60:
        run(filled.go_on(60))
    run(store.client.xtrim(filled.key("changes"), maxlen=30, approximate=False))  # so that a snapshot is needed
    lake = Lake(str(tmp_path / "lake"))
    command = [
        sys.executable, "-m", "tests.pipeline.killable", "pipeline", "run", "--redis", store.url,
        "--namespace", store.namespace, "--lake", str(tmp_path / "lake"), "--master", "local[2]",
        "--driver-memory", "1g" if CHANGES else "512m", "--max-entries", "20000" if CHANGES else "200",
    ]  # fmt: skip
    stages = ["snapshot", *pick.sample(STAGES, len(STAGES))] if KILLS > 2 else pick.sample(STAGES, KILLS)
    kills = []
    for number in range(4 * KILLS):
        if len(kills) == KILLS:
            break
        stage, on_spark = stages[number % len(stages)], not CHANGES and pick.random() < 0.6
        goes_on = pick.random() < 0.5
        victim = Victim([*command, *(ROUND_AFTER_ROUND if goes_on else ONCE)], tmp_path / f"out{number}", on_spark)
        reached = victim.reaches(stage)
        # a lake has no lock, and nothing in it names a host: any process is as good as one from another
        rival = Victim([*command, *ONCE], tmp_path / f"rival{number}", False) if pick.random() < RIVALS else None
        time.sleep(pick.uniform(0, pick.choice(DELAYS_S)))
        kind = pick.choice(["python", "java", "both"])
        where = victim.kill(kind) if reached else None
        if where is not None:
            kills.append(where)
            print(
                f"{len(kills)}: {where}{' round after round' if goes_on else ''}{' beside another' if rival else ''}",
                flush=True,
            )
        else:
            victim.end()
        if rival is not None:
            rival.may_be_refused()
        run(filled.go_on(40))
    assert len(kills) == KILLS
    subprocess.run([*command, *ONCE], check=True, stdout=subprocess.DEVNULL)

    undisturbed = Lake(str(tmp_path / "undisturbed"))
    epoch = run(filled.world.bed.head()).epoch
    shutil.copytree(tmp_path / "lake" / "snapshot", tmp_path / "undisturbed" / "snapshot")
    began = lake.state("snapshot", store.namespace, epoch)  # when a past begins is chance: both begin then
    undisturbed.set_state("snapshot", store.namespace, epoch, began)
    jobs.run(None, undisturbed, jobs.PipelineSettings(store.url, store.namespace), once=True)
    now_ms = snapshot.read_now(store.url, store.namespace) + 1
    tables = []
    for one in (lake, undisturbed):
        found = audit(None, store.url, store.namespace, one)
        assert found.ok, found
        gold.refresh(None, one, store.namespace, epoch, now_ms=now_ms)  # of both up to the same moment
        tables.append(everything(one, store.namespace, epoch))
    assert tables[0].keys() == tables[1].keys()
    for table, rows in tables[0].items():
        assert rows == tables[1][table], table
    empty = {table for table, rows in tables[0].items() if not len(rows)}
    assert empty <= {("gold", "alarm"), ("silver", "filter_server"), ("silver", "config")}
