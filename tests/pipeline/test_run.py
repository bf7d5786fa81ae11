"""Whole runs: the lake after them, after entries that cannot be read, and after gaps that were accepted."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")

from deltalake import DeltaTable

from mqregistry.errors import StoreUnavailable
from mqregistry.events.journal import STREAMS
from mqregistry.pipeline import namespace as namespace_module
from mqregistry.pipeline.bronze import snapshot
from mqregistry.pipeline.bronze.again import requarantine
from mqregistry.pipeline.lake.lake import OtherWriter
from mqregistry.pipeline.lake.schema import SILVER, TABLES
from mqregistry.pipeline.namespace import NamespaceRun, RunSettings
from mqregistry.pipeline.redis_stream.stream import GapError
from mqregistry.pipeline.run import run
from mqregistry.pipeline.silver.advance import Silver
from mqregistry.pipeline.silver.next_changes import MissingChanges
from mqregistry.pipeline.silver.progress import gaps, last
from mqregistry.store.store import Store
from mqregistry.store.streams import StreamStore
from tests.server.harness import wait_until

from .streams import EPOCH, START_MS, Bed
from .world import silver_rows

pytestmark = pytest.mark.spark


def once(spark, lake, *beds, **more):
    """What a run takes in; more: of its settings."""
    told = []
    wanted = RunSettings(beds[0].url, [bed.namespace for bed in beds], **more)
    done = run(spark, lake, wanted, once=True, tell=told.append)
    return done, told


def entries(bed, stream="changes"):
    found = bed.client.xrange(bed.key(stream))
    return [(*map(int, i.split(b"-")), fields[b"e"].decode()) for i, fields in found]


def bronze(lake, bed, stream="changes"):
    """(id_ms, id_n, e) of every entry in bronze that can be read."""
    rows = lake.read(f"bronze/{stream}", namespace=bed.namespace, epoch=EPOCH).to_pylist()
    return sorted((row["id_ms"], row["id_n"], row["e"]) for row in rows if row["reason"] is None)


def readers(bed):
    async def ask():
        async with Store(bed.url, bed.namespace) as store:
            return (await StreamStore(store).survey()).readers

    return asyncio.run(ask())


def test_a_run_takes_all_streams_and_the_next_one_what_is_new_and_all_of_it_is_sparks(spark, bed, lake, monkeypatch):
    bed.changes(100)
    broker = {"broker_name": "b", "cluster": "c", "who": "c|x:1", "row": {"cluster": "c", "addrs": {"0": "x:1"}}}
    broker |= {"topics": {"t": {"r": 4, "w": 4, "p": 6, "f": 0}}, "filter_servers": ["f:1"]}
    broker |= {"mappings": [["t", "b", "{}"]], "broker_id": 0, "addr": "x:1"}
    broker |= {"live": {"timeout_ms": 1, "counter": 1, "timestamp": 1, "state_version": 1, "ha": None}}
    bed.add(bed.change(type="broker_registered", **broker))
    bed.add(bed.change(type="config_set", config={"orderMessageEnable": "true"}))
    bed.add(*[bed.heartbeat(START_MS + 1000 * i, who="c|x:1") for i in range(50)], stream="heartbeats")
    bed.add(
        f'{{"ms":{START_MS + 500},"found":{{"t":3}},"missing":{{"n":1}},"front_end":"fe1","worker":"w","seq":1,'
        '"interval_ms":1}'.encode(),
        stream="lookups",
    )
    done, told = once(spark, lake, bed)
    assert done == {"changes": 102, "heartbeats": 50, "lookups": 1}
    assert any(text.startswith("changes: 102 entries") for text in told)
    bed.changes(3)
    monkeypatch.setattr("mqregistry.pipeline.maintain._MANY_FILES", 2)
    assert once(spark, lake, bed)[0] == {"changes": 3, "heartbeats": 0, "lookups": 0}
    assert len(lake.delta("bronze/changes").file_uris()) == 1, "short runs merge the files of those before, too"
    for stream in ("changes", "heartbeats"):
        assert bronze(lake, bed, stream) == entries(bed, stream)
    assert last(lake, bed.namespace, EPOCH).seq == 105
    assert last(lake, bed.namespace, EPOCH).observed_ms > START_MS + 2000
    rows = silver_rows(lake, bed.namespace, EPOCH)
    assert len(rows["kv"]) == 100  # keys k0 to k2 were given the value that they had
    assert {table for table in SILVER if rows[table]} == set(SILVER)
    last_ids = {stream: entries(bed, stream)[-1][:2] for stream in STREAMS}
    assert {name: readers(bed)["pipeline"].positions[name].id for name in STREAMS} == {
        name: f"{ms}-{n}" for name, (ms, n) in last_ids.items()
    }
    check_engine(lake)


def check_engine(lake):
    """Every commit of every table is Spark's; and of which tables there are any."""
    seen = set()
    for name in TABLES:
        delta = lake.delta(name)
        for commit in delta.history() if delta else ():
            seen.add(name)
            assert commit["engineInfo"].startswith("Apache-Spark/"), (name, commit)
    assert seen >= {name for name in TABLES if not name.startswith(("gold/", "silver/gap", "silver/clock"))}


@pytest.mark.usefixtures("without_gold")
def test_what_cannot_be_read_is_kept_and_a_newer_release_reads_it(spark, bed, lake, monkeypatch):
    bed.changes(2)
    strange = bed.change(type="from_later", ignorable=False)
    bed.add(strange)
    bed.changes(2)
    bed.add({"x": b"1"}, ids=[f"{START_MS + 55}-0"])
    with pytest.raises(MissingChanges, match="holds change 2 and then change 4: change 3 is missing"):
        once(spark, lake, bed)
    unread = [row for row in lake.read("bronze/changes").to_pylist() if row["reason"] is not None]
    assert (unread[0]["seq"], unread[0]["e"], unread[0]["raw"]) == (None, None, strange)
    assert "must not ignore them" in unread[0]["reason"]
    assert "one field e" in unread[1]["reason"]
    assert last(lake, bed.namespace, EPOCH).seq == 2
    readable = strange.replace(b'"ignorable": false', b'"ignorable": true')
    spark.sql(  # as a release would have read it that knows the type
        f"UPDATE delta.`{lake.path('bronze/changes')}` SET raw = '{readable.decode()}' WHERE raw LIKE '%from_later%'"
    )
    assert requarantine(spark, lake, bed.namespace, EPOCH) == (1, 1)
    assert requarantine(spark, lake, bed.namespace, EPOCH) == (0, 1)
    once(spark, lake, bed)
    assert last(lake, bed.namespace, EPOCH).seq == 5
    assert gaps(lake, bed.namespace, EPOCH) == []


@pytest.mark.usefixtures("without_gold")
def test_a_gap_is_an_error_and_one_that_is_accepted_is_there_at_once(spark, bed, lake):
    key = f"mq:{{{bed.namespace}}}:kv"
    bed.add(bed.change(key="a", value="1"))
    bed.add(bed.heartbeat(START_MS), bed.heartbeat(START_MS + 1), stream="heartbeats")
    once(spark, lake, bed)
    bed.add(bed.change(key="a", value="2"))
    bed.client.sadd(key, "a")
    bed.client.hset(f"{key}:a", "a", "2")
    bed.client.xtrim(bed.key(), maxlen=0, approximate=False)
    bed.add(bed.heartbeat(START_MS + 5_000), bed.heartbeat(START_MS + 9_000), stream="heartbeats")
    bed.client.xtrim(bed.key("heartbeats"), maxlen=1, approximate=False)
    with pytest.raises(GapError, match=r"'mqregistry pipeline run --accept-gap'"):
        once(spark, lake, bed)
    _, told = once(spark, lake, bed, accept_gap=True)
    assert sum(text.startswith("accepted: ") for text in told) == 2
    held = [row["value"] for row in silver_rows(lake, bed.namespace, EPOCH)["kv"] if row["to_seq"] is None]
    assert held == ["2"]
    [(from_ms, to_ms)] = gaps(lake, bed.namespace, EPOCH)
    assert from_ms == START_MS + 10
    assert to_ms > START_MS + 20
    assert gaps(lake, bed.namespace, EPOCH, "heartbeats") == [(START_MS + 1, START_MS + 9_000)]
    bed.changes(2)
    once(spark, lake, bed)
    assert last(lake, bed.namespace, EPOCH).seq == 4
    assert [e[0] for e in bronze(lake, bed, "heartbeats")] == [START_MS, START_MS + 1, START_MS + 9_000]


@pytest.mark.usefixtures("without_gold")
def test_a_namespace_that_fails_does_not_stop_the_others(spark, bed, redis_url, lake):
    bed.changes(3)
    nobody = Bed.__new__(Bed)
    nobody.url, nobody.namespace = redis_url, f"{bed.namespace}-none"
    told = []
    wanted = RunSettings(redis_url, [nobody.namespace, bed.namespace])
    with pytest.raises(GapError, match="there is no namespace"):
        run(spark, lake, wanted, once=True, tell=told.append)
    assert any(text.startswith(f"namespace {nobody.namespace}: there is no namespace") for text in told)
    assert last(lake, bed.namespace, EPOCH).seq == 3


@pytest.mark.usefixtures("without_gold")
def test_a_second_application_beside_one_ends_with_a_message(spark, bed, lake):
    """Of whichever namespace: two applications may lose each other's commits."""
    bed.changes(1)
    Path(lake.path("_lock_owner")).write_text(f"{os.getpid()} {socket.gethostname()}")
    with Path(lake.path("_lock")).open("w") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)  # as another process's Java holds it
        with pytest.raises(OtherWriter, match=rf"another application writes to .*process {os.getpid()} on"):
            once(spark, lake, bed)
    once(spark, lake, bed)


@contextlib.contextmanager
def lasting(spark, lake, bed, monkeypatch, **more):
    """A run that goes on, without gold, until the block ends; what it raised is raised then. Gives what it tells."""
    monkeypatch.setattr(NamespaceRun, "_gold_batch", lambda *_: None)
    stop, told = threading.Event(), []
    wanted = RunSettings(bed.url, [bed.namespace], **more)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, spark, lake, wanted, interval_s=0.5, tell=told.append, stop=stop)
        try:
            yield told, running
        finally:
            stop.set()
        running.result()


def wait_for_seq(lake, bed, running, seq):
    def reached():
        at = last(lake, bed.namespace, EPOCH)
        return running.done() or (at is not None and at.seq == seq)

    wait_until(reached, f"silver is at change {seq}", 120)


def test_a_hole_that_a_lasting_run_accepts_brings_no_entry_twice(spark, bed, lake, monkeypatch):
    key = f"mq:{{{bed.namespace}}}:kv"
    now_ms = int(time.time() * 1000)  # else the snapshot's moment is one of a clock that was set back
    more = {"type": "from_later", "ignorable": False}
    bed.add(*[bed.change(ms=now_ms + i, key=f"k{i}", **(more if i == 2 else {})) for i in range(4)])
    bed.client.sadd(key, "a")
    bed.client.hset(f"{key}:a", "a", "2")
    take = NamespaceRun._take_snapshot

    def take_while_changes_come(work, **more):
        take(work, **more)
        if more:
            at_ms = int(time.time() * 1000)
            bed.add(*[bed.change(ms=at_ms + i, key=f"k{i}") for i in range(3)])
            reading = work._queries.get("changes")
            wait_until(lambda: not (reading and reading.isActive) or len(bronze(lake, bed)) == 6, "they are read", 60)

    monkeypatch.setattr(NamespaceRun, "_take_snapshot", take_while_changes_come)
    with lasting(spark, lake, bed, monkeypatch, accept_gap=True) as (told, running):
        wait_for_seq(lake, bed, running, 7)
    assert any(text.startswith("accepted: ") for text in told)
    read = [row["seq"] for row in lake.read("bronze/changes", namespace=bed.namespace).to_pylist() if row["seq"]]
    assert sorted(read) == [1, 2, 4, 5, 6, 7]


def test_a_lasting_run_that_lost_redis_at_its_beginning_begins_again(spark, bed, lake, monkeypatch):
    bed.changes(2)
    take, failed = snapshot.take, []

    def take_later(*args, **more):
        if not failed:
            failed.append(1)
            raise StoreUnavailable("Redis is away")
        return take(*args, **more)

    monkeypatch.setattr(snapshot, "take", take_later)
    monkeypatch.setattr(namespace_module, "_AGAIN_S", 0.1)
    with lasting(spark, lake, bed, monkeypatch) as (told, running):
        wait_for_seq(lake, bed, running, 2)
    assert "Redis is away; again in 0.1 s" in told


@pytest.mark.usefixtures("without_gold")
def test_killed_while_it_accepts_an_earlier_state_of_a_stream_it_reads_nothing_twice(spark, bed, lake, monkeypatch):
    bed.changes(1)
    bed.add(bed.heartbeat(START_MS), bed.heartbeat(START_MS + 1), stream="heartbeats")
    once(spark, lake, bed)
    bed.client.delete(bed.key("heartbeats"))
    bed.add(bed.heartbeat(START_MS), stream="heartbeats")
    add, tell = namespace_module.add_new, Silver.tell

    def killed(*_, **__):
        raise RuntimeError("killed")

    for name, place in (("add_new", namespace_module), ("tell", Silver)):
        with monkeypatch.context() as patched:
            patched.setattr(place, name, killed)
            with pytest.raises(RuntimeError, match="killed"):
                once(spark, lake, bed, accept_gap=True)
    assert (add, tell) == (namespace_module.add_new, Silver.tell)
    once(spark, lake, bed, accept_gap=True)
    bed.add(bed.heartbeat(START_MS + 2), stream="heartbeats")
    once(spark, lake, bed)
    assert [e[0] for e in bronze(lake, bed, "heartbeats")] == [START_MS, START_MS + 1, START_MS + 2]
    assert gaps(lake, bed.namespace, EPOCH, "heartbeats") == [(START_MS + 1, START_MS + 1)]


@pytest.mark.usefixtures("without_gold")
def test_a_namespace_that_paused_for_longer_than_delta_keeps_its_log_goes_on(spark, bed, lake):
    bed.changes(2)
    once(spark, lake, bed)
    changes = Path(lake.path("bronze/changes"), "_delta_log")
    for _ in range(3):  # as other namespaces write on; Delta then removes what is older than a week
        spark.sql(f"ALTER TABLE delta.`{lake.path('bronze/changes')}` SET TBLPROPERTIES ('other' = '1')")
    delta = DeltaTable(lake.path("bronze/changes"))
    delta.create_checkpoint()
    for commit in sorted(changes.glob("*.json"))[: delta.version()]:
        commit.unlink()
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    silver = Path(lake.path("_checkpoints"), bed.namespace, EPOCH, "silver", "commits")
    for commit in silver.glob("[0-9]*"):
        os.utime(commit, (time.time() - 8 * 86_400,) * 2)
    bed.changes(2)
    once(spark, lake, bed)
    assert last(lake, bed.namespace, EPOCH).seq == 4
