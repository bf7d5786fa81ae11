"""``pipeline audit`` and ``pipeline backfill``, as a user runs them."""

from __future__ import annotations

import contextlib

import pytest

pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")

from tests.cli.conftest import command, env, home  # noqa: F401 - fixtures
from tests.pipeline.test_run import once
from tests.pipeline.world import World, all_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("without_gold")]


def test_an_audit_finds_what_was_altered_and_a_backfill_takes_it_over(
    monkeypatch, spark, store, run, lake, redis_url, command  # noqa: F811
):  # fmt: skip
    monkeypatch.setattr("mqregistry.pipeline.spark.session.open_session", lambda **_: spark)
    monkeypatch.setattr("mqregistry.pipeline.spark.session.ending", lambda _: contextlib.nullcontext())
    world = World(store, 21)
    run(world.run(10))
    run(world.bed.kv.put("audited", "k", "right"))
    once(spark, lake, store)
    [epoch] = lake.epochs(store.namespace)
    before = all_rows(lake, store.namespace, epoch)
    options = ("--lake", lake.root, "--namespace", store.namespace)
    spark.sql(
        f"UPDATE delta.`{lake.path('bronze/changes')}` SET e = replace(e, 'right', 'wrong') WHERE e LIKE '%audited%'"
    )
    told = command("pipeline", "audit", "--redis", redis_url, *options, expect=1).stdout
    assert "kv audited k: history says wrong, redis has right" in told
    assert '"right"' in told.partition(": the stream has ")[2].partition(", bronze has ")[0]
    assert "1 epoch written again" in command("pipeline", "backfill", *options).stdout
    after = all_rows(lake, store.namespace, epoch)
    assert [row.replace("wrong", "right") for row in after.pop("kv")] == before.pop("kv")
    assert after == before


def test_a_backfill_of_nothing_says_so(tmp_path, command):  # noqa: F811
    told = command("pipeline", "backfill", "--lake", str(tmp_path), "--namespace", "none", expect=1).output
    assert "holds nothing of namespace 'none': is it another --lake or --namespace?" in told
