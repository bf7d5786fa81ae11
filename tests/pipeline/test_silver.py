"""Silver from bronze: the registry's tables at any instant are those of a plain replay."""

from __future__ import annotations

import os
import random

import pytest

pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")

from mqregistry.pipeline.bronze import snapshot
from mqregistry.pipeline.lake.lake import Lake
from mqregistry.pipeline.silver.advance import Silver
from mqregistry.pipeline.silver.history import Owner, held
from mqregistry.store.store import Store
from tests.pipeline.plain_lake import PlainSilver
from tests.pipeline.world import (
    Model,
    World,
    entries,
    new_seed,
    plain,
    silver_rows,
    tables_at,
    whole_changes,
    write_bronze,
)

pytestmark = pytest.mark.spark
INSTANTS = int(os.environ.get("MQREGISTRY_TEST_INSTANTS", "150"))
OPERATIONS = int(os.environ.get("MQREGISTRY_TEST_OPERATIONS", "180"))


@pytest.fixture(params=["5.x", pytest.param("4.8", marks=pytest.mark.long)])
def store(request, runner, redis_url, namespace):
    store = Store(redis_url, namespace, compat=request.param)
    runner.run(store.connect())
    yield store
    runner.run(store.close())


def test_a_table_that_a_step_makes_has_a_change_data_feed(spark, tmp_path):
    lake = Lake(str(tmp_path))
    held(spark, lake, Owner("default", "e"), "config", 0)
    assert lake.delta("silver/config").metadata().configuration["delta.enableChangeDataFeed"] == "true"


async def pour(spark, world: World, lake: Lake, after: str, sizes: list[int]) -> str:
    """What the stream has behind ``after`` into commits of these sizes; then the new end."""
    found = await entries(world.bed.store, after)
    epoch = (await world.bed.head()).epoch
    for size in [*sizes, len(found)]:
        if found:
            write_bronze(spark, lake, world.bed.store.namespace, epoch, found[:size])
            after, found = found[min(size, len(found)) - 1][0], found[size:]
    return after


async def test_the_tables_at_any_instant_are_those_of_a_plain_replay(spark, store, lake):
    seed = new_seed()
    print("seed", seed)
    world = World(store, seed)
    await world.run(OPERATIONS // 3)
    taken, found = await snapshot.read(store.url, store.namespace)
    snapshot.write(spark, lake, store.namespace, taken, found)
    assert (taken.seq, taken.rows, taken.compat) == (0, 0, store.compat)
    after = "-"
    for _ in range(2):
        await world.run(OPERATIONS // 3)
        after = await pour(spark, world, lake, after, [40])
        assert list(Silver(spark, lake, store.namespace, taken.epoch, limit=70).advance())
        assert not list(Silver(spark, lake, store.namespace, taken.epoch).advance())
    changes = whole_changes(await entries(store))
    by_cluster = store.compat == "5.x"
    model = Model(changes, live_by_cluster=by_cluster)
    pick = random.Random(seed)
    first, end = model.moments[0], model.moments[-1]
    edges = pick.sample(model.moments, 30)
    instants = [first, end, *edges, *(moment - 1 for moment in edges if moment > first)]
    rows = silver_rows(lake, store.namespace, taken.epoch)
    in_dicts = PlainSilver(compat=store.compat)
    in_dicts.take([e for _, e in await entries(store)])
    assert shown(rows) == shown(in_dicts.rows)
    for instant, tables, lives in model.walk(instants + [pick.randint(first, end) for _ in range(INSTANTS)]):
        then, alive = tables_at(rows, instant, live_by_cluster=by_cluster)
        assert plain(then) == plain(tables), instant
        assert alive.by_who == lives.by_who, instant
    assert plain(tables_at(rows, end)[0]) == plain(await world.bed.tables())
    authors = {change.seq: change.by.encoded().decode() for change in changes}
    assert len(set(authors.values())) == 15
    check_rows(rows, authors)


def shown(found):
    """Rows of all tables, each as a text, in an order of their own."""
    return {
        table: sorted(
            str({name: getattr(value, "timestamp", lambda v=value: v)() for name, value in row.items()}) for row in rows
        )
        for table, rows in found.items()
    }


def check_rows(found: dict[str, list[dict]], authors: dict[int, str]) -> None:
    """No cell holds two values at once, every row but those of no length has an end behind its beginning, and both name
    who caused them.
    """
    from mqregistry.pipeline.lake.schema import SILVER, SILVER_KEYS

    for table, keys in SILVER_KEYS.items():
        rows = found[table]
        if not rows:
            continue
        assert list(rows[0]) == SILVER[table].names
        cells = {}
        for row in rows:
            cells.setdefault(tuple(row[key] for key in keys), []).append(row)
        for of_cell in cells.values():
            of_cell.sort(key=lambda row: row["from_seq"])
            for row, following in zip(of_cell, [*of_cell[1:], None], strict=True):
                assert row["from_by"] == authors[row["from_seq"]]
                assert row["to_by"] == authors.get(row["to_seq"])
                if row["to_seq"] is None:
                    assert following is None
                    assert row["valid_to"] is None
                    assert row["ended_by"] is None
                else:
                    assert row["from_seq"] < row["to_seq"]
                    assert row["valid_from"] <= row["valid_to"]
                    assert following is None or row["to_seq"] <= following["from_seq"]


def test_every_operation_has_cells():
    from typing import get_args

    from mqregistry.events import cells
    from mqregistry.events.changes import Live, Row
    from mqregistry.pipeline.silver.head import HeadReplay

    row, who = Row("c1", {0: "10.0.0.1:10911"}), "c1|10.0.0.1:10911"
    of_head = [
        cells.SetRow("a", row, 1),
        cells.SetLive(who, "a", "c1", "10.0.0.1:10911", 0, Live(120_000, 1, 1, 0)),
        cells.JoinCluster("c1", "a"),
        cells.SetFilterServers(who, ["f:1"]),
        cells.SetKv("ns", "k", "v"),
        cells.SetConfig({"orderMessageEnable": "true"}, 1),
        cells.DropBroker("a"),
        cells.EndLive(who, "a", True, False),
    ]
    of_topics = {cells.SetQueueData, cells.DropQueueData, cells.SetMappings, cells.SetRev}
    assert set(get_args(cells.Operation)) == of_topics | set(map(type, of_head))
    replay = HeadReplay()
    for step, operation in enumerate(of_head):
        before = len(replay.cells)
        replay.apply(operation, (step, 0, 0, "", ""))
        assert len(replay.cells) > before, operation
    with pytest.raises(AssertionError, match="is not of the head"):
        replay.apply(cells.SetRev("a", 2), (9, 0, 0, "", ""))
