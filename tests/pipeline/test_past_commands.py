"""``pipeline audit`` and ``pipeline backfill``, as a user runs them."""

from __future__ import annotations

import contextlib

import pytest

pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")

from mqregistry.pipeline import silver
from mqregistry.pipeline.lake import snapshot
from mqregistry.pipeline.lake.lake import Lake
from mqregistry.pipeline.past.audit import audit
from tests.cli.conftest import command, env, home  # noqa: F401 - fixtures
from tests.pipeline.test_audit import rewrite
from tests.pipeline.test_backfill import all_rows
from tests.pipeline.world import World, entries, write_bronze


def test_an_audit_finds_what_was_altered_and_a_backfill_takes_it_over(
    monkeypatch, store, run, tmp_path, redis_url, command  # noqa: F811
):  # fmt: skip
    monkeypatch.setattr("mqregistry.pipeline.spark.session.open_session", lambda **_: None)
    monkeypatch.setattr("mqregistry.pipeline.spark.session.ending", lambda _: contextlib.nullcontext())
    lake = Lake(str(tmp_path / "lake"))
    world = World(store, 21)
    run(world.run(60))
    run(world.bed.kv.put("audited", "k", "right"))
    epoch = run(snapshot.take_async(redis_url, store.namespace, lake)).epoch
    write_bronze(lake, store.namespace, epoch, 0, run(entries(store)))
    silver.advance(None, lake, store.namespace, epoch)
    before = all_rows(lake, store.namespace, epoch)
    options = ("--lake", lake.root, "--namespace", store.namespace)

    def alter(seq, event):
        return event | {"value": "wrong"} if event.get("kv_namespace") == "audited" else event

    rewrite(lake, store.namespace, epoch, 0, alter)
    told = command("pipeline", "audit", "--redis", redis_url, *options, expect=1).stdout
    assert "kv audited k: history says wrong, redis has right" in told
    assert "silver has {'kv_namespace': 'audited', 'key': 'k', 'value': 'right'" in told
    assert '"right"' in told.partition(": the stream has ")[2].partition(", bronze has ")[0]
    assert "4 differences: " in told

    assert "1 epoch written again" in command("pipeline", "backfill", *options).stdout
    after = all_rows(lake, store.namespace, epoch)
    assert [row.replace("wrong", "right") for row in after.pop("kv")] == before.pop("kv")
    assert after == before
    differences = audit(None, redis_url, store.namespace, lake).differences
    assert [(one.where, one.history) for one in differences if one.table == "kv"] == [("redis", "wrong")]
    assert {one.where for one in differences} == {"redis", "bronze"}


def test_a_backfill_of_nothing_says_so(tmp_path, command):  # noqa: F811
    told = command("pipeline", "backfill", "--lake", str(tmp_path), "--namespace", "none", expect=1).output
    assert "holds nothing of namespace 'none': is it another --lake or --namespace?" in told
