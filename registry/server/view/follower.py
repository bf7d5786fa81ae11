"""Keeps the view equal to Redis: reads the tables, then applies the change stream to them."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from ...errors import RegistryError, StoreUnavailable
from ...follow.follow import START, Follow, Loaded, StreamGap
from ...histograms import DurationHistogram
from ...model import DEFAULT_HEARTBEAT_TIMEOUT_MS
from ...store.store import Store
from ...tables.history import History
from ...tasks import cancelled, pause
from .freshness import Freshness, Seen
from .restore_changes import Restoration, find_fork
from .view import LastEntry, View

logger = logging.getLogger(__name__)

# The longest blocking read of the change stream; the client of ``tail_store`` waits one second more.
BLOCK_MS: Final = 1000
# To apply this many changes at once takes a few milliseconds of the event loop.
_CHANGES_PER_READ: Final = 100
_RETRY_S: Final = 0.1
_RETRY_AFTER_ERROR_S: Final = 1.0


class Follower:
    """Feeds a view from a store.

    A reader of the change stream does not see that the stream is gone, that Redis has lost changes, or that the
    connection hangs. :class:`mqregistry.server.view.lease_loop.LeaseLoop` sees it, and has the tables read again.

    ``heard_at``: when the change stream was last read, with or without changes (time.monotonic, seconds). ``losses``:
    how often Redis was found to have lost changes. ``lag_ms``: the age of the last change when it was applied.
    ``visible_after``: a histogram of the ages of all changes.

    Args:
        store: for scripts. tail_store: the same namespace with a timeout above BLOCK_MS.
    """

    def __init__(self, store: Store, tail_store: Store, view: View) -> None:
        self._store = store
        self._tail_store = tail_store
        self._view = view
        self._follow: Follow | None = None  # None: the tables must be read, for the first time or again
        self.losses = 0
        self.heard_at = 0.0
        self.lag_ms = 0.0
        self.visible_after = DurationHistogram()

    @property
    def has_place(self) -> bool:
        """Whether the view follows the change stream, so that the tables need not be read again."""
        return self._follow is not None

    def look_again(self, *, has_lost: bool = False) -> None:
        """Make :meth:`tail` read the tables again, until it succeeds: the state of Redis differs from the view.

        Args:
            has_lost: Redis has certainly lost changes. The change stream may not show it any more when it is read,
                because it may be trimmed by then.
        """
        self._follow = None
        self._view.has_lost = self._view.has_lost or has_lost
        self._view.saw(Seen.CONTRADICTED)

    async def start(self) -> None:
        """Read the tables for the first time; raises what :meth:`load` raises, except StreamGap."""
        while True:
            try:
                return await self.load()
            except StreamGap as gap:
                logger.error("not ready yet, the tables are read again: while they were read, %s", gap)
                await pause(_RETRY_S)

    async def load(self) -> None:
        """Read the tables once, and have the view serve them.

        If Redis has lost changes that the view had, they are first written back, except where other changes came since.
        So Redis holds what is served, and scripts decide by the same tables.

        Raises:
            StreamGap: the change stream was trimmed while the tables were read.
            StoreUnavailable, StoreError: Redis does not answer, or its data cannot be read.
        """
        view = self._view
        loaded = await Loaded.read(self._store, self._tail_store)
        since = None
        if view.freshness is not Freshness.LOADING:
            since = await find_fork(self._tail_store, view, loaded, is_lost=view.has_lost)
        if since is not None:
            view.has_lost = True
            logger.warning(
                "Redis came back with less than before (epoch %s seq %d, was %s seq %d): known routes are served, and "
                "Redis gets back what it lost",
                loaded.epoch, loaded.seq, view.epoch, view.seq,
            )  # fmt: skip
            await Restoration(self._store, view, loaded, since, DEFAULT_HEARTBEAT_TIMEOUT_MS).run()
            view.history = History()
            self.losses += 1
        for seq, chain in loaded.chains:
            view.history.add(seq, chain)
        self._follow = loaded.follow
        view.last_entry = LastEntry(loaded.follow.last_id, loaded.seq) if loaded.follow.last_id != START else None
        view.load(loaded.tables, loaded.epoch, loaded.seq, lives=loaded.lives)
        self.heard_at = time.monotonic()

    async def tail(self) -> None:
        """Apply changes as they come. Runs until cancelled."""
        failing = told = False
        while not cancelled():
            try:
                if self._follow is None:
                    await self.load()
                else:
                    # After a failure do not block: a blocking read might return only after BLOCK_MS, and ``heard_at``
                    # would be that much later.
                    await self._read(self._follow, 0 if failing else BLOCK_MS)
                if told:
                    logger.warning("the change stream is read again")
                failing = told = False
            except StreamGap as gap:
                logger.warning("the change stream has a gap; the tables are read again, and served meanwhile: %s", gap)
                self.look_again()
                await pause(_RETRY_S)
            except StoreUnavailable as error:
                if not failing and self._view.freshness is not Freshness.AWAY:
                    logger.warning("%s; known routes go on being served", error)
                    told = True
                failing = True
                self._view.saw(Seen.UNHEARD)
                await pause(_RETRY_S)
            except RegistryError:
                logger.exception("cannot follow the change stream; known routes go on being served")
                self.look_again()
                await pause(_RETRY_AFTER_ERROR_S)

    async def _read(self, follow: Follow, block_ms: int) -> None:
        changes = await follow.read(block_ms=block_ms, count=_CHANGES_PER_READ)
        if self._follow is not follow:  # look_again was called meanwhile
            return
        self.heard_at = time.monotonic()
        for change in changes:
            for whole in follow.whole(change):
                self._view.apply(whole)
        if changes:
            now_ms = time.time() * 1000
            self.lag_ms = max(0.0, now_ms - changes[-1].ms)
            for change in changes:
                self.visible_after.add(max(0.0, now_ms - change.ms) / 1000)
            self._view.last_entry = LastEntry(follow.last_id, changes[-1].seq)
            changes.clear()  # free their topics before the wait for the next changes
            await asyncio.sleep(0)  # answer the requests that wait for these changes before the next read
