"""Writes the KV configuration, and the shared configuration that request 318 changes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from ..errors import LimitExceeded, StoreError
from ..events.by import By
from . import keys
from .store import Store, text

# What put_kv refuses beyond (lua/include/kv_size), for those who must know before they begin.
MAX_VALUE_BYTES: Final = 64 << 10
MAX_NAMESPACE_BYTES: Final = 16 << 20
MAX_KEYS: Final = 20_000

# Of restore_kv: what a script takes at a time (lua/include/collect).
_KEYS_AT_ONCE: Final = 250
_BYTES_AT_ONCE: Final = 1 << 20

_pack = msgspec.msgpack.encode
_unpack = msgspec.msgpack.Decoder(list[str]).decode


class Restored(NamedTuple):
    """How many keys were given back, and the seq from which the tables show them; 0: another one knew more."""

    keys: int
    seq: int


class KvStore:
    """Writes of requests 100, 102 and 318. Methods return the seq from which the tables show the change.

    ``by``: who causes it; default: this process.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._call = store.call

    async def put(self, kv_namespace: str, key: str, value: str | None, *, by: By | None = None) -> int:
        """Store one key; None makes the namespace exist and the key absent, as in Java.

        Raises:
            LimitExceeded: the value, or the namespace with it, would be larger than the registry keeps.
        """
        reply = await self._call("put_kv", kv_namespace, key, "0" if value is None else "1", value or "", by=by)
        if reply[0] == b"REFUSED":
            raise LimitExceeded(f"KV configuration, namespace {kv_namespace!r}: {reply[2].decode()}")
        return int(reply[1])

    async def delete(self, kv_namespace: str, key: str, *, lost: bool = False, by: By | None = None) -> int:
        """Delete one key; its namespace stays.

        Args:
            lost: Redis has lost the key: say that it is deleted, so that nobody gives it back.
        """
        return int((await self._call("delete_kv", kv_namespace, key, "1" if lost else "0", by=by))[1])

    async def set_config(self, changes: Mapping[str, str], *, by: By | None = None) -> int:
        """Change the shared configuration of every front end of the namespace."""
        flat = [part for pair in changes.items() for part in pair]
        return int((await self._call("set_config", *flat, by=by))[1])

    async def restore(
        self, position: str, kv: Mapping[str, Mapping[str, str]], *, since: str | None = None
    ) -> Restored:
        """Give a Redis that lost it the KV configuration back, unless one that knew more has done so.

        Args:
            position: id of the last change that ``kv`` contains, "0-0" = none.
            since: id of the change behind which all are later than the loss; default: position.
        """
        await self._check_types(list(kv))
        giving = _GivingBack(self._store, position, position if since is None else since)
        for kv_namespace in list(kv):
            # a copy: the caller's tables may change while Redis works
            if not await giving.give(kv_namespace, dict(kv.get(kv_namespace, {}))):
                return Restored(giving.restored, 0)
        return Restored(giving.restored, giving.seq)

    async def _check_types(self, kv_namespaces: Sequence[str]) -> None:
        """Raise StoreError before anything is given back if a key that is to be written is no HASH."""
        hashes = [keys.kv(self._store.namespace, name) for name in kv_namespaces]
        found = await self._store.read(*(("TYPE", key) for key in hashes))
        for key, kind in zip(hashes, map(text, found), strict=True):
            if kind not in ("hash", "none"):
                raise StoreError(f"WRONGTYPE {key} is a {kind}, not a hash: not written by this registry")


class _GivingBack:
    """Runs restore_kv for some keys at a time, so that no call takes Redis long."""

    def __init__(self, store: Store, position: str, since: str) -> None:
        self._store = store
        self._position, self._from = position, since
        self._newer: set[tuple[str, str]] = set()
        self.restored = self.seq = 0

    async def give(self, kv_namespace: str, table: Mapping[str, str]) -> bool:
        """Give back one namespace; False: another front end knew more, and nothing is left to do."""
        (present,) = await self._store.read(("HKEYS", keys.kv(self._store.namespace, kv_namespace)))
        known = {key.encode("utf-8", "surrogatepass") for key in table}
        gone = [text(key) for key in present if key not in known and _is_text(key)]
        some_gone = [gone[first : first + _KEYS_AT_ONCE] for first in range(0, len(gone), _KEYS_AT_ONCE)]
        for given, taken in itertools.zip_longest(_batches(table), some_gone):
            if not await self._give(kv_namespace, given or {}, taken or ()):
                return False
        return True

    async def _give(self, kv_namespace: str, given: Mapping[str, str], gone: Sequence[str]) -> bool:
        while True:
            flat = [part for pair in given.items() if (kv_namespace, pair[0]) not in self._newer for part in pair]
            names = [key for key in gone if (kv_namespace, key) not in self._newer]
            status, seq, restored, self._from, *newer = await self._store.call(
                "restore_kv", self._position, self._from, kv_namespace, _pack(flat), _pack(names)
            )
            self.seq = int(seq)
            for packed in newer:
                changed = _unpack(packed)
                self._newer.update(zip(changed[::2], changed[1::2], strict=True))
            self.restored += restored
            if status != b"MORE":
                return bool(status == b"OK")


def _batches(table: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The table in parts of some keys and bytes; one empty part of an empty table."""
    batch: dict[str, str] = {}
    size = 0
    for key, value in table.items():
        if batch and (len(batch) == _KEYS_AT_ONCE or size + len(value) > _BYTES_AT_ONCE):
            yield batch
            batch, size = {}, 0
        batch[key] = value
        size += len(value)
    if batch or not table:
        yield batch


def _is_text(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True
