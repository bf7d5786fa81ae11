"""Reads the change stream of a namespace, event by event, from a position on."""

from __future__ import annotations

from typing import Any

import msgspec

from ..errors import StoreError
from ..events.changes import Change, decode_change
from . import keys
from .connection.errors import mapped_errors
from .store import Store


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
                try:
                    changes.append(decode_change(fields[b"e"]))
                except (KeyError, msgspec.DecodeError) as error:
                    raise StoreError(
                        f"entry {entry_id.decode()} of {self._key} is no event of this release: {error}"
                    ) from error
                self.last_id = entry_id.decode()
        return changes
