"""The folder that holds everything the pipeline writes, and the small files that say what of it counts.

``<lake>/bronze/<stream>/namespace=…/epoch=…/batch=000012/day=…/*.parquet`` and the like: a batch is written as a whole,
which a repetition begins from the start, and counts once its commit file is there. Readers ask for the commits first,
so that they never see what a killed job left behind. The lake is a path or a URI of a file system that pyarrow and
Spark both know (file, s3a, hdfs …); all of its state is in it.
"""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from mqregistry.errors import RegistryError


class LakeError(RegistryError):
    """The lake lacks what is asked of it, or what it holds contradicts itself; the message says what to do."""


class Lake:
    """One lake.

    Args:
        root: a local path, or a URI.

    Raises:
        LakeError: a URI of a file system that pyarrow does not know, or cannot reach.
    """

    def __init__(self, root: str) -> None:
        if "://" not in root:
            root = Path(root).expanduser().resolve().as_uri()
        self.root = root.rstrip("/")
        # Spark says s3a where pyarrow says s3
        try:
            self._fs, self._path = fs.FileSystem.from_uri(self.root.replace("s3a://", "s3://", 1))
        except (pa.ArrowException, OSError) as error:
            raise LakeError(f"--lake {root}: {error}") from error

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

    def commit(self, log: str, number: int, content: dict[str, Any]) -> None:
        """Make batch ``number`` of ``log`` count: all of the file is there, or nothing.

        Args:
            log: what is counted, e.g. ``bronze/changes/namespace=default/epoch=1f``.
            content: what readers need to know, JSON values.
        """
        folder = self.path("commits", log)
        self._fs.create_dir(folder, recursive=True)
        unfinished = posixpath.join(folder, f"{number:09d}.unfinished")
        with self._fs.open_output_stream(unfinished) as out:
            out.write(msgspec.json.encode(content))
        self._fs.move(unfinished, posixpath.join(folder, f"{number:09d}.json"))

    def commits(self, log: str) -> list[int]:
        """The numbers of the commits in a log, rising."""
        found = self._fs.get_file_info(fs.FileSelector(self.path("commits", log), allow_not_found=True))
        return sorted(int(info.base_name[:-5]) for info in found if info.base_name.endswith(".json"))

    def read_commit(self, log: str, number: int) -> dict[str, Any]:
        """The content that :meth:`commit` was given."""
        path = self.path("commits", log, f"{number:09d}.json")
        with self._fs.open_input_stream(path) as file:
            try:
                content: dict[str, Any] = msgspec.json.decode(file.read())
            except msgspec.DecodeError as error:
                raise msgspec.DecodeError(f"{path}: {error}") from error
        return content

    def folders(self, *parts: str) -> list[str]:
        """Names of the folders in a place; none when the place is not there."""
        found = self._fs.get_file_info(fs.FileSelector(self.path(*parts), allow_not_found=True))
        return sorted(info.base_name for info in found if info.type == fs.FileType.Directory)

    def parquet_files(self, *parts: str) -> list[str]:
        """Paths within the lake of the Parquet files in a place, at any depth, but not those that Spark hides."""
        found = self._fs.get_file_info(fs.FileSelector(self.path(*parts), recursive=True, allow_not_found=True))
        start = len(self.path()) + 1
        shown = (info for info in found if not info.base_name.startswith(("_", ".")))
        return sorted(info.path[start:] for info in shown if info.base_name.endswith(".parquet"))

    def dataset(self, paths: Iterable[str], schema: pa.Schema) -> Any:
        """A pyarrow dataset of Parquet files, given as paths within the lake."""
        return ds.dataset([self.path(path) for path in paths], schema=schema, filesystem=self._fs, format="parquet")

    def remove(self, *parts: str) -> None:
        """Remove a folder and all in it, if it is there."""
        if self._fs.get_file_info(self.path(*parts)).type == fs.FileType.Directory:
            self._fs.delete_dir(self.path(*parts))

    def files(self, *parts: str) -> list[str]:
        """Names of the files in a place; none when the place is not there."""
        found = self._fs.get_file_info(fs.FileSelector(self.path(*parts), allow_not_found=True))
        return sorted(info.base_name for info in found if info.type == fs.FileType.File)

    def remove_file(self, *parts: str) -> None:
        """Remove one file, if it is there."""
        if self._fs.get_file_info(self.path(*parts)).type == fs.FileType.File:
            self._fs.delete_file(self.path(*parts))

    def forget_commit(self, log: str, number: int) -> None:
        """Remove a commit; the caller removes what it counted, afterwards."""
        self.remove_file("commits", log, f"{number:09d}.json")

    def __repr__(self) -> str:
        return f"Lake({self.root!r})"


@contextlib.contextmanager
def whole_files(lake: Lake) -> Iterator[None]:
    """Around reads of a lake's tables and commits.

    Raises:
        LakeError: a file in it is not what was written there; the message has its path where the reader names it.
    """
    try:
        yield
    except (pa.ArrowInvalid, msgspec.DecodeError, OSError) as error:
        if getattr(error, "errno", None) is not None:  # a file is gone, or may not be read
            raise
        raise LakeError(
            f"a file of the lake at {lake.root} is broken: {error}; 'mqregistry pipeline backfill' writes silver and "
            "gold again, from bronze"
        ) from error


def places(namespace: str, epoch: str) -> str:
    """The part of a path for one namespace and epoch. Another epoch is another registry."""
    return f"namespace={namespace}/epoch={epoch}"


def number_of(folder: str) -> int:
    """The number in the name of a folder: 12 of ``batch=000012``."""
    return int(folder.rpartition("=")[2])
