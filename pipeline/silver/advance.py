"""Brings silver up to date in steps: the first takes in the snapshot, each later step a chunk of bronze's changes.

Each step writes the tables that it changes and then a row of ``silver/progress``, which makes the step count. A step
that was killed before that is repeated, with the same result.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema as spark_schema

from ..bronze.snapshot import Snapshot, snapshots
from ..lake.lake import Lake, LakeError
from ..lake.schema import SILVER, SILVER_VALUES
from ..lake.tables import add, add_new, frame
from .cells import AT, CELLS, HEAD, to_cells
from .head import HEAD_CELLS, KNOWN, TABLES, replay
from .history import FEW_CELLS, Owner, held, merge
from .next_changes import CHUNK_CHANGES, STEP_MS, Chunk, MissingChanges, next_chunk
from .progress import NONE, ClockStep, Progress, last


class _WorkedOut(NamedTuple):
    """Cells that events set or end; counts: table -> how many. few: the plan of each query can contain all of them."""

    rows: DataFrame
    counts: dict[str, int]
    few: bool


class Silver:
    """Silver of one epoch of a namespace.

    Args:
        area: another folder, in which all tables are made again; no progress is written.

    Attributes:
        now: the last step; None before the first.
        gaps: the times of lost changes (from ms, to ms) that this object found. steps: the clock steps that it found.
    """

    def __init__(
        self, spark: SparkSession, lake: Lake, namespace: str, epoch: str, *, area: str | None = None,
        limit: int = CHUNK_CHANGES,
    ) -> None:  # fmt: skip
        self.owner = Owner(namespace, epoch, area)
        self.now = None if area else last(lake, namespace, epoch)
        self.gaps: list[tuple[int, int]] = []
        self.steps: list[ClockStep] = []
        self._spark = spark
        self._lake = lake
        self._counts = area is None
        self._limit = limit

    def advance(self, *, upto_seq: int | None = None) -> Iterator[Progress]:
        """Take in all changes up to ``upto_seq`` (None: all). A change of several entries (parts) is taken in at once.

        Raises:
            LakeError: there is no snapshot yet.
            MissingChanges: a change is missing, and there is no later snapshot.
            ClockSetBack: changes that silver has already have later times than the next change.
        """
        taken = snapshots(self._lake, *self.owner[:2])
        if not taken:
            raise LakeError(
                f"the lake at {self._lake.root} has no snapshot of namespace {self.owner.namespace!r}, epoch "
                f"{self.owner.epoch}: 'mqregistry pipeline run' begins with one"
            )
        if self.now is None:
            yield self._take_snapshot(taken[0])
        while upto_seq is None or self._now.seq < upto_seq:
            behind = [each for each in taken if self._now.seq < each.seq <= (upto_seq or each.seq)]
            try:
                chunk = next_chunk(
                    self._changes(), self.owner.namespace, seq=self._now.seq, ms=self._now.ms, upto=upto_seq,
                    limit=self._limit,
                )  # fmt: skip
            except MissingChanges as hole:
                behind = [each for each in behind if each.seq >= hole.then - 1]
                if not behind:
                    raise
                chunk = None
            if chunk is not None:
                yield self._take_changes(chunk)
                if not chunk.more and self._now.seq >= max(each.seq for each in taken):
                    return
            elif behind:
                yield self._take_snapshot(behind[0])
            else:
                return

    def observe(self, seq: int, ms: int) -> None:
        """If silver has reached ``seq``, record that no other change came up to ``ms``."""
        if self.now is not None and self.now.seq == seq and ms > max(self.now.ms, self.now.observed_ms or 0):
            self.tell("observed", observed_ms=ms)

    def tell(self, kind: str, *, observed_ms: int | None = None, touched_ms: int | None = None) -> Progress:
        """Record a step that takes in no changes."""
        return self._record(self._now._replace(kind=kind, observed_ms=observed_ms, touched_ms=touched_ms))

    @property
    def _now(self) -> Progress:
        assert self.now is not None
        return self.now

    def _changes(self) -> DataFrame:
        return frame(self._spark, self._lake, "bronze/changes", *self.owner[:2]).where("reason IS NULL")

    def _take_changes(self, chunk: Chunk) -> Progress:
        rows = self._changes().where(f"seq > {chunk.after} AND seq <= {chunk.upto}")
        self._apply(rows, chunk.spans, None)
        self.steps += chunk.steps
        if self._counts and chunk.steps:
            add_new(self._spark, self._lake, "silver/clock_step", self.owner[:2], chunk.steps)
        return self._record(
            self._now._replace(kind="changes", seq=chunk.upto, ms=chunk.ms, observed_ms=None, touched_ms=chunk.first_ms)
        )

    def _take_snapshot(self, snapshot: Snapshot) -> Progress:
        """Make the tables equal to the snapshot; cells that the snapshot lacks end then."""
        earliest = self._changes().where(F.col("seq") > snapshot.seq).agg(F.min("ms")).collect()[0][0]
        # a snapshot from a clock that was ahead gets the time of the first change after it
        ms = snapshot.ms if earliest is None or snapshot.ms - earliest <= STEP_MS else earliest
        before = self.now
        if before is None:
            self.now = Progress(NONE, "snapshot", NONE, NONE, ms, snapshot.compat)
        ms = max(self._now.ms, ms)
        if snapshot.rows:
            found = frame(self._spark, self._lake, "bronze/snapshot", *self.owner[:2])
            found = found.where(f"seq = {snapshot.seq} AND part > 0")
            self._apply(found, [(snapshot.seq, snapshot.seq, ms)], (snapshot.seq, ms), begins=before is None)
        elif before is not None:
            raise LakeError(f"the snapshot at change {snapshot.seq} is empty, and cannot close a hole")
        if before is not None:
            self.gaps.append((before.ms, ms))
            if self._counts:
                add_new(self._spark, self._lake, "silver/gap", self.owner[:2], [("changes", before.ms, ms)])
        return self._record(
            self._now._replace(
                kind="snapshot", seq=snapshot.seq, ms=ms, observed_ms=None, touched_ms=before.ms if before else ms
            )
        )

    def _apply(
        self, rows: DataFrame, spans: list[tuple[int, int, int]], snapshot: tuple[int, int] | None, *,
        begins: bool = False,
    ) -> None:  # fmt: skip
        """Apply events to the tables; ``begins``: the tables are empty, so that a snapshot cannot end any cell."""
        is_snapshot, after = snapshot is not None, self._now.seq
        with contextlib.ExitStack() as cached:
            cells = self._worked_out(cached, rows.select("seq", "ms", "part", "e").mapInArrow(
                lambda batches: to_cells(batches, spans, snapshot=is_snapshot), spark_schema(CELLS)
            ))  # fmt: skip
            of_head = _WorkedOut(self._spark.createDataFrame([], spark_schema(HEAD_CELLS)), {}, few=True)
            if HEAD in cells.counts:
                of_head = self._worked_out(cached, self._replay_head(cells.rows, nothing=is_snapshot))
            for table in SILVER:
                source = of_head if table in TABLES else cells
                if source.counts.get(table) or (is_snapshot and not begins):
                    of_table = source.rows.where(F.col("target") == table).select(*SILVER_VALUES[table], *AT)
                    merge(
                        self._spark, self._lake, self.owner, table, of_table, after=after, snapshot=snapshot,
                        few=source.few,
                    )  # fmt: skip

    def _worked_out(self, cached: contextlib.ExitStack, rows: DataFrame) -> _WorkedOut:
        """Compute the cells once for all tables: the driver keeps them if they are few, else Spark caches them."""
        found = rows.limit(FEW_CELLS + 1).toArrow()
        if found.num_rows <= FEW_CELLS:
            counted = found["target"].value_counts().to_pylist()
            counts = {each["values"]: each["counts"] for each in counted}
            return _WorkedOut(self._spark.createDataFrame(found, rows.schema), counts, few=True)
        rows.persist()
        cached.callback(rows.unpersist)
        counts = {row["target"]: row["count"] for row in rows.groupBy("target").count().collect()}
        return _WorkedOut(rows, counts, few=False)

    def _replay_head(self, cells: DataFrame, *, nothing: bool) -> DataFrame:
        """The cells of the head (``head.py``) that operations set or end; ``nothing``: begin with empty tables."""
        order = ["seq", "step", "ms", "kind", "by"]
        rows = cells.where(F.col("target") == HEAD).select(
            F.lit(len(KNOWN)).alias("turn"), F.lit(None).cast("string").alias("known"), "operations", *order
        )
        for turn, table in enumerate(() if nothing else KNOWN):
            before = held(self._spark, self._lake, self.owner, table, self._now.seq)
            known = F.to_json(F.struct(*SILVER_VALUES[table]))
            nulls = [F.lit(None).alias(name) for name in ("operations", "seq", "step", "ms")]
            rows = rows.unionByName(
                before.select(F.lit(turn).alias("turn"), known.alias("known"), *nulls, F.lit(table).alias("kind"),
                              F.lit(None).alias("by"))
            )  # fmt: skip
        by_cluster = self._now.compat == "5.x"
        return (
            rows.coalesce(1).sortWithinPartitions("turn", "seq", "step").select("known", "operations", *order)
            .mapInArrow(lambda batches: replay(batches, live_by_cluster=by_cluster), spark_schema(HEAD_CELLS))
        )  # fmt: skip

    def _record(self, progress: Progress) -> Progress:
        progress = progress._replace(number=progress.number + 1)
        if self._counts:
            add(self._spark, self._lake, "silver/progress", self.owner[:2], [progress], number=progress.number)
        self.now = progress
        return progress
