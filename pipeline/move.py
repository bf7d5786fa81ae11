"""Moves a lake of before the Delta tables, which had commit files of its own, to one of Delta tables.

Bronze and the snapshots are copied; silver and gold are made of them. Killed and started again, it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from mqregistry.events.journal import STREAMS, Stream

from . import gold, silver
from .bronze.entries import write_entries
from .bronze.log import commit_batch, last_batch, restart
from .lake import snapshot
from .lake.files import write_file
from .lake.lake import Lake, LakeError, State, owner
from .lake.schema import BRONZE
from .redis_stream.entries import SOURCE
from .redis_stream.ranges import UNKNOWN, EntryId, Position, parse_id

_ROWS: Final = 250_000  # of a batch
_START: Final = Position(EntryId(0, 0))


def is_old(lake: Lake) -> bool:
    """Whether this folder is such a lake."""
    return bool(_names(lake, "commits"))


def move(old: Lake, lake: Lake, tell: Callable[[str], None] = lambda text: None) -> int:
    """Copy all namespaces and epochs of an old lake; gives how many there were.

    Raises:
        LakeError: it is none.
    """
    if not is_old(old):
        raise LakeError(f"{old.root} is no lake of before the Delta tables: it has no folder 'commits'")
    moved = 0
    for namespace in _values(old, "commits/snapshots"):
        for epoch in _values(old, f"commits/snapshots/namespace={namespace}"):
            moved += 1
            place = f"namespace={namespace}/epoch={epoch}"
            _snapshots(old, lake, namespace, epoch, place)
            for stream in STREAMS:
                rows = _bronze(old, lake, stream, namespace, epoch, place)
                tell(f"{namespace}, epoch {epoch}: {rows:,} {stream}")
            silver.advance(None, lake, namespace, epoch)
            gold.refresh(None, lake, namespace, epoch)
    return moved


def _names(lake: Lake, place: str) -> list[str]:
    found = lake.filesystem.get_file_info(fs.FileSelector(lake.path(place), allow_not_found=True))
    return sorted(info.base_name for info in found)


def _values(lake: Lake, place: str) -> list[str]:
    return [name.partition("=")[2] for name in _names(lake, place)]


def _commits(lake: Lake, log: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for name in _names(lake, f"commits/{log}"):
        if name.endswith(".json"):
            with lake.filesystem.open_input_stream(lake.path(f"commits/{log}", name)) as file:
                yield int(name[:-5]), msgspec.json.decode(file.read())


def _snapshots(old: Lake, lake: Lake, namespace: str, epoch: str, place: str) -> None:
    if lake.state("snapshot", namespace, epoch):
        return
    taken = []
    for seq, content in _commits(old, f"snapshots/{place}"):
        taken.append(snapshot.Snapshot(epoch, **content))
        if content.get("rows"):
            path = old.path(f"snapshots/{place}/seq={seq:012d}.parquet")
            rows = ds.dataset(path, schema=BRONZE["changes"], filesystem=old.filesystem).to_table()
            file = write_file(lake, "snapshot", rows, owner(namespace, epoch))
            lake.table("snapshot").commit([file], f"snapshot/{namespace}/{epoch}", seq, repeat=True)
    lake.set_state("snapshot", namespace, epoch, State(0, {"taken": msgspec.to_builtins(taken)}))


def _bronze(old: Lake, lake: Lake, stream: Stream, namespace: str, epoch: str, place: str) -> int:
    """Many small batches become one."""
    waiting: list[pa.RecordBatch] = []
    moved = 0
    _, reached = last_batch(lake, stream, namespace, epoch)

    def write() -> None:
        if waiting:
            number, start = last_batch(lake, stream, namespace, epoch)
            part = write_entries(lake, stream, namespace, epoch, number + 1, waiting)
            commit_batch(lake, stream, namespace, epoch, number + 1, [part], start or _START)
            waiting.clear()

    for number, content in _commits(old, f"bronze/{stream}/{place}"):
        if content["last_id"] is None or (reached is not None and parse_id(content["last_id"]) <= reached.id):
            continue
        if not content["rows"] and not content["quarantined"]:  # where a run went on behind a gap
            write()
            seq = UNKNOWN if content["last_seq"] is None else content["last_seq"]
            restart(lake, stream, namespace, epoch, Position(parse_id(content["last_id"]), seq))
            continue
        for kind, schema in (("bronze", BRONZE[stream]), ("quarantine", None)):
            folder = old.path(f"{kind}/{stream}/{place}/batch={number:09d}")
            if content["rows" if kind == "bronze" else "quarantined"]:
                rows = ds.dataset(folder, format="parquet", filesystem=old.filesystem, schema=schema).to_table()
                waiting.extend(_as_read(rows, SOURCE[stream]))
                moved += rows.num_rows
        if sum(batch.num_rows for batch in waiting) >= _ROWS:
            write()
    write()
    return moved


def _as_read(rows: pa.Table, schema: pa.Schema) -> list[pa.RecordBatch]:
    """Rows as the source gives them: sorted, with reason and raw."""
    rows = rows.sort_by([("id_ms", "ascending"), ("id_n", "ascending")])
    blank = {"string": "", "int64": 0, "int32": 1}
    columns = [
        rows[field.name] if field.name in rows.schema.names
        else pa.nulls(rows.num_rows, field.type) if field.nullable
        else rows["id_ms"] if field.name == "ms"
        else pa.repeat(pa.scalar(blank[str(field.type)], field.type), rows.num_rows)
        for field in schema
    ]  # fmt: skip
    found: list[pa.RecordBatch] = pa.Table.from_arrays(columns, schema=schema).combine_chunks().to_batches()
    return found
