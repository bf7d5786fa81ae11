"""Loads the Lua scripts: their text with includes, their number of arguments, their digest.

A script's header is its contract. ``KEYS[1]`` is always the meta key of the namespace (all other keys have the same
hash tag). ``ARGV[i]`` lines name the arguments; a line ``ARGV[i...]`` allows any number of them. A script that appends
events has one more argument at the end: the author of the change (``lua/include/emit.lua``).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from redis import exceptions

from ..errors import MissingRight, StoreError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_INCLUDE = '--- @include "'
_HEADER = re.compile(r"\A--\[\[ (\w+): (.*?)\]\]\n", re.S)
_ARGUMENT = re.compile(r"^\s+ARGV\[(\d+)(\.\.\.)?\]", re.M)


def _find_folder() -> Traversable:
    folder: Traversable = Path(__file__).parent.parent / "lua"
    if not folder.is_dir():
        from importlib import resources  # it takes a while to import

        folder = resources.files("mqregistry") / "lua"  # in a wheel that Spark does not unpack (--py-files)
    if not (folder / "heartbeat.lua").is_file():
        raise StoreError(f"no Lua scripts in {folder}: the installation is not complete, install it again")
    return folder


FOR_READERS: Final = ("acknowledge", "read_auth", "read_broker", "read_streams", "snapshot")
"""Scripts that front ends and sweepers load for logins that may only run loaded scripts."""


class Script(NamedTuple):
    """One script, ready to run."""

    name: str
    source: str
    sha: str
    arguments: int  # the number of ARGV lines in its header, without ARGV[i...]
    more: bool  # any number of arguments may follow
    emits: bool = False  # it appends events, and its last argument is their author

    def check(self, arguments: Sequence[Any]) -> None:
        """Refuse a call with another number of arguments than in the header."""
        if len(arguments) < self.arguments or (len(arguments) > self.arguments and not self.more):
            least = "at least " if self.more else ""
            raise StoreError(
                f"lua/{self.name}.lua takes {least}{self.arguments} arguments, called with {len(arguments)}"
            )


@contextlib.contextmanager
def may_be_sent(name: str) -> Iterator[None]:
    """Surround an EVAL: if this login may not send a script that is not loaded, raise MissingRight."""
    try:
        yield
    except exceptions.NoPermissionError as error:
        raise MissingRight(
            f"the script {name} is not loaded in this Redis, and this Redis user may not send it: front ends and "
            "sweepers load it when they start; start a front end of this release, or use the Redis user mqregistry of "
            "deploy/users.acl"
        ) from error


def expand(path: Traversable, folder: Traversable, read: dict[str, str] | None = None) -> str:
    """A script's text; each include is inserted once, at its first use.

    ``read``: name -> text of the includes that were read for other scripts; this function adds what it reads.
    """
    done: set[str] = set()
    texts = {} if read is None else read

    def expanded(text: str) -> str:
        return "".join([
            put_in(line) if line.startswith(_INCLUDE) else line for line in text.splitlines(keepends=True)
        ])  # fmt: skip

    def put_in(line: str) -> str:
        name = line.removeprefix(_INCLUDE).rstrip('"\n')
        if name in done:
            return ""
        done.add(name)
        if name not in texts:
            texts[name] = (folder / f"{name}.lua").read_text(encoding="utf-8")
        return expanded(texts[name])

    return expanded(path.read_text(encoding="utf-8"))


@functools.cache
def load() -> dict[str, Script]:
    """Load all scripts; name -> script. StoreError: the folder is missing, or a header is wrong."""
    folder = _find_folder()
    scripts: dict[str, Script] = {}
    read: dict[str, str] = {}
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        name, _, kind = path.name.partition(".")
        if kind != "lua":
            continue
        source = expand(path, folder, read)
        header = _HEADER.match(source)
        if header is None or header.group(1) != name:
            raise StoreError(f"{path.name}: the header must open with '--[[ {name}: '")
        numbered = [(int(number), bool(more)) for number, more in _ARGUMENT.findall(header.group(2))]
        if [number for number, _ in numbered] != list(range(1, len(numbered) + 1)):
            raise StoreError(f"{path.name}: ARGV lines of the header are not numbered 1, 2, 3, ...")
        more = bool(numbered and numbered[-1][1])
        sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
        emits = "\nlocal function emit(" in source
        scripts[name] = Script(name, source, sha, len(numbered) - more, more, emits)
    return scripts
