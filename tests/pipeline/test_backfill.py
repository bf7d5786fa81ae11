"""Backfill, more buckets, and what a kill leaves behind."""

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

pytest.importorskip("pyarrow", reason="no pyarrow: pip install -e '.[spark]'")

from mqregistry.pipeline import silver
from mqregistry.pipeline.backfill import backfill
from mqregistry.pipeline.lake import snapshot
from mqregistry.pipeline.lake.errors import OtherWriter
from mqregistry.pipeline.lake.lake import Lake
from mqregistry.pipeline.past.travel import all_pasts
from mqregistry.pipeline.silver import split
from mqregistry.pipeline.silver.tables import load
from tests.pipeline.cut_off import cut_off_after
from tests.pipeline.world import TOPICS, World, all_rows, entries, write_bronze

KILLS = int(os.environ.get("MQREGISTRY_TEST_KILLS", "4"))
ROOT = Path(__file__).resolve().parents[2]
WORK = """
import sys
from mqregistry.pipeline import backfill, silver
from mqregistry.pipeline.lake.lake import Lake
what, root, namespace, epoch = sys.argv[1:]
steps = backfill.backfill if what == "backfill" else lambda *where: silver.SilverRun(*where, chunk_rows=40).steps()
print("begun", flush=True)
for step in steps(None, Lake(root), namespace, epoch):
    print(step.seq, flush=True)
"""


@pytest.fixture
def filled(run, store, tmp_path):
    """A lake with bronze in small batches; and the same lake, with silver."""
    world = World(store, 11)
    run(world.run(150))
    found = run(entries(store))
    lakes = [Lake(str(tmp_path / name)) for name in ("killed", "whole")]
    for lake in lakes:
        epoch = run(snapshot.take_async(store.url, store.namespace, lake)).epoch
        for number in range(0, len(found), 20):
            write_bronze(lake, store.namespace, epoch, number // 20, found[number : number + 20])
    assert silver.advance(None, lakes[1], store.namespace, epoch)
    return lakes, store.namespace, epoch


def run_and_kill(what, lake, namespace, epoch, pick):
    """Kill the job at a random moment. Whether it was through before."""
    job = subprocess.Popen(
        [sys.executable, "-c", WORK, what, lake.root, namespace, epoch], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    with job:
        assert job.stdout.readline() == "begun\n"
        for _ in range(pick.randrange(3)):
            job.stdout.readline()
        time.sleep(pick.random() * 0.05)  # a random moment is what is wanted
        job.send_signal(signal.SIGKILL)
    return job.returncode == 0


def test_killed_at_random_moments_it_comes_to_the_same_tables(filled):
    (killed, whole), namespace, epoch = filled
    pick = random.Random(3)
    for _ in range(KILLS):
        run_and_kill("run", killed, namespace, epoch, pick)
    list(silver.SilverRun(None, killed, namespace, epoch, chunk_rows=40).steps())
    assert all_rows(killed, namespace, epoch) == all_rows(whole, namespace, epoch)


def test_a_backfill_comes_to_the_same_tables_and_may_be_killed(filled):
    (lake, whole), namespace, epoch = filled
    assert silver.advance(None, lake, namespace, epoch)
    pick = random.Random(4)
    for _ in range(KILLS):
        if not run_and_kill("backfill", lake, namespace, epoch, pick):
            assert all_rows(lake, namespace, epoch) == all_rows(whole, namespace, epoch)
    before = load(lake, namespace, epoch)
    list(backfill(None, lake, namespace, epoch))
    after = load(lake, namespace, epoch)
    assert all_rows(lake, namespace, epoch) == all_rows(whole, namespace, epoch)
    assert after.content.rewritten > before.content.rewritten
    assert not {file.path for file in before.of("queue_data")} & {file.path for file in after.of("queue_data")}
    assert not silver.advance(None, lake, namespace, epoch)


def test_a_backfill_that_was_killed_between_two_tables_is_gone_on_from(filled):
    (lake, whole), namespace, epoch = filled
    list(itertools.islice(silver.SilverRun(None, lake, namespace, epoch, chunk_rows=40).steps(), 3))
    with cut_off_after(3) as done, pytest.raises(KeyboardInterrupt):
        list(backfill(None, lake, namespace, epoch))
    assert len(done) == 3
    assert silver.advance(None, Lake(lake.root), namespace, epoch)
    assert all_rows(lake, namespace, epoch) == all_rows(whole, namespace, epoch)


def test_a_backfill_does_not_overwrite_what_moved_on(filled):
    (lake, whole), namespace, epoch = filled
    list(itertools.islice(silver.SilverRun(None, lake, namespace, epoch, chunk_rows=40).steps(), 2))
    steps = backfill(None, lake, namespace, epoch)
    next(steps)
    assert silver.advance(None, Lake(lake.root), namespace, epoch)
    with pytest.raises(OtherWriter, match="changed while it was written again: stop 'mqregistry pipeline run'"):
        list(steps)
    assert all_rows(lake, namespace, epoch) == all_rows(whole, namespace, epoch)


def held_rows(lake, namespace, epoch):
    files = load(lake, namespace, epoch).of("queue_data")
    return {int(file.partition["bucket"]): file.rows for file in files if file.partition["current"] == "true"}


@pytest.mark.parametrize("allowed", [1, 2])
def test_split_while_changes_come_and_killed_there_the_tables_are_the_same(filled, monkeypatch, allowed):
    (lake, whole), namespace, epoch = filled
    steps = silver.SilverRun(None, lake, namespace, epoch, chunk_rows=40).steps()
    next(steps), next(steps)
    steps.close()
    before = held_rows(lake, namespace, epoch)
    monkeypatch.setattr(split, "BUCKET_ROWS", 0)
    monkeypatch.setattr(split, "MOST_BITS", 5)

    with cut_off_after(allowed), pytest.raises(KeyboardInterrupt):
        silver.advance(None, Lake(lake.root), namespace, epoch)
    assert silver.advance(None, Lake(lake.root), namespace, epoch)
    assert all_rows(lake, namespace, epoch) == all_rows(whole, namespace, epoch)
    after = held_rows(lake, namespace, epoch)
    assert max(before) < 32 <= min(after)
    [past], [at_once] = (all_pasts(one, namespace) for one in (lake, whole))
    for ms in range(past.begin_ms, past.content.ms, max(1, (past.content.ms - past.begin_ms) // 9)):
        for topic in TOPICS:
            assert past.route(topic, ms) == at_once.route(topic, ms)
