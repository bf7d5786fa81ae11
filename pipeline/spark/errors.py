"""Raises errors of this project from inside of Spark as they were, without the stack traces of three processes."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
from collections.abc import Callable, Iterator
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from mqregistry.errors import RegistryError

_WORKER_LATE: Final = "Python worker failed to connect back"
_OURS: Final = re.compile(r"^(mqregistry(?:\.\w+)*)\.(\w+): (.+)$", re.MULTILINE)  # module, class, message
_NO_PYTHON: Final = re.compile(r"(No module named '\S+'|Cannot run program \"\S+\")")


class WorkerLate(RegistryError):
    """Spark gave a Python process 10 s to start, which it has no setting for, and that was not enough."""


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Raise what the block's tasks raised, where it was an error of this project; else what Spark raised.

    Raises:
        WorkerLate: this machine is too busy for Spark.
        RegistryError: the Python that Spark started lacks something.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        if _WORKER_LATE in text:
            raise WorkerLate(
                "Spark's Python process did not start within 10 s, Spark's own limit: is this machine very busy?"
            ) from error
        if found := _OURS.search(text):
            raise _class_of(found[1], found[2])(found[3]) from error
        if lacking := _NO_PYTHON.search(text):
            raise RegistryError(
                f"Spark's Python ({os.environ.get('PYSPARK_PYTHON', 'python3')}): {lacking[1]}; PYSPARK_PYTHON names "
                "one that has mqregistry, with the extra spark, on every machine of the cluster"
            ) from error
        raise


def _class_of(module: str, name: str) -> Callable[[str], RegistryError]:
    """The class itself, if its errors consist of a message alone."""
    kind = getattr(importlib.import_module(module), name, None)
    if isinstance(kind, type) and issubclass(kind, RegistryError) and "__init__" not in vars(kind):
        return kind
    return RegistryError
