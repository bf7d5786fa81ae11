"""Reads files of the lake as DataFrames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from ..lake.files import File
from ..lake.lake import Lake
from ..silver.tables import LATER


def read_files(spark: SparkSession, lake: Lake, files: Sequence[File], schema: pa.Schema) -> DataFrame:
    """Columns of some files of a table."""
    columns: Any = from_arrow_schema(schema)
    if not files:
        return spark.createDataFrame([], columns)
    return spark.read.schema(columns).parquet(*(lake.uri(file.path) for file in files))


def as_of(frame: DataFrame, seq: int) -> DataFrame:
    """Silver's rows as they were after a change."""
    held = F.col("to_seq").isNull() | (F.col("to_seq") > seq)
    frame = frame.where(F.col("from_seq") <= seq)
    for name in LATER:
        frame = frame.withColumn(name, F.when(~held, F.col(name)))
    return frame
