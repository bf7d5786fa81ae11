"""The same on a Spark cluster: a master, two workers and their executors as processes of their own."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.spark

from .conftest import QUICK_JAVA  # noqa: E402
from .streams import Bed  # noqa: E402

# local-cluster: Spark's own standalone master and workers; executors get no file and no variable of the driver's.
SCRIPT = """
import json, os, sys
import pyspark
os.environ["SPARK_HOME"] = os.path.dirname(pyspark.__file__)
from pyspark.sql import functions as F
from pipeline import bronze, jobs
from pipeline.lake import Lake
from pipeline.session import open_session
from pipeline.source import RedisStreamSource

url, namespace, folder = sys.argv[1:]
spark = open_session(master="local-cluster[2,1,1024]", driver_memory="512m", config={
    "spark.executor.memory": "512m", "spark.local.dir": folder, "spark.sql.shuffle.partitions": "2"})
spark.dataSource.register(RedisStreamSource)

def where(batches):
    import pyarrow as pa
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"process": [str(os.getppid())], "rows": [batch.num_rows]})

frame = spark.read.format("redis_stream").options(url=url, namespace=namespace, partitions="2").load()
read_by = frame.select("seq").mapInArrow(where, "process string, rows long").groupBy("process").agg(F.sum("rows"))
rows = [row[1] for row in read_by.collect()]
lake = Lake(folder + "/lake")
done = jobs.run(spark, lake, jobs.Settings(url, namespace), once=True)
seqs = bronze.read(spark, lake, "changes", namespace, "e1").agg(F.count("seq"), F.count_distinct("seq")).first()
print(json.dumps({"rows": rows, "entries": done.entries, "seq": done.seq, "bronze": list(seqs)}))
spark.stop()
"""


@pytest.mark.timeout(900)
def test_two_executors_read_one_stream(redis_url, namespace, tmp_path):
    bed = Bed(redis_url, namespace)
    bed.changes(50_000)
    bed.add(*[bed.heartbeat(1_700_000_000_000 + i) for i in range(100)], stream="heartbeats")
    env = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    env["JAVA_TOOL_OPTIONS"] = QUICK_JAVA
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, redis_url, namespace, str(tmp_path)],
        env=env, capture_output=True, text=True, timeout=880, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    assert len(found["rows"]) == 2, "both executors read"
    assert sum(found["rows"]) == 50_000
    assert found["entries"] == {"changes": 50_000, "heartbeats": 100, "lookups": 0}
    assert found["bronze"] == [50_000, 50_000]
    assert found["seq"] == 50_000
