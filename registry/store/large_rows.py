"""Reads HASHes, SETs and LISTs of any size by plain commands, page by page.

Scripts read only small keys: many thousand names in one key may cost seconds in Lua (lua/include/collect), and a KV
namespace may have 16 MiB.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from .store import Store

_FIELDS: Final = 500
_VALUES: Final = 50  # values of up to 64 KiB


async def read_hashes(store: Store, keys: Sequence[str], *, large_values: bool = False) -> list[dict[bytes, bytes]]:
    """Several HASHes at once; a field that changes during the reads may be missing, or have its old or new value."""
    found: list[dict[bytes, bytes]] = [{} for _ in keys]
    cursors: dict[int, Any] = dict.fromkeys(range(len(keys)), 0)
    count = _VALUES if large_values else _FIELDS
    while cursors:
        pages = await store.read(*(("HSCAN", keys[at], cursor, "COUNT", count) for at, cursor in cursors.items()))
        for at, (cursor, fields) in zip(list(cursors), pages, strict=True):
            found[at].update(fields)
            if int(cursor):
                cursors[at] = cursor
            else:
                del cursors[at]
    return found


async def scan_hash(store: Store, key: str) -> AsyncIterator[dict[bytes, bytes]]:
    """A HASH page by page, as :func:`read_hashes` reads it; a field may come twice."""
    cursor: Any = 0
    while True:
        ((cursor, fields),) = await store.read(("HSCAN", key, cursor, "COUNT", 2 * _FIELDS))
        if fields:
            yield fields
        if not int(cursor):
            return


async def read_set(store: Store, key: str) -> set[bytes]:
    """A SET; a member that is added or removed during the reads may be in the result or not."""
    members: set[bytes] = set()
    cursor: Any = 0
    while True:
        ((cursor, page),) = await store.read(("SSCAN", key, cursor, "COUNT", _FIELDS))
        members.update(page)
        if not int(cursor):
            return members
