"""What a silver commit says: which files make up the tables, and how far they reach.

Rows that ended are in *closed* files, which are merged as they become many; the rows that hold are in *open* files, one
a bucket and table, written anew when a change touches them. Files are never changed, only left out of the next commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from pipeline.lake import Lake, places
from pipeline.schema import SILVER

KEPT_COMMITS: Final = 10  # a reader that began with one of these finds its files

CLOSED: Final = "closed"
OPEN: Final = "open"


class File(msgspec.Struct, frozen=True):
    """One Parquet file of a table.

    path: within the lake. level: how often its rows were merged. from_us: its earliest valid_from; to_us: its latest
    valid_to, None for open rows.
    """

    table: str
    state: str
    bucket: int
    path: str
    rows: int
    from_us: int
    to_us: int | None = None
    level: int = 0


class Manifest(msgspec.Struct, frozen=True):
    """A silver commit.

    seq: the last change that counts. ms: until when the past is known. begin_ms, begin_seq: since when, of the first
    snapshot. bronze_batch: batches up to this one are used up, -1 = none. compat: of the namespace. holes:
    (from ms, to ms) of which changes are missing, up to the snapshot that the past goes on from.
    """

    seq: int
    ms: int
    bronze_batch: int
    begin_seq: int
    begin_ms: int
    compat: str = "5.x"
    holes: tuple[tuple[int, int], ...] = ()
    files: tuple[File, ...] = ()

    def of(self, table: str, *, state: str | None = None, bucket: int | None = None) -> list[File]:
        """The files of a table."""
        return [
            file
            for file in self.files
            if file.table == table
            and (state is None or file.state == state)
            and (bucket is None or file.bucket == bucket)
        ]

    def content(self) -> dict[str, Any]:
        """As JSON values."""
        content: dict[str, Any] = msgspec.to_builtins(self)
        return content


def log_of(namespace: str, epoch: str) -> str:
    """The log of silver's commits."""
    return f"silver/{places(namespace, epoch)}"


def read_last(lake: Lake, log: str) -> tuple[int, Manifest] | None:
    """The newest commit and its number; None: there is none."""
    numbers = lake.commits(log)
    if not numbers:
        return None
    return numbers[-1], msgspec.convert(lake.read_commit(log, numbers[-1]), Manifest)


def forget(lake: Lake, logs: Iterable[str], namespace: str, epoch: str) -> None:
    """Remove old commits, and the files that only they speak of."""
    wanted: set[str] = set()
    for log in logs:
        numbers = lake.commits(log)
        for number in numbers[:-KEPT_COMMITS]:
            lake.forget_commit(log, number)
        for number in numbers[-KEPT_COMMITS:]:
            wanted.update(file.path for file in msgspec.convert(lake.read_commit(log, number), Manifest).files)
    for folder, names in _batches(lake, namespace, epoch):
        unwanted = [name for name in names if f"{folder}/{name}" not in wanted]
        if len(unwanted) == len(names):
            lake.remove(folder)
        else:
            for name in unwanted:
                lake.remove_file(folder, name)


def remove_batch(lake: Lake, namespace: str, epoch: str, batch: str) -> None:
    """What a killed job left behind under a number that is to be used now."""
    for table in SILVER:
        for state in (CLOSED, OPEN):
            lake.remove(folder_of(table, state, namespace, epoch, batch))


def folder_of(table: str, state: str, namespace: str, epoch: str, batch: str) -> str:
    """Where the files of one commit are, within the lake."""
    return f"silver/{table}/{places(namespace, epoch)}/{state}/{batch}"


def _batches(lake: Lake, namespace: str, epoch: str) -> Iterator[tuple[str, list[str]]]:
    for table in SILVER:
        for state in (CLOSED, OPEN):
            place = f"silver/{table}/{places(namespace, epoch)}/{state}"
            for batch in lake.folders(place):
                yield f"{place}/{batch}", lake.files(place, batch)
