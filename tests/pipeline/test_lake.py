"""The lake's tables: what counts, who may write, and what a killed job left behind."""

from __future__ import annotations

import os
import time
from datetime import datetime
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="no pyarrow: pip install -e '.[spark]'")

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from mqregistry.cli.pipeline.maintain import maintain as command
from mqregistry.pipeline import gold, silver
from mqregistry.pipeline.lake import snapshot
from mqregistry.pipeline.lake.errors import OtherWriter
from mqregistry.pipeline.lake.files import write_file
from mqregistry.pipeline.lake.lake import Lake, State, owner
from mqregistry.pipeline.lake.maintain import maintain
from mqregistry.pipeline.lake.schema import GOLD, TABLES
from tests.pipeline.cut_off import cut_off_after
from tests.pipeline.gold_lake import Written
from tests.pipeline.test_gold_refresh import HOUR, NOON, a_past
from tests.pipeline.world import World, all_rows, entries, write_bronze

NAMESPACE = "o'hara é/=%"
WEEK_S = 7 * 86_400


def beats(lake, *moments, day="2026-01-01", namespace=NAMESPACE):
    columns = {"id_ms": list(moments), "id_n": [0] * len(moments), "ms": list(moments), "e": ["{}"] * len(moments),
               "batch": [0] * len(moments)}  # fmt: skip
    rows = pa.table(columns, schema=TABLES["bronze/heartbeats"].columns)
    return write_file(lake, "bronze/heartbeats", rows, {**owner(namespace, "e"), "day": day})


def moments(lake):
    """As a reader that knows only Delta sees them."""
    return sorted(DeltaTable(lake.delta_uri("bronze/heartbeats")).to_pyarrow_table()["ms"].to_pylist())


def test_files_count_once_they_are_committed_and_only_once(lake):
    table = Lake(lake.root).table("bronze/heartbeats")
    file = beats(lake, 1, 2)
    assert table.files() == []
    assert table.commit([file], "app", 0, more={"app#at": -1})
    assert table.versions("app", "app#at", "other") == [0, -1, -1]
    assert table.files() == lake.table("bronze/heartbeats").files(namespace=NAMESPACE, epoch="e") == [file]
    assert not table.commit([beats(lake, 3)], "app", 0, repeat=True)
    for number in (0, -1):
        with pytest.raises(OtherWriter, match="another run writes to the lake"):
            table.commit([beats(lake, 3)], "app", number)
    assert moments(lake) == [1, 2]


def test_of_two_writers_with_one_number_the_second_is_refused(lake):
    first, second = (Lake(lake.root).table("bronze/heartbeats") for _ in range(2))
    first.commit([beats(lake, 1)], "app", 0)
    assert second.version("app") == 0
    first.commit([beats(lake, 2)], "app", 1)
    second.commit([beats(lake, 3)], "of another namespace", 0)
    known = second._version

    def meanwhile(*asked):
        """Behind its back, after it has looked."""
        second._version, found = known, known(*asked)
        first.commit([beats(lake, 4)], "app", 2)
        return found

    second._version = meanwhile
    with pytest.raises(OtherWriter):
        second.commit([beats(lake, 5)], "app", 2)
    assert moments(lake) == [1, 2, 3, 4]


def test_a_table_of_before_is_told_which_columns_have_statistics(lake):
    """Else pyarrow's readers take a column of texts for one of nulls, and pass its files over."""
    columns, partitions = TABLES["bronze/heartbeats"]
    uri = lake.delta_uri("bronze/heartbeats")
    DeltaTable.create(uri, pa.schema([*columns, *partitions]), partition_by=partitions.names)
    for number in range(2):
        assert lake.table("bronze/heartbeats").commit([beats(lake, number)], "app", number)
    assert len(lake.table("bronze/heartbeats").files()) == 2
    dataset = DeltaTable(uri).to_pyarrow_dataset()
    assert dataset.to_table(filter=pc.field("e") == "{}").num_rows == 2


def test_what_is_replaced_is_of_whole_partitions(lake):
    table = lake.table("bronze/heartbeats")
    table.commit([beats(lake, 1), beats(lake, 2, day="2026-01-02"), beats(lake, 3, namespace="n")], "app", 0)
    replaced = {**owner(NAMESPACE, "e"), "day": ["2026-01-02", "2026-01-03"]}
    table.commit([beats(lake, 4, day="2026-01-03")], "app", 1, replaced=replaced)
    assert moments(lake) == [1, 3, 4]


def test_a_state_is_read_as_it_was_written(lake):
    assert lake.state("gold", NAMESPACE, "e") is None
    lake.set_state("gold", NAMESPACE, "e", State(0, {"rows": 3}))
    lake.set_state("gold", NAMESPACE, "e", State(1, {"rows": 4}))
    lake.set_state("gold", NAMESPACE, "later", State(0, {}))
    assert lake.state("gold", NAMESPACE, "e") == State(1, {"rows": 4})
    assert lake.epochs("gold", NAMESPACE) == ["e", "later"]
    with pytest.raises(OtherWriter):
        Lake(lake.root).set_state("gold", NAMESPACE, "e", State(1, {"rows": 5}))


def test_a_log_has_checkpoints_and_what_is_known_of_it_is_what_it_says(lake):
    table = lake.table("bronze/heartbeats")
    for number in range(40):
        table.commit([beats(lake, number)], "app", number, more={"app#at": number * 2})
        if number == 20:  # somebody else, whose commit nobody tells this one of
            Lake(lake.root).table("bronze/heartbeats").commit([beats(lake, 77)], "other", 0)
        if number == 30:
            place = {**owner(NAMESPACE, "e"), "day": "2026-01-01"}
            table.commit([beats(lake, 78)], "merged", 0, replaced=place)
    assert list(Path(lake.path("bronze/heartbeats/_delta_log")).glob("*.checkpoint.parquet"))
    fresh = Lake(lake.root).table("bronze/heartbeats")
    assert sorted(file.path for file in table.files()) == sorted(file.path for file in fresh.files())
    names = ("app", "app#at", "other", "merged")
    assert table.versions(*names) == fresh.versions(*names) == [39, 78, 0, 0]
    assert moments(lake) == [*range(31, 40), 78]


def test_places_for_spark_and_for_arrow_are_the_same(tmp_path):
    lake = Lake(str(tmp_path / "a lake"))
    assert lake.uri("silver", "kv") == (tmp_path / "a lake" / "silver" / "kv").as_uri()
    assert lake.path("silver", "kv") == str(tmp_path / "a lake" / "silver" / "kv")
    assert Lake(lake.root).path() == lake.path()


def test_maintenance_merges_files_and_keeps_those_of_the_last_week(lake, capsys):
    with pytest.raises(Exception, match="there is nothing in"):
        command.callback(lake.root)
    table = lake.table("bronze/heartbeats")
    for number in range(5):
        table.commit([beats(lake, number)], "app", number)
    small = table.files()
    opened = DeltaTable(lake.delta_uri("bronze/heartbeats")).to_pyarrow_dataset()
    killed = [beats(lake, 7) for _ in range(2)]  # nobody commits them
    week_ago_s = time.time() - WEEK_S - 3600
    os.utime(lake.path(killed[0].path), (week_ago_s, week_ago_s))
    scratch = [Path(lake.path("_checkpoints", name)) for name in ("old", "new")]
    for folder in scratch:
        folder.mkdir(parents=True)
    os.utime(scratch[0], (week_ago_s, week_ago_s))
    command.callback(lake.root)
    assert [folder.exists() for folder in scratch] == [False, True]
    assert "1 tables merged, 1 file removed" in capsys.readouterr().out
    assert [Path(lake.path(file.path)).exists() for file in killed] == [False, True]
    assert len(table.files()) == 1
    assert moments(lake) == [0, 1, 2, 3, 4]
    for file in small:  # as if they had counted for long
        os.utime(lake.path(file.path), (week_ago_s, week_ago_s))
    maintain(lake)
    assert opened.count_rows() == 5, "who opened it before reads on"
    assert table.version("app") == 4, "of the checkpoint, too"
    assert table.commit([beats(lake, 5)], "app", 5)
    assert moments(lake) == [0, 1, 2, 3, 4, 5]
    assert maintain(Lake(lake.root)) == {"bronze/heartbeats": 0}


def figures(lake, namespace, epoch):
    found = {table: sorted(map(repr, gold.read(lake, table, namespace, epoch).to_pylist())) for table in GOLD}
    return found | all_rows(lake, namespace, epoch)


def test_killed_before_and_after_any_commit_the_tables_come_to_the_same(run, store, tmp_path):
    """Bronze, silver and gold in steps; each commit in its turn is the last thing that a run does."""
    world = World(store, 12)
    run(world.run(90))
    found = run(entries(store))
    lakes = [Lake(str(tmp_path / name)) for name in ("whole", "killed")]
    epoch = ""
    kills = 0
    for lake in lakes:
        epoch = run(snapshot.take_async(store.url, store.namespace, lake)).epoch
    for number in range(3):
        for lake in lakes:
            size = len(found) // 3 + 1
            write_bronze(lake, store.namespace, epoch, number, found[number * size : number * size + size])
        silver.advance(None, lakes[0], store.namespace, epoch)
        gold.refresh(None, lakes[0], store.namespace, epoch)
        survived, allowed = False, 0
        while not survived:
            lake = Lake(lakes[1].root)  # another process
            with cut_off_after(allowed):
                try:
                    silver.advance(None, lake, store.namespace, epoch)
                    gold.refresh(None, lake, store.namespace, epoch)
                    survived = True
                except KeyboardInterrupt:
                    kills += 1
                    allowed += 1
    assert kills > 20
    assert figures(lakes[1], store.namespace, epoch) == figures(lakes[0], store.namespace, epoch)


def by_pandas(uri, columns):
    return DeltaTable(uri).to_pandas()[columns].to_dict("records")


def by_polars(uri, columns):
    return (
        pytest.importorskip("polars", reason="no polars: pip install -e '.[dev]'")
        .read_delta(uri)
        .select(columns)
        .to_dicts()
    )


def by_duckdb(uri, columns):
    """Over Arrow: its own reader of Delta is an extension, which is not in the wheel."""
    duckdb = pytest.importorskip("duckdb", reason="no duckdb: pip install -e '.[sql]'")
    table = DeltaTable(uri).to_pyarrow_dataset()
    duckdb.register("tables", table)
    return duckdb.sql(f"SELECT {', '.join(columns)} FROM tables").to_arrow_table().to_pylist()


@pytest.mark.parametrize("reader", [by_pandas, by_polars, by_duckdb])
def test_other_readers_of_delta_see_the_rows_that_we_see(tmp_path, reader):
    written = Written(Lake(str(tmp_path / "lake")))
    for number, upto in enumerate((NOON + HOUR, NOON + 3 * HOUR)):  # what is replaced is seen no more
        addrs, queues, *streams = a_past(2, end=upto)
        written.silver(number, seq=number, ms=upto, broker_addr=addrs, queue_data=queues)
        for stream, found in zip(("changes", "heartbeats", "lookups"), streams, strict=True):
            written.bronze(stream, number, [entry for entry in found if entry["ms"] > NOON + number * HOUR])
        gold.refresh(None, written.lake, written.namespace, written.epoch)
    seen = 0
    for table in ("gold/broker", "gold/heartbeat", "silver/queue_data", "bronze/heartbeats"):
        files = written.lake.table(table).files()
        ours = written.lake.dataset(files, TABLES[table].columns).to_table()
        columns = ["period_start", "grain"] if table.startswith("gold") else []
        columns += [
            name for name in ours.schema.names if name in ("who", "broker_name", "topic", "ms", "beats", "outages")
        ]
        rows = reader(written.lake.delta_uri(table), columns)
        assert sorted(map(in_words, rows)) == sorted(map(in_words, ours.select(columns).to_pylist()))
        seen += len(rows)
    assert seen > 50


def in_words(row):
    """Moments and missing values look different in each of them."""
    return [
        f"{value:%Y-%m-%dT%H:%M:%S}"
        if isinstance(value, datetime)
        else "-"
        if value is None or value != value
        else value
        for value in row.values()
    ]
