"""Reads all tables of a namespace, as of one change, and follows them from there."""

from __future__ import annotations

from ..behaviour import behaviour_of
from ..events.changes import Change
from ..store.change_reader import last_chains
from ..store.snapshot import read_lives, read_tables
from ..store.store import Store
from ..tables.live_table import LiveTable
from .follow import Follow


class Loaded:
    """Tables as they were read, kept up to date by :meth:`catch_up` until somebody takes them over."""

    def __init__(self, follow: Follow, lives: LiveTable) -> None:
        self.follow = follow  # what comes next
        self.tables, self.lives = lives.tables, lives
        self.chains: list[tuple[int, str | None]] = []  # (seq, chain) of the last changes
        self.new: list[Change] = []  # those that catch_up has read

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
        loaded = cls(Follow.behind(tail_store, head), lives)
        loaded.chains = [*await last_chains(tail_store), (head.seq, head.chain)]
        await loaded.catch_up()
        return loaded

    @property
    def epoch(self) -> str:
        """The history of the namespace that these tables belong to."""
        return self.follow.epoch

    @property
    def seq(self) -> int:
        """Of the last change that was read; a part of one whose other parts are due is read, but not applied."""
        assert self.follow.seq is not None
        return self.follow.seq

    async def catch_up(self) -> None:
        """Apply the changes until now; it raises what :meth:`read` does."""
        while changes := await self.follow.read(block_ms=0):
            for change in changes:
                self.chains.append((change.seq, change.chain))
                for whole in self.follow.whole(change):
                    self.tables.apply(whole)
                    self.lives.apply(whole)
                    self.new.append(whole)
