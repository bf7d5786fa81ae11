"""The lake: the folder of the Delta tables that the pipeline writes (``schema.TABLES``), read here without Spark.

``tables.py`` makes and reads the same tables with Spark.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from mqregistry.errors import RegistryError, StartError

from .schema import TABLES

_DECORATION: Final = re.compile(r"\x1b\[[0-9;]*m|↳")  # in messages of delta-rs
CHECKPOINTS: Final = "_checkpoints"
_OLD: Final = ("state", "commits")  # folders in lakes of earlier releases


class LakeError(RegistryError):
    """The lake lacks the requested data, or its data contradict each other; the message says what to do."""


class OtherWriter(RegistryError):
    """Another application writes to this lake; this one has written nothing."""


class Lake:
    """The folder of one lake, and the tables in it that were opened.

    Args:
        root: a local path, or a URI.

    Raises:
        LakeError: it is a lake of an earlier release.
    """

    def __init__(self, root: str) -> None:
        if root.startswith("file://"):
            root = root.removeprefix("file://")
        self.is_local = "://" not in root
        self.root = str(Path(root).expanduser().resolve()) if self.is_local else root.rstrip("/")
        self._delta: dict[str, DeltaTable] = {}
        self.ensured: set[str] = set()  # tables that are known to have all columns of this release
        if self.is_local and any(Path(self.root, name).is_dir() for name in _OLD):
            raise LakeError(
                f"the lake at {self.root} was written by an earlier release, whose tables this one cannot continue: "
                "begin another lake (--lake DIR); the earlier release still reads this one"
            )

    def path(self, name: str, area: str | None = None) -> str:
        """The path of a table or file; for area see :func:`in_area`."""
        return f"{self.root}/{in_area(name, area)}"

    def remove(self, area: str) -> None:
        """Remove a folder of temporary tables, if it exists."""
        shutil.rmtree(self.path(area), ignore_errors=True)
        self._delta = {name: delta for name, delta in self._delta.items() if not name.startswith(area)}
        self.ensured = {name for name in self.ensured if not name.startswith(area)}

    def delta(self, name: str) -> DeltaTable | None:
        """The newest version of a table, for readers without Spark; None: the table does not exist yet."""
        try:
            found = self._delta.get(name)
            if found is not None:
                found.update_incremental()
            elif DeltaTable.is_deltatable(self.path(name)):
                found = self._delta[name] = DeltaTable(self.path(name))
        except DeltaError as error:
            reason = str(error).partition("\n")[0]
            raise LakeError(f"Delta's log in {self.path(name)}/_delta_log cannot be read: {reason}") from error
        return found

    def read(
        self, name: str, *, namespace: str | None = None, epoch: str | None = None,
        columns: Sequence[str] | None = None, where: Any = None, area: str | None = None,
    ) -> pa.Table:  # fmt: skip
        """Rows of a table; none if the table does not exist yet.

        Args:
            columns: default: all of the schema.
            where: a pyarrow expression.
        """
        for column, value in (("namespace", namespace), ("epoch", epoch)):
            if value is not None:
                same = pc.field(column) == value
                where = same if where is None else where & same
        schema = TABLES[name].columns
        wanted = [schema.field(column).with_nullable(True) for column in columns or schema.names]
        rows = self.dataset(name, area).to_table(columns=[field.name for field in wanted], filter=where)
        return rows.cast(pa.schema(wanted))

    def dataset(self, name: str, area: str | None = None) -> Any:
        """A table as a dataset of pyarrow; columns that a table of an older release lacks are null."""
        columns, delta = TABLES[name].columns, self.delta(in_area(name, area))
        if delta is None:
            return ds.dataset(columns.empty_table())
        rows = delta.to_pyarrow_dataset(as_large_types=False)
        lacking = [field.with_nullable(True) for field in columns if field.name not in rows.schema.names]
        return rows.replace_schema(pa.schema([*rows.schema, *lacking]))

    def owners(self) -> list[tuple[str, str]]:
        """The namespaces and epochs that have a snapshot in the lake."""
        delta = self.delta("bronze/snapshot")
        return sorted((place["namespace"], place["epoch"]) for place in delta.partitions()) if delta else []

    def epochs(self, namespace: str) -> list[str]:
        """The epochs of a namespace that have a snapshot in the lake."""
        return [epoch for owner, epoch in self.owners() if owner == namespace]

    def try_to_write(self) -> None:
        """Write a file, and remove it.

        Raises:
            StartError: the lake cannot be written.
        """
        if not self.is_local:
            raise StartError(
                f"--lake {self.root}: a run writes only to a folder, which this machine and every machine of Spark "
                "must have at the same path"
            )
        try:
            folder = Path(self.root, CHECKPOINTS)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / ".tried").touch()
            (folder / ".tried").unlink()
        except OSError as error:
            reason = "it is no folder" if isinstance(error, FileExistsError | NotADirectoryError) else error.strerror
            raise StartError(
                f"cannot write the lake at {self.root}: {reason or error}; --lake DIR names another"
            ) from error

    def __repr__(self) -> str:
        return f"Lake({self.root!r})"


def in_area(name: str, area: str | None) -> str:
    """The name of a table in the lake; area: a folder that replaces the layer (``silver``), for temporary tables."""
    return name if area is None else f"{area}/{name.partition('/')[2]}"


@contextlib.contextmanager
def whole_files(lake: Lake) -> Iterator[None]:
    """Check that the reads of a lake's tables in the block find whole files.

    Raises:
        LakeError: a file is broken or gone.
    """
    try:
        yield
    except (pa.ArrowInvalid, OSError, DeltaError) as error:
        if isinstance(error, PermissionError):
            raise
        reason = " ".join(_DECORATION.sub("", str(error)).split())
        raise LakeError(
            f"a file of the lake at {lake.root} is broken or gone: {reason}; 'mqregistry pipeline "
            "backfill' writes silver and gold again, from bronze"
        ) from error
