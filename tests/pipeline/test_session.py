import datetime

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

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
