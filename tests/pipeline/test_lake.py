"""Commits: what counts, and what a killed job left behind."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")

from mqregistry.pipeline.lake.lake import Lake, places

LOG = "bronze/changes/" + places("default", "e1")


def test_a_commit_is_read_as_it_was_written(tmp_path):
    lake = Lake(str(tmp_path / "a lake"))
    assert lake.commits(LOG) == []
    lake.commit(LOG, 0, {"rows": 3})
    lake.commit(LOG, 12, {"rows": 4, "first": "1-0"})
    assert lake.commits(LOG) == [0, 12]
    assert lake.read_commit(LOG, 12) == {"rows": 4, "first": "1-0"}


def test_an_unfinished_commit_does_not_count_and_is_written_over(tmp_path):
    lake = Lake(str(tmp_path))
    lake.commit(LOG, 0, {"rows": 1})
    (tmp_path / "commits" / LOG / "000000001.unfinished").write_bytes(b'{"ro')
    assert lake.commits(LOG) == [0]
    lake.commit(LOG, 1, {"rows": 2})
    assert lake.commits(LOG) == [0, 1]
    assert lake.read_commit(LOG, 1) == {"rows": 2}


def test_a_commit_may_be_repeated(tmp_path):
    lake = Lake(str(tmp_path))
    lake.commit(LOG, 0, {"rows": 1})
    lake.commit(LOG, 0, {"rows": 1})
    assert lake.commits(LOG) == [0]


def test_places_for_spark_and_for_arrow_are_the_same(tmp_path):
    lake = Lake(str(tmp_path))
    assert lake.uri("silver", "kv") == (tmp_path / "silver" / "kv").as_uri()
    assert lake.path("silver", "kv") == str(tmp_path / "silver" / "kv")
    assert Lake(lake.root).path() == lake.path()


def test_folders_and_removal(tmp_path):
    lake = Lake(str(tmp_path))
    (tmp_path / "silver" / "kv" / "batch=000001").mkdir(parents=True)
    (tmp_path / "silver" / "file").touch()
    assert lake.folders("silver") == ["kv"]
    lake.remove("silver", "kv")
    lake.remove("silver", "kv")
    assert lake.folders("silver") == []
