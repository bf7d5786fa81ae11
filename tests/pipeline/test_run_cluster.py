"""On a Spark standalone cluster: a master, two workers and their executors are processes of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.long]

from mqregistry.pipeline.lake.lake import Lake  # noqa: E402
from mqregistry.pipeline.silver.progress import last  # noqa: E402
from mqregistry.pipeline.spark.jars import DELTA  # noqa: E402

from .standalone import HOST, SPARK_HOME, standalone  # noqa: E402
from .streams import EPOCH, Bed  # noqa: E402

QUICK_JAVA = "-XX:+UseSerialGC"  # of a cluster's own processes, which the session's options do not reach

TIMEOUT_S = 880

SCRIPT = """
import json, os, sys
from pyspark.sql import functions as F
from mqregistry.pipeline.lake.lake import Lake
from mqregistry.pipeline.namespace import RunSettings
from mqregistry.pipeline.run import run
from mqregistry.pipeline.silver.progress import last
from mqregistry.pipeline.spark.session import open_session
from mqregistry.pipeline.redis_stream.data_source import RedisStreamSource

url, namespace, folder, master = sys.argv[1:]
spark = open_session(master=master, driver_memory="512m", config={
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
done = run(spark, lake, RunSettings(url, [namespace]), once=True)
seqs = lake.read("bronze/changes")["seq"].to_pylist()
print(json.dumps({"rows": rows, "entries": done, "seq": last(lake, namespace, "e1").seq,
                  "bronze": [len(seqs), len(set(seqs))]}))
spark.stop()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with standalone(tmp_path_factory.mktemp("standalone"), java_options=QUICK_JAVA) as cluster:
        yield cluster


def end_well(command, env, folder=None):
    ran = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.timeout(900)
def test_two_executors_read_one_stream(cluster, redis_url, namespace, tmp_path):
    bed = Bed(redis_url, namespace)
    bed.changes(50_000)
    bed.add(*[bed.heartbeat(1_700_000_000_000 + i) for i in range(100)], stream="heartbeats")
    env = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PYSPARK_PYTHON")}
    env |= {"JAVA_TOOL_OPTIONS": QUICK_JAVA, "SPARK_LOCAL_IP": HOST}
    said = end_well([sys.executable, "-c", SCRIPT, redis_url, namespace, str(tmp_path), cluster.master], env)
    found = json.loads(said.splitlines()[-1])
    assert len(found["rows"]) == 2, "both executors read"
    assert sum(found["rows"]) == 50_000
    assert found["entries"] == {"changes": 50_000, "heartbeats": 100, "lookups": 0}
    assert found["bronze"] == [50_000, 50_000]
    assert found["seq"] == 50_000


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """The wheel under a name that Spark passes on."""
    folder = tmp_path_factory.mktemp("wheel")
    command = ["pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"]
    end_well([sys.executable, "-m", *command, "--wheel-dir", str(folder), os.curdir], None)
    (wheel,) = folder.glob("*.whl")
    return wheel.rename(folder / "mqregistry.zip")


@pytest.fixture(scope="module")
def python_without(tmp_path_factory):
    """A Python with all that mqregistry depends on, and without mqregistry: the one of the workers."""
    folder = tmp_path_factory.mktemp("lent")
    end_well([sys.executable, "-m", "venv", "--without-pip", str(folder)], None)
    (packages,) = folder.glob("lib/python*/site-packages")
    lent = [path for path in sys.path if path.endswith("-packages")]
    (packages / "lent.pth").write_text("".join(f"{path}\n" for path in lent))
    python = folder / "bin" / "python"
    asked = [python, "-c", "import msgspec, pyarrow, mqregistry.cli"]
    seen = subprocess.run(asked, cwd=folder, capture_output=True, text=True, check=False)
    assert "'mqregistry" in seen.stderr
    return python


@pytest.mark.timeout(900)
def test_spark_submit_with_the_wheel_on_workers_without_it(
    cluster, packed, python_without, delta_jars, redis_url, namespace, tmp_path
):
    """As docs/pipeline.md says."""
    bed = Bed(redis_url, namespace)
    bed.changes(45_000)  # so many that silver takes Spark, and the executors read in two tasks
    main = tmp_path / "submit.py"
    main.write_text("from mqregistry.cli import main; main()\n")
    jars = ",".join(str(Path(delta_jars, jar.file)) for jar in DELTA)
    command = [
        SPARK_HOME / "bin" / "spark-submit", "--master", cluster.master, "--driver-memory", "512m",
        "--executor-memory", "512m", "--conf", "spark.sql.shuffle.partitions=2", "--py-files", packed, "--jars", jars,
        main, "pipeline", "run", "--once", "--redis", redis_url, "--namespace", namespace, "--lake", tmp_path / "lake",
    ]  # fmt: skip
    env = cluster.env | {"PYSPARK_PYTHON": str(python_without), "PYTHONPATH": str(packed)}
    without = [part for part in map(str, command) if part not in ("--jars", jars)]
    refused = subprocess.run(without, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert refused.returncode == 253
    assert "this Spark has no Delta: spark-submit --packages io.delta" in refused.stdout
    assert "Traceback" not in refused.stdout + refused.stderr
    assert "ClassNotFound" not in refused.stderr
    before = sum(cluster.executors())
    said = end_well(list(map(str, command)), env, tmp_path)
    assert said.splitlines()[-1] == "done: 45,000 changes, 0 heartbeats, 0 lookups"
    assert sum(cluster.executors()) == before + 2
    lake = Lake(str(tmp_path / "lake"))
    assert last(lake, namespace, EPOCH).seq == 45_000
    assert lake.read("silver/kv").num_rows == 45_000
