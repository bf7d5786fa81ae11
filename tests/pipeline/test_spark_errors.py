"""Errors that come back from Spark: those of this project as they were raised, the others as Spark's."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")

from pyspark.errors import PySparkException

from mqregistry.errors import RegistryError
from mqregistry.pipeline.redis_stream.stream import GapError, OtherPast
from mqregistry.pipeline.silver.next_changes import MissingChanges
from mqregistry.pipeline.spark.errors import Passing, plain_errors


def trace(error: Exception) -> str:
    """What Spark says of an error in a Python task."""
    kind = type(error)
    return (
        "[STREAM_FAILED] Query terminated with exception: Traceback (most recent call last):\n"
        '  File "worker.py", line 1, in main\n'
        f"{kind.__module__}.{kind.__qualname__}: {error}\n SQLSTATE: XXKST"
    )


@pytest.mark.parametrize("error", [GapError("3 changes are lost"), OtherPast("twice"), RegistryError("no")])
def test_an_error_of_this_project_is_raised_as_it_was(error):
    with pytest.raises(type(error)) as caught, plain_errors():
        raise PySparkException(trace(error))
    assert type(caught.value) is type(error)
    assert str(caught.value) == str(error)


def test_an_error_that_is_made_of_more_than_its_message_keeps_the_message():
    error = MissingChanges("default", 3, 7)
    with pytest.raises(RegistryError) as caught, plain_errors():
        raise PySparkException(trace(error))
    assert str(caught.value) == str(error)


def test_what_spark_itself_raised_stays():
    with pytest.raises(PySparkException, match="out of memory"), plain_errors():
        raise PySparkException("java.lang.OutOfMemoryError: out of memory")


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("Python worker failed to connect back.", Passing, "this machine is very busy"),
        ("io.delta.exceptions.ConcurrentAppendException: files were added", Passing, "ConcurrentAppendException"),
        ("ModuleNotFoundError: No module named 'msgspec'", RegistryError, "No module named 'msgspec'; PYSPARK_PYTHON"),
    ],
)
def test_what_this_machine_lacks_is_said(text, kind, said):
    with pytest.raises(kind, match=said), plain_errors():
        raise PySparkException(text)


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_full_disk_is_said_however_deep_java_says_it(depth):
    error = PySparkException("[TASK_WRITE_FAILED] Task failed while writing rows to file:/lake. SQLSTATE: 58030")
    inner = error
    for _ in range(depth):
        inner._cause = PySparkException("Job aborted")
        inner = inner._cause
    inner._stackTrace = "org.apache.spark.SparkException\nCaused by: java.io.IOException: No space left on device\n\tat"
    with (
        pytest.raises(RegistryError, match=r"^No space left on device: the lake, or .* the next run goes on"),
        plain_errors(),
    ):
        raise error
