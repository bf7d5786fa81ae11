"""Every reader of Delta sees the same rows, in all columns of all tables."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")

import duckdb
import polars
import pyarrow as pa
import redis

from mqregistry.pipeline.lake.schema import TABLES
from mqregistry.pipeline.maintain import maintain

from .conftest import leave_out_gold
from .test_run import once
from .test_run_topologies import live

pytestmark = [pytest.mark.spark, pytest.mark.long]


def shown(rows):
    """Rows of any reader, so that they can be compared."""
    return sorted(str({name: _plain(value) for name, value in sorted(row.items())}) for row in rows)


def _plain(value):
    if hasattr(value, "tolist"):
        value = value.tolist()
    if hasattr(value, "timestamp"):
        return round(value.timestamp() * 1_000_000)
    return bytes(value) if isinstance(value, bytearray) else value


def test_all_readers_see_the_same_rows_in_all_columns_also_after_maintenance(spark, redis_url, namespace, lake):
    epoch = live(redis_url, namespace, 80)
    bed = SimpleNamespace(url=redis_url, namespace=namespace)
    with redis.Redis.from_url(redis_url) as client:
        client.xadd(f"mq:{{{namespace}}}:heartbeats", {"x": b"1"})  # which nobody can read
    with pytest.MonkeyPatch.context() as patched:
        leave_out_gold(patched)
        once(spark, lake, bed)
    live(redis_url, namespace, 20, seed=2)
    once(spark, lake, bed)
    files = maintain(spark, lake)
    assert max(files.values()) <= 200
    assert epoch in lake.epochs(namespace)
    compare(spark, lake)


def compare(spark, lake):
    compared = set()
    for name, (schema, _) in TABLES.items():
        delta = lake.delta(name)
        if delta is None:
            continue
        path = lake.path(name)
        mine = lake.read(name)
        assert mine.schema.names == schema.names
        wanted = shown(mine.to_pylist())
        arrow = delta.to_pyarrow_table().select(schema.names)
        assert shown(arrow.to_pylist()) == wanted, name
        from_polars = polars.read_delta(path)
        assert from_polars.columns == schema.names
        assert shown(from_polars.to_dicts()) == wanted, name
        assert shown(_of_pandas(delta.to_pandas(), arrow)) == wanted, name
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.register("delta", delta.to_pyarrow_dataset())
            found = pa.table(connection.sql("SELECT * FROM delta").to_arrow_table())
        assert shown(found.select(schema.names).to_pylist()) == wanted, name
        rows = spark.read.format("delta").load(path)
        assert rows.columns == schema.names
        assert shown(rows.toArrow().to_pylist()) == wanted, name
        assert spark.sql(f"SELECT count(*) FROM delta.`{path}`").collect()[0][0] == len(wanted)
        compared.add(name.partition("/")[0])
    assert compared == {"bronze", "silver", "gold"}


def _of_pandas(frame, arrow):
    """Its rows, with its missing values as nulls."""
    typed = pa.Table.from_pandas(frame, preserve_index=False).select(arrow.schema.names)
    return typed.cast(arrow.schema).to_pylist()
