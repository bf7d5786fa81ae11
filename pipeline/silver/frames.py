"""Silver's tables as Spark sees them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from pipeline.lake import Lake
from pipeline.schema import SILVER
from pipeline.silver.manifest import Manifest, log_of, read_last


def spark_schema(schema: pa.Schema) -> StructType:
    """The same columns for Spark."""
    found: StructType = from_arrow_schema(schema)
    return found


def read(spark: SparkSession, lake: Lake, table: str, namespace: str, epoch: str) -> DataFrame:
    """All rows of a silver table as of its last commit: columns of SILVER[table]; none before the first commit."""
    last = read_last(lake, log_of(namespace, epoch))
    return read_manifest(spark, lake, table, last[1] if last else None)


def read_manifest(spark: SparkSession, lake: Lake, table: str, manifest: Manifest | None) -> DataFrame:
    """The same for one commit."""
    schema = spark_schema(SILVER[table])
    files = manifest.of(table) if manifest else []
    if not files:
        return spark.createDataFrame([], schema)
    frame: Any = spark.read.schema(schema).parquet(*(lake.uri(file.path) for file in files))
    return frame  # type: ignore[no-any-return]
