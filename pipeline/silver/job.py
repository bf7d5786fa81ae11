"""Brings silver up to date from its last commit: the snapshot first, then bronze, a chunk and a commit at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ..garbage import collection_paused
from ..lake import snapshot as snapshots
from ..lake.files import File, rows_in
from ..lake.lake import NONE, Lake, LakeError, owner
from ..lake.schema import BRONZE, SILVER
from .buckets import BucketRouter, Moments
from .files import Bucket, to_columns
from .next_changes import CHUNK_ROWS, STEP_MS, MissingChanges, earliest_after, files_after, next_chunk
from .replay import ReplayPlan, replay
from .split import bits_of, bits_wanted, split
from .tables import Content, Tables, app, begun, load, save

# Fewer changes than this are replayed in this process: a Spark job takes longer to begin.
SPARK_FROM_ROWS: Final = 30_000

_TASKS: Final = 9  # of Spark, at least; one holds a bucket after the other
_TASK_ROWS: Final = 500_000
_PARCELS: Final = "bucket int, ord long, ms long, payload binary"
_COLUMNS: Final = ["seq", "ms", "part", "e"]


class Step(NamedTuple):
    """One commit: changes it took in, the last of them, and whether there are more."""

    rows: int
    seq: int
    more: bool


class SilverRun:
    """Brings silver up to date, one commit after the other.

    Args:
        spark: None: everything is replayed here.
        area: None: the commits count. Else everything is made anew in this folder of the lake, and nothing is
            committed.
        spark_from_rows: smaller chunks are replayed here.

    Attributes:
        tables: after the last step; None before the first.
    """

    def __init__(
        self, spark: Any, lake: Lake, namespace: str, epoch: str, *, area: str | None = None,
        spark_from_rows: int = SPARK_FROM_ROWS, chunk_rows: int = CHUNK_ROWS,
    ) -> None:  # fmt: skip
        self.spark = spark
        self.lake = lake
        self.namespace = namespace
        self.epoch = epoch
        self.tables: Tables | None = None if area else load(lake, namespace, epoch)
        self._area = area
        self._place = owner(namespace, epoch)
        self._spark_from_rows = spark_from_rows
        self._chunk_rows = chunk_rows

    def steps(self, *, upto_seq: int | None = None) -> Iterator[Step]:
        """Take in all that there is, or all up to a seq that ends a change; a commit each.

        Raises:
            LakeError: no snapshot was taken yet; a change is missing, and no snapshot was taken after the hole.
            OtherWriter: another run committed meanwhile.
        """
        if self.tables is None:
            first = snapshots.first(self.lake, self.namespace, self.epoch)
            if first is None:
                raise LakeError(
                    f"the lake at {self.lake.root} has no snapshot of namespace {self.namespace!r}, epoch "
                    f"{self.epoch}: 'mqregistry pipeline run' begins with one"
                )
            self._take_snapshot(first)
            yield Step(first.rows, first.seq, True)
        assert self.tables is not None
        if self._area is None:
            rewritten, half_done = begun(self.lake, self.namespace, self.epoch)
            if rewritten > self.now.rewritten:  # a backfill was killed between two tables, which say the same
                self.tables.content = msgspec.structs.replace(self.now, rewritten=rewritten)
            if half_done > self.now.seq:  # a run was: the others come to the same change first
                yield from self._steps(half_done, half_done - self.now.seq + 1)  # in one step, as it was
        yield from self._steps(upto_seq, self._chunk_rows)

    @property
    def now(self) -> Content:
        """How far the tables are."""
        assert self.tables is not None
        return self.tables.content

    def _steps(self, upto_seq: int | None, chunk_rows: int) -> Iterator[Step]:
        while upto_seq is None or self.now.seq < upto_seq:
            self._split()
            now = self.now
            try:
                chunk = next_chunk(
                    self.lake, self.namespace, self.epoch, seq=now.seq, ms=now.ms, upto=upto_seq,
                    chunk_rows=chunk_rows,
                )  # fmt: skip
            except MissingChanges as hole:
                later = snapshots.first(self.lake, self.namespace, self.epoch, from_seq=hole.then - 1)
                if later is None:
                    raise
                self._take_snapshot(later)
                yield Step(later.rows, later.seq, True)
                continue
            if chunk is None:
                return
            done = self._replay(now, chunk.files, chunk.after, chunk.upto, chunk.moments, chunk.rows)
            steps = (*now.steps, *chunk.steps)
            self._commit(done, msgspec.structs.replace(now, seq=chunk.upto, ms=chunk.ms, steps=steps))
            yield Step(chunk.rows, chunk.upto, chunk.more)

    def _split(self) -> None:
        """Go over to as many buckets as there are rows for."""
        assert self.tables is not None
        written = split(self.tables, self._area or "silver", self._place, bits_wanted(self.tables))
        if not written:
            return
        content, files = msgspec.structs.replace(self.now, rewritten=self.now.rewritten + 1), dict(self.tables.files)
        for table, added in written.items():
            if self._area is None:
                place = self._place | {"current": "true"}
                self.lake.table(f"silver/{table}").commit(
                    added, app(self.namespace, self.epoch), content.number, after=self.now.number, replaced=place
                )
            files[table] = [*(file for file in files[table] if file.partition["current"] == "false"), *added]
        self._save(content, files)

    def _save(self, content: Content, files: Mapping[str, Sequence[File]]) -> None:
        number = NONE
        if self._area is None:
            number = save(self.lake, self.namespace, self.epoch, self.tables, content)
        self.tables = Tables(self.lake, content, number, files)

    def _take_snapshot(self, snapshot: snapshots.Snapshot) -> None:
        """Make the tables as in the snapshot; after a hole, rows that it lacks end with it."""
        before = self.tables.content if self.tables else None
        ms = snapshot.ms
        later = files_after(self.lake, self.namespace, self.epoch, snapshot.seq)
        earliest = earliest_after(self.lake, later, snapshot.seq)
        if earliest is not None and ms - earliest > STEP_MS:  # the clock was ahead when it was taken
            ms = earliest
        content = before or Content(NONE, 0, ms, snapshot.compat)
        ms = max(content.ms, ms)
        done: list[Bucket] = []
        if snapshot.rows:
            files = snapshots.files_of(self.lake, self.namespace, self.epoch, snapshot.seq)
            moments = [(snapshot.seq, snapshot.seq, ms)]
            done = self._replay(content, files, snapshot.seq - 1, snapshot.seq, moments, snapshot.rows, snapshot=True)
        elif before is not None:
            raise LakeError(f"the snapshot at change {snapshot.seq} is empty, and cannot close a hole")
        holes = content.holes if before is None else (*content.holes, (before.ms, ms))
        self._commit(done, msgspec.structs.replace(content, seq=snapshot.seq, ms=ms, holes=holes))

    def _commit(self, done: Sequence[Bucket], content: Content) -> None:
        """Let what was written count: table after table, then the state."""
        files = dict(self.tables.files) if self.tables else {}
        for table in SILVER:
            added = [file for bucket in done for file in bucket.added.get(table, ())]
            replaced = [str(bucket.bucket) for bucket in done if table in bucket.replaced]
            if not added and not replaced:
                continue
            if self._area is None:
                self._commit_table(table, added, replaced, content)
            kept = (
                file for file in files.get(table, ())
                if file.partition["current"] == "false" or file.partition["bucket"] not in replaced
            )  # fmt: skip
            files[table] = [*kept, *added]
        self._save(content, files)

    def _commit_table(self, table: str, added: Sequence[File], replaced: list[str], content: Content) -> None:
        place = {**self._place, "current": "true", "bucket": replaced}
        self.lake.table(f"silver/{table}").commit(
            added, app(self.namespace, self.epoch), content.number,
            after=self.tables.content.number if self.tables else NONE, repeat=True,
            replaced=place if replaced else None,
        )  # fmt: skip

    def _replay(
        self, content: Content, files: Sequence[File], after: int, upto: int, moments: list[tuple[int, int, int]],
        rows: int, *, snapshot: bool = False,
    ) -> list[Bucket]:  # fmt: skip
        plan = ReplayPlan(
            self.lake.root, self.namespace, self.epoch, self._area or "silver", content,
            self.tables.files if self.tables else {}, bits_of(self.tables),
        )  # fmt: skip
        if self.spark is None or rows < self._spark_from_rows:
            return _replay_here(self.lake, plan, files, after, upto, moments, snapshot)
        return _replay_on_spark(self.spark, self.lake, plan, files, after, upto, moments, snapshot)


def to_parcels(
    batches: Iterator[pa.RecordBatch], moments: list[tuple[int, int, int]], bits: int, snapshot: bool
) -> Iterator[pa.RecordBatch]:
    """Entries (columns seq, ms, part, e) as parcels for the buckets."""
    router = BucketRouter(Moments(moments), bits, snapshot=snapshot)
    for batch in batches:
        with collection_paused():
            *numbers, texts = batch.columns
            columns = [*(column.to_pylist() for column in numbers), texts.cast(pa.binary()).to_pylist()]
            found = [parcel for row in zip(*columns, strict=True) for parcel in router(*row)]
            parcels = to_columns(found, [pa.int32(), pa.int64(), pa.int64(), pa.binary()])
        if found:
            yield pa.RecordBatch.from_arrays(parcels, names=["bucket", "ord", "ms", "payload"])


def _replay_here(
    lake: Lake, plan: ReplayPlan, files: Sequence[File], after: int, upto: int, moments: list[tuple[int, int, int]],
    snapshot: bool,
) -> list[Bucket]:  # fmt: skip
    dataset = lake.dataset(files, BRONZE["changes"])
    wanted = (pc.field("seq") > after) & (pc.field("seq") <= upto)
    entries = dataset.to_table(columns=_COLUMNS, filter=wanted).sort_by([("seq", "ascending"), ("part", "ascending")])
    parcels: dict[int, list[tuple[int, int, bytes]]] = {}
    for batch in to_parcels(iter(entries.to_batches()), moments, plan.bits, snapshot):
        for bucket, *parcel in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            parcels.setdefault(bucket, []).append(tuple(parcel))
    return [replay(plan, bucket, parcels[bucket]) for bucket in sorted(parcels)]


def _replay_on_spark(
    spark: Any, lake: Lake, plan: ReplayPlan, files: Sequence[File], after: int, upto: int,
    moments: list[tuple[int, int, int]], snapshot: bool,
) -> list[Bucket]:  # fmt: skip
    from pyspark.sql import functions as F

    from ..spark.frames import read_files

    rows = rows_in(files) + rows_in(plan.files.get("queue_data", ()))
    tasks = min(1 + (1 << plan.bits), max(_TASKS, spark.sparkContext.defaultParallelism, rows // _TASK_ROWS))
    entries = read_files(spark, lake, files, BRONZE["changes"])
    entries = entries.where(f"seq > {after} and seq <= {upto}").select(*_COLUMNS)
    parcels = entries.mapInArrow(lambda batches: to_parcels(batches, moments, plan.bits, snapshot), _PARCELS)
    done = (
        parcels.repartitionById(tasks, F.pmod("bucket", F.lit(tasks)))
        .sortWithinPartitions("bucket", "ord")
        .mapInArrow(lambda batches: _replayed(plan, batches), "done binary")
        .collect()
    )
    return [msgspec.msgpack.decode(bytes(row.done), type=Bucket) for row in done]


def _replayed(plan: ReplayPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Replay the buckets of one partition, one after the other; yields what was written."""
    rows = (row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
    for bucket, of_bucket in groupby(rows, itemgetter(0)):
        done = msgspec.msgpack.encode(replay(plan, bucket, (row[1:] for row in of_bucket)))
        yield pa.RecordBatch.from_pydict({"done": pa.array([done], pa.binary())})
