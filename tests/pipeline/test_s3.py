"""A lake on an S3 server that runs here (moto), as far as no Spark is needed: written, asked, merged, guarded."""

from __future__ import annotations

import pytest

pytest.importorskip("duckdb", reason="no duckdb: pip install -e '.[sql]'")

from mqregistry.pipeline import gold
from mqregistry.pipeline.lake.errors import OtherWriter
from mqregistry.pipeline.lake.lake import Lake, State
from mqregistry.pipeline.lake.maintain import maintain
from mqregistry.pipeline.sql import Door
from tests.pipeline.s3_server import s3_server
from tests.pipeline.test_travel import T0, begin, event, fill, value


@pytest.fixture
def bucket(monkeypatch):
    with s3_server("lakes") as url:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "any")
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
            monkeypatch.setenv(name, "us-east-1")
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        yield "s3://lakes"


def test_a_lake_in_a_bucket(bucket):
    lake = Lake(f"{bucket}/one")
    lake.try_to_write()
    begin(lake, "e", T0)
    fill(lake, "e", [event(seq, T0 + seq * 1000) for seq in range(1, 10)])
    fill(lake, "e", [event(10, T0 + 20_000)], number=1)
    assert gold.refresh(None, lake, "default", "e")
    maintain(lake)
    other = Lake(f"{bucket}/one")
    assert [value(other, T0 + ms) for ms in (5_500, 20_000)] == ["5", "10"]
    found = Door(other, "default").answer("SELECT count(*) AS n FROM kv WHERE key = 'k'")
    assert found.to_pylist() == [{"n": 10}]
    assert lake.table("state").delta is not None
    assert other.table("state").delta is not None
    lake.set_state("part", "n", "e", State(0, {}))
    with pytest.raises(OtherWriter):
        other.set_state("part", "n", "e", State(0, {}))
