"""Whole rounds: the lake after a run, after gaps that were accepted, and after kills."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")

from deltalake import DeltaTable
from pyspark.errors import PySparkException

from mqregistry.errors import StoreUnavailable
from mqregistry.events.journal import STREAMS
from mqregistry.pipeline import jobs
from mqregistry.pipeline.bronze import intake, log, take
from mqregistry.pipeline.lake.errors import OtherWriter
from mqregistry.pipeline.lake.lake import Lake, owner
from mqregistry.pipeline.lake.schema import QUARANTINE, TABLES
from mqregistry.pipeline.past import travel
from mqregistry.pipeline.redis_stream.data_source import RedisStreamSource
from mqregistry.pipeline.redis_stream.stream import GapError, Login, Stream
from mqregistry.store.store import Store
from mqregistry.store.streams import StreamStore

from .streams import EPOCH, START_MS, Bed


def settings(bed, **more):
    return jobs.PipelineSettings(bed.url, bed.namespace, **more)


def rows(lake, bed, stream="changes"):
    return bronze_rows(lake, stream, bed.namespace, EPOCH)


def bronze_rows(lake, stream, namespace, epoch):
    """(id_ms, id_n, e) of every entry in bronze."""
    files = lake.table(f"bronze/{stream}").files(**owner(namespace, epoch))
    found = lake.dataset(files, TABLES[f"bronze/{stream}"].columns).to_table() if files else None
    return sorted((r["id_ms"], r["id_n"], r["e"]) for r in found.to_pylist()) if found else []


def readers(bed):
    async def ask():
        async with Store(bed.url, bed.namespace) as store:
            return (await StreamStore(store).survey()).readers

    return asyncio.run(ask())


def entries(bed, stream="changes"):
    found = bed.client.xrange(bed.key(stream))
    return [(*map(int, i.split(b"-")), fields[b"e"].decode()) for i, fields in found]


def test_a_round_is_tried_again_where_spark_did_not_wait_for_its_worker(bed, lake, monkeypatch):
    bed.changes(3)
    late = []

    class Slow:
        def __init__(self, spark, lake, access, name, start, done, **_):
            if len(late) < 2:
                late.append(1)
                raise PySparkException(
                    "[STREAM_FAILED] terminated with exception: Python worker failed to connect back."
                )
            stream = Stream(Login(bed.url), bed.namespace, name)
            assert take.take_here(lake, stream, bed.namespace, EPOCH, start, done, limit=100)

        def ended(self, seconds):
            return True

        def close(self):
            pass

    monkeypatch.setattr(intake, "Query", Slow)
    told = []
    many = settings(bed, spark_from=1)
    assert jobs.run(object(), lake, many, once=True, tell=told.append).entries["changes"] == 3
    assert sum("did not start within 10 s" in text for text in told) >= 2
    monkeypatch.setattr(jobs, "_WORKER_TRIES", 2)
    late.clear()
    bed.changes(2)
    with pytest.raises(jobs.WorkerLate, match="is this machine very busy"):
        jobs.run(object(), lake, many, once=True)


class Told:
    """What a pipeline told of its progress."""

    def __init__(self):
        self.behind_s, self.taken, self.rounds, self.of_lake = [], [], [], []

    def behind(self, stream, seconds, namespace):
        self.behind_s.append((stream, seconds))

    def took(self, stream, rows, quarantined):
        self.taken.append((stream, rows, quarantined))

    def figures(self, read, namespace):
        self.of_lake.append(set(read()))

    def round_done(self, seconds, seq, namespace):
        self.rounds.append(("done", seconds > 0, seq))

    def round_failed(self, why):
        self.rounds.append(why)


def test_a_round_tells_how_far_behind_it_was_and_what_it_took(bed, lake):
    bed.changes(3)
    bed.add(*[bed.heartbeat(START_MS + 1000 * i) for i in range(5)], stream="heartbeats")
    told = Told()
    jobs.run(None, lake, settings(bed), once=True, progress=told)
    by_stream = {name: [s for stream, s in told.behind_s if stream == name] for name in STREAMS}
    ids = [ms for ms, _, _ in entries(bed, "heartbeats")]
    assert by_stream["heartbeats"] == [(ids[-1] - ids[0]) / 1000, 0.0]
    assert by_stream["changes"][1] == 0.0
    assert ("heartbeats", 5, 0) in told.taken
    assert {"pipeline_availability", "pipeline_flaps"} <= told.of_lake[0]
    assert told.rounds == [("done", True, 3)]
    with pytest.raises(StoreUnavailable):
        jobs.run(None, lake, settings(bed)._replace(redis_url="redis://127.0.0.1:1"), once=True, progress=told)
    assert told.rounds[1:] == ["redis_away"]


@pytest.mark.spark
def test_a_round_takes_all_streams_and_the_next_one_what_is_new(spark, bed, lake):
    """Many changes by Spark in two batches, a few heartbeats without it."""
    bed.changes(1_000)
    bed.add(*[bed.heartbeat(START_MS + 40_000_000 * i) for i in range(5)], stream="heartbeats")
    told = []
    done = jobs.run(spark, lake, settings(bed, limit=600, spark_from=100), once=True, tell=told.append)
    assert done == jobs.Done({"changes": 1_000, "heartbeats": 5, "lookups": 0}, 0, 1_000)
    assert any("snapshot" in text for text in told)
    for stream in ("changes", "heartbeats"):
        there = DeltaTable(lake.path("bronze", stream)).to_pyarrow_table(columns=["id_ms", "id_n", "e"]).to_pylist()
        assert sorted(tuple(row.values()) for row in there) == entries(bed, stream)
    assert rows(lake, bed) == entries(bed)
    days = {(file.partition["day"], file.low["batch"]) for file in lake.table("bronze/heartbeats").files()}
    assert days == {("2023-11-14", 0), ("2023-11-15", 0), ("2023-11-16", 0)}
    batches = {}
    for file in lake.table("bronze/changes").files():
        batches[file.low["batch"]] = batches.get(file.low["batch"], 0) + file.rows
    assert batches == {0: pytest.approx(600, abs=31), 1: pytest.approx(400, abs=31)}
    [past] = travel.all_pasts(lake, bed.namespace)
    assert past.content.seq == 1_000
    assert past.end_ms() > past.content.ms + 3_600_000  # it was read to its end now, long after the last change
    bed.changes(7)
    assert jobs.run(spark, lake, settings(bed), once=True).entries["changes"] == 7
    assert rows(lake, bed) == entries(bed)


@pytest.mark.spark
def test_queries_go_on_beside_the_rounds_until_little_comes(spark, bed, lake, monkeypatch):
    """Much is read by one query for all rounds; little, once it is quiet, without it."""
    bed.changes(500)
    stop, told, begun = threading.Event(), [], []

    class Counted(take.Query):
        def __init__(self, *arguments, **named):
            begun.append(arguments[3])
            super().__init__(*arguments, **named)

    monkeypatch.setattr(intake, "Query", Counted)
    seen = Counter()

    class Watched(Told):
        def round_done(self, seconds, seq, namespace):
            super().round_done(seconds, seq, namespace)
            if seq in (500, 1_000, 1_300) and not seen[seq]:
                seen[seq] += 1
                if seq == 1_000:  # from now on nothing is worth it
                    monkeypatch.setattr(intake, "_QUIET_S", 0.0)
                if seq == 1_300:
                    stop.set()
                else:
                    bed.changes({500: 500, 1_000: 300}[seq])

    many = settings(bed, spark_from=400)
    jobs.run(spark, lake, many, interval_s=0.2, tell=told.append, stop=stop, progress=Watched())
    assert begun == ["changes"]
    assert rows(lake, bed) == entries(bed)
    assert [past.content.seq for past in travel.all_pasts(lake, bed.namespace)] == [1_300]
    assert not spark.streams.active
    assert not list(Path(lake.path("_checkpoints")).iterdir())


def test_beats_of_one_moment_in_a_long_stream_do_not_look_like_many(bed, lake):
    bed.add(*[bed.heartbeat(START_MS + 10 * i) for i in range(10_000)], stream="heartbeats")
    few = settings(bed, spark_from=200)
    jobs.run(None, lake, few, once=True)
    then = START_MS + 200_000
    bed.add(*[bed.heartbeat(then)] * 70, stream="heartbeats", ids=[f"{then}-{n}" for n in range(70)])
    bed.add(bed.heartbeat(then + 9_000), stream="heartbeats")
    assert jobs.run(object(), lake, few, once=True).entries["heartbeats"] == 71


def test_a_namespace_that_fails_does_not_stop_the_others(bed, redis_url, lake):
    others = [Bed(redis_url, f"{bed.namespace}-{name}") for name in ("a", "b")]
    for one in (bed, *others):
        one.changes(5)
    names = [one.namespace for one in others]
    assert jobs.run(None, lake, settings(bed), others=names, once=True).entries["changes"] == 15
    for one in (bed, *others):
        one.changes(10)
    others[0].client.xtrim(others[0].key(), maxlen=5, approximate=False)
    told = []
    with pytest.raises(GapError, match="--accept-gap"):
        jobs.run(None, lake, settings(bed), others=names, once=True, tell=told.append)
    assert any(text.startswith(f"namespace {names[0]}: ") and "--accept-gap" in text for text in told)
    assert rows(lake, bed) == entries(bed)
    assert rows(lake, others[1]) == entries(others[1])


def test_redis_keeps_what_is_not_in_the_lake(bed, lake):
    bed.changes(100)
    jobs.run(None, lake, settings(bed), once=True)
    kept = bed.client.hgetall(f"mq:{{{bed.namespace}}}:readers")
    assert any(str(log.last_position(lake, "changes", bed.namespace, EPOCH).id).encode() in v for v in kept.values())


def test_a_query_of_ones_own_tells_redis_what_it_has(bed):
    bed.changes(5)
    source = RedisStreamSource({"url": bed.url, "namespace": bed.namespace, "reader": "notebook"})
    reader = source.streamReader(source.schema())
    try:
        end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
        reader.commit(end)
    finally:
        reader.stop()
    assert readers(bed)["notebook"].positions["changes"].id == end["id"]


def test_what_cannot_be_read_is_in_quarantine_and_told(bed, lake):
    bed.changes(3)
    bed.add({"e": b"\xff{"}, ids=[f"{START_MS + 31}-0"])
    bed.add({"x": b"1"}, ids=[f"{START_MS + 32}-0"])
    told = []
    done = jobs.run(None, lake, settings(bed), once=True, tell=told.append)
    assert done.quarantined == 2
    assert any("2 entries could not be read" in text for text in told)
    found = lake.dataset(lake.table("quarantine").files(stream="changes"), QUARANTINE).to_table().to_pylist()
    assert sorted((row["id_ms"] - START_MS, row["raw"]) for row in found) == [(31, b"\xff{"), (32, b'["eA==","MQ=="]')]
    bed.changes(2)  # numbered on from 3: the strangers were no changes
    assert jobs.run(None, lake, settings(bed), once=True).seq == 5


def test_a_gap_is_an_error_and_can_be_accepted(bed, lake):
    bed.changes(10)
    bed.client.sadd(f"mq:{{{bed.namespace}}}:kv", "a")  # what the snapshot finds
    bed.client.hset(f"mq:{{{bed.namespace}}}:kv:a", "k", "v")
    bed.add(*[bed.heartbeat(START_MS + i) for i in range(5)], stream="heartbeats")
    jobs.run(None, lake, settings(bed), once=True)
    bed.changes(10)
    bed.client.xtrim(bed.key(), maxlen=5, approximate=False)
    bed.client.delete(bed.key("heartbeats"))
    with pytest.raises(GapError, match=r"--accept-gap"):
        jobs.run(None, lake, settings(bed), once=True)
    told = []
    done = jobs.run(None, lake, settings(bed, accept_gap=True), once=True, tell=told.append)
    assert done.seq == 10  # nothing has come behind the hole yet
    assert sum(text.startswith("accepted: ") for text in told) == 2
    bed.changes(10)
    bed.add(*[bed.heartbeat(START_MS + 100 + i) for i in range(5)], stream="heartbeats")
    done = jobs.run(None, lake, settings(bed), once=True)
    assert (done.seq, done.entries["changes"], done.entries["heartbeats"]) == (30, 10, 5)


def test_of_two_runs_that_write_at_once_one_counts_and_the_other_says_so(bed, lake, monkeypatch):
    bed.changes(10)
    jobs.run(None, lake, settings(bed), once=True)
    bed.changes(10)
    write, others = take.write_entries, []

    def meanwhile(*arguments):
        monkeypatch.setattr(take, "write_entries", write)
        bed.changes(5)
        others.append(jobs.run(None, Lake(lake.root), settings(bed), once=True))
        return write(*arguments)

    monkeypatch.setattr(take, "write_entries", meanwhile)
    with pytest.raises(OtherWriter, match="another run writes to the lake"):
        jobs.run(None, lake, settings(bed), once=True)
    assert others[0].entries["changes"] == 15
    bed.changes(1)
    assert jobs.run(None, lake, settings(bed), once=True).entries["changes"] == 1
    assert rows(lake, bed) == entries(bed)
    assert [past.content.seq for past in travel.all_pasts(lake, bed.namespace)] == [26]
