"""Silver from bronze: the registry's tables at any instant are those of a plain replay."""

from __future__ import annotations

import os
import random

import pytest

pytest.importorskip("pyarrow", reason="no pyarrow: pip install -e '.[spark]'")

from mqregistry.pipeline import silver
from mqregistry.pipeline.lake import snapshot
from mqregistry.pipeline.lake.lake import Lake
from mqregistry.pipeline.past import travel
from mqregistry.pipeline.silver.tables import load
from mqregistry.store.store import Store
from tests.pipeline.world import Model, World, entries, new_seed, plain, whole_changes, write_bronze

INSTANTS = int(os.environ.get("MQREGISTRY_TEST_INSTANTS", "150"))
OPERATIONS = int(os.environ.get("MQREGISTRY_TEST_OPERATIONS", "400"))


@pytest.fixture(params=["5.x", "4.8"])
def store(request, runner, redis_url, namespace):
    store = Store(redis_url, namespace, compat=request.param)
    runner.run(store.connect())
    yield store
    runner.run(store.close())


async def pour(world: World, lake: Lake, after: str, number: int, sizes: list[int]) -> tuple[str, int]:
    """What the stream has behind ``after`` into batches of these sizes; then the new end, and the next number."""
    found = await entries(world.bed.store, after)
    epoch = (await world.bed.head()).epoch
    while found:
        size = sizes[number % len(sizes)]
        write_bronze(lake, world.bed.store.namespace, epoch, number, found[:size])
        after, found, number = found[min(size, len(found)) - 1][0], found[size:], number + 1
    return after, number


def check(lake: Lake, namespace: str, model: Model, instants: list[int]) -> None:
    for instant, tables, lives in model.walk(instants):
        past = travel.find_past(lake, namespace, instant)
        assert plain(past.tables(instant)) == plain(tables), instant
        assert past.lives(instant) == lives.by_who, instant


async def test_the_tables_at_any_instant_are_those_of_a_plain_replay(store, lake):
    seed = new_seed()
    print("seed", seed)
    world = World(store, seed)
    await world.run(OPERATIONS // 4)
    taken = await snapshot.take_async(store.url, store.namespace, lake)
    assert (taken.seq, taken.rows, taken.compat) == (0, 0, store.compat)
    after, number = "-", 0
    for _ in range(3):
        await world.run(OPERATIONS // 4)
        after, number = await pour(world, lake, after, number, [1, 40, 7])
        assert silver.advance(None, lake, store.namespace, taken.epoch)
        assert not silver.advance(None, lake, store.namespace, taken.epoch)
    changes = whole_changes(await entries(store))
    model = Model(changes, live_by_cluster=store.compat == "5.x")
    pick = random.Random(seed)
    first, last = model.moments[0], model.moments[-1]
    edges = pick.sample(model.moments, 30)
    instants = [first, last, *edges, *(moment - 1 for moment in edges if moment > first)]
    check(lake, store.namespace, model, instants + [pick.randint(first, last) for _ in range(INSTANTS)])
    assert plain(travel.find_past(lake, store.namespace, last).tables(last)) == plain(await world.bed.tables())
    authors = {change.seq: change.by.encoded().decode() for change in changes}
    assert len(set(authors.values())) == 15
    check_rows(lake, store.namespace, taken.epoch, authors)


def check_rows(lake: Lake, namespace: str, epoch: str, authors: dict[int, str]) -> None:
    """No cell holds two values at once, every row but those of no length has an end behind its beginning, and both name
    who caused them.
    """
    from mqregistry.pipeline.lake.schema import SILVER, SILVER_KEYS

    tables = load(lake, namespace, epoch)
    for table, keys in SILVER_KEYS.items():
        rows = tables.read(table).to_pylist()
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


def test_every_operation_is_sent_to_a_bucket_that_applies_it():
    from typing import get_args

    from mqregistry.events.cells import DropBroker, Operation, SetRev
    from mqregistry.pipeline.silver import buckets, head_bucket, topic_bucket

    every, head, topics = set(get_args(Operation)), set(head_bucket._APPLY), set(topic_bucket._APPLY)
    assert head | topics | {SetRev} == every
    assert head == (every - set(buckets._SPLIT)) | {DropBroker}
    assert topics == set(buckets._SPLIT) - {SetRev}
