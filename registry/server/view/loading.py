"""Reads all tables, detects that Redis lost changes, and gives it back the KV and configuration that it lost."""

from __future__ import annotations

import logging
from typing import NamedTuple

from ...errors import RegistryError
from ...events.changes import Change, KvDeleted, KvPut, Parts
from ...store.change_reader import ChangeReader, last_change_id
from ...store.config_writes import KvStore
from ...store.snapshot import NamespaceHead, read_tables
from ...store.store import Store
from ...tables.tables import Tables
from .view import Entry

logger = logging.getLogger(__name__)


class StreamGap(RegistryError):
    """Changes are missing from the change stream: the tables must be read again."""

    def __init__(self, seq: int, expected: int) -> None:
        super().__init__(
            f"change {seq} follows where change {expected} is due: the changes between them were trimmed from the "
            "change stream, or were lost"
        )


class Loaded(NamedTuple):
    """The tables as of ``seq``, and a reader of what follows. parts: of a change that is not complete yet."""

    head: NamespaceHead
    tables: Tables
    seq: int
    reader: ChangeReader
    parts: Parts

    @property
    def last_entry(self) -> Entry | None:
        """The stream's last entry that these tables contain; None when it has none yet."""
        return Entry(self.reader.last_id, self.seq) if self.reader.last_id != "0-0" else None


async def read_current_tables(store: Store, tail_store: Store) -> Loaded:
    """Read a snapshot and every change since its start, so that the result shows one exact moment.

    Raises:
        StreamGap: the change stream was trimmed meanwhile.
        StoreUnavailable, StoreError: Redis does not answer, or its data cannot be read.
    """
    head, tables = await read_tables(store)
    reader = ChangeReader(tail_store, head.last_id)
    parts, seq = Parts(), head.seq
    while changes := await reader.read(block_ms=0):
        for change in changes:
            if change.seq != seq + 1:
                raise StreamGap(change.seq, seq + 1)
            seq = change.seq
            for whole in parts.add(change):
                tables.apply(whole)
    return Loaded(head, tables, seq, reader, parts)


async def has_vanished(tail_store: Store, applied: Entry | None, *, unless_seen: bool = False) -> bool:
    """Whether a change that was applied was lost.

    A Redis that lost changes may have made as many new ones before this front end looks: seq alone does not
    tell.

    Args:
        unless_seen: the answer if the stream was trimmed beyond this entry, which then says nothing.
    """
    if applied is None:
        return unless_seen
    if await last_change_id(tail_store) == applied.entry_id:
        return False  # of a stream that was trimmed whole nothing else tells
    ms, _, number = applied.entry_id.partition("-")
    before = f"{ms}-{int(number) - 1}" if int(number) else f"{int(ms) - 1}-{2**64 - 1}"
    reader = ChangeReader(tail_store, before)
    changes = await reader.read(block_ms=0, count=1)
    if not changes:
        return True
    if reader.last_id == applied.entry_id:
        return changes[0].seq != applied.seq
    return unless_seen or changes[0].seq <= applied.seq


async def read_changes(tail_store: Store, after: str, until: str) -> list[KvPut | KvDeleted]:
    """The changes of KV keys in the stream behind one entry, up to another.

    After a loss: what was put or deleted before this front end noticed it is in the tables that were read, and newer
    than what is to be given back.
    """
    reader, found = ChangeReader(tail_store, after), []
    while _order(reader.last_id) < _order(until) and (changes := await reader.read(block_ms=0)):
        found += [change for change in changes if isinstance(change, (KvPut, KvDeleted))]
    return found


def _order(entry_id: str) -> tuple[int, int]:
    ms, _, number = entry_id.partition("-")
    return int(ms), int(number)


class GiveBack:
    """The KV and shared configuration that Redis lost, written again until Redis has taken them.

    Routes do not need this: brokers register again. Nobody else would restore KV and shared configuration.

    Args:
        position: id of the last entry of the change stream that was applied before the loss, "0-0" = none; of several
            front ends the one that had applied most decides.
        since: id behind which every change is later than the loss.
        known: the tables as Redis held them before the loss: where it came back with older values, these are the newer
            ones. What was served beside them does not count: an earlier loss may have had it back from one who knew
            that it was deleted. earlier: of an earlier loss, if it is not finished.
    """

    def __init__(self, kv_store: KvStore, position: str, since: str, known: Tables, earlier: GiveBack | None) -> None:
        self._kv_store = kv_store
        self._position, self._since = position, since
        if earlier is None:
            self._kv = {name: dict(table) for name, table in known.kv.items()}
            self._config = known.config
        else:  # what Redis held may be older than what it still has to give
            self._kv = earlier._with_changes(known)
            self._config = earlier._config | known.config
        self._changed: dict[str, set[str]] = {}
        self._failed = False
        self._given_seq: int | None = None

    def is_in(self, seq: int) -> bool:
        """Whether tables of this seq have what was given back."""
        return self._given_seq is not None and seq >= self._given_seq

    def applied(self, change: Change) -> None:
        """The view has this change: what is put or deleted after the loss is not undone."""
        if isinstance(change, (KvPut, KvDeleted)) and not change.restored:
            changed = self._changed.setdefault(change.kv_namespace, set())
            if change.key is not None:
                changed.add(change.key)

    def _with_changes(self, there: Tables) -> dict[str, dict[str, str]]:
        """The KV configuration to give back, with what was put or deleted since the loss as it is in ``there``."""
        kv = {name: dict(table) for name, table in self._kv.items()}
        for name, changed in self._changed.items():
            table, new = kv.setdefault(name, {}), there.kv.get(name, {})
            for key in changed:
                if key in new:
                    table[key] = new[key]
                else:
                    table.pop(key, None)
        return kv

    async def is_done(self, there: Tables) -> bool:
        """Try once; False: try again later.

        Args:
            there: the tables as Redis has them.
        """
        try:
            restored = await self._kv_store.restore(self._position, self._with_changes(there), since=self._since)
            missing = {key: value for key, value in self._config.items() if key not in there.config}
            if missing:
                await self._kv_store.set_config(missing)
        except RegistryError as error:
            if not self._failed:
                logger.warning("the KV configuration is not given back to Redis yet, it is tried again: %s", error)
            self._failed = True
            return False
        self._given_seq = restored.seq
        if restored.keys:
            logger.warning("%d keys of the KV configuration were given back to Redis", restored.keys)
        return True
