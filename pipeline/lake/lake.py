"""The folder that holds everything the pipeline writes: Delta tables, of which ``schema.TABLES`` is the list.

Delta's log says which files count, and nothing else does. The lake is a folder, or a URI that pyarrow and deltalake
know (s3), as far as no Spark is needed; all of its state is in it.
"""

from __future__ import annotations

import contextlib
import posixpath
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake.exceptions import DeltaError
from pyarrow import fs

from mqregistry.errors import StartError

from .errors import LakeError
from .files import File, write_file
from .schema import TABLES
from .table import NONE, Table

SCRATCH: Final = ("_checkpoints", "_audit")  # what is no table, and nobody needs when the job that made it has ended


class State(NamedTuple):
    """How far a part of the pipeline is: number rises with every commit; content: JSON values."""

    number: int
    content: dict[str, Any]


class Lake:
    """One lake.

    Args:
        root: a local path, or a URI.

    Raises:
        LakeError: a URI of a file system that pyarrow does not know, or cannot reach; or a lake of an older release.
    """

    def __init__(self, root: str) -> None:
        if "://" not in root:
            root = Path(root).expanduser().resolve().as_uri()
        self.root = root.rstrip("/")
        # Spark says s3a where pyarrow and deltalake say s3
        self._others = self.root.replace("s3a://", "s3://", 1)
        try:
            self._fs, self._path = fs.FileSystem.from_uri(self._others)
        except (pa.ArrowException, OSError) as error:
            raise LakeError(f"--lake {root}: {error}") from error
        self._tables: dict[str, Table] = {}
        self.kept: dict[Any, Any] = {}  # what readers of this process remember of files

    @property
    def filesystem(self) -> fs.FileSystem:
        """The file system for pyarrow's readers, used with :meth:`path`."""
        return self._fs

    def path(self, *parts: str) -> str:
        """The path of a place within the lake, for :attr:`filesystem`."""
        return posixpath.join(self._path, *parts)

    def uri(self, *parts: str) -> str:
        """The URI of a place within the lake, for Spark."""
        return posixpath.join(self.root, *parts)

    def delta_uri(self, table: str) -> str:
        """The URI of a table, for deltalake."""
        return posixpath.join(self._others, table)

    def table(self, name: str) -> Table:
        """One of ``schema.TABLES``; what it knows of Delta's log is kept from one question to the next."""
        if name not in self._tables:
            self._tables[name] = Table(self, self.delta_uri(name), name)
        return self._tables[name]

    def dataset(self, files: Iterable[File], schema: pa.Schema) -> Any:
        """A pyarrow dataset of files."""
        paths = [self.path(file.path) for file in files]
        return ds.dataset(paths, schema=schema, filesystem=self._fs, format="parquet")

    def state(self, part: str, namespace: str, epoch: str) -> State | None:
        """How far a part of the pipeline is; None: it has not begun."""
        files = self.table("state").files(namespace=namespace, epoch=epoch, part=part)
        if not files:
            return None
        place, [file] = ("state", part, namespace, epoch), files
        if self.kept.get(place, (None,))[0] != file.path:
            [row] = self.dataset(files, TABLES["state"].columns).to_table().to_pylist()
            self.kept[place] = file.path, State(row["number"], msgspec.json.decode(row["content"]))
        found: State = self.kept[place][1]
        return found

    def set_state(self, part: str, namespace: str, epoch: str, state: State) -> None:
        """Say how far a part is; ``state.number`` is one more than before.

        Raises:
            OtherWriter: somebody else said so meanwhile.
        """
        place = {**owner(namespace, epoch), "part": part}
        row = {"number": [state.number], "content": [msgspec.json.encode(state.content).decode()]}
        file = write_file(self, "state", pa.table(row, schema=TABLES["state"].columns), place)
        self.table("state").commit([file], f"{part}/{namespace}/{epoch}", state.number, replaced=place)

    def owners(self, part: str) -> list[tuple[str, str]]:
        """The namespaces and epochs of which a part has begun."""
        found = self.table("state").files(part=part)
        return sorted((file.partition["namespace"], file.partition["epoch"]) for file in found)

    def epochs(self, part: str, namespace: str) -> list[str]:
        """The epochs of a namespace of which a part has begun."""
        return [epoch for owner, epoch in self.owners(part) if owner == namespace]

    def try_to_write(self) -> None:
        """See whether files can be written.

        Raises:
            StartError: they cannot.
            LakeError: this is a lake of before the Delta tables.
        """
        if self._fs.get_file_info(self.path("commits")).type == fs.FileType.Directory:
            raise LakeError(
                f"the lake at {self.root} is of before the Delta tables: 'mqregistry pipeline move {self.root} "
                "--lake DIR' copies it into one of today"
            )
        place = f"_tried/{secrets.token_hex(4)}"
        try:
            self._fs.create_dir(self.path(place), recursive=True)
            self.remove("_tried")
        except OSError as error:
            reason = "it is no folder" if isinstance(error, FileExistsError | NotADirectoryError) else error.strerror
            raise StartError(
                f"cannot write the lake at {self.root}: {reason or error}; --lake DIR names another"
            ) from error

    def remove(self, *parts: str) -> None:
        """Remove a folder and all in it, if it is there."""
        if self._fs.get_file_info(self.path(*parts)).type == fs.FileType.Directory:
            self._fs.delete_dir(self.path(*parts))

    def __repr__(self) -> str:
        return f"Lake({self.root!r})"


@contextlib.contextmanager
def whole_files(lake: Lake) -> Iterator[None]:
    """Around reads of a lake's tables.

    Raises:
        LakeError: a file in it is not what was written there, or gone; the message has its path where the reader names
            it.
    """
    try:
        yield
    except (pa.ArrowInvalid, msgspec.DecodeError, OSError, DeltaError) as error:
        if isinstance(error, PermissionError):
            raise
        raise LakeError(
            f"a file of the lake at {lake.root} is broken or gone: {str(error).splitlines()[0]}; 'mqregistry pipeline "
            "backfill' writes silver and gold again, from bronze"
        ) from error


def owner(namespace: str, epoch: str) -> dict[str, str]:
    """The partition of one namespace and epoch. Another epoch is another registry."""
    return {"namespace": namespace, "epoch": epoch}


__all__ = ["NONE", "SCRATCH", "Lake", "LakeError", "State", "owner", "whole_files"]
