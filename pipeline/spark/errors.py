"""Raises the errors of this project that Spark wraps, without the stack traces of three processes."""

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

_LATE: Final = ("Python worker failed to connect back", "CANNOT_OPEN_SOCKET")
_MET: Final = re.compile(r"Concurrent(?:Append|Delete\w*|Transaction|Write|Modification|Metadata\w*)\w*Exception")
_OURS: Final = re.compile(r"^(mqregistry(?:\.\w+)*)\.(\w+): (.+)$", re.MULTILINE)  # module, class, message
_DISK: Final = re.compile(
    r"No space left on device|Disk quota exceeded|Read-only file system|Input/output error|Too many open files"
)
_NO_PYTHON: Final = re.compile(r"(No module named '\S+'|Cannot run program \"\S+\")")


class Passing(RegistryError):
    """A temporary failure that must be tried again: this machine is busy, or two commits collided."""


def plain(error: Exception) -> Exception:
    """The error of this project inside an error of Spark; Spark's own error, if it is not known here."""
    text = str(error)
    if any(late in text for late in _LATE):
        return Passing("Spark waited too long for its Python to start: this machine is very busy")
    if met := _MET.search(text):
        return Passing(f"two commits to a table collided ({met[0]})")
    if found := _OURS.search(text):
        return _class_of(found[1], found[2])(found[3])
    if lacking := _NO_PYTHON.search(text):
        return RegistryError(
            f"Spark's Python ({os.environ.get('PYSPARK_PYTHON', 'python3')}): {lacking[1]}; PYSPARK_PYTHON names "
            "one that has mqregistry, with the extra spark, on every machine of the cluster"
        )
    if fault := _DISK.search(_with_causes(error)):
        return RegistryError(
            f"{fault[0]}: the lake, or Spark's temporary folder (spark.local.dir, default /tmp), cannot be written. "
            "What was committed counts; the next run goes on from there"
        )
    return error


def _with_causes(error: BaseException) -> str:
    """Java's texts for an error and its causes, because pyspark's text has only the first sentence."""
    texts = []
    each: BaseException | None = error
    while each is not None:
        texts += [str(each), getattr(each, "_stackTrace", "")]
        each = getattr(each, "_cause", None)
    return "\n".join(texts)


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Raise what the block's tasks raised; see :func:`plain`."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        found = plain(error)
        if found is error:
            raise
        raise found from error


def _class_of(module: str, name: str) -> Callable[[str], RegistryError]:
    """The class of this name, if a message is all that it needs; else RegistryError."""
    kind = getattr(importlib.import_module(module), name, None)
    if isinstance(kind, type) and issubclass(kind, RegistryError) and "__init__" not in vars(kind):
        return kind
    return RegistryError
