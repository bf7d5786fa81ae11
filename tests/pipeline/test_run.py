"""Whole rounds: the lake after a run, after gaps that were accepted, and after kills."""

import asyncio
import os
import subprocess
import sys

import pytest
from deltalake import DeltaTable
from pyarrow import fs
from pyspark.errors import PySparkException

pytestmark = pytest.mark.spark

from mqregistry.errors import StartError, StoreUnavailable  # noqa: E402
from mqregistry.events.journal import STREAMS  # noqa: E402
from mqregistry.pipeline import bronze, jobs  # noqa: E402
from mqregistry.pipeline.lake.lake import places  # noqa: E402
from mqregistry.pipeline.lake.lock import run_lock  # noqa: E402
from mqregistry.pipeline.past import travel  # noqa: E402
from mqregistry.pipeline.redis_stream.stream import GapError  # noqa: E402
from mqregistry.store.store import Store  # noqa: E402
from mqregistry.store.streams import StreamStore  # noqa: E402

from .streams import EPOCH, START_MS  # noqa: E402


def settings(bed, **more):
    return jobs.PipelineSettings(bed.url, bed.namespace, **more)


def rows(spark, lake, bed, stream="changes"):
    frame = bronze.read(spark, lake, stream, bed.namespace, EPOCH)
    return sorted((r.id_ms, r.id_n, r.e) for r in frame.select("id_ms", "id_n", "e").collect())


def readers(bed):
    async def ask():
        async with Store(bed.url, bed.namespace) as store:
            return (await StreamStore(store).survey()).readers

    return asyncio.run(ask())


def entries(bed, stream="changes"):
    found = bed.client.xrange(bed.key(stream))
    return [(*map(int, i.split(b"-")), fields[b"e"].decode()) for i, fields in found]


def test_a_round_is_tried_again_where_spark_did_not_wait_for_its_worker(spark, bed, lake, monkeypatch):
    bed.changes(3)
    late = []
    start = bronze.start_query

    def slow(*arguments, **more):
        if len(late) < 2:
            late.append(1)
            raise PySparkException("[STREAM_FAILED] terminated with exception: Python worker failed to connect back.")
        return start(*arguments, **more)

    monkeypatch.setattr(bronze, "start_query", slow)
    told = []
    assert jobs.run(spark, lake, settings(bed), once=True, tell=told.append).entries["changes"] == 3
    assert sum("did not start within 10 s" in text for text in told) >= 2
    monkeypatch.setattr(jobs, "_WORKER_TRIES", 2)
    late.clear()
    bed.changes(1)
    with pytest.raises(jobs.WorkerLate, match="is this machine very busy"):
        jobs.run(spark, lake, settings(bed), once=True)


class Told:
    """What a pipeline told of its progress."""

    def __init__(self):
        self.behind_s, self.taken, self.rounds = [], [], []

    def behind(self, stream, seconds):
        self.behind_s.append((stream, seconds))

    def took(self, stream, rows, quarantined):
        self.taken.append((stream, rows, quarantined))

    def round_done(self, seconds, seq):
        self.rounds.append(("done", seconds > 0, seq))

    def round_failed(self, why):
        self.rounds.append(why)


def test_a_round_tells_how_far_behind_it_was_and_what_it_took(spark, bed, lake):
    bed.changes(3)
    bed.add(*[bed.heartbeat(START_MS + 1000 * i) for i in range(5)], stream="heartbeats")
    told = Told()
    jobs.run(spark, lake, settings(bed), once=True, progress=told)
    by_stream = {name: [s for stream, s in told.behind_s if stream == name] for name in STREAMS}
    ids = [ms for ms, _, _ in entries(bed, "heartbeats")]
    assert by_stream["heartbeats"] == [(ids[-1] - ids[0]) / 1000, 0.0]
    assert by_stream["changes"][1] == 0.0
    assert ("heartbeats", 5, 0) in told.taken
    assert told.rounds == [("done", True, 3)]
    with pytest.raises(StoreUnavailable):
        jobs.run(spark, lake, settings(bed)._replace(redis_url="redis://127.0.0.1:1"), once=True, progress=told)
    assert told.rounds[1:] == ["redis_away"]


def test_a_round_takes_all_streams_and_the_next_one_what_is_new(spark, bed, lake, tmp_path):
    delta = str(tmp_path / "delta")
    bed.changes(1_000)
    bed.add(*[bed.heartbeat(START_MS + 40_000_000 * i) for i in range(5)], stream="heartbeats")
    told = []
    done = jobs.run(spark, lake, settings(bed, limit=600, delta=delta), once=True, tell=told.append)
    assert done == jobs.Done({"changes": 1_000, "heartbeats": 5, "lookups": 0}, 0, 1_000)
    assert any("snapshot" in text for text in told)
    assert told[-1] == f"Delta tables in {delta} brought up to date"
    for stream in ("changes", "heartbeats"):
        published = DeltaTable(f"{delta}/bronze/{stream}").to_pyarrow_table(columns=["id_ms", "id_n", "e"]).to_pylist()
        assert sorted(tuple(row.values()) for row in published) == entries(bed, stream)
    assert rows(spark, lake, bed) == entries(bed)
    assert rows(spark, lake, bed, "heartbeats") == entries(bed, "heartbeats")
    beats = bronze.read(spark, lake, "heartbeats", bed.namespace, EPOCH)
    assert [(r.batch, r.day) for r in beats.select("batch", "day").distinct().orderBy("day").collect()] == [
        (0, "2023-11-14"), (0, "2023-11-15"), (0, "2023-11-16"),
    ]  # fmt: skip
    log = bronze.log_of("changes", bed.namespace, EPOCH)
    assert [lake.read_commit(log, n)["rows"] for n in lake.commits(log)] == [
        pytest.approx(600, abs=31),
        pytest.approx(400, abs=31),
    ]
    [past] = travel.all_pasts(lake, bed.namespace)
    assert past.manifest.seq == 1_000
    assert past.end_ms() > past.manifest.ms + 3_600_000  # it was read to its end now, long after the last change
    bed.changes(7)
    assert jobs.run(spark, lake, settings(bed), once=True).entries["changes"] == 7
    assert rows(spark, lake, bed) == entries(bed)
    assert bronze.read(spark, lake, "changes", bed.namespace, EPOCH, after_batch=1).count() == 7


def test_redis_keeps_what_is_not_in_the_lake(spark, bed, lake):
    bed.changes(100)
    jobs.run(spark, lake, settings(bed), once=True)
    kept = bed.client.hgetall(f"mq:{{{bed.namespace}}}:readers")
    assert any(
        str(bronze.last_position(lake, "changes", bed.namespace, EPOCH).id).encode() in v for v in kept.values()
    ), kept


def test_what_cannot_be_read_is_in_quarantine_and_told(spark, bed, lake):
    bed.changes(3)
    bed.add({"e": b"\xff{"}, ids=[f"{START_MS + 31}-0"])
    bed.add({"x": b"1"}, ids=[f"{START_MS + 32}-0"])
    told = []
    done = jobs.run(spark, lake, settings(bed), once=True, tell=told.append)
    assert done.quarantined == 2
    assert any("2 entries could not be read" in text for text in told)
    found = spark.read.parquet(lake.uri("quarantine", "changes", places(bed.namespace, EPOCH), "batch=000000000"))
    assert sorted((r.stream, r.id_ms - START_MS, bytes(r.raw)) for r in found.collect()) == [
        ("changes", 31, b"\xff{"), ("changes", 32, b'["eA==","MQ=="]'),
    ]  # fmt: skip
    bed.changes(2)  # numbered on from 3: the strangers were no changes
    assert jobs.run(spark, lake, settings(bed), once=True).seq == 5


def test_a_gap_is_an_error_and_can_be_accepted(spark, bed, lake):
    bed.changes(10)
    bed.client.sadd(f"mq:{{{bed.namespace}}}:kv", "a")  # what the snapshot finds
    bed.client.hset(f"mq:{{{bed.namespace}}}:kv:a", "k", "v")
    bed.add(*[bed.heartbeat(START_MS + i) for i in range(5)], stream="heartbeats")
    jobs.run(spark, lake, settings(bed), once=True)
    bed.changes(10)
    bed.client.xtrim(bed.key(), maxlen=5, approximate=False)
    bed.client.delete(bed.key("heartbeats"))
    with pytest.raises(GapError, match=r"--accept-gap"):
        jobs.run(spark, lake, settings(bed), once=True)
    told = []
    done = jobs.run(spark, lake, settings(bed, accept_gap=True), once=True, tell=told.append)
    assert done.seq == 10  # nothing has come behind the hole yet
    assert sum(text.startswith("accepted: ") for text in told) == 2
    bed.changes(10)
    bed.add(*[bed.heartbeat(START_MS + 100 + i) for i in range(5)], stream="heartbeats")
    done = jobs.run(spark, lake, settings(bed), once=True)
    assert (done.seq, done.entries["changes"], done.entries["heartbeats"]) == (30, 10, 5)


def test_a_batch_that_was_committed_is_not_written_again(spark, bed, lake):
    bed.changes(10)
    jobs.run(spark, lake, settings(bed), once=True)
    # killed between our commit and Spark's: Spark repeats the batch
    commits = lake.path("checkpoints", "bronze", "changes", places(bed.namespace, EPOCH), "from=000000000", "commits")
    for file in lake.filesystem.get_file_info(fs.FileSelector(commits)):
        lake.filesystem.delete_file(file.path)
    before = rows(spark, lake, bed)
    bed.changes(1)
    jobs.run(spark, lake, settings(bed), once=True)
    assert rows(spark, lake, bed) == entries(bed)
    assert before == entries(bed)[:10]


def test_a_lost_checkpoint_is_no_loss(spark, bed, lake):
    bed.changes(10)
    jobs.run(spark, lake, settings(bed), once=True)
    lake.remove("checkpoints")
    bed.changes(10)
    jobs.run(spark, lake, settings(bed), once=True)
    assert rows(spark, lake, bed) == entries(bed)


def test_only_one_run_at_a_time(lake, tmp_path):
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with run_lock(lake, other.pid):
        with pytest.raises(StartError, match=f"process {other.pid}"), run_lock(lake, os.getpid(), patience_s=0):
            pass
        other.kill()
        other.wait()
        other.stdin.close()
        with run_lock(lake, os.getpid(), patience_s=0):
            pass
    assert not list(tmp_path.glob("lake/running*"))
