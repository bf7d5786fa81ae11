"""The data source in Spark, in batches and as a stream."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.spark

from pyspark.errors import PySparkException  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402

from mqregistry.pipeline.lake.schema import BRONZE  # noqa: E402

from .streams import START_MS  # noqa: E402


@pytest.fixture
def options(bed):
    return {"url": bed.url, "namespace": bed.namespace}


def load(spark, options, **more):
    return spark.read.format("redis_stream").options(**options, **more).load()


def test_the_source_registers_itself_and_imports_nothing_else_of_the_pipeline():
    code = (
        "import sys; from pyspark_redis_stream import DefaultSource as s; print(s.name(), "
        "*(m for m in sys.modules if m == 'deltalake' or m.startswith('mqregistry.pipeline.')))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert found[0] == "redis_stream"
    assert {name.removeprefix("mqregistry.pipeline.").partition(".")[0] for name in found[1:]} == {
        "garbage", "lake", "redis_stream",
    }  # fmt: skip
    assert {name for name in found if ".lake." in name} == {
        "mqregistry.pipeline.lake.schema", "mqregistry.pipeline.lake.gold_schema",
    }  # fmt: skip


def stream_into(spark, options, checkpoint, **more):
    """Every batch of a query that takes what is there now: lists of seq."""
    batches = []
    query = (
        spark.readStream.format("redis_stream").options(**options, **more).load()
        .writeStream.foreachBatch(lambda frame, n: batches.append(sorted(r.seq for r in frame.select("seq").collect())))
        .option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    )  # fmt: skip
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return batches


def test_batch_has_every_entry_once_in_several_tasks(bed, spark, options, monkeypatch):
    bed.changes(50_000)
    frame = load(spark, options, partitions="2")
    assert frame.schema.names == BRONZE["changes"].names
    assert frame.rdd.getNumPartitions() == 2
    found = frame.agg(
        F.count("*"), F.count_distinct("seq"), F.min("seq"), F.max("seq"), F.count("reason"), F.max("id_ms")
    ).first()
    assert tuple(found) == (50_000, 50_000, 1, 50_000, 0, START_MS + 500_000)
    assert load(spark, options, startingId=f"{START_MS + 499_990}").count() == 2
    assert load(spark, options, startingId="latest").count() == 0
    assert load(spark, options, stream="lookups").count() == 0


def test_entries_come_as_they_are(bed, spark, options):
    text = bed.change(key="ü", value="\u0000\U0001f600").decode()
    bed.add(text.encode())
    assert load(spark, options).first().e == text


def test_stream_goes_on_where_it_was_and_keeps_to_its_limit(bed, spark, options, tmp_path):
    bed.changes(1_000)
    first = stream_into(spark, options, tmp_path / "cp", maxEntriesPerTrigger="400")
    assert sorted(seq for batch in first for seq in batch) == list(range(1, 1_001))
    assert max(map(len, first)) <= 400
    bed.changes(3)
    assert stream_into(spark, options, tmp_path / "cp") == [[1_001, 1_002, 1_003]]
    assert stream_into(spark, options, tmp_path / "cp") == []


def test_stream_refuses_to_skip_what_was_trimmed(bed, spark, options, tmp_path):
    bed.changes(10)
    assert stream_into(spark, options, tmp_path / "cp") == [list(range(1, 11))]
    bed.changes(10)
    bed.client.xtrim(bed.key(), maxlen=5, approximate=False)
    with pytest.raises(PySparkException, match=r"GapError.*\(change 10\).*\(change 16\), so 5 changes"):
        stream_into(spark, options, tmp_path / "cp")


def test_no_password_in_plans_progress_or_checkpoints(bed, spark, tmp_path):
    bed.client.acl_setuser("reader", enabled=True, passwords=["+se/cret"], keys=["*"], commands=["+@all"])
    with_user = bed.url.replace("unix://", "unix://reader:se%2Fcret@")
    assert with_user != bed.url
    bed.changes(10)
    seen = []

    def count(frame, n):
        seen.append(str(frame.count()))

    for given in ({"url": with_user}, {"url": with_user.replace(":se%2Fcret", ""), "password": "se/cret"}):
        frame = load(spark, given, namespace=bed.namespace)
        seen += [frame._jdf.queryExecution().toString(), repr(frame)]
        query = (
            spark.readStream.format("redis_stream").options(**given, namespace=bed.namespace).load()
            .writeStream.foreachBatch(count)
            .option("checkpointLocation", str(tmp_path / f"cp{len(seen)}")).trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()
        seen += [json.dumps(query.lastProgress, default=str), query._jsq.explainInternal(True)]
        with pytest.raises(PySparkException) as caught:
            load(spark, given, namespace="nowhere").count()
        assert "there is no namespace 'nowhere'" in str(caught.value)
        seen.append(str(caught.value))
    seen += [path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    assert seen.count("10") == 2
    assert not [text for text in seen if "cret" in text]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"stream": "beats"}, "stream 'beats': expected one of changes, heartbeats, lookups"),
        ({"startingId": "yesterday"}, "'yesterday' is no id of a stream entry"),
        ({"partitions": "0"}, "partitions '0': expected a whole number, 1 or more"),
        ({"limit": "3"}, "has no option 'limit'"),
        ({"url": "http://u:secret@h"}, "is none of redis://"),
    ],
)
def test_a_wrong_option_says_what_is_right(spark, options, more, said):
    with pytest.raises(PySparkException) as caught:
        load(spark, options | more)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)
