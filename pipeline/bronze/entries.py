"""Writes entries to files of bronze, and those that cannot be read beside them; in this process or in a task of Spark.

Nothing counts yet: the files are listed in a :class:`Part`, and a commit of all parts of a batch makes them count.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from mqregistry.events.journal import CHANGES, Stream

from ..lake.files import File, write_partitions
from ..lake.lake import Lake, owner
from ..lake.schema import TABLES
from ..redis_stream.ranges import EntryId, Position
from ..redis_stream.stream import GapError

_DAY_MS: Final = 86_400_000
_BYTES_OF_FILE: Final = 64 << 20  # in memory; an entry of 500 topics has 25 kB


class Part(msgspec.Struct, frozen=True):
    """What one task wrote of a batch.

    ids: of the entries that can be read, the first and the last; seqs: the same of changes. bad_ids: of the others.
    """

    files: list[File]
    rows: int
    ids: tuple[tuple[int, int], tuple[int, int]] | None
    seqs: tuple[int, int] | None
    bad_files: list[File]
    bad_ids: list[tuple[int, int]]


class BronzeBatch(msgspec.Struct, frozen=True):
    """A batch.

    rows: in bronze; quarantined: beside it. first_seq: None where entries have no number. end: the last entry, and the
    last change up to it.
    """

    rows: int
    quarantined: int
    end: Position
    first_seq: int | None = None

    @property
    def last(self) -> str:
        """How far it comes, for people."""
        return str(self.end.id) if self.first_seq is None else f"change {self.end.seq}"


def write_entries(
    lake: Lake, stream: Stream, namespace: str, epoch: str, number: int, batches: Iterable[pa.RecordBatch]
) -> Part:
    """Write what the source gives (``redis_stream.entries.SOURCE``), in its order, as files of batch ``number``."""
    files: list[File] = []
    bad_files: list[File] = []
    bad_ids: list[tuple[int, int]] = []
    ids: tuple[tuple[int, int], tuple[int, int]] | None = None
    seqs: tuple[int, int] | None = None
    held: list[pa.RecordBatch] = []
    place = owner(namespace, epoch)

    def write() -> None:
        if held:
            rows = pa.Table.from_batches(held)
            day = pc.divide(rows["ms"], _DAY_MS).cast(pa.int32()).cast(pa.date32()).cast(pa.string())
            rows = rows.append_column("batch", pa.repeat(pa.scalar(number, pa.int64()), rows.num_rows))
            rows = rows.select(TABLES[f"bronze/{stream}"].columns.names).append_column("day", day)
            files.extend(write_partitions(lake, f"bronze/{stream}", rows, "day", place))
            held.clear()

    for batch in batches:
        good = batch.filter(pc.is_null(batch["reason"]))
        if good.num_rows < batch.num_rows:
            bad = pa.Table.from_batches([batch.filter(pc.is_valid(batch["reason"]))])
            bad_ids += _ids(bad)
            bad = bad.append_column("stream", pa.repeat(stream, bad.num_rows))
            bad = bad.append_column("batch", pa.repeat(str(number), bad.num_rows))
            columns = [*TABLES["quarantine"].columns.names, "batch"]
            bad_files += write_partitions(lake, "quarantine", bad.select(columns), "batch", place | {"stream": stream})
        if good.num_rows:
            first, last = _ids(good.slice(0, 1))[0], _ids(good.slice(good.num_rows - 1))[0]
            ids = (ids[0] if ids else first), last
            if stream == CHANGES:
                seqs = seqs[0] if seqs else good["seq"][0].as_py(), good["seq"][-1].as_py()
            held.append(good)
            if sum(each.nbytes for each in held) > _BYTES_OF_FILE:
                write()
    write()
    rows = sum(file.rows for file in files)
    return Part(files, rows, ids, seqs, bad_files, bad_ids)


def _ids(rows: pa.Table | pa.RecordBatch) -> list[tuple[int, int]]:
    return list(zip(rows["id_ms"].to_pylist(), rows["id_n"].to_pylist(), strict=True))


def whole_batch(stream: Stream, parts: Iterable[Part], before: Position) -> BronzeBatch:
    """The batch that parts make up, none of whose changes is missing.

    Args:
        before: the last entry before it.

    Raises:
        GapError: one is.
    """
    parts = sorted((part for part in parts if part.rows or part.bad_ids), key=lambda part: (part.ids or ((0, 0),))[0])
    rows, bad = sum(part.rows for part in parts), sorted(pair for part in parts for pair in part.bad_ids)
    last_good = max((part.ids[1] for part in parts if part.ids), default=(0, 0))
    end = EntryId(*max([last_good, *bad]))
    seqs = [part.seqs for part in parts if part.seqs]
    if not seqs:
        return BronzeBatch(rows, len(bad), Position(end, before.seq, before.unread + len(bad)))
    missing = seqs[-1][1] - seqs[0][0] + 1 - rows
    if missing < 0 or missing > len(bad) or any(one[1] >= other[0] for one, other in pairwise(seqs)):
        raise GapError(f"what was written of {stream} is not {seqs[0][0]} to {seqs[-1][1]}, each once: a defect")
    unread = sum(1 for pair in bad if pair > last_good)
    return BronzeBatch(rows, len(bad), Position(end, seqs[-1][1], unread), seqs[0][0])
