"""KV configuration and the shared run-time configuration: the write side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from registry.store.store import Store


class KvStore:
    """KV configuration (100, 102) and shared configuration (318). Every method returns the seq to wait for."""

    def __init__(self, store: Store) -> None:
        self._call = store.call

    async def put(self, kv_namespace: str, key: str, value: str | None) -> int:
        """Store one key; None makes the namespace exist and the key absent, as in Java."""
        reply = await self._call("put_kv", kv_namespace, key, "0" if value is None else "1", value or "")
        return int(reply[1])

    async def delete(self, kv_namespace: str, key: str) -> int:
        """Delete one key; its namespace stays."""
        return int((await self._call("delete_kv", kv_namespace, key))[1])

    async def set_config(self, changes: Mapping[str, str]) -> int:
        """Change the shared configuration of every front end of the namespace."""
        flat = [part for pair in changes.items() for part in pair]
        return int((await self._call("set_config", *flat))[1])

    async def restore(self, up_since_ms: int, kv: Mapping[str, Mapping[str, str]]) -> int:
        """Give a Redis that lost it the KV configuration back; returns how many keys were restored."""
        flat: list[Any] = []
        for kv_namespace, table in kv.items():
            flat += (kv_namespace, "", "")
            for key, value in table.items():
                flat += (kv_namespace, key, value)
        return int((await self._call("restore_kv", up_since_ms, *flat))[1]) if flat else 0
