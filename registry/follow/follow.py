"""Reads a change stream in order, and finds gaps: changes that are missing, trimmed or lost.

:class:`Loaded` reads the tables, and applies the changes after them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..behaviour import behaviour_of
from ..errors import NoNamespace, RegistryError
from ..events.changes import Change, Parts
from ..store.change_reader import ChangeReader, last_chains
from ..store.snapshot import NamespaceHead, read_head, read_lives, read_tables
from ..store.store import Store
from ..tables.live_table import LiveTable

START: Final = "0-0"
"""The oldest entry of a stream comes after this id."""


class StreamGap(RegistryError):
    """The change stream does not continue after the last change that was read; the message says what is missing."""


class Follow:
    """Reads the changes of a namespace in their order, from a position on.

    The next change has the next seq, and the last change's chain in its member after. Anything else is a gap, which is
    raised once. Then a program that keeps tables must read them again. A program that only shows changes may read on,
    and gets the changes after the gap.

    Attributes:
        epoch, seq, chain: of the last change that was read. seq None: any change may come next; chain "": the next
            change may have any chain.

    Args:
        store: its timeout must exceed the ``block_ms`` of each read.
        last_id: id of the entry of the last change that was read.
    """

    def __init__(
        self, store: Store, epoch: str = "", seq: int | None = None, chain: str = "", last_id: str = START
    ) -> None:
        self.epoch, self.seq, self.chain = epoch, seq, chain
        self._store = store
        self._reader = ChangeReader(store, last_id or START)
        self._parts = Parts()
        self._ahead: list[Change] = []  # changes after a gap: read, and not returned yet

    @classmethod
    def behind(cls, store: Store, head: NamespaceHead) -> Follow:
        """Read the changes after this state of the namespace."""
        return cls(store, head.epoch, head.seq, head.chain, head.last_id)

    @property
    def last_id(self) -> str:
        """Id of the last entry that was read."""
        return self._reader.last_id

    async def read(self, *, block_ms: int, count: int = 500) -> list[Change]:
        """Return the next changes; [] if none comes for ``block_ms`` (0: do not wait).

        Raises:
            StreamGap: changes are missing before the next change, or it is of another history.
            StoreUnavailable, StoreError: as :meth:`ChangeReader.read` and :meth:`check`.
        """
        changes = self._ahead or await self._reader.read(block_ms=block_ms, count=count)
        self._ahead = []
        for place, change in enumerate(changes):
            gap = self._gap_before(change)
            if gap is not None:
                self._ahead = changes[place:]
                if place:
                    return changes[:place]
                await self.check()  # may raise a gap with a better message
                self._go_on_at(self.epoch, change.seq - 1, change.after or "")
                raise gap
            self.seq, self.chain = change.seq, change.chain or ""
        return changes

    async def read_or_check(self, *, block_ms: int, count: int = 500) -> list[Change]:
        """As :meth:`read`; without changes it also calls :meth:`check`."""
        changes = await self.read(block_ms=block_ms, count=count)
        if not changes:
            await self.check()
        return changes

    def whole(self, change: Change) -> Iterator[Change]:
        """Call this with each change; it yields the events that may be applied now: all parts of a change, or none."""
        return self._parts.add(change)

    async def check(self) -> None:
        """Check that Redis still has this history: a read of a deleted stream would only wait.

        Raises:
            StreamGap: the epoch has changed, Redis lost changes, or the stream was trimmed up to its end.
            NoNamespace: the namespace is gone. StoreUnavailable: no answer.
        """
        if not await self._store.exists():  # read_head would make it
            raise NoNamespace(
                f"no namespace {self._store.namespace!r} in this Redis: it was emptied, or no front end served it yet"
            )
        head = await read_head(self._store)
        if self.seq is None:
            return
        if self.epoch and head.epoch != self.epoch:
            gap = StreamGap(
                f"the namespace was made anew (epoch {head.epoch}, was {self.epoch}) after change {self.seq} was read: "
                "no stream says what happened to the tables in between"
            )
            self._go_on_at(head.epoch, 0, "", START)
            raise gap
        if head.seq < self.seq or (head.seq == self.seq and self.chain and head.chain != self.chain):
            gap = StreamGap(f"Redis has lost changes: it is at change {head.seq}, and change {self.seq} was read")
            self._go_on_at(head.epoch, head.seq, head.chain, head.last_id or START)
            raise gap
        if head.seq > self.seq:
            self._ahead = self._ahead or await self._reader.read(block_ms=0)
            if not self._ahead:
                gap = _missing(self.seq + 1, head.seq)
                self._go_on_at(head.epoch, head.seq, head.chain, head.last_id)
                raise gap

    def _gap_before(self, change: Change) -> StreamGap | None:
        if self.seq is None:
            return None
        if change.seq > self.seq + 1:
            return _missing(self.seq + 1, change.seq - 1)
        if change.seq != self.seq + 1 or (change.after and self.chain and change.after != self.chain):
            return StreamGap(
                f"Redis has lost changes: change {change.seq} does not follow change {self.seq}, which was read"
            )
        return None

    def _go_on_at(self, epoch: str, seq: int, chain: str, last_id: str | None = None) -> None:
        self.epoch, self.seq, self.chain, self._parts = epoch, seq, chain, Parts()
        if last_id is not None:
            self._reader.last_id, self._ahead = last_id, []


class Loaded:
    """Tables that were read from Redis; :meth:`catch_up` brings them up to date."""

    def __init__(self, follow: Follow, lives: LiveTable) -> None:
        self.follow = follow  # reads the next changes
        self.tables, self.lives = lives.tables, lives
        self.chains: list[tuple[int, str | None]] = []  # (seq, chain) of the last changes
        self.new: list[Change] = []  # the changes that catch_up has applied

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
        """The epoch of the namespace when these tables were read."""
        return self.follow.epoch

    @property
    def seq(self) -> int:
        """The seq of the last change that was read; a change in parts is applied after its last part."""
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


def _missing(first: int, last: int) -> StreamGap:
    which = f"change {first} is" if first == last else f"changes {first} to {last} are"
    return StreamGap(f"{which} missing: trimmed from the change stream before they could be read, or lost")
