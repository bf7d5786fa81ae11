"""Writes the KV configuration, and the shared configuration that request 318 changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import LimitExceeded
from .store import Store


class KvStore:
    """Writes of requests 100, 102 and 318. Methods return the seq from which the tables show the change."""

    def __init__(self, store: Store) -> None:
        self._call = store.call

    async def put(self, kv_namespace: str, key: str, value: str | None) -> int:
        """Store one key; None makes the namespace exist and the key absent, as in Java.

        Raises:
            LimitExceeded: the value, or the namespace with it, would be larger than the registry keeps.
        """
        reply = await self._call("put_kv", kv_namespace, key, "0" if value is None else "1", value or "")
        if reply[0] == b"REFUSED":
            raise LimitExceeded(f"KV configuration, namespace {kv_namespace!r}: {reply[2].decode()}")
        return int(reply[1])

    async def delete(self, kv_namespace: str, key: str, *, lost: bool = False) -> int:
        """Delete one key; its namespace stays.

        Args:
            lost: Redis has lost the key: say that it is deleted, so that nobody gives it back.
        """
        return int((await self._call("delete_kv", kv_namespace, key, "1" if lost else "0"))[1])

    async def set_config(self, changes: Mapping[str, str]) -> int:
        """Change the shared configuration of every front end of the namespace."""
        flat = [part for pair in changes.items() for part in pair]
        return int((await self._call("set_config", *flat))[1])

    async def restore(self, position: str, kv: Mapping[str, Mapping[str, str]]) -> int:
        """Give a Redis that lost it the KV configuration back, unless one that knew more has done so.

        Args:
            position: id of the last change that ``kv`` contains, "0-0" = none.

        Returns:
            how many keys were restored.
        """
        flat: list[Any] = []
        for kv_namespace, table in kv.items():
            flat += (kv_namespace, "", "")
            for key, value in table.items():
                flat += (kv_namespace, key, value)
        return int((await self._call("restore_kv", position, *flat))[1]) if flat else 0
