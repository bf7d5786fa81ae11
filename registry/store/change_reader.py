"""Reads the change stream of a namespace, event by event, from a position on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec

from ..errors import StoreError
from ..events.changes import Change, decode_change
from . import keys
from .connection.errors import mapped_errors
from .store import Store

_PAGE: Final = 500


class ChangeReader:
    """Reads the change stream from a position on, over a connection of its own (a blocking read holds one)."""

    def __init__(self, store: Store, last_id: str) -> None:
        self._client: Any = store.client
        self._key = keys.changes(store.namespace)
        self.last_id = last_id

    async def read(self, *, block_ms: int, count: int = 500) -> list[Change]:
        """The next changes, in order; [] when there was none for ``block_ms`` (0 = do not wait).

        Raises:
            StoreUnavailable: Redis did not answer within the client's timeout, which must exceed block_ms.
            StoreError: an entry cannot be read.
        """
        with mapped_errors("reading the change stream"):
            reply = await self._client.xread(
                {self._key: self.last_id}, count=count, block=block_ms if block_ms > 0 else None
            )
        changes: list[Change] = []
        for _, entries in reply or ():
            for entry_id, fields in entries:
                changes.append(_decode(self._key, entry_id, fields))
                self.last_id = entry_id.decode()
        return changes


def _decode(key: str, entry_id: bytes, fields: dict[bytes, bytes]) -> Change:
    try:
        return decode_change(fields[b"e"])
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(f"entry {entry_id.decode()} of {key} is no event of this release: {error}") from error


async def read_back(store: Store, *, since_ms: int = 0) -> AsyncIterator[list[Change]]:
    """The changes of the stream, the newest first, each with all its parts in their order.

    Args:
        since_ms: not those that were made before it.

    Raises:
        StoreUnavailable: Redis did not answer. StoreError: an entry cannot be read.
    """
    key, end = keys.changes(store.namespace), "+"
    parts: list[Change] = []
    while True:
        (entries,) = await store.read(("XREVRANGE", key, end, str(since_ms), "COUNT", _PAGE))
        for entry_id, fields in entries:
            change = _decode(key, entry_id, fields)
            parts.append(change)
            if change.part == 1:
                yield parts[::-1]
                parts = []
        if len(entries) < _PAGE:
            return
        end = "(" + entries[-1][0].decode()


async def read_first(store: Store) -> Change | None:
    """The oldest change that the stream has; None: it is empty."""
    key = keys.changes(store.namespace)
    (entries,) = await store.read(("XRANGE", key, "-", "+", "COUNT", 1))
    return _decode(key, *entries[0]) if entries else None
