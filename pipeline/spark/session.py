"""The Spark session of every command and test: one place for its Java, its clock and its noise."""

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
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mqregistry.errors import RegistryError, StartError

from .java import find_java_home

logger = logging.getLogger(__name__)

_LOG4J: Final = Path(__file__).with_name("log4j2.properties")
_ATTEMPTS: Final = 3  # a task's; plain local[N] makes one
_ENDING_S: Final = 3.0  # between a broken connection and the end of the process that held it


class SparkLost(RegistryError):
    """Spark's Java ended in the middle of the work."""


def open_session(
    *,
    master: str = "local[*]",
    driver_memory: str | None = None,
    config: dict[str, str] | None = None,
) -> SparkSession:
    """Start Spark, or give the session that this process has; Ctrl-C ends the wait at once.

    Args:
        master: where to run. Started by spark-submit, its ``--master`` counts, and so does its ``--driver-memory``.
        driver_memory: e.g. ``4g``; Spark's default is 1 GB.
        config: further Spark settings.

    Raises:
        StartError: there is no Java, or it did not start with these options.
    """
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.streaming.stopTimeout": "60s",
    }
    builder: Any = SparkSession.builder.appName("mqregistry")
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # else spark-submit has chosen all of this
        home, warning = find_java_home()
        if warning:
            logger.warning(warning)
        os.environ["JAVA_HOME"] = str(home)
        config = dict(config or {})
        more = config.pop("spark.driver.extraJavaOptions", "")
        settings["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={_LOG4J.as_uri()} {more}".rstrip()
        if driver_memory:
            settings["spark.driver.memory"] = driver_memory
        # Spark's own choice is whatever python3 is on PATH, which need not have this package
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if master.startswith("local"):
            settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
        builder = builder.master(re.sub(r"^local\[([^,\]]+)\]$", rf"local[\1,{_ATTEMPTS}]", master))
    for key, value in {**settings, **(config or {})}.items():
        builder = builder.config(key, value)
    session = _started(builder.getOrCreate, master)
    session.sparkContext.setLogLevel("ERROR")
    return session


class LaterSession:
    """A session that starts when something is first asked of it: where little is to do, no Java runs.

    Args:
        options: of :func:`open_session`.

    Raises:
        StartError: there is no Java.
    """

    def __init__(self, **options: Any) -> None:
        find_java_home()  # says now what is wrong, and not when Spark is needed
        self._options = options
        self.begun: Any = None  # the session, once there is one

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what copy and pickle look for
            raise AttributeError(name)
        if self.begun is None:
            self.begun = open_session(**self._options)
        return getattr(self.begun, name)

    def stop(self) -> None:
        """Stop what was started."""
        if self.begun is not None:
            self.begun.stop()


def session_when_needed(*, master: str, **options: Any) -> Any:
    """A session: on this machine one that starts when it is needed; on a cluster, or by spark-submit, at once."""
    if master.startswith("local") and "PYSPARK_GATEWAY_PORT" not in os.environ:
        return LaterSession(master=master, **options)
    return open_session(master=master, **options)


def _started(start: Callable[[], SparkSession], master: str) -> SparkSession:
    """Call ``start`` in a thread of its own.

    In the main thread pyspark replaces the handler of SIGINT, and answers it only after the call under way.
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
        # Its launcher would go on, and complain of the Java home that is removed when this process ends.
        with contextlib.suppress(OSError):
            for pid in Path(f"/proc/self/task/{thread.native_id}/children").read_text().split():
                os.kill(int(pid), signal.SIGKILL)  # a fork that has not become it yet would run our handlers
        raise
    if not errors:
        return found[0]
    if not isinstance(errors[0], (PySparkException, Py4JError)):
        raise errors[0]
    reason = str(getattr(errors[0], "java_exception", errors[0])).partition("\n")[0]
    raise StartError(f"Spark with --master {master} did not start: {reason}") from errors[0]


@contextlib.contextmanager
def ending(spark: Any) -> Iterator[None]:
    """Around all that a command does with a session: stops it.

    Raises:
        SparkLost: its Java has died; whatever the call under way said of it.
    """
    root = logging.getLogger()
    root.addFilter(_not_py4j)  # which logs the stack of every broken connection
    try:
        yield
    except Exception as error:
        if not _java_ended(spark, error):
            raise
        raise SparkLost(
            "Spark's Java ended: somebody killed it, as Linux does when memory runs out, or its own was not enough "
            "(--driver-memory). What was committed counts; the next run goes on from there"
        ) from error
    finally:
        try:
            spark.stop()
        except Exception as error:  # py4j's, of many classes: there is nothing left to stop
            if not _java_ended(spark, error):
                raise
        root.removeFilter(_not_py4j)


def _not_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname


def _java_ended(spark: Any, error: Exception) -> bool:
    """Whether the process is gone; spark-submit's is not ours to look at."""
    spark = spark.begun if isinstance(spark, LaterSession) else spark
    proc = getattr(getattr(getattr(spark, "sparkContext", None), "_gateway", None), "proc", None)
    if proc is None:
        return False
    with contextlib.suppress(subprocess.TimeoutExpired):
        proc.wait(_ENDING_S if isinstance(error, (Py4JError, OSError)) else 0)
    return proc.poll() is not None
