"""The audit: nothing to find where nothing was changed, and whatever was changed is found."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyarrow", reason="no pyarrow: pip install -e '.[spark]'")

from mqregistry.pipeline import jobs, silver
from mqregistry.pipeline.backfill import backfill
from mqregistry.pipeline.lake import snapshot
from mqregistry.pipeline.lake.lake import owner
from mqregistry.pipeline.past.audit import audit
from mqregistry.pipeline.silver import job
from mqregistry.store.streams import StreamStore, lookup_entries
from tests.pipeline.world import World, entries, new_seed, write_bronze
from tests.store.bed import Bed

OPERATIONS = int(os.environ.get("MQREGISTRY_TEST_OPERATIONS", "200"))


async def fill(store, lake, operations, *, seed, trimmed=0):
    """A lake of random operations, some of which only the stream has yet."""
    world = World(store, seed)
    epoch = (await world.bed.head()).epoch
    await world.run(operations // 2)
    if trimmed:
        await store.client.xtrim(f"mq:{{{store.namespace}}}:changes", maxlen=trimmed, approximate=False)
    taken = await snapshot.take_async(store.url, store.namespace, lake)
    await world.run(operations // 2)
    await world.bed.kv.put("kept", "by nobody", "changed later")
    found = await entries(store, "-" if taken.seq == 0 else taken.last_id)
    write_bronze(lake, store.namespace, epoch, 0, found[: len(found) // 2])
    write_bronze(lake, store.namespace, epoch, 1, found[len(found) // 2 :])
    await world.run(20)
    return world, epoch


@pytest.mark.spark
def test_random_operations_leave_no_difference(spark, run, store, lake):
    seed = new_seed()
    print("seed", seed)
    _, epoch = run(fill(store, lake, OPERATIONS, seed=seed, trimmed=3))
    silver.advance(None, lake, store.namespace, epoch)
    found = audit(spark, store.url, store.namespace, lake)
    assert found.differences == []
    assert found.ok
    assert found.seq >= found.replayed > 3
    assert found.cells > 20
    assert not list(Path(lake.path("_audit")).iterdir())

    def alter(seq, event):
        return event | {"value": "altered"} if event.get("value") is not None else event

    rewrite(lake, store.namespace, epoch, 1, alter)
    here, there = (audit(one, store.url, store.namespace, lake).differences for one in (None, spark))
    assert [(d.where, d.table) for d in here] == [(d.where, d.table) for d in there]
    assert {d.table for d in there if d.where == "silver"} == {"kv"}


def rewrite(lake, namespace, epoch, number, change):
    """Edit the events of one batch of bronze: change(seq, event) gives the event that is there instead, None: none."""
    for file in lake.table("bronze/changes").files(**owner(namespace, epoch)):
        if file.low["batch"] == number:
            table = pq.read_table(lake.path(file.path))
            rows = []
            for row in table.to_pylist():
                event = change(row["seq"], json.loads(row["e"]))
                if event is not None:
                    rows.append(row | {"e": json.dumps(event)})
            pq.write_table(table.from_pylist(rows, schema=table.schema), lake.path(file.path))


def test_a_removed_event_and_altered_ones_are_found(run, store, lake):
    world, epoch = run(fill(store, lake, 100, seed=5))
    run(world.bed.kv.put("audited", "old", "1"))
    run(world.bed.kv.put("audited", "old", "2"))
    run(world.bed.kv.put("audited", "now", "right"))
    found = run(entries(store))
    last_seq = json.loads(found[-1][1])["seq"]
    write_bronze(lake, store.namespace, epoch, 2, found)  # all of it, once more
    silver.advance(None, lake, store.namespace, epoch)
    assert audit(None, store.url, store.namespace, lake).ok

    def alter(value, other):
        def change(seq, event):
            if event.get("value") == value and event["kv_namespace"] == "audited":
                event["value"] = other
            return event

        return change

    # a value that stands
    rewrite(lake, store.namespace, epoch, 2, alter("right", "wrong"))
    differences = audit(None, store.url, store.namespace, lake).differences
    of_redis = [d for d in differences if d.where == "redis"]
    assert [(d.table, d.key, d.history, d.found) for d in of_redis] == [("kv", ("audited", "now"), "wrong", "right")]
    assert {(d.where, d.table) for d in differences} == {("redis", "kv"), ("silver", "kv"), ("bronze", "changes")}
    # one that stands no more: silver still has it
    rewrite(lake, store.namespace, epoch, 2, alter("wrong", "right"))
    rewrite(lake, store.namespace, epoch, 2, alter("1", "one"))
    differences = audit(None, store.url, store.namespace, lake).differences
    assert {(d.where, d.table) for d in differences} == {("silver", "kv"), ("bronze", "changes")}
    assert {(d.history or d.found)["value"] for d in differences if d.where == "silver"} == {"one", "1"}
    rewrite(lake, store.namespace, epoch, 2, alter("one", "1"))
    # one that is gone
    rewrite(lake, store.namespace, epoch, 2, lambda seq, event: None if seq == last_seq - 1 else event)
    gone = audit(None, store.url, store.namespace, lake)
    assert not gone.ok
    assert f"holds change {last_seq - 2} and then change {last_seq}: change {last_seq - 1} is missing" in gone.missing


def test_redis_altered_behind_the_registry_is_found(run, store, lake):
    world, _ = run(fill(store, lake, 60, seed=6))
    run(world.bed.register("10.9.9.9:1", "broker-x", topics=("audited", "other")))
    assert audit(None, store.url, store.namespace, lake).ok
    run(world.bed.redis("HSET", world.bed.key("queues:broker-x"), "audited", '{"r":1,"w":1,"p":6,"f":0}'))
    run(world.bed.redis("HDEL", world.bed.key("broker:broker-x"), "0"))
    found = audit(None, store.url, store.namespace, lake).differences
    assert [(d.table, d.key, d.found) for d in found] == [
        ("broker_addr", ("broker-x", "0"), None),
        ("queue_data", ("audited", "broker-x"), {"read": 1, "write": 1, "perm": 6, "flag": 0}),
    ]


def test_an_audit_goes_on_from_the_last_one_without_a_difference(run, store, lake, monkeypatch):
    world, epoch = run(fill(store, lake, 80, seed=7))
    silver.advance(None, lake, store.namespace, epoch)
    replayed = []
    replay = job._replay_here
    monkeypatch.setattr(job, "_replay_here", lambda *of: (replayed.append(of[3]), replay(*of))[1])
    whole = audit(None, store.url, store.namespace, lake, since_last=True)
    assert whole.ok
    assert replayed[0] < 1, "there was none before"
    after = whole.replayed
    for number in (2, 3):
        run(world.run(30))
        found = [entry for entry in run(entries(store)) if json.loads(entry[1])["seq"] > after]
        write_bronze(lake, store.namespace, epoch, number, found)
        silver.advance(None, lake, store.namespace, epoch)
        del replayed[:]
        again = audit(None, store.url, store.namespace, lake, since_last=True)
        assert again.ok, again
        assert replayed == [after]
        after = again.replayed
    run(world.bed.kv.put("audited", "now", "right"))
    write_bronze(lake, store.namespace, epoch, 4, run(entries(store))[-1:])
    silver.advance(None, lake, store.namespace, epoch)
    rewrite(lake, store.namespace, epoch, 4, lambda seq, event: event | {"value": "wrong"})
    for _ in range(2):
        differences = audit(None, store.url, store.namespace, lake, since_last=True).differences
        assert {(d.where, d.table) for d in differences} == {("redis", "kv"), ("silver", "kv"), ("bronze", "changes")}
    backfilled = list(backfill(None, lake, store.namespace, epoch))
    del replayed[:]
    assert backfilled
    again = audit(None, store.url, store.namespace, lake, since_last=True)
    assert {d.where for d in again.differences} == {"redis", "bronze"}
    assert replayed[0] < 1, "all rows are other ones"


def alter_rows(lake, table, change):
    """Edit the rows of a table's first file: change(rows) gives those that are there instead."""
    path = lake.path(lake.table(table).files()[0].path)
    rows = pq.read_table(path, partitioning=None)
    pq.write_table(rows.from_pylist(change(rows.to_pylist()), schema=rows.schema), path)


def test_what_is_altered_in_bronze_or_gold_is_found(run, store, lake):
    async def work():
        bed = Bed(store)
        for number in range(4):
            for _ in range(3):
                await bed.register(f"10.0.0.{number}:1", f"broker-{number}", topics=("one", "two"))
        await StreamStore(store).write_lookups("fe1", "w1", 1, 10_000, lookup_entries({"one": 3}, {"none": 1}))

    def found(*, since_last=False):
        return audit(None, store.url, store.namespace, lake, since_last=since_last)

    run(work())
    settings = jobs.PipelineSettings(store.url, store.namespace)
    jobs.run(None, lake, settings, once=True)
    assert found().ok
    assert found().entries == {"changes": 4, "heartbeats": 12, "lookups": 1}
    assert found().figures > 20
    run(work())
    jobs.run(None, lake, settings, once=True)
    later = found(since_last=True)
    assert later.ok, later
    assert later.entries == {"changes": 0, "heartbeats": 12, "lookups": 0}, "a report of a worker counts once"

    alter_rows(lake, "gold/broker", lambda rows: [{**rows[0], "outages": 7}, *rows[1:]])
    of_gold = found().differences
    assert {(d.where, d.table) for d in of_gold} == {("gold", "broker")}
    assert [d.found["outages"] for d in of_gold if d.found] == [7]

    def change(rows):
        altered = {**rows[0], "e": rows[0]["e"].replace('"bytes":', '"bytes":9')}
        return [altered, *rows[2:], rows[2]]

    alter_rows(lake, "bronze/heartbeats", change)
    first, second, third = [d for d in found().differences if d.where == "bronze"]
    assert first.found == first.history.replace('"bytes":', '"bytes":9')
    assert second.found is None
    assert third.found == "2 times"
    assert "heartbeat" in {d.table for d in found().differences if d.where == "gold"}
