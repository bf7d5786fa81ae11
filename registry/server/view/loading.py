"""Reads all tables, follows them, and finds out where the history that Redis has now leaves the one that was known."""

from __future__ import annotations

from typing import NamedTuple

from ...behaviour import behaviour_of
from ...errors import RegistryError
from ...events.changes import Change, Parts
from ...store.change_reader import ChangeReader, chain_of, last_chains, read_back
from ...store.snapshot import NamespaceHead, read_lives, read_tables
from ...store.store import Store
from ...tables.live_table import LiveTable
from .view import Entry, View


class StreamGap(RegistryError):
    """Changes are missing from the change stream: the tables must be read again."""

    def __init__(self, seq: int, expected: int) -> None:
        super().__init__(
            f"change {seq} follows where change {expected} is due: the changes between them were trimmed from the "
            "change stream, or were lost"
        )


class Loaded:
    """Tables as they were read, which are then followed until a view takes them over.

    seq, chain: of the last change that was read; parts: of one that is not complete yet. chains: (seq, chain) of the
    last ones. new: those that ``follow`` has read.
    """

    def __init__(self, reader: ChangeReader, head: NamespaceHead, lives: LiveTable) -> None:
        self.reader = reader
        self.epoch, self.seq, self.chain = head.epoch, head.seq, head.chain
        self.tables, self.lives = lives.tables, lives
        self.parts = Parts()
        self.chains: list[tuple[int, str | None]] = []
        self.new: list[Change] = []

    @classmethod
    async def read(cls, store: Store, tail_store: Store) -> Loaded:
        """Read a snapshot and every change since its start, so that the result shows one exact moment.

        Raises:
            StreamGap: the change stream was trimmed meanwhile.
            StoreUnavailable, StoreError: Redis does not answer, or its data cannot be read.
        """
        head, tables = await read_tables(store)
        lives = LiveTable(tables, live_by_cluster=behaviour_of(store.compat).live_by_cluster)
        async for who, _, infos in read_lives(store):
            lives.by_who[who] = infos
        loaded = cls(ChangeReader(tail_store, head.last_id), head, lives)
        loaded.chains = [*await last_chains(tail_store), (head.seq, head.chain)]
        await loaded.follow()
        return loaded

    async def follow(self) -> None:
        """Apply the changes until now.

        Raises:
            StreamGap, StoreUnavailable, StoreError: as ``read``.
        """
        while changes := await self.reader.read(block_ms=0):
            for change in changes:
                if change.seq != self.seq + 1 or (change.after or self.chain) != self.chain:
                    raise StreamGap(change.seq, self.seq + 1)
                self.seq, self.chain = change.seq, change.chain or ""
                self.chains.append((change.seq, change.chain))
                for whole in self.parts.add(change):
                    self.tables.apply(whole)
                    self.lives.apply(whole)
                    self.new.append(whole)

    @property
    def last_entry(self) -> Entry | None:
        """The stream's last entry that these tables contain; None when it has none yet."""
        return Entry(self.reader.last_id, self.seq) if self.reader.last_id != "0-0" else None


class Since(NamedTuple):
    """What Redis has changed since its history left the known one. whole: all of it; else some of it is not known."""

    changes: list[Change]
    whole: bool


async def find_fork(tail_store: Store, view: View, loaded: Loaded, *, is_lost: bool) -> Since | None:
    """Find the last change that both histories have; None: Redis has lost nothing of what the view knew.

    Args:
        is_lost: it has lost changes for certain, although its stream may not show it any more.
    """
    history, same = view.history, loaded.epoch == view.epoch
    if same and not is_lost and view.last_entry is not None:
        found = await chain_of(tail_store, view.last_entry.entry_id)
        if found and found == history.chain(view.last_entry.seq):
            return None
    since: list[Change] = []
    if same and loaded.seq < view.seq and history.chain(loaded.seq) == loaded.chain:
        return Since(since, whole=True)
    async for parts in read_back(tail_store):
        for change in reversed(parts):
            if change.seq > loaded.seq:
                continue  # it came meanwhile, and is read with the next ones
            if same and change.chain and history.chain(change.seq) == change.chain:
                return None if change.seq == view.seq else Since(since[::-1], whole=True)
            since.append(change)
    first_seq = since[-1].seq if since else loaded.seq + 1
    if same and not is_lost and loaded.seq >= view.seq and first_seq > view.seq:
        return None  # what was known was trimmed
    return Since(since[::-1], whole=first_seq == 1)
