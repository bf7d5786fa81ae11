"""One Delta table of the lake: which files count, and the only way to make files count.

Every commit holds application transactions: names with a number that only rises. Rows and numbers are one write, so a
writer that was killed sees by the number whether its rows are there, and of two writers with the same number Delta
refuses the second.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs

from .errors import LakeError, OtherWriter
from .files import File, Folder, delta_stats, from_log, measured, now_ms
from .schema import TABLES

_TRIES: Final = 8  # with other namespaces' writers, and with maintenance
_CONFIGURATION: Final = {
    "delta.logRetentionDuration": "interval 2 hours",
    "delta.deletedFileRetentionDuration": "interval 7 days",
}
_MEASURED: Final = "delta.dataSkippingStatsColumns"
# What it takes to know a state, which is replaced all the time: nobody reads an old one.
_STATE_CONFIGURATION: Final = _CONFIGURATION | {"delta.deletedFileRetentionDuration": "interval 2 hours"}
# A commit takes 4 ms, and 0.1 ms more for each one since the table was opened at a checkpoint, which takes longer
# the more files were replaced in the last week: both together are to be least. maintain.py removes log files.
_CHECKPOINT_EVERY: Final = 16
_COMMIT_MS: Final = 0.1
_NO_HOOKS: Final = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
_LIST_S: Final = 60.0  # log files are removed after two hours: who was away for so long does not find the next one
NONE: Final = -1  # the version of a transaction that there was none of


class Table:
    """A table of the lake; made with the first commit.

    Args:
        uri: where it is, as deltalake takes it.
    """

    def __init__(self, lake: Folder, uri: str, name: str) -> None:
        self.name = name
        self._lake = lake
        self._look_again_s = 0.0
        self._says_measured = False
        self._checkpoint_every = _CHECKPOINT_EVERY
        self._uri = uri
        self._columns, partitions = TABLES[name]
        self._partitions: list[str] = partitions.names
        self._schema = pa.schema([*self._columns, *partitions])
        self._delta: DeltaTable | None = None
        self._known: tuple[int, dict[str, int], list[File] | None] = (NONE, {}, None)  # of one version

    @property
    def delta(self) -> DeltaTable | None:
        """The table as of the newest version; None: there is none yet."""
        try:
            if self._delta is not None:
                if self._is_behind(self._delta):
                    self._delta.update_incremental()
            elif DeltaTable.is_deltatable(self._uri):
                self._delta = DeltaTable(self._uri)
        except DeltaError as error:
            reason = str(error).partition("\n")[0]
            raise LakeError(f"Delta's log in {self._uri}/_delta_log cannot be read: {reason}") from error
        return self._delta

    def _is_behind(self, delta: DeltaTable) -> bool:
        """Whether there may be a newer version: without listing the log, which takes long where it has many files."""
        following = self._lake.path(self.name, "_delta_log", f"{delta.version() + 1:020d}.json")
        now_s = time.monotonic()
        if now_s < self._look_again_s and self._lake.filesystem.get_file_info(following).type == fs.FileType.NotFound:
            return False
        self._look_again_s = now_s + _LIST_S
        return True

    def _of_version(self, delta: DeltaTable) -> tuple[int, dict[str, int], list[File] | None]:
        if self._known[0] != delta.version():
            self._known = delta.version(), {}, None
        return self._known

    def version(self, app: str) -> int:
        """The number of the last commit of an application; NONE: there is none."""
        delta = self.delta
        return NONE if delta is None else self._version(delta, app)

    def versions(self, *apps: str) -> list[int]:
        """The same of several, as of one version of the table."""
        delta = self.delta
        return [NONE if delta is None else self._version(delta, app) for app in apps]

    def _version(self, delta: DeltaTable, app: str) -> int:
        known = self._of_version(delta)[1]
        if app not in known:
            found = delta.transaction_version(app)
            known[app] = NONE if found is None else found
        return known[app]

    def files(self, **partition: str | Sequence[str]) -> list[File]:
        """The files that count, of these values of partition columns."""
        delta = self.delta
        if delta is None:
            return []
        version, versions, found = self._of_version(delta)
        if found is None:
            found = from_log(self.name, pa.table(delta.get_add_actions(flatten=False)))
            self._known = version, versions, found
        return [file for file in found if _within(file, partition)]

    def commit(
        self, added: Iterable[File], app: str, number: int, *, after: int | None = None, repeat: bool = False,
        replaced: Mapping[str, str | Sequence[str]] | None = None, more: Mapping[str, int] | None = None,
    ) -> bool:  # fmt: skip
        """Let files count.

        Args:
            app: whose commit it is; number: of this commit.
            after: the last one's number may be this at most; default: ``number - 1``.
            repeat: the last one may also be ``number`` itself: then nothing is done.
            replaced: the partitions whose files do not count any more; None: all go on to count.
            more: numbers of further applications, whatever they were.

        Returns:
            False: it was there.

        Raises:
            OtherWriter: somebody else wrote to the same part of the table meanwhile; nothing of this counts.
            LakeError: the log cannot be written.
        """
        delta, added = self._for_writing(), list(added)
        actions: list[AddAction | RemoveAction] = [self._action(file) for file in added]
        numbers = {app: number, **(more or {})}
        transactions = [Transaction(name, value) for name, value in numbers.items()]
        for _ in range(_TRIES):
            found = self._version(delta, app)
            if repeat and found == number:
                return False
            if found > (number - 1 if after is None else after):
                break
            try:
                delta.create_write_transaction(
                    actions, "append" if replaced is None else "overwrite", delta.schema(), self._partitions,
                    None if replaced is None else _filters(replaced),
                    commit_properties=CommitProperties(app_transactions=transactions),
                    post_commithook_properties=_NO_HOOKS,
                )  # fmt: skip
                self._follow(delta, numbers, added, replaced)
                return True
            except CommitFailedError:  # somebody else's commit came first: of this application, or of another
                delta.update_incremental()
            except DeltaError as error:
                reason = str(error).partition("\n")[0]
                raise LakeError(f"Delta's log in {self._uri}/_delta_log cannot be written: {reason}") from error
        raise OtherWriter(
            f"another run writes to the lake: its commit to {self._uri} came first, and nothing of this one counts; "
            "let one run at a time work on a namespace"
        )

    def _follow(
        self, delta: DeltaTable, numbers: dict[str, int], added: list[File],
        replaced: Mapping[str, str | Sequence[str]] | None,
    ) -> None:  # fmt: skip
        """Know what this commit made of what was known, without reading all of the log's actions again."""
        version, versions, found = self._known
        delta.update_incremental()
        if delta.version() % self._checkpoint_every == 0:
            begun_s = time.process_time()
            delta.create_checkpoint()
            delta = self._delta = DeltaTable(self._uri)
            taken_ms = (time.process_time() - begun_s) * 1000
            self._checkpoint_every = max(8, min(200, round((2 * taken_ms / _COMMIT_MS) ** 0.5)))
        if found is not None and delta.version() == version + 1:
            kept = found if replaced is None else [file for file in found if not _within(file, replaced)]
            self._known = version + 1, {**versions, **numbers}, [*kept, *added]

    def _for_writing(self) -> DeltaTable:
        """The table; to one that was made without it, the property is added that says what has statistics."""
        delta = self.delta or self._make()
        if not self._says_measured:
            # another writer's commit may come first: then with the next one; other errors that one meets, too
            with contextlib.suppress(DeltaError):
                if _MEASURED not in delta.metadata().configuration:
                    delta.alter.set_table_properties({_MEASURED: ",".join(measured(self._columns))})
                self._says_measured = True
        return delta

    def _make(self) -> DeltaTable:
        DeltaTable.create(
            self._uri, self._schema, mode="ignore", partition_by=self._partitions,
            configuration={
                **(_STATE_CONFIGURATION if self.name == "state" else _CONFIGURATION),
                _MEASURED: ",".join(measured(self._columns)),
            },
            description=f"mqregistry, {self.name}",
        )  # fmt: skip
        self._delta = DeltaTable(self._uri)
        return self._delta

    def _action(self, file: File) -> AddAction:
        partition: dict[str, str | None] = {name: file.partition[name] for name in self._partitions}
        path = file.path.removeprefix(f"{self.name}/")
        return AddAction(path, file.size_bytes, partition, now_ms(), True, delta_stats(file, self._columns))


def _within(file: File, partition: Mapping[str, str | Sequence[str]]) -> bool:
    return all(
        file.partition[name] == value if isinstance(value, str) else file.partition[name] in value
        for name, value in partition.items()
    )


def _filters(partition: Mapping[str, str | Sequence[str]]) -> list[tuple[str, str, Any]]:
    return [
        (name, "=", value) if isinstance(value, str) else (name, "in", list(value)) for name, value in partition.items()
    ]
