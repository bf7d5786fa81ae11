"""Keeps the lake's tables quick to read: merges small files, removes what nothing needs any more.

A file that does not count any more stays for seven days: who opened a table before can read it until then.
"""

from __future__ import annotations

import contextlib
import datetime
import time
from typing import Final

from deltalake.exceptions import CommitFailedError
from pyarrow import fs

from .lake import SCRATCH, Lake
from .schema import TABLES

KEPT: Final = datetime.timedelta(days=7)
STATE_KEPT_S: Final = 7200  # a lake's newest states alone are asked for
_CHECKPOINT_S: Final = 600.0
_MERGE_S: Final = 3600.0
_VACUUM_S: Final = 86_400.0
_FILE_BYTES: Final = 128 << 20
_OPEN_BYTES: Final = 8 << 20  # where more comes: what was merged once is not rewritten each hour


class Upkeep:
    """What a run does between rounds: checkpoints of Delta's logs, and once an hour and once a day :func:`maintain`."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        begun = time.monotonic()
        self._next = {checkpoint: begun + _CHECKPOINT_S, merge: begun + _MERGE_S, vacuum: begun + _MERGE_S}

    def when_due(self) -> None:
        """Do what is due."""
        for work, every_s in ((checkpoint, _CHECKPOINT_S), (merge, _MERGE_S), (vacuum, _VACUUM_S)):
            now = time.monotonic()
            if now >= self._next[work]:
                work(self._lake)
                self._next[work] = now + every_s


def maintain(lake: Lake) -> dict[str, int]:
    """All of it, now; gives how many files are gone, by table."""
    merge(lake)
    checkpoint(lake)
    return vacuum(lake)


def merge(lake: Lake) -> None:
    """Make large files of small ones, where rows are only added."""
    for name in TABLES:
        table, layer = lake.table(name), name.partition("/")[0]
        delta = table.delta
        if delta is None:
            continue
        if layer == "bronze":
            last = max((file.partition["day"] for file in table.files()), default="")
            works = [([("day", "!=", last)], _FILE_BYTES), ([("day", "=", last)], _OPEN_BYTES)]
        elif layer == "silver":  # rows that hold are one file of a bucket already
            works = [([("current", "=", "false")], _OPEN_BYTES)]
        else:
            continue
        for filters, target_bytes in works:
            with contextlib.suppress(CommitFailedError):  # somebody else does it, or wrote there: the next time
                delta.optimize.compact(partition_filters=filters, target_size=target_bytes)


def checkpoint(lake: Lake) -> None:
    """Let readers of Delta's logs begin with a summary, and remove log files of more than two hours ago."""
    for name in TABLES:
        delta = lake.table(name).delta
        if delta is not None and delta.version() > 0:
            delta.create_checkpoint()
            delta.cleanup_metadata()


def vacuum(lake: Lake) -> dict[str, int]:
    """Remove files that have not counted for seven days (states: two hours), or that a killed job left behind."""
    removed = {}
    for name in TABLES:
        delta = lake.table(name).delta
        if delta is not None:
            kept_s = STATE_KEPT_S if name == "state" else KEPT.total_seconds()
            removed[name] = len(
                delta.vacuum(
                    retention_hours=int(kept_s) // 3600,
                    dry_run=False,
                    full=True,
                    enforce_retention_duration=name != "state",
                )
            )
    before = datetime.datetime.now(datetime.UTC) - KEPT
    for place in SCRATCH:  # of jobs that were killed
        for info in lake.filesystem.get_file_info(fs.FileSelector(lake.path(place), allow_not_found=True)):
            if info.mtime is not None and info.mtime < before:
                lake.remove(place, info.base_name)
    return removed
