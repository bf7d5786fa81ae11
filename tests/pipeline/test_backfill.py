"""Steps of silver that were killed, and backfills: the tables are those of an undisturbed run."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")

from mqregistry.pipeline.backfill import backfill
from mqregistry.pipeline.bronze import snapshot
from mqregistry.pipeline.lake.lake import Lake
from mqregistry.pipeline.silver import advance
from mqregistry.pipeline.silver.advance import Silver
from mqregistry.pipeline.silver.progress import last
from tests.pipeline.world import World, all_rows, entries, write_bronze

pytestmark = pytest.mark.spark


class Killed(Exception):
    """The process ended here."""


@pytest.mark.long
def test_killed_between_tables_and_in_a_backfill_it_comes_to_the_same(spark, run, store, tmp_path, monkeypatch):
    world = World(store, 11)
    run(world.run(120))
    found = run(entries(store))
    taken, events = run(snapshot.read(store.url, store.namespace))
    place = store.namespace, taken.epoch
    lakes = [Lake(str(tmp_path / name)) for name in ("killed", "whole")]
    for lake in lakes:
        snapshot.write(spark, lake, store.namespace, taken, events)
        write_bronze(spark, lake, *place, found)
    killed, whole = lakes
    list(Silver(spark, whole, *place).advance())
    written, merge = [], advance.merge

    def dies(*arguments, **more):
        if len(written) == 3:
            raise Killed
        written.append(arguments)
        merge(*arguments, **more)

    monkeypatch.setattr(advance, "merge", dies)
    with pytest.raises(Killed):
        list(Silver(spark, killed, *place, limit=60).advance())
    monkeypatch.setattr(advance, "merge", merge)
    assert last(killed, *place).seq == 0, "nothing of it counts"
    assert not any(all_rows(killed, *place).values())
    list(Silver(spark, killed, *place, limit=40).advance())  # in other chunks than the one that was killed
    assert all_rows(killed, *place) == all_rows(whole, *place)
    written.clear()
    before = all_rows(whole, *place)
    monkeypatch.setattr(advance, "merge", dies)
    with pytest.raises(Killed):
        list(backfill(spark, whole, *place))
    monkeypatch.setattr(advance, "merge", merge)
    assert all_rows(whole, *place) == before, "the old tables are read until the new ones are there"
    list(backfill(spark, whole, *place))
    assert all_rows(whole, *place) == before
    assert last(whole, *place)[1:3] == ("backfill", last(killed, *place).seq)
    assert last(whole, *place).touched_ms == 0
