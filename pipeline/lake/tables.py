"""Makes, reads and writes the lake's tables with Spark; for area see :func:`mqregistry.pipeline.lake.lake.in_area`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type

from .lake import Lake, in_area
from .schema import COMMENTS, OWNER, TABLES

_PROPERTIES: Final = {
    "delta.logRetentionDuration": "interval 7 days",
    "delta.deletedFileRetentionDuration": "interval 7 days",
}


def sql_name(lake: Lake, name: str) -> str:
    """The name of a table in Spark SQL."""
    return f"delta.`{lake.path(name)}`"


def ensure(spark: SparkSession, lake: Lake, name: str, area: str | None = None) -> str:
    """Make a table that is missing, and add columns that an older release did not have; returns its name in SQL."""
    schema, partitions = TABLES[name]
    name = in_area(name, area)
    if name in lake.ensured:
        return sql_name(lake, name)
    lake.ensured.add(name)
    delta = lake.delta(name)
    if delta is None:
        columns = ", ".join(_column(field) for field in schema)
        feed = {"delta.enableChangeDataFeed": "true"} if area is None and name.startswith("silver/") else {}
        given = ", ".join(f"'{key}' = '{value}'" for key, value in (_PROPERTIES | feed).items())
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {sql_name(lake, name)} ({columns}) USING delta "
            f"PARTITIONED BY ({', '.join(partitions)}) COMMENT 'mqregistry, {name}' TBLPROPERTIES ({given})"
        )
    else:
        known = {field.name for field in delta.schema().fields}
        lacking = [field.with_nullable(True) for field in schema if field.name not in known]
        if lacking:
            columns = ", ".join(_column(field) for field in lacking)
            spark.sql(f"ALTER TABLE {sql_name(lake, name)} ADD COLUMNS ({columns})")
    return sql_name(lake, name)


def _column(field: pa.Field) -> str:
    kind = from_arrow_type(field.type).simpleString()
    comment = f' COMMENT "{COMMENTS[field.name]}"' if field.name in COMMENTS else ""
    return f"`{field.name}` {kind}{'' if field.nullable else ' NOT NULL'}{comment}"


def frame(
    spark: SparkSession, lake: Lake, name: str, namespace: str, epoch: str, *, area: str | None = None,
    version: int | None = None,
) -> DataFrame:  # fmt: skip
    """The rows of a namespace and epoch, without these two columns.

    Args:
        version: of the table; None: the newest.
    """
    ensure(spark, lake, name, area)
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return reader.load(lake.path(name, area)).where(owned((namespace, epoch))).drop(*OWNER)


def add(
    spark: SparkSession, lake: Lake, name: str, owner: Sequence[str], rows: Iterable[Sequence[Any]], *, number: int
) -> None:
    """Add rows (without namespace and epoch); Delta ignores the commit if this owner has used ``number`` before."""
    ensure(spark, lake, name)
    (
        make_rows(spark, name, owner, rows).write.format("delta").mode("append")
        .option("txnAppId", "/".join(owner)).option("txnVersion", number).save(lake.path(name))
    )  # fmt: skip


def add_new(spark: SparkSession, lake: Lake, name: str, owner: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Add the rows (without namespace and epoch) that the table lacks."""
    same = " AND ".join(f"t.{column} = s.{column}" for column in TABLES[name].columns.names)
    spark.sql(
        f"MERGE INTO {ensure(spark, lake, name)} t USING {{rows}} s ON {same} WHEN NOT MATCHED THEN INSERT *",
        rows=make_rows(spark, name, owner, rows),
    )


def replace(
    spark: SparkSession, lake: Lake, name: str, owner: Sequence[str], rows: DataFrame, *, where: str | None = None,
    area: str | None = None,
) -> None:  # fmt: skip
    """Replace all rows of a namespace and epoch (``owner``) by rows without these columns, in one commit.

    Args:
        where: replace only the rows that this SQL condition selects.
    """
    ensure(spark, lake, name, area)
    of_owner = {column: F.lit(value) for column, value in zip(OWNER, owner, strict=True)}
    (
        rows.withColumns(of_owner).select(*TABLES[name].columns.names).write.format("delta").mode("overwrite")
        .option("replaceWhere", " AND ".join(filter(None, [owned(owner), where]))).save(lake.path(name, area))
    )  # fmt: skip


def owned(owner: Sequence[str], of: str = "") -> str:
    """SQL that selects the rows of a namespace and epoch. ``of``: the alias of their table, with a dot."""
    return " AND ".join(f"{of}{name} = {literal(value)}" for name, value in zip(OWNER, owner, strict=True))


def literal(text: str) -> str:
    """A text as a literal of Spark SQL, in quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def make_rows(spark: SparkSession, name: str, owner: Sequence[str], rows: Iterable[Sequence[Any]]) -> DataFrame:
    """A DataFrame of a few rows, which are given without namespace and epoch; one task writes them."""
    schema = TABLES[name].columns
    named = [dict(zip(schema.names, (*owner, *row), strict=True)) for row in rows]
    return spark.createDataFrame(pa.Table.from_pylist(named, schema)).coalesce(1)
