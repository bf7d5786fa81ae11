"""Opens and ends the Spark session of every command and test, with all its settings."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mqregistry.errors import RegistryError, StartError

from .jars import DELTA, delta_settings
from .java import find_java_home

logger = logging.getLogger(__name__)

_LOG4J: Final = Path(__file__).with_name("log4j2.properties")
_STACK: Final = "-Xss8m"  # of a thread: gold's plans are deep, and overflow Java's default
# for a small heap on few cores: with Java's default a minute's batches took a third more CPU
_COLLECTOR: Final = "-XX:+UseSerialGC"
_ANY_COLLECTOR: Final = re.compile(r"-XX:\+Use\w+GC\b")
_JAVA_VARIABLES: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_ATTEMPTS: Final = 3  # for each task; plain local[N] makes one attempt
_ENDING_S: Final = 3.0  # from a broken connection to the end of the process that held it

_SETTINGS: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",  # Delta's log is small: tables have some hundred files
    # other readers of the tables may lack this feature
    "spark.databricks.delta.properties.defaults.enableDeletionVectors": "false",
    # Hadoop's default starts a process for each link that it reads, several for a commit; these two start none
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.shuffle.partitions": "4",
    # most batches are small: planning them in stages costs more than it saves
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.broadcastExchange.maxThreadThreshold": "32",
    "spark.sql.shuffleExchange.maxThreadThreshold": "32",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Spark keeps the data of its web page in memory, even without that page
    "spark.sql.ui.retainedExecutions": "20",
    "spark.sql.ui.explainMode": "simple",
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.streaming.stopTimeout": "10m",
    "spark.sql.streaming.numRecentProgressUpdates": "10",  # batch_reports.py fetches all of them each time
    "spark.python.authenticate.socketTimeout": "10m",  # on a busy machine a slow start is no fault
}


class SparkLost(RegistryError):
    """Spark's Java ended in the middle of the work."""


def open_session(
    *, master: str = "local[*]", driver_memory: str | None = None, config: dict[str, str] | None = None,
    jars: str | None = None, tell: Callable[[str], None] = logger.info,
) -> SparkSession:  # fmt: skip
    """Start Spark with Delta, or return the session that this process has; Ctrl-C ends the wait at once.

    Args:
        master: where to run. With spark-submit, its ``--master`` and ``--driver-memory`` count instead.
        driver_memory: e.g. ``4g``; Spark's default is 1 GB.
        config: further Spark settings; they override those that are set here.
        jars: the folder of Delta's jars; see :mod:`mqregistry.pipeline.spark.jars`.
        tell: called with a sentence if Spark must fetch the jars.

    Raises:
        StartError: there is no Java, or Spark did not start with it; the folder lacks a jar, or spark-submit brought
            no jars.
    """
    config = dict(config or {})
    settings = dict(_SETTINGS)
    builder: Any = SparkSession.builder.appName("mqregistry")
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has chosen all of the following
        _check_submitted()
    else:
        of_delta, said = delta_settings(jars, config)
        config |= of_delta
        if said:
            tell(said)
        home, warning = find_java_home()
        if warning:
            logger.warning(warning)
        os.environ["JAVA_HOME"] = str(home)
        settings["spark.driver.extraJavaOptions"] = java_options(config.pop("spark.driver.extraJavaOptions", ""))
        if driver_memory:
            settings["spark.driver.memory"] = driver_memory
        # glibc does not give back the memory of each thread's arena
        os.environ.setdefault("MALLOC_ARENA_MAX", "2")
        # Spark's default is the python3 on PATH, which may not have this package
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if master.startswith("local"):
            settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
        builder = builder.master(re.sub(r"^local\[([^,\]]+)\]$", rf"local[\1,{_ATTEMPTS}]", master))
    for key, value in {**settings, **config}.items():
        builder = builder.config(key, value)
    session = _started(builder.getOrCreate, master)
    session.sparkContext.setLogLevel("ERROR")
    return session


def java_options(more: str) -> str:
    """The options of the driver's Java: ours and ``more``. A garbage collector that the user names replaces ours."""
    given = " ".join((more, *(os.environ.get(name, "") for name in _JAVA_VARIABLES)))
    collector = "" if _ANY_COLLECTOR.search(given) else _COLLECTOR
    return " ".join(filter(None, (_STACK, f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}", collector, more)))


def _check_submitted() -> None:
    SparkContext._ensure_initialized()
    jvm: Any = SparkContext._jvm
    if not jvm.org.apache.spark.util.Utils.classIsLoadable(_SETTINGS["spark.sql.extensions"]):
        raise StartError(
            f"this Spark has no Delta: spark-submit --packages {DELTA[0].coordinates} fetches it; without "
            "internet access, use spark-submit --jars with the two files that 'mqregistry pipeline jars DIR' fetches"
        )


def _started(start: Callable[[], SparkSession], master: str) -> SparkSession:
    """Call ``start`` in another thread, so that Ctrl-C works at once.

    In the main thread pyspark would replace the handler of SIGINT, and react only after the current call.
    """
    found: list[SparkSession] = []
    errors: list[Exception] = []

    def work() -> None:
        try:
            found.append(start())
        except Exception as error:  # noqa: BLE001 - the thread that waits raises it
            errors.append(error)

    thread = threading.Thread(target=work, name="spark-start", daemon=True)
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        # without this, Spark's launcher goes on, and complains that the Java home is gone
        with contextlib.suppress(OSError):
            for pid in Path(f"/proc/self/task/{thread.native_id}/children").read_text().split():
                os.kill(int(pid), signal.SIGKILL)  # SIGTERM would run our handlers in a fork before its exec
        raise
    if not errors:
        return found[0]
    if not isinstance(errors[0], (PySparkException, Py4JError)):
        raise errors[0]
    reason = str(getattr(errors[0], "java_exception", errors[0])).partition("\n")[0]
    raise StartError(f"Spark with --master {master} did not start: {reason}") from errors[0]


@contextlib.contextmanager
def ending(spark: Any) -> Iterator[None]:
    """Stop a session at the end of the block.

    Raises:
        SparkLost: Spark's Java has ended, whichever error the running call raised.
    """
    root = logging.getLogger()
    root.addFilter(_not_py4j)  # py4j logs the stack of every broken connection
    try:
        yield
    except Exception as error:
        if not _java_ended(spark, error):
            raise
        raise SparkLost(
            "Spark's Java ended: it was killed, as Linux does when the machine has no memory left, or its own memory "
            "was too small (--driver-memory). What was committed counts; the next run goes on from there"
        ) from error
    finally:
        try:
            spark.stop()
        except Exception as error:  # py4j raises many classes; if Java has ended, nothing is left to stop
            if not _java_ended(spark, error):
                raise
        root.removeFilter(_not_py4j)


def _not_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname


def _java_ended(spark: Any, error: Exception) -> bool:
    """Whether Spark's Java has ended; false with spark-submit, whose Java is no child of this process."""
    proc = getattr(getattr(getattr(spark, "sparkContext", None), "_gateway", None), "proc", None)
    if proc is None:
        return False
    with contextlib.suppress(subprocess.TimeoutExpired):
        proc.wait(_ENDING_S if isinstance(error, (Py4JError, OSError)) else 0)
    return proc.poll() is not None
