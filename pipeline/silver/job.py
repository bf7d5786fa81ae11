"""Brings silver up to date from its last commit: the snapshot first, then bronze, a chunk and a commit at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ..garbage import collection_paused
from ..lake import snapshot as snapshots
from ..lake.lake import Lake, LakeError
from ..lake.schema import BRONZE
from . import manifest as manifests
from .buckets import BUCKETS, BucketRouter, Floors
from .files import to_columns
from .manifest import File, Manifest, log_of
from .next_changes import CHUNK_ROWS, MissingChanges, next_chunk
from .replay import ReplayPlan, replay

# Fewer changes than this are replayed in this process: a Spark job takes longer to begin.
SPARK_FROM_ROWS: Final = 30_000

_PARCELS: Final = "bucket int, ord long, ms long, payload binary"
_COLUMNS: Final = ["seq", "ms", "part", "e"]


class Step(NamedTuple):
    """One commit: changes it took in, the last of them, and whether there are more."""

    number: int
    rows: int
    seq: int
    more: bool


class SilverRun:
    """Brings silver up to date, one commit after the other.

    Args:
        spark: None: everything is replayed here.
        log: of the commits.
        area: folder of the files, within the lake.
        spark_from_rows: smaller chunks are replayed here.
    """

    def __init__(
        self, spark: Any, lake: Lake, namespace: str, epoch: str, *, log: str | None = None,
        area: str = manifests.AREA, spark_from_rows: int = SPARK_FROM_ROWS, chunk_rows: int = CHUNK_ROWS,
    ) -> None:  # fmt: skip
        self.spark = spark
        self.lake = lake
        self.namespace = namespace
        self.epoch = epoch
        self.log = log or log_of(namespace, epoch)
        self.area = area
        self._spark_from_rows = spark_from_rows
        self._chunk_rows = chunk_rows

    def steps(self, *, upto_seq: int | None = None) -> Iterator[Step]:
        """Take in all that there is, or all up to a seq that ends a change; a commit each.

        Raises:
            LakeError: no snapshot was taken yet; a change is missing, and no snapshot was taken after the hole.
        """
        last = manifests.read_last(self.lake, self.log)
        if last is None:
            first = snapshots.first(self.lake, self.namespace, self.epoch)
            if first is None:
                raise LakeError(
                    f"the lake at {self.lake.root} has no snapshot of namespace {self.namespace!r}, epoch "
                    f"{self.epoch}: 'mqregistry pipeline run' begins with one"
                )
            number, manifest = 0, self._from_snapshot(0, first, None)
            yield Step(0, first.rows, first.seq, True)
        else:
            number, manifest = last
        while upto_seq is None or manifest.seq < upto_seq:
            try:
                chunk = next_chunk(
                    self.lake, self.namespace, self.epoch, seq=manifest.seq, ms=manifest.ms,
                    batch=manifest.bronze_batch, upto=upto_seq, chunk_rows=self._chunk_rows,
                )  # fmt: skip
            except MissingChanges as hole:
                later = snapshots.first(self.lake, self.namespace, self.epoch, from_seq=hole.then - 1)
                if later is None:
                    raise
                number += 1
                manifest = self._from_snapshot(number, later, manifest)
                yield Step(number, later.rows, later.seq, True)
                continue
            if chunk is None:
                return
            number += 1
            files = self._replay(number, manifest, chunk.paths, chunk.after, chunk.upto, chunk.floors, chunk.rows)
            manifest = msgspec.structs.replace(
                manifest, seq=chunk.upto, ms=chunk.ms, bronze_batch=chunk.batch, files=tuple(files)
            )
            self._commit(number, manifest)
            yield Step(number, chunk.rows, chunk.upto, chunk.more)

    def _from_snapshot(self, number: int, snapshot: snapshots.Snapshot, before: Manifest | None) -> Manifest:
        """Make the tables as in the snapshot; after a hole, rows that it lacks end with it."""
        manifest = before or Manifest(-1, 0, -1, snapshot.seq, snapshot.ms, snapshot.compat)
        ms = max(manifest.ms, snapshot.ms)
        floors = [(snapshot.seq, snapshot.seq, ms)]
        files: Sequence[File] = manifest.files
        if snapshot.rows:
            paths = [snapshots.file_of(self.namespace, self.epoch, snapshot.seq)]
            files = self._replay(
                number, manifest, paths, snapshot.seq - 1, snapshot.seq, floors, snapshot.rows, snapshot=True
            )
        elif before is not None:
            raise LakeError(f"the snapshot at change {snapshot.seq} is empty, and cannot close a hole")
        holes = manifest.holes if before is None else (*manifest.holes, (before.ms, ms))
        manifest = msgspec.structs.replace(manifest, seq=snapshot.seq, ms=ms, holes=holes, files=tuple(files))
        self._commit(number, manifest)
        return manifest

    def _commit(self, number: int, manifest: Manifest) -> None:
        manifests.remove_batch(self.lake, self.area, self.namespace, self.epoch, number, manifest.files)
        self.lake.commit(self.log, number, manifest.content())
        manifests.forget(self.lake, self.log)

    def _replay(
        self, number: int, manifest: Manifest, paths: list[str], after: int, upto: int,
        floors: list[tuple[int, int, int]], rows: int, *, snapshot: bool = False,
    ) -> list[File]:  # fmt: skip
        manifests.remove_batch(self.lake, self.area, self.namespace, self.epoch, number)
        place = self.lake.root, self.namespace, self.epoch, self.area
        plan = ReplayPlan(*place, number, manifest.compat, manifest.files)
        if self.spark is None or rows < self._spark_from_rows:
            of_bucket = _replay_here(self.lake, plan, paths, after, upto, floors, snapshot)
        else:
            of_bucket = _replay_on_spark(self.spark, self.lake, plan, paths, after, upto, floors, snapshot)
        kept = [file for file in manifest.files if file.bucket not in of_bucket]
        return kept + [file for bucket in sorted(of_bucket) for file in of_bucket[bucket]]


def to_parcels(
    batches: Iterator[pa.RecordBatch], floors: list[tuple[int, int, int]], snapshot: bool
) -> Iterator[pa.RecordBatch]:
    """Entries (columns seq, ms, part, e) as parcels for the buckets."""
    router = BucketRouter(Floors(floors), snapshot=snapshot)
    for batch in batches:
        with collection_paused():
            *numbers, texts = batch.columns
            columns = [*(column.to_pylist() for column in numbers), texts.cast(pa.binary()).to_pylist()]
            found = [parcel for row in zip(*columns, strict=True) for parcel in router(*row)]
            parcels = to_columns(found, [pa.int32(), pa.int64(), pa.int64(), pa.binary()])
        if found:
            yield pa.RecordBatch.from_arrays(parcels, names=["bucket", "ord", "ms", "payload"])


def _replay_here(
    lake: Lake, plan: ReplayPlan, paths: list[str], after: int, upto: int, floors: list[tuple[int, int, int]],
    snapshot: bool,
) -> dict[int, list[File]]:  # fmt: skip
    dataset = lake.dataset(paths, BRONZE["changes"])
    wanted = (pc.field("seq") > after) & (pc.field("seq") <= upto)
    entries = dataset.to_table(columns=_COLUMNS, filter=wanted).sort_by([("seq", "ascending"), ("part", "ascending")])
    parcels: dict[int, list[tuple[int, int, bytes]]] = {}
    for batch in to_parcels(iter(entries.to_batches()), floors, snapshot):
        for bucket, *parcel in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            parcels.setdefault(bucket, []).append(tuple(parcel))
    return {bucket: replay(plan, bucket, of_bucket) for bucket, of_bucket in parcels.items()}


def _replay_on_spark(
    spark: Any, lake: Lake, plan: ReplayPlan, paths: list[str], after: int, upto: int,
    floors: list[tuple[int, int, int]], snapshot: bool,
) -> dict[int, list[File]]:  # fmt: skip
    from .spark_tables import spark_schema

    entries = (
        spark.read.schema(spark_schema(BRONZE["changes"]))
        .parquet(*map(lake.uri, paths))
        .where(f"seq > {after} and seq <= {upto}")
        .select(*_COLUMNS)
    )
    parcels = entries.mapInArrow(lambda batches: to_parcels(batches, floors, snapshot), _PARCELS)
    done = (
        parcels.repartitionById(BUCKETS, "bucket")
        .sortWithinPartitions("ord")
        .mapInArrow(lambda batches: _replayed(plan, batches), "bucket int, files binary")
        .collect()
    )
    return {row.bucket: msgspec.json.decode(bytes(row.files), type=list[File]) for row in done}


def _replayed(plan: ReplayPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Replay one partition, which is one bucket; yields the bucket and its files."""
    first = next(batches, None)
    while first is not None and first.num_rows == 0:
        first = next(batches, None)
    if first is None:
        return
    bucket = first.column(0)[0].as_py()

    def parcels() -> Iterator[tuple[int, int, bytes]]:
        batch = first
        while batch is not None:
            yield from zip(*(batch.column(at).to_pylist() for at in (1, 2, 3)), strict=True)
            batch = next(batches, None)

    files = msgspec.json.encode(replay(plan, bucket, parcels()))
    yield pa.RecordBatch.from_arrays(
        [pa.array([bucket], pa.int32()), pa.array([files], pa.binary())], names=["bucket", "files"]
    )
