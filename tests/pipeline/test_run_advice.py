"""What went wrong with a stream, as ``mqregistry pipeline run`` says it; and what it says to do then does help."""

from __future__ import annotations

import contextlib
import datetime
import signal

import pytest

pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")

from mqregistry.errors import ConfigError, RegistryError
from mqregistry.pipeline.bronze import snapshot
from mqregistry.pipeline.bronze.query import last_entry
from mqregistry.pipeline.lake.lake import Lake
from mqregistry.pipeline.past import audit
from mqregistry.pipeline.redis_stream.data_source import RedisStreamSource
from mqregistry.pipeline.silver.progress import gaps, last
from mqregistry.store import keys
from tests.cli.conftest import command, env, home  # noqa: F401 - fixtures
from tests.pipeline.streams import EPOCH, START_MS, Bed

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("without_gold")]


@pytest.fixture
def pipeline_run(monkeypatch, spark, bed, lake, command):  # noqa: F811
    """``mqregistry pipeline run --once``; gives its error, or what it said."""
    monkeypatch.setattr("mqregistry.pipeline.spark.session.open_session", lambda **_: spark)
    monkeypatch.setattr("mqregistry.pipeline.spark.session.ending", lambda _: contextlib.nullcontext())
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}

    def run(*options, where=lake, fails=False):
        result = command(
            "pipeline", "run", "--once", "--redis", bed.url, "--namespace", bed.namespace, "--lake", where.root,
            *options, expect=int(fails),
        )  # fmt: skip
        if fails:
            assert isinstance(result.exception, RegistryError), result
            return str(result.exception)
        return result.stdout

    yield run
    for one, handler in before.items():
        signal.signal(one, handler)


def seqs(lake, bed, epoch=EPOCH):
    rows = lake.read("bronze/changes", namespace=bed.namespace, epoch=epoch, columns=["seq"])
    return sorted(seq for seq in rows["seq"].to_pylist() if seq is not None)


def batch_error(bed, **options):
    """What a batch read of the changes says."""
    source = RedisStreamSource({"url": bed.url, "namespace": bed.namespace, **options})
    with pytest.raises(RegistryError) as caught:
        batch_rows(source)
    return str(caught.value)


def batch_rows(source):
    """What Spark's tasks would read."""
    reader = source.reader(source.schema())
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def test_a_source_begins_and_ends_at_moments(bed):
    bed.changes(10)  # ten milliseconds apart
    first, end = (datetime.datetime.fromtimestamp((START_MS + ms) / 1000, datetime.UTC) for ms in (30, 60))
    options = {"url": bed.url, "namespace": bed.namespace}

    def found(**more):
        return [row["seq"] for row in batch_rows(RedisStreamSource({**options, **more}))]

    assert found(startingTime=first.isoformat(), endingTime=end.isoformat()) == [3, 4, 5]
    assert found(endingTime=first.replace(tzinfo=None).isoformat()) == [1, 2]
    assert found(startingTime="2020-01-01") == list(range(1, 11))
    assert found(startingTime="2099-01-01") == []
    with pytest.raises(ConfigError, match="startingTime 'yesterday': expected a moment"):
        found(startingTime="yesterday")


def kv(bed):
    """A value in the tables, which a snapshot finds."""
    bed.client.sadd(f"mq:{{{bed.namespace}}}:kv", "a")
    bed.client.hset(f"mq:{{{bed.namespace}}}:kv:a", "k", "v")


@pytest.mark.long
def test_a_trimmed_stream(bed, lake, pipeline_run):
    bed.changes(10)
    pipeline_run()
    bed.changes(10)
    kv(bed)
    bed.client.xtrim(bed.key(), maxlen=5, approximate=False)
    said = pipeline_run(fails=True)
    assert "(change 10) and now begins at" in said
    assert "so 5 changes in between are lost" in said
    assert "'mqregistry pipeline run --accept-gap'" in said
    read_up_to = last_entry(lake, bed.namespace, EPOCH, "changes")
    of_batch = batch_error(bed, startingId=str(read_up_to), startingSeq="10", epoch=EPOCH)
    assert "so 5 changes in between are lost" in of_batch
    assert seqs(lake, bed) == list(range(1, 11))  # nothing half done
    assert "accepted: " in pipeline_run("--accept-gap")
    bed.changes(3)
    pipeline_run()
    assert seqs(lake, bed) == [*range(1, 11), *range(21, 24)]


@pytest.mark.long
def test_redis_came_back_empty_and_is_used_again(bed, lake, pipeline_run):
    bed.changes(10)
    pipeline_run()
    for key in bed.client.scan_iter(f"mq:{{{bed.namespace}}}:*"):
        bed.client.delete(key)
    said = pipeline_run(fails=True)
    assert f"there is no namespace {bed.namespace!r}" in said
    assert "no front end has served it yet, or Redis came back empty" in said
    assert "there is no namespace" in batch_error(bed)
    again = Bed(bed.url, bed.namespace)  # a front end comes
    again.client.hset(keys.meta(bed.namespace), "epoch", "e2")
    again.changes(4)
    of_batch = batch_error(bed, epoch=EPOCH, startingId=str(START_MS), startingSeq="0")
    assert "its epoch is e2, the pipeline was reading epoch e1" in of_batch
    pipeline_run()
    assert seqs(lake, bed, "e2") == [1, 2, 3, 4]
    assert seqs(lake, bed) == list(range(1, 11))
    assert set(lake.epochs(bed.namespace)) == {EPOCH, "e2"}


@pytest.mark.long
def test_made_anew_in_the_middle_of_a_round(bed, lake, pipeline_run, monkeypatch):
    """What a batch is to hold is fixed, and then it is another registry that answers."""
    bed.changes(10)
    take = snapshot.take

    def late(*arguments, **more):
        done = take(*arguments, **more)
        bed.client.hset(keys.meta(bed.namespace), "epoch", "e2")
        return done

    with monkeypatch.context() as patched:
        patched.setattr(snapshot, "take", late)
        said = pipeline_run(fails=True)
    assert "its epoch is e2, the pipeline was reading epoch e1" in said
    assert "Run 'mqregistry pipeline run' again" in said
    assert seqs(lake, bed) == []
    pipeline_run()
    assert seqs(lake, bed, "e2") == list(range(1, 11))


@pytest.mark.long
def test_a_schema_that_this_release_does_not_know(bed, lake, pipeline_run):
    bed.changes(10)
    pipeline_run()
    bed.client.hset(keys.meta(bed.namespace), "schema", 9)
    assert "has schema version 9" in pipeline_run(fails=True)
    assert "has schema version 9" in batch_error(bed)
    with pytest.raises(RegistryError, match="schema version 9"):
        snapshot.take(None, bed.url, bed.namespace, lake)
    with pytest.raises(RegistryError, match="schema version 9"):
        audit.audit(None, bed.url, bed.namespace, lake)
    assert seqs(lake, bed) == list(range(1, 11))


UNREADABLE = {
    "no JSON": b"{nonsense",
    "of a newer schema": b'{"seq":4,"ms":1700000000035,"type":"table_flipped"}',
}


@pytest.mark.long
@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_change_that_cannot_be_read(bed, lake, pipeline_run, kind):
    bed.changes(3)
    bed.seq += 1
    bed.add({"e": UNREADABLE[kind]}, ids=[f"{START_MS + 35}-0"])
    bed.changes(3)
    kv(bed)
    said = pipeline_run(fails=True)
    assert "holds change 3 and then change 5: change 4 is missing" in said
    assert "an entry could not be read (see quarantine)" in said
    assert "'mqregistry pipeline run --accept-gap'" in said
    [row] = [row for row in lake.read("bronze/changes").to_pylist() if row["reason"] is not None]
    assert (row["raw"], row["id_ms"], row["id_n"], bool(row["reason"])) == (UNREADABLE[kind], START_MS + 35, 0, True)
    assert seqs(lake, bed) == [1, 2, 3, 5, 6, 7]
    # the batch reader shows it, too
    found = batch_rows(RedisStreamSource({"url": bed.url, "namespace": bed.namespace}))
    assert [row["raw"] for row in found if row["reason"] is not None] == [UNREADABLE[kind]]
    assert "accepted: " in pipeline_run("--accept-gap")
    bed.changes(2)
    pipeline_run()
    assert seqs(lake, bed) == [1, 2, 3, 5, 6, 7, 8, 9]
    assert last(lake, bed.namespace, EPOCH).seq == 9
    assert len(gaps(lake, bed.namespace, EPOCH)) == 1


@pytest.mark.long
def test_a_change_that_was_deleted(bed, lake, pipeline_run):
    """Only reading shows it."""
    bed.changes(10)
    pipeline_run()
    bed.changes(6)
    kv(bed)
    gone = bed.client.xrange(bed.key())[12][0]
    bed.client.xdel(bed.key(), gone)
    said = pipeline_run(fails=True)
    assert "holds changes without 13 to 13" in said
    assert "'mqregistry pipeline run --accept-gap'" in said
    assert "holds changes without 13 to 13" in batch_error(bed)
    assert "accepted: " in pipeline_run("--accept-gap")
    bed.changes(2)
    pipeline_run()
    assert seqs(lake, bed) == [*range(1, 11), 17, 18]
    assert last(lake, bed.namespace, EPOCH).seq == 18
    assert len(gaps(lake, bed.namespace, EPOCH)) == 1


@pytest.mark.long
def test_an_earlier_state_came_back_and_went_another_way(bed, lake, tmp_path, pipeline_run):
    """A Redis that forgot its last changes, as after a failover, and has had others since."""
    bed.changes(10)
    pipeline_run()
    kept = bed.client.xrange(bed.key())[:-3]
    bed.client.delete(bed.key())
    for entry_id, fields in kept:
        bed.client.xadd(bed.key(), fields, entry_id)
    bed.seq = 7
    bed.client.hset(keys.meta(bed.namespace), "seq", 7)
    said = pipeline_run(fails=True)
    assert "Redis came back with an earlier state" in said
    assert "begin another lake: --lake DIR" in said
    bed.add(*[bed.change(ms=START_MS + 1_000 + i, key=f"other{i}") for i in range(6)])
    said = pipeline_run(fails=True)
    assert "begin another lake: --lake DIR" in said
    assert pipeline_run("--accept-gap", fails=True) == said
    assert seqs(lake, bed) == list(range(1, 11))
    other = Lake(str(tmp_path / "other"))
    pipeline_run(where=other)
    assert seqs(other, bed) == list(range(1, 14))
