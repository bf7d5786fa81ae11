"""Reads silver's tables as DataFrames of Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from ..lake.lake import Lake
from ..lake.schema import SILVER
from .manifest import Manifest, log_of, read_last


def spark_schema(schema: pa.Schema) -> StructType:
    """A schema of pyarrow as one of Spark."""
    found: StructType = from_arrow_schema(schema)
    return found


def read(spark: SparkSession, lake: Lake, table: str, namespace: str, epoch: str) -> DataFrame:
    """All rows of a silver table as of its last commit: columns of SILVER[table]; none before the first commit."""
    last = read_last(lake, log_of(namespace, epoch))
    return read_manifest(spark, lake, table, last[1] if last else None)


def read_manifest(spark: SparkSession, lake: Lake, table: str, manifest: Manifest | None) -> DataFrame:
    """All rows of a silver table as of one commit."""
    schema = spark_schema(SILVER[table])
    files = manifest.of(table) if manifest else []
    if not files:
        return spark.createDataFrame([], schema)
    frame: Any = spark.read.schema(schema).parquet(*(lake.uri(file.path) for file in files))
    return frame  # type: ignore[no-any-return]
