"""Silver's commits: each lists the files that make up the tables, and says up to which change they go.

Rows that ended are in *closed* files, which are merged as they become many; the rows that hold are in *open* files, one
a bucket and table, written again when a change touches them. Files are never changed, only left out of the next commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from ..lake.lake import Lake, places
from ..lake.schema import SILVER

KEPT_COMMITS: Final = 10  # a reader that began with one of these finds its files

AREA: Final = "silver"  # the folder of the tables

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

    seq: the last change that counts. ms: its moment. begin_ms, begin_seq: since when, of the first
    snapshot. bronze_batch: batches up to this one are used up, -1 = none. compat: of the namespace. holes:
    (from ms, to ms) of which changes are missing, up to the snapshot that the past goes on from. rewritten: the commit
    since which rows are only added and ended, after a backfill wrote all of them.
    """

    seq: int
    ms: int
    bronze_batch: int
    begin_seq: int
    begin_ms: int
    compat: str = "5.x"
    holes: tuple[tuple[int, int], ...] = ()
    files: tuple[File, ...] = ()
    rewritten: int = 0

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
        """The commit as JSON values."""
        content: dict[str, Any] = msgspec.to_builtins(self)
        return content


def log_of(namespace: str, epoch: str) -> str:
    """The name of silver's commit log."""
    return f"silver/{places(namespace, epoch)}"


def read_last(lake: Lake, log: str) -> tuple[int, Manifest] | None:
    """The newest commit and its number; None: there is none."""
    numbers = lake.commits(log)
    if not numbers:
        return None
    return numbers[-1], _read(lake, log, numbers[-1])


def observe(lake: Lake, namespace: str, epoch: str, seq: int, ms: int) -> None:
    """Record that no change followed ``seq`` up to a moment: Redis time that was read before the end of the stream."""
    lake.commit(_observed(namespace, epoch), 0, {"seq": seq, "ms": ms})


def observed_ms(lake: Lake, namespace: str, epoch: str, seq: int) -> int | None:
    """Up to when (ms) it is known that no change followed; None: that is not known."""
    log = _observed(namespace, epoch)
    if not lake.commits(log):
        return None
    content = lake.read_commit(log, 0)
    return int(content["ms"]) if content["seq"] <= seq else None


def _observed(namespace: str, epoch: str) -> str:
    return f"observed/{places(namespace, epoch)}"


def forget(lake: Lake, log: str, keep: Iterable[File] = (), *, commits: int = KEPT_COMMITS) -> None:
    """Remove old commits, and before them the files that only they list.

    Args:
        keep: files that another log lists.
        commits: so many stay.
    """
    numbers = lake.commits(log)
    old = numbers[: max(0, len(numbers) - commits)]
    if not old:
        return
    kept = {file.path for file in keep}
    for number in numbers[len(old) :]:
        kept.update(file.path for file in _read(lake, log, number).files)
    for number in old:
        for file in _read(lake, log, number).files:
            if file.path not in kept:
                remove_file(lake, file.path)
        lake.forget_commit(log, number)


def remove_file(lake: Lake, path: str) -> None:
    """One file, and its folder with the last one."""
    folder, _, name = path.rpartition("/")
    lake.remove_file(folder, name)
    if lake.folders(folder) == lake.files(folder) == []:
        lake.remove(folder)


def remove_batch(lake: Lake, area: str, namespace: str, epoch: str, number: int, keep: Iterable[File] = ()) -> None:
    """Remove what killed jobs and tasks wrote under a number, but not ``keep``."""
    kept = {file.path for file in keep}
    for table in SILVER:
        for state in (CLOSED, OPEN):
            folder = folder_of(area, table, state, namespace, epoch, number)
            for name in lake.files(folder):
                if f"{folder}/{name}" not in kept:
                    remove_file(lake, f"{folder}/{name}")


def folder_of(area: str, table: str, state: str, namespace: str, epoch: str, number: int) -> str:
    """Where the files of one commit are, within the lake."""
    return f"{area}/{table}/{places(namespace, epoch)}/{state}/batch={number:09d}"


def _read(lake: Lake, log: str, number: int) -> Manifest:
    return msgspec.convert(lake.read_commit(log, number), Manifest)
