"""Publishes the lake's tables as Delta tables, from the lake's commits. Without Spark.

``<root>/bronze/<stream>``, ``quarantine``, ``silver/<table>`` and ``gold/<table>`` have the columns of
``pipeline/lake/schema.py``, after them namespace and epoch; bronze also batch and day. Every write is one Delta
version, with
the commit of the lake that the table then has as an application transaction: killed at any moment and run again, every
row is there once. Each table is at one commit of the lake; two tables may be at two.

What one version replaces is what can have changed since the last:

- *bronze* only grows, a version a batch;
- *silver*: a row changes once, when it ends. Rows that hold, or ended after the last version's seq, are replaced; after
  a backfill, all;
- *gold*: a refresh replaces the end of a table, from some hour and some day on.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError, DeltaError

from .gold.tables import MOMENT_OF, Commit, last_commit, read_batches
from .lake.lake import Lake, LakeError, places
from .lake.schema import BRONZE, GOLD, QUARANTINE, SILVER
from .silver.files import read_files
from .silver.manifest import Manifest, log_of, read_last

_TRIES: Final = 5
_APP: Final = "mqregistry"
_KEYS: Final = [pa.field("namespace", pa.string(), nullable=False), pa.field("epoch", pa.string(), nullable=False)]
_DAY: Final = pa.field("day", pa.string(), nullable=False)
_BATCH: Final = pa.field("batch", pa.int64(), nullable=False)


def publish(
    lake: Lake, root: str, namespace: str, *, vacuum: bool = False, tell: Callable[[str], None] = lambda text: None
) -> int:
    """Bring the Delta tables up to what the lake has of a namespace, in all its epochs.

    Args:
        root: a folder, or a URI that deltalake knows (s3, az, gs …; its settings come from the environment).
        vacuum: also remove files that no version of the last seven days needs.
        tell: called with a sentence about every table that was brought up to date.

    Returns:
        How many versions were written; 0: everything was there.

    Raises:
        LakeError: the tables there are of another lake; somebody else publishes to them now; or they cannot be written.
    """
    try:
        return _publish(lake, root, namespace, vacuum, tell)
    except (DeltaError, OSError) as error:  # deltalake's messages end in a trace of its own
        raise LakeError(f"Delta tables in {root}: {str(error).splitlines()[0]}") from error


def _publish(lake: Lake, root: str, namespace: str, vacuum: bool, tell: Callable[[str], None]) -> int:
    written = 0
    for kind, publisher in (("bronze", _bronze), ("silver", _silver), ("gold", _gold)):
        for epoch in _epochs(lake, kind, namespace):
            for name, versions in publisher(lake, root, namespace, epoch):
                written += versions
                if versions:
                    tell(f"{name}: {versions} version{'s' * (versions != 1)} of epoch {epoch}")
    if vacuum:
        for made in _tables():
            removed = _PublishedTable(lake, root, *made).delta.vacuum(dry_run=False)
            tell(f"{made[0]}: {len(removed)} file{'s' * (len(removed) != 1)} removed")
    return written


def _tables() -> Iterator[tuple[str, pa.Schema, list[str]]]:
    """Name, schema, and what it is partitioned by, of every table."""
    keys = [field.name for field in _KEYS]
    for stream, schema in BRONZE.items():
        yield f"bronze/{stream}", pa.schema([*schema, *_KEYS, _BATCH, _DAY]), [*keys, _DAY.name]
    yield "quarantine", pa.schema([*QUARANTINE, *_KEYS, _BATCH]), keys
    for layer, tables in (("silver", SILVER), ("gold", GOLD)):
        for table, schema in tables.items():
            yield f"{layer}/{table}", pa.schema([*schema, *_KEYS]), keys


class _PublishedTable:
    """One Delta table, made when it is not there."""

    def __init__(self, lake: Lake, root: str, name: str, schema: pa.Schema, partitions: list[str]) -> None:
        self.schema = schema
        self.name = name
        uri = f"{root.rstrip('/')}/{name}"
        about = f"mqregistry, {name} of the lake {lake.root}"
        if not DeltaTable.is_deltatable(uri):
            DeltaTable.create(uri, schema, mode="ignore", partition_by=partitions, description=about)
        self.delta = DeltaTable(uri)
        found = self.delta.metadata().description
        if found != about:
            raise LakeError(
                f"{uri} is not this lake's: it says {found!r}, expected {about!r}; give --delta another folder"
            )
        there = {field.name for field in self.delta.schema().fields}
        added = [field for field in DeltaSchema.from_arrow(schema).fields if field.name not in there]
        if added:  # the table was made by an older release
            self.delta.alter.add_columns(added)

    def at(self, app: str) -> int | None:
        """The commit of the lake that the table has of ``app``; None: none."""
        return self.delta.transaction_version(f"{_APP}/{app}")

    def write(
        self, batches: Iterable[pa.RecordBatch], app: str, commit: int, constants: dict[str, Any],
        replaced: str | None = None,
    ) -> None:  # fmt: skip
        """One version.

        Args:
            constants: columns that the batches lack.
            replaced: which rows these replace; None: they are added.
        """
        rows = pa.RecordBatchReader.from_batches(self.schema, self._whole(batches, constants))
        properties = CommitProperties(
            app_transactions=[Transaction(f"{_APP}/{app}", commit)], custom_metadata={"lake_commit": f"{app} {commit}"}
        )
        try:
            if replaced is None:
                write_deltalake(self.delta, rows, mode="append", commit_properties=properties)
            else:
                write_deltalake(
                    self.delta, rows, mode="overwrite", predicate=replaced, commit_properties=properties
                )  # fmt: skip
        except CommitFailedError as error:
            raise LakeError(
                f"Delta table {self.name}: somebody else wrote to it ({error}): let one process publish at a time, and "
                "run this again"
            ) from error

    def _whole(self, batches: Iterable[pa.RecordBatch], constants: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = [
                pa.repeat(pa.scalar(constants[field.name], field.type), batch.num_rows)
                if field.name in constants else batch.column(field.name).cast(field.type)
                for field in self.schema
            ]  # fmt: skip
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _open(lake: Lake, root: str, layer: str) -> Iterator[_PublishedTable]:
    yield from (_PublishedTable(lake, root, *table) for table in _tables() if table[0].partition("/")[0] == layer)


def _epochs(lake: Lake, kind: str, namespace: str) -> list[str]:
    """Those that a layer has commits of."""
    logs = [("commits", "bronze", stream) for stream in BRONZE] if kind == "bronze" else [("commits", kind)]
    found = {folder for log in logs for folder in lake.folders(*log, f"namespace={namespace}")}
    return sorted(folder.partition("=")[2] for folder in found)


def _bronze(lake: Lake, root: str, namespace: str, epoch: str) -> Iterator[tuple[str, int]]:
    [unread] = _open(lake, root, "quarantine")
    bad = 0
    for table in _open(lake, root, "bronze"):
        stream = table.name.partition("/")[2]
        good = 0
        log = f"bronze/{stream}/{places(namespace, epoch)}"
        for to, area, column in ((table, "bronze", "rows"), (unread, "quarantine", "quarantined")):
            app = f"{area}/{stream}/{places(namespace, epoch)}"
            since = to.at(app)
            for number in lake.commits(log):
                if (since is not None and number <= since) or not lake.read_commit(log, number)[column]:
                    continue
                place = lake.path(app, f"batch={number:09d}")
                constants = {"namespace": namespace, "epoch": epoch, "batch": number}
                to.write(_files(lake, place, to.schema), app, number, constants)
                good, bad = good + (to is table), bad + (to is unread)
        yield table.name, good
    yield unread.name, bad


def _files(lake: Lake, place: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """A batch of bronze, a few entries at a time: one may have many topics."""
    days = ds.partitioning(pa.schema([_DAY]), flavor="hive")
    inside = pa.schema([field for field in schema if field.name not in ("namespace", "epoch", "batch")])
    files = ds.dataset(place, format="parquet", filesystem=lake.filesystem, partitioning=days, schema=inside)
    yield from files.to_batches(batch_size=8192, batch_readahead=2, fragment_readahead=1)


def _silver(lake: Lake, root: str, namespace: str, epoch: str) -> Iterator[tuple[str, int]]:
    for table in _open(lake, root, "silver"):
        yield (
            table.name,
            _again(
                lambda: read_last(lake, log_of(namespace, epoch)),
                partial(_silver_table, lake, table, namespace, epoch),
            ),
        )


def _silver_table(
    lake: Lake, to: _PublishedTable, namespace: str, epoch: str, found: tuple[int, Manifest] | None
) -> int:
    if found is None:
        return 0
    manifest = found[1]
    app = f"silver/{places(namespace, epoch)}/rewritten={manifest.rewritten}"
    since = to.at(app)
    if since is not None and since >= manifest.seq:
        return 0
    name = to.name.partition("/")[2]
    replaced, wanted = _where(namespace, epoch), None
    if since is not None:
        replaced += f" AND (to_seq IS NULL OR to_seq > {since})"
        wanted = pc.field("to_seq").is_null() | (pc.field("to_seq") > since)
    files = manifest.of(name)
    rows = read_files(lake, name, files).to_batches(filter=wanted) if files else []
    to.write(rows, app, manifest.seq, {"namespace": namespace, "epoch": epoch}, replaced)
    return 1


def _gold(lake: Lake, root: str, namespace: str, epoch: str) -> Iterator[tuple[str, int]]:
    for table in _open(lake, root, "gold"):
        yield (
            table.name,
            _again(
                lambda: last_commit(lake, namespace, epoch),
                partial(_gold_table, lake, table, namespace, epoch),
            ),
        )


def _gold_table(lake: Lake, to: _PublishedTable, namespace: str, epoch: str, last: tuple[int, Commit | None]) -> int:
    number, commit = last
    if commit is None:
        return 0
    app = f"gold/{places(namespace, epoch)}"
    since = to.at(app)
    if since is not None and since >= number:
        return 0
    name = to.name.partition("/")[2]
    batches = commit.tables.get(name, [])
    replaced = _where(namespace, epoch)
    from_ms = {"hour": 0, "day": 0}
    if since is not None and any(batch.batch <= since for batch in batches):  # else all of it was worked out again
        new = [batch for batch in batches if batch.batch > since]
        if not new:
            return 0
        from_ms = {grain: min(getattr(batch, grain) for batch in new) for grain in from_ms}
        if name in MOMENT_OF:
            replaced += f" AND {_since(MOMENT_OF[name], from_ms['day'])}"
        else:
            each = (f"(grain = '{grain}' AND {_since('period_start', ms)})" for grain, ms in from_ms.items())
            replaced += f" AND ({' OR '.join(each)})"
    grains = [None] if name in MOMENT_OF else list(from_ms)
    found = [
        read_batches(lake, name, namespace, epoch, batches, grain=grain, from_ms=from_ms[grain or "day"])
        for grain in grains
    ]
    to.write(pa.concat_tables(found).to_batches(), app, number, {"namespace": namespace, "epoch": epoch}, replaced)
    return 1


def _where(namespace: str, epoch: str) -> str:
    quoted = (text.replace("'", "''") for text in (namespace, epoch))
    return "namespace = '{}' AND epoch = '{}'".format(*quoted)


def _since(column: str, ms: int) -> str:
    at = datetime.datetime.fromtimestamp(ms // 1000, datetime.UTC)
    return f"{column} >= '{at:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}000Z'"


def _again(look: Callable[[], Any], write: Callable[[Any], int]) -> int:
    """Write what a commit of the lake lists; look again when its files were removed meanwhile for newer ones."""
    for tried in range(_TRIES):
        found = look()
        try:
            return write(found)
        except LakeError:
            raise
        except Exception:  # deltalake has errors of its own for a file that is gone
            if tried + 1 == _TRIES or look() == found:
                raise
    raise AssertionError
