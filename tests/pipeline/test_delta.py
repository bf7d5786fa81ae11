"""Delta tables that follow the lake: the same rows, once each, whatever happened on the way."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("deltalake")

import pyarrow as pa
import pyarrow.parquet as pq
from click.testing import CliRunner
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from mqregistry.cli import cli
from mqregistry.pipeline import delta, gold, silver
from mqregistry.pipeline.backfill import backfill, rebuild_gold
from mqregistry.pipeline.lake import snapshot
from mqregistry.pipeline.lake.lake import Lake, LakeError, places
from mqregistry.pipeline.lake.schema import BRONZE, GOLD, QUARANTINE, SILVER
from mqregistry.pipeline.silver.files import read_files
from mqregistry.pipeline.silver.manifest import log_of, read_last
from tests.pipeline.gold_lake import Written
from tests.pipeline.test_gold_refresh import HOUR, NOON, a_past, seen_by
from tests.pipeline.world import World, entries, write_bronze

KILLS = int(os.environ.get("MQREGISTRY_TEST_KILLS", "4"))
ROOT = Path(__file__).resolve().parents[2]
WORK = """
import sys
from mqregistry.pipeline.delta import publish
from mqregistry.pipeline.lake.lake import Lake
print("begun", flush=True)
publish(Lake(sys.argv[1]), sys.argv[2], sys.argv[3])
"""


def rows(found, schema):
    """Rows of the columns that the lake has, in an order of their own."""
    return sorted(map(repr, found.select(schema.names).to_pylist()))


def in_delta(root, name, epoch=None):
    found = DeltaTable(f"{root}/{name}").to_pyarrow_table()
    return found if epoch is None else found.filter(pa.compute.equal(found["epoch"], epoch))


def in_lake(lake, name, namespace, epoch):
    layer, _, table = name.partition("/")
    if layer == "gold":
        return gold.read(lake, table, namespace, epoch)
    if layer == "silver":
        last = read_last(lake, log_of(namespace, epoch))
        files = last[1].of(table) if last else []
        return read_files(lake, table, files).to_table() if files else SILVER[table].empty_table()
    log = f"bronze/{table}/{places(namespace, epoch)}"
    found = [BRONZE[table].empty_table()]
    for number in lake.commits(log):
        for file in Path(lake.path(log, f"batch={number:09d}")).rglob("*.parquet"):
            found.append(pq.read_table(file, partitioning=None))
    return pa.concat_tables(found)


SCHEMAS = {
    **{f"bronze/{name}": schema for name, schema in BRONZE.items()},
    **{f"silver/{name}": schema for name, schema in SILVER.items()},
    **{f"gold/{name}": schema for name, schema in GOLD.items()},
}


def assert_same(lake, root, namespace, epoch):
    """Every table that the lake has, row by row."""
    compared = 0
    for name, schema in SCHEMAS.items():
        expected = rows(in_lake(lake, name, namespace, epoch), schema)
        there = DeltaTable.is_deltatable(f"{root}/{name}")
        assert rows(in_delta(root, name, epoch), schema) == expected if there else not expected, name
        compared += len(expected)
    return compared


def versions(root):
    return {
        name: DeltaTable(f"{root}/{name}").version() for name in SCHEMAS if DeltaTable.is_deltatable(f"{root}/{name}")
    }


@pytest.fixture
def past(run, store, tmp_path):
    """A lake with bronze in batches of changes, and a way to let it grow by some of them."""
    world = World(store, 5)
    run(world.run(160))
    found = run(entries(store))
    lake = Lake(str(tmp_path / "lake"))
    epoch = run(snapshot.take_async(store.url, store.namespace, lake)).epoch

    def grow(first, end):
        for number in range(first, end):
            write_bronze(lake, store.namespace, epoch, number, found[number * 20 : number * 20 + 20])
        silver.advance(None, lake, store.namespace, epoch)
        gold.refresh(None, lake, store.namespace, epoch)

    return lake, store.namespace, epoch, grow, len(found) // 20 + 1


def test_in_steps_the_tables_have_the_rows_of_the_lake(past, tmp_path):
    lake, namespace, epoch, grow, batches = past
    root = str(tmp_path / "delta")
    for number in range(0, batches, 2):
        grow(number, min(number + 2, batches))
        assert delta.publish(lake, root, namespace)
        assert assert_same(lake, root, namespace, epoch) > 20
        before = versions(root)
        assert delta.publish(lake, root, namespace) == 0, "nothing new"
        assert versions(root) == before
    changes = in_delta(root, "bronze/changes")
    assert set(changes["batch"].to_pylist()) == set(range(batches))
    assert set(changes["day"].to_pylist()) == {"2026-01-01"}
    assert set(changes["namespace"].to_pylist()) == {namespace}
    for name, schema in SCHEMAS.items():
        if name in before:
            made = pa.schema(DeltaTable(f"{root}/{name}").schema().to_arrow())
            for field in schema:
                assert (made.field(field.name).nullable, field.name) == (field.nullable, field.name)
                if field.type != pa.list_(pa.string()):
                    assert made.field(field.name).type == field.type


def test_rows_that_ended_before_stay_where_they_are(past, tmp_path):
    lake, namespace, _, grow, batches = past
    root = str(tmp_path / "delta")
    grow(0, batches - 2)
    delta.publish(lake, root, namespace)
    kept = Path(root, "silver/queue_data")
    delta.publish(lake, root, namespace)
    grow(batches - 2, batches)
    delta.publish(lake, root, namespace)
    last = DeltaTable(str(kept)).history(1)[0]["operationParameters"]
    assert "to_seq >" in last["predicate"], "only the rows that hold, and what ended since"


def run_and_kill(lake, root, namespace, pick):
    job = subprocess.Popen(
        [sys.executable, "-c", WORK, lake.root, root, namespace], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    with job:
        assert job.stdout.readline() == "begun\n"
        time.sleep(pick.random() * 0.5)  # a random moment is what is wanted
        job.send_signal(signal.SIGKILL)


def test_killed_at_random_moments_every_row_is_there_once(past, tmp_path):
    lake, namespace, epoch, grow, batches = past
    root = str(tmp_path / "delta")
    pick = random.Random(8)
    steps = [batches * step // (KILLS + 1) for step in range(KILLS + 2)]
    for first, end in itertools.pairwise(steps):
        grow(first, end)
        run_and_kill(lake, root, namespace, pick)
    delta.publish(lake, root, namespace)
    assert assert_same(lake, root, namespace, epoch) > 200


def test_a_backfill_is_followed(past, tmp_path):
    lake, namespace, epoch, grow, batches = past
    root = str(tmp_path / "delta")
    grow(0, batches)
    delta.publish(lake, root, namespace)
    # as if an older release had written a wrong value
    table = DeltaTable(f"{root}/silver/queue_data")
    table.update(updates={"perm": "99"})
    list(backfill(None, lake, namespace, epoch))
    rebuild_gold(None, lake, namespace, epoch)
    assert delta.publish(lake, root, namespace)
    assert assert_same(lake, root, namespace, epoch) > 200


@pytest.mark.parametrize("seed", range(3))
def test_gold_and_the_other_streams_follow_refresh_by_refresh(tmp_path, seed):
    end = NOON + 30 * HOUR
    addrs, queues, events, beats, lookups = a_past(seed, end=end)
    written, root = Written(Lake(str(tmp_path / "lake")), namespace="o'hara"), str(tmp_path / "delta")
    chance, before = random.Random(seed), 0
    for number, upto in enumerate([*sorted(chance.randrange(NOON + HOUR, end) for _ in range(5)), end]):
        written.silver(number, seq=number, ms=upto, broker_addr=seen_by(addrs, upto), queue_data=seen_by(queues, upto))
        for stream, found in (("changes", events), ("heartbeats", beats), ("lookups", lookups)):
            written.bronze(stream, number, [entry for entry in found if before < entry["ms"] <= upto])
        flap_ms = 300_000 if number < 5 else 100_000  # other rules: all of it anew
        gold.refresh(None, written.lake, written.namespace, written.epoch, flap_ms=flap_ms)
        before = upto
        if number % 2 or upto == end:
            delta.publish(written.lake, root, written.namespace)
            for name in (*(f"gold/{name}" for name in GOLD), *(f"bronze/{name}" for name in BRONZE)):
                expected = rows(in_lake(written.lake, name, written.namespace, written.epoch), SCHEMAS[name])
                assert rows(in_delta(root, name), SCHEMAS[name]) == expected, name
    assert len(expected) > 5


def test_epochs_stand_beside_each_other(tmp_path):
    root = str(tmp_path / "delta")
    lake = Lake(str(tmp_path / "lake"))
    for epoch in ("e1", "e2"):
        a_lake_with_one_broker(lake, epoch)
        delta.publish(lake, root, "default")
    for epoch in ("e1", "e2"):
        assert in_delta(root, "gold/broker", epoch).num_rows == 2


def a_lake_with_one_broker(lake, epoch="e1"):
    written = Written(lake, epoch=epoch)
    row = {"broker_name": "b", "broker_id": 0, "cluster": "c", "addr": "b:0", "from_ms": NOON, "to_ms": None}
    written.silver(0, seq=1, ms=NOON + 1000, broker_addr=[row])
    written.bronze("heartbeats", 0, [])
    gold.refresh(None, lake, written.namespace, epoch)


def test_entries_that_could_not_be_read_are_there_too(tmp_path):
    lake, root = Lake(str(tmp_path / "lake")), str(tmp_path / "delta")
    place = f"lookups/{places('default', 'e1')}"
    for number in (0, 1):
        folder = Path(lake.path(f"quarantine/{place}/batch={number:09d}"))
        folder.mkdir(parents=True)
        row = {"stream": "lookups", "id_ms": 7 + number, "id_n": 0, "reason": "no JSON", "raw": b"\x00{"}
        pq.write_table(pa.Table.from_pylist([row], QUARANTINE), folder / "part.parquet")
        lake.commit(f"bronze/{place}", number, {"rows": 0, "quarantined": 1})
        assert delta.publish(lake, root, "default") == 1
    found = in_delta(root, "quarantine").to_pylist()
    assert sorted((row["id_ms"], row["raw"], row["batch"]) for row in found) == [(7, b"\x00{", 0), (8, b"\x00{", 1)]


def test_tables_of_another_lake_are_left_alone(tmp_path):
    root = str(tmp_path / "delta")
    lakes = [Lake(str(tmp_path / name)) for name in ("one", "other")]
    for lake in lakes:
        a_lake_with_one_broker(lake)
    delta.publish(lakes[0], root, "default")
    with pytest.raises(LakeError, match=r"is not this lake's: .* give --delta another folder"):
        delta.publish(lakes[1], root, "default")


def test_a_second_publisher_adds_nothing_twice(tmp_path, monkeypatch):
    root, lake = str(tmp_path / "delta"), Lake(str(tmp_path / "lake"))
    a_lake_with_one_broker(lake)
    written = Written(lake)
    written.bronze("lookups", 0, [{"ms": NOON, "front_end": "f", "since_ms": NOON, "found": {}, "missing": {}}])
    delta.publish(lake, root, "default")
    written.bronze("lookups", 1, [{"ms": NOON + 1, "front_end": "f", "since_ms": NOON, "found": {}, "missing": {}}])
    files = delta._files

    def meanwhile(lake, place, schema):
        monkeypatch.setattr(delta, "_files", files)
        delta.publish(lake, root, "default")
        return files(lake, place, schema)

    monkeypatch.setattr(delta, "_files", meanwhile)
    with pytest.raises(LakeError, match="somebody else wrote to it"):
        delta.publish(lake, root, "default")
    assert in_delta(root, "bronze/lookups").num_rows == 2
    assert delta.publish(lake, root, "default") == 0


def test_files_that_a_later_commit_removed_are_looked_for_again(tmp_path, monkeypatch):
    root, lake = str(tmp_path / "delta"), Lake(str(tmp_path / "lake"))
    a_lake_with_one_broker(lake)
    written = Written(lake)
    read = delta.read_batches
    moved = []

    def gone(*arguments, **more):
        if not moved:
            moved.append(1)
            written.silver(1, seq=2, ms=NOON + 2 * HOUR)
            gold.refresh(None, lake, "default", "e1")
            raise FileNotFoundError("batch=000000000")
        return read(*arguments, **more)

    monkeypatch.setattr(delta, "read_batches", gone)
    delta.publish(lake, root, "default")
    for name in GOLD:
        assert rows(in_delta(root, f"gold/{name}"), GOLD[name]) == rows(
            gold.read(lake, name, "default", "e1"), GOLD[name]
        )


def test_the_command_brings_them_up_and_says_when_there_is_nothing(tmp_path):
    lake, root = tmp_path / "lake", tmp_path / "delta"
    arguments = ["pipeline", "publish", "--lake", str(lake), "--delta", str(root)]
    nothing = CliRunner().invoke(cli, arguments)
    assert nothing.exit_code == 1
    assert "there is nothing in" in nothing.output
    a_lake_with_one_broker(Lake(str(lake)))
    done = CliRunner().invoke(cli, [*arguments, "--vacuum"])
    assert done.exit_code == 0, done.output
    assert "gold/broker: 1 version of epoch e1" in done.output
    assert "gold/broker: 0 files removed" in done.output
    assert CliRunner().invoke(cli, arguments).output == f"{root}: no new versions, up to date\n"


def test_a_place_that_cannot_be_written_is_said(tmp_path):
    lake = tmp_path / "lake"
    a_lake_with_one_broker(Lake(str(lake)))
    (tmp_path / "file").write_text("in the way")
    for place in (tmp_path / "file", "nosuch://bucket/x"):
        done = CliRunner().invoke(cli, ["pipeline", "publish", "--lake", str(lake), "--delta", str(place)])
        assert isinstance(done.exception, LakeError)
        assert str(done.exception).startswith(f"Delta tables in {place}: ")
        assert "\n" not in str(done.exception)


def test_a_write_of_somebody_else_with_our_transaction_counts(tmp_path):
    """What makes it exactly once: the version and the commit of the lake are one write."""
    root, lake = str(tmp_path / "delta"), Lake(str(tmp_path / "lake"))
    a_lake_with_one_broker(lake)
    delta.publish(lake, root, "default")
    table = DeltaTable(f"{root}/gold/broker")
    app = f"mqregistry/gold/{places('default', 'e1')}"
    assert table.transaction_version(app) == 0
    write_deltalake(
        table, in_delta(root, "gold/broker").slice(0, 0), mode="append",
        commit_properties=CommitProperties(app_transactions=[Transaction(app, 7)]),
    )  # fmt: skip
    written = Written(lake)
    written.silver(1, seq=2, ms=NOON + 2 * HOUR)
    gold.refresh(None, lake, "default", "e1")
    before = in_delta(root, "gold/broker").to_pylist()
    delta.publish(lake, root, "default")
    assert in_delta(root, "gold/broker").to_pylist() == before
