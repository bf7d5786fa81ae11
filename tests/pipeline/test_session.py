import datetime

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from mqregistry.pipeline.spark.session import java_options

pytestmark = pytest.mark.spark


def test_session_reads_moments_as_utc_and_speaks_arrow(spark):
    moment = datetime.datetime(2026, 3, 29, 1, 30, tzinfo=datetime.UTC)
    table = spark.range(1).select(F.timestamp_millis(F.lit(int(moment.timestamp() * 1000))).alias("at")).toArrow()
    assert table.schema.field("at").type == pa.timestamp("us", tz="UTC")
    assert table["at"][0].as_py() == moment
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"


def test_session_runs_python_in_its_workers(spark):
    def doubled(batches):
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"id": pa.compute.multiply(batch["id"], 2)})

    assert spark.range(1000).mapInArrow(doubled, "id long").agg(F.sum("id")).collect()[0][0] == 999_000


@pytest.mark.parametrize("variable", [None, "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"])
def test_java_gets_one_garbage_collector(monkeypatch, variable):
    for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    assert "-XX:+UseSerialGC" in java_options("-Dx=y").split()
    if variable:
        monkeypatch.setenv(variable, "-Da=b -XX:+UseZGC")
    options = java_options("" if variable else "-XX:+UseG1GC -Dx=y")
    assert "Serial" not in options
    assert options.endswith("properties" if variable else "-XX:+UseG1GC -Dx=y")
