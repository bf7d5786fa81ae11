"""One Spark session for all tests that are marked ``spark``, and a lake for each test."""

import os
import shutil
from pathlib import Path

import pytest

TIMEOUT_S = 600  # what two cores need for a second, a busy machine may need minutes for


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("spark") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture
def lake(tmp_path, request):
    """An empty one; for a test with Spark its tables are made already, which takes as long as many a test."""
    module = pytest.importorskip("mqregistry.pipeline.lake.lake", reason="no pyarrow: pip install -e '.[spark]'")
    if "spark" in request.fixturenames:
        shutil.copytree(request.getfixturevalue("empty_tables"), tmp_path / "lake")
    return module.Lake(str(tmp_path / "lake"))


@pytest.fixture(scope="session")
def empty_tables(spark, tmp_path_factory):
    """The folder of a lake with every table, as the pipeline makes them."""
    from mqregistry.pipeline.lake.lake import Lake
    from mqregistry.pipeline.lake.schema import TABLES
    from mqregistry.pipeline.lake.tables import ensure

    from . import gold_lake

    lake = Lake(str(tmp_path_factory.mktemp("empty")))
    for name in TABLES:
        ensure(spark, lake, name)
    gold_lake.TEMPLATE.append(lake.root)
    return lake.root


@pytest.fixture(autouse=True)
def delta_forgets(request):
    """Delta keeps what it knows of a table for an hour; the tables of a test that is over are gone."""
    yield
    if "spark" in request.fixturenames:
        request.getfixturevalue("spark")._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


@pytest.fixture
def without_gold(monkeypatch):
    """Runs end with silver: a test that looks at no figures need not wait for them."""
    leave_out_gold(monkeypatch)


def leave_out_gold(monkeypatch):
    """The same, for a part of a test."""
    namespace = pytest.importorskip("mqregistry.pipeline.namespace", reason="no pyspark: pip install -e '.[spark]'")
    follow = namespace.NamespaceRun._follow

    def follow_others(run, names):
        follow(run, [name for name in names if name != namespace.GOLD])

    monkeypatch.setattr(namespace.NamespaceRun, "_follow", follow_others)


@pytest.fixture
def bed(redis_url, namespace):
    """A namespace whose streams the test writes itself."""
    pytest.importorskip("mqregistry.pipeline.redis_stream.stream", reason="no pyspark: pip install -e '.[spark]'")
    from .streams import Bed

    return Bed(redis_url, namespace)


@pytest.fixture(scope="session")
def delta_jars():
    """The folder of Delta's jars: MQREGISTRY_DELTA_JARS, or one of the clone's that is filled once."""
    given = os.environ.get("MQREGISTRY_DELTA_JARS")
    if given:
        return given
    jars = pytest.importorskip("mqregistry.pipeline.spark.jars", reason="no pyspark: pip install -e '.[spark]'")
    folder = Path(os.environ.get("MQREGISTRY_CACHE") or Path(__file__).parents[2] / ".cache") / "delta-jars"
    try:
        jars.fetch(folder)
    except Exception as error:  # noqa: BLE001 - without a way out
        pytest.skip(f"no jars for Delta tables: {error}")
    os.environ["MQREGISTRY_DELTA_JARS"] = str(folder)  # for the commands that tests run
    return str(folder)


@pytest.fixture(scope="session")
def spark(tmp_path_factory, delta_jars):
    """Two cores, 2 GB, no JAVA_HOME; what it keeps on disk is in a folder of its own."""
    session_module = pytest.importorskip(
        "mqregistry.pipeline.spark.session", reason="no pyspark: pip install -e '.[spark]'"
    )
    given = os.environ.pop("JAVA_HOME", None)
    folder = tmp_path_factory.mktemp("spark")
    session = session_module.open_session(
        master="local[2]",
        driver_memory="2g",
        jars=delta_jars,
        config={
            "spark.local.dir": str(folder),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.sql.shuffle.partitions": "2",
            # most queries see a handful of rows: to compile them would take longer than to interpret them
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        },
    )
    gateway = session.sparkContext._gateway
    yield session
    session.stop()
    # pyspark leaves its JVM to the end of the process
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(30)
    shutil.rmtree(folder, ignore_errors=True)
    if given is not None:
        os.environ["JAVA_HOME"] = given
