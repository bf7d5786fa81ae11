"""Writes the KV configuration, and the shared configuration that request 318 changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..errors import LimitExceeded
from ..events.by import By
from .store import Store

# The limits of put_kv (lua/include/kv_size), for callers that check many values before they write the first.
MAX_VALUE_BYTES: Final = 64 << 10
MAX_NAMESPACE_BYTES: Final = 16 << 20
MAX_KEYS: Final = 20_000


class KvStore:
    """Writes of requests 100, 102 and 318. Each method returns a seq: tables with the changes up to it show the write.

    ``by``: the author of the change; default: this process.
    """

    def __init__(self, store: Store) -> None:
        self._call = store.call

    async def put(self, kv_namespace: str, key: str, value: str | None, *, by: By | None = None) -> int:
        """Store one key. value None: only make the KV namespace, as Java does. LimitExceeded: too large."""
        reply = await self._call("put_kv", kv_namespace, key, "0" if value is None else "1", value or "", by=by)
        if reply[0] == b"REFUSED":
            raise LimitExceeded(f"KV configuration, namespace {kv_namespace!r}: {reply[2].decode()}")
        return int(reply[1])

    async def delete(self, kv_namespace: str, key: str, *, by: By | None = None) -> int:
        """Delete one key; its namespace stays."""
        return int((await self._call("delete_kv", kv_namespace, key, by=by))[1])

    async def set_config(self, changes: Mapping[str, str], *, by: By | None = None) -> int:
        """Change the shared configuration of every front end of the namespace."""
        flat = [part for pair in changes.items() for part in pair]
        return int((await self._call("set_config", *flat, by=by))[1])
