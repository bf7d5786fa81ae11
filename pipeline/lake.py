"""The folder that holds everything the pipeline writes, and the small files that say what of it counts.

``<lake>/bronze/<stream>/namespace=…/epoch=…/batch=000012/day=…/*.parquet`` and the like: a batch is written whole, anew
when it is repeated, and counts once its commit file is there. Readers ask for the commits first, so that what a killed
job left behind is never seen. The lake is a path or a URI of a file system that pyarrow and Spark both know
(file, s3a, hdfs …); nothing of its state is anywhere else.
"""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import Any

import msgspec
from pyarrow import fs


class Lake:
    """One lake.

    Args:
        root: a local path, or a URI.
    """

    def __init__(self, root: str) -> None:
        if "://" not in root:
            root = Path(root).expanduser().resolve().as_uri()
        self.root = root.rstrip("/")
        # Spark says s3a where pyarrow says s3
        self._fs, self._path = fs.FileSystem.from_uri(self.root.replace("s3a://", "s3://", 1))

    @property
    def filesystem(self) -> fs.FileSystem:
        """For pyarrow's readers, together with :meth:`path`."""
        return self._fs

    def path(self, *parts: str) -> str:
        """A place within the lake as :attr:`filesystem` wants it."""
        return posixpath.join(self._path, *parts)

    def uri(self, *parts: str) -> str:
        """The same place as Spark wants it."""
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
        """The numbers that count, rising."""
        found = self._fs.get_file_info(fs.FileSelector(self.path("commits", log), allow_not_found=True))
        return sorted(int(info.base_name[:-5]) for info in found if info.base_name.endswith(".json"))

    def read_commit(self, log: str, number: int) -> dict[str, Any]:
        """What :meth:`commit` was given."""
        with self._fs.open_input_stream(self.path("commits", log, f"{number:09d}.json")) as file:
            content: dict[str, Any] = msgspec.json.decode(file.read())
        return content

    def folders(self, *parts: str) -> list[str]:
        """Names of the folders in a place; none when the place is not there."""
        found = self._fs.get_file_info(fs.FileSelector(self.path(*parts), allow_not_found=True))
        return sorted(info.base_name for info in found if info.type == fs.FileType.Directory)

    def remove(self, *parts: str) -> None:
        """A folder and all in it, if it is there."""
        if self._fs.get_file_info(self.path(*parts)).type == fs.FileType.Directory:
            self._fs.delete_dir(self.path(*parts))

    def files(self, *parts: str) -> list[str]:
        """Names of the files in a place; none when the place is not there."""
        found = self._fs.get_file_info(fs.FileSelector(self.path(*parts), allow_not_found=True))
        return sorted(info.base_name for info in found if info.type == fs.FileType.File)

    def remove_file(self, *parts: str) -> None:
        """One file, if it is there."""
        if self._fs.get_file_info(self.path(*parts)).type == fs.FileType.File:
            self._fs.delete_file(self.path(*parts))

    def forget_commit(self, log: str, number: int) -> None:
        """Take a commit back; what it counted is for the caller to remove, afterwards."""
        self.remove_file("commits", log, f"{number:09d}.json")

    def __repr__(self) -> str:
        return f"Lake({self.root!r})"


def places(namespace: str, epoch: str) -> str:
    """The part of a path that tells whose past it is. Another epoch is another registry."""
    return f"namespace={namespace}/epoch={epoch}"


def number_of(folder: str) -> int:
    """12 of ``batch=000012``."""
    return int(folder.rpartition("=")[2])
