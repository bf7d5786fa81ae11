"""One Spark session for all tests that are marked ``spark``, and a lake for each test."""

import os
import shutil

import pytest

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
TIMEOUT_S = 600  # what two cores need for a second, a busy machine may need minutes for


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("spark") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture
def lake(tmp_path):
    """An empty one."""
    return pytest.importorskip("mqregistry.pipeline.lake.lake", reason="no pyarrow: pip install -e '.[spark]'").Lake(
        str(tmp_path / "lake")
    )


@pytest.fixture
def bed(redis_url, namespace):
    """A namespace whose streams the test writes itself."""
    pytest.importorskip("mqregistry.pipeline.redis_stream.stream", reason="no pyspark: pip install -e '.[spark]'")
    from .streams import Bed

    return Bed(redis_url, namespace)


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """Two cores, 1 GB, no JAVA_HOME; what it keeps on disk is in a folder of its own."""
    session_module = pytest.importorskip(
        "mqregistry.pipeline.spark.session", reason="no pyspark: pip install -e '.[spark]'"
    )
    given = os.environ.pop("JAVA_HOME", None)
    folder = tmp_path_factory.mktemp("spark")
    session = session_module.open_session(
        master="local[2]",
        driver_memory="1g",
        config={
            "spark.local.dir": str(folder),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.sql.shuffle.partitions": "2",
            # tests end before the optimising compiler pays
            "spark.driver.extraJavaOptions": QUICK_JAVA,
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
