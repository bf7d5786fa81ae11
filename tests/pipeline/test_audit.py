"""The audit: nothing to find where nothing was changed, and whatever was changed is found."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")

from mqregistry.pipeline.past.audit import audit
from mqregistry.store.streams import StreamStore, lookup_entries
from tests.pipeline.test_run import once
from tests.pipeline.world import World

pytestmark = [pytest.mark.spark, pytest.mark.long]


def test_what_is_altered_or_removed_anywhere_is_found(spark, run, store, lake):
    world = World(store, 21)  # an address expires in one cluster and lives on in another
    counts = lookup_entries({"topic-1": 3}, {"none": 1})

    async def work():
        await world.run(60)
        await world.bed.register("10.9.9.9:1", "broker-x", topics=("audited", "other"))
        await world.bed.kv.put("audited", "now", "right")
        await StreamStore(store).write_lookups("fe1", "w1", 1, 10_000, counts)

    def found(**more):
        return audit(spark, store.url, store.namespace, lake, **more)

    def altered(table, sets, where):
        spark.sql(f"UPDATE delta.`{lake.path(table)}` SET {sets} WHERE {where}")

    run(work())
    once(spark, lake, store)
    run(world.run(10))  # what only the stream has
    run(world.bed.register("10.9.9.9:1", "broker-x", topics=("audited", "other")))  # if it has expired
    whole = found(since_last=True)
    assert whole.differences == []
    assert whole.ok
    assert whole.seq >= whole.replayed > 3
    assert whole.figures > 20
    # in Redis, behind the registry
    run(world.bed.redis("HSET", world.bed.key("queues:broker-x"), "audited", '{"r":1,"w":1,"p":6,"f":0}'))
    # in bronze, silver, gold
    altered("bronze/changes", "e = replace(e, 'right', 'wrong')", "e LIKE '%audited%'")
    altered("silver/broker_row", "cluster = 'altered'", "broker_name = 'broker-x' AND current")
    altered("gold/broker", "outages = 7", "broker_name = 'broker-x'")
    differences = found().differences
    assert {(one.where, one.table) for one in differences} >= {
        ("redis", "queue_data"), ("redis", "kv"), ("bronze", "changes"), ("silver", "broker_row"), ("gold", "broker"),
    }  # fmt: skip
    of_kv = [one for one in differences if (one.where, one.table) == ("redis", "kv")]
    assert [(one.key, one.history, one.found) for one in of_kv] == [(("audited", "now"), "wrong", "right")]
    # a change that is gone
    spark.sql(f"DELETE FROM delta.`{lake.path('bronze/changes')}` WHERE seq = 3")
    gone = found()
    assert not gone.ok
    assert "holds change 2 and then change 4: change 3 is missing" in gone.missing
