"""Silver through a Spark job: the same tables as without one."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")

from mqregistry.pipeline import silver
from mqregistry.pipeline.lake import snapshot
from mqregistry.pipeline.lake.lake import Lake
from mqregistry.pipeline.lake.schema import SILVER
from mqregistry.pipeline.silver.job import SilverRun
from mqregistry.pipeline.silver.tables import load
from tests.pipeline.world import World, all_rows, entries, write_bronze

pytestmark = pytest.mark.spark


def test_spark_and_one_process_come_to_the_same_tables(spark, run, store, tmp_path):
    lakes = [Lake(str(tmp_path / name)) for name in ("spark", "here")]
    world = World(store, 7)
    run(world.run(120))
    found = run(entries(store))
    epoch = run(world.bed.head()).epoch
    half = len(found) // 2
    for lake, session in zip(lakes, (spark, None), strict=True):
        run(snapshot.take_async(store.url, store.namespace, lake))
        write_bronze(lake, store.namespace, epoch, 0, found[:half])
        job = SilverRun(session, lake, store.namespace, epoch, spark_from_rows=1)
        assert [step.seq for step in job.steps()] == [0, half]
        # twice, out of order, and late: what counts already changes nothing
        write_bronze(lake, store.namespace, epoch, 1, [*found[half + 3 :], *found[half - 5 :], *found[half:]])
        assert [step.rows for step in job.steps()] == [len(found) - half]
    assert all_rows(lakes[0], store.namespace, epoch) == all_rows(lakes[1], store.namespace, epoch)
    frame = silver.read(spark, lakes[0], "queue_data", store.namespace, epoch)
    assert frame.columns == SILVER["queue_data"].names
    assert sorted(map(repr, (row.topic for row in frame.collect()))) == sorted(
        repr(row["topic"]) for row in read_rows(lakes[0], "queue_data", store.namespace, epoch)
    )


def read_rows(lake, table, namespace, epoch):
    return load(lake, namespace, epoch).read(table).to_pylist()
