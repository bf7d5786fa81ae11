"""Bronze: every entry of the streams as it was, in batches that a commit of Delta's log makes count."""

from __future__ import annotations

from typing import Any

from mqregistry.events.journal import Stream

from ..lake.lake import Lake
from ..lake.schema import TABLES


def read(spark: Any, lake: Lake, stream: Stream, namespace: str, epoch: str) -> Any:
    """A DataFrame of all entries of a stream, with the columns of ``BRONZE[stream]`` and their batch."""
    from ..spark.frames import read_files

    table = f"bronze/{stream}"
    return read_files(spark, lake, lake.table(table).files(namespace=namespace, epoch=epoch), TABLES[table].columns)


__all__ = ["read"]
