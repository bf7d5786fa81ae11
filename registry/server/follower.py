"""Keeps the view equal to Redis: snapshot, change stream, lease; and notices when it is not.

Two loops. The *tail* reads the change stream and applies it. The *lease* loop renews this worker's lease every
second and learns ``epoch`` and ``seq``: whatever the tail cannot see (a stream that vanished, a Redis that came
back with less, a connection that hangs) shows there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping

from msgspec import UNSET

from registry import change as kinds
from registry.change import Change, Parts
from registry.errors import RegistryError, StoreUnavailable
from registry.model import BrokerRow
from registry.server.channels import ChannelOwner
from registry.server.view import View
from registry.store.kvconfig import KvStore
from registry.store.leases import RENEW_EVERY_S, LeaseStore, Renewal
from registry.store.sent import SentTopics
from registry.store.snapshot import ChangeReader, Head, read_tables
from registry.store.store import Store
from registry.tasks import cancelled, pause

logger = logging.getLogger(__name__)

# A blocking read of the change stream lasts this long at most; the tail's client waits one second more.
BLOCK_MS = 1000
BEHIND_S = 1.0
# Applying this many changes in one go is a few milliseconds of the event loop.
_CHANGES_PER_READ = 100
_RETRY_S = 0.1


class _Gap(Exception):
    """The change stream does not go on where the view stands."""


class Follower:
    """Feeds a view from a store.

    Args:
        store: for scripts. tail_store: the same namespace with a timeout above BLOCK_MS.
        lease_store: the same with connections that no request takes, so that a storm of them is not taken for a
            Redis that is away; default: store.
        grace_ms: how long more than Redis has is served after Redis came back with less.
        on_config: called with the shared configuration whenever it may have changed.
        on_row: called with the broker row before and each event that changed it.
        sent: what this worker's own registrations sent.
    """

    def __init__(
        self,
        store: Store,
        tail_store: Store,
        view: View,
        channels: ChannelOwner,
        *,
        lease_store: Store | None = None,
        grace_ms: Callable[[], int],
        on_config: Callable[[Mapping[str, str]], None],
        on_row: Callable[[BrokerRow | None, Change], None] = lambda before, change: None,
        sent: SentTopics | None = None,
    ) -> None:
        self._store = store
        self._tail_store = tail_store
        self._view = view
        self._channels = channels
        self._leases = LeaseStore(lease_store or store)
        self._kv = KvStore(store)
        self._grace_ms = grace_ms
        self._on_config = on_config
        self._on_row = on_row
        self._sent = sent
        self._reader: ChangeReader | None = None
        self._parts = Parts()
        self._last_seq = -1  # of the last event read; runs ahead of view.seq while a change's parts come in
        self._stands_at: tuple[str, int] | None = None  # an entry of the stream that was applied: its id, its seq
        self._lost_at = 0.0  # when Redis was last seen to have less than before
        self._tail_heard_at = 0.0
        self._tail_fails = False
        self._behind: tuple[float, int] | None = None  # since when, and the seq to reach
        self._rebuild_asked: asyncio.Event = asyncio.Event()
        self.away = False
        self.renewal: Renewal | None = None
        self.lag_ms = 0.0
        self.rebuilds = 0

    # the snapshot

    async def load(self) -> None:
        """First snapshot, or another one beside the view that is served; then the view takes it over.

        A snapshot whose own moment lies before what the view already had, or that does not rest on it, means that
        Redis lost changes: the view then goes on serving what it knew, until the grace is over.
        """
        view = self._view
        head, tables = await read_tables(self._store)
        reader = ChangeReader(self._tail_store, head.last_id, self._sent)
        parts, seq = Parts(), head.seq
        # Catch up beside the view, so that the swap shows one exact moment.
        while changes := await reader.read(block_ms=0):
            for change in changes:
                if change.seq != seq + 1:
                    raise _Gap(f"seq {change.seq} after {seq} while catching up")
                seq = change.seq
                for whole in parts.add(change):
                    tables.apply(whole)
        lost = view.loaded and (head.epoch != view.epoch or seq < view.seq or await self._vanished())
        if lost:
            self._lost_at = time.monotonic()
            logger.warning(
                "Redis came back with less than before (epoch %s seq %d, was %s seq %d): known routes are served "
                "until the brokers had time to register again",
                head.epoch, seq, view.epoch, view.seq,
            )  # fmt: skip
            known_kv, known_config = view.served.kv, view.served.config
            view.load_beside(tables, head.epoch, seq)
            await self._give_back(self._outage(head), known_kv, known_config, tables.config)
        elif view.beside:
            view.load_beside(tables, head.epoch, seq)
        else:
            view.load(tables, head.epoch, seq)
        self._reader, self._parts, self._last_seq = reader, parts, seq
        self._stands_at = (reader.last_id, seq) if reader.last_id != "0-0" else None
        self._tail_heard_at = time.monotonic()
        self.rebuilds += 1
        self._on_config(view.served.config)

    async def _vanished(self) -> bool:
        """Whether a change that this view has applied is not in the stream (any more).

        A Redis that lost changes may have made as many new ones before this front end looks: seq alone does not
        tell. That the stream was trimmed beyond this view's place is no loss.
        """
        if self._stands_at is None:
            return False
        entry_id, seq = self._stands_at
        ms, _, number = entry_id.partition("-")
        before = f"{ms}-{int(number) - 1}" if int(number) else f"{int(ms) - 1}-{2**64 - 1}"
        reader = ChangeReader(self._tail_store, before)
        changes = await reader.read(block_ms=0, count=1)
        if not changes:
            return True
        return changes[0].seq != seq if reader.last_id == entry_id else changes[0].seq <= seq

    def _outage(self, head: Head) -> int:
        """A number that all front ends have in common for one outage, and that the next one does not have.

        A failover that is quicker than the gap that moves up_since has none of its own: time stands in for it.
        """
        grace_ms = self._grace_ms()
        return head.up_since_ms if head.now_ms < head.up_since_ms + grace_ms else head.now_ms // grace_ms

    async def _give_back(
        self,
        outage: int,
        kv: Mapping[str, Mapping[str, str]],
        config: Mapping[str, str],
        config_there: Mapping[str, str],
    ) -> None:
        """KV and shared configuration are nobody else's to bring back."""
        restored = await self._kv.restore(outage, kv)
        if restored:
            logger.warning("%d keys of the KV configuration were given back to Redis", restored)
        missing = {key: value for key, value in config.items() if key not in config_there}
        if missing:
            await self._kv.set_config(missing)

    # the loops

    async def tail(self) -> None:
        """Apply changes as they come. Runs until cancelled."""
        while not cancelled():
            try:
                if self._reader is None or self._rebuild_asked.is_set():
                    self._rebuild_asked.clear()
                    await self.load()
                assert self._reader is not None
                changes = await self._reader.read(block_ms=BLOCK_MS, count=_CHANGES_PER_READ)
                self._tail_heard_at = time.monotonic()
                self._tail_fails = False
                self._apply(changes)
                if changes:
                    self._stands_at = (self._reader.last_id, self._last_seq)
                    changes.clear()  # waiting for the next ones must not hold on to the topics of these
            except _Gap as gap:
                logger.warning("the change stream has a gap (%s): reading the tables again beside the view", gap)
                self._lose_sight()
                self._rebuild_asked.set()
            except StoreUnavailable as error:
                if not self.away and not self._tail_fails:
                    logger.warning("%s; known routes go on being served", error)
                self._tail_fails = True
                self._lose_sight()
                await pause(_RETRY_S)
            except RegistryError:
                logger.exception("cannot follow the change stream; known routes go on being served")
                self._lose_sight()
                self._rebuild_asked.set()
                await pause(1.0)

    def _apply(self, changes: list[Change]) -> None:
        view = self._view
        for change in changes:
            if change.seq != self._last_seq + 1:
                raise _Gap(f"seq {change.seq} after {self._last_seq}")
            self._last_seq = change.seq
            for whole in self._parts.add(change):
                before = view.exact.brokers.get(whole.broker_name)
                view.apply(whole)
                if whole.row is not UNSET:
                    self._on_row(before, whole)
                if whole.type == kinds.BROKER_EXPIRED and whole.who is not None:
                    self._channels.expired(whole.who, whole.seq)
                elif whole.type == kinds.CONFIG_SET:
                    self._on_config(view.served.config)
                view.applied(whole.seq)
        if changes:
            self.lag_ms = max(0.0, time.time() * 1000 - changes[-1].ms)

    async def keep_lease(self) -> None:
        """Renew the lease every second, and look where the registry stands. Runs until cancelled."""
        while not cancelled():
            started = time.monotonic()
            try:
                await self.renew()
            except StoreUnavailable as error:
                if not self.away:
                    logger.warning("%s", error)
                self._lose_sight()
                self.away = True
            except RegistryError:
                logger.exception("cannot renew this worker's lease")
                self._lose_sight()
            await pause(max(0.05, RENEW_EVERY_S - (time.monotonic() - started)))

    async def renew(self) -> None:
        """One renewal, with everything that follows from what it tells."""
        renewal = await self._leases.renew(self._channels.incarnation)
        if self.away:
            logger.warning("Redis is back")
        self.away = False
        self.renewal = renewal
        if renewal.lost:
            await self._leases.attach(self._channels.front_end, self._channels.channels())
        view = self._view
        if not view.loaded:
            return
        if renewal.epoch != view.epoch or renewal.seq < view.seq:
            # The reply may be older than what the tail applied meanwhile: only a second look tells.
            again = await self._leases.renew(self._channels.incarnation)
            if again.epoch != view.epoch or again.seq < self._view.seq:
                self._lose_sight()
                self._rebuild_asked.set()
            return
        now = time.monotonic()
        # Under steady writes the view is a change or two behind at any moment: what counts is that it does not
        # get within a second where the registry stood when it was first seen behind.
        if view.seq >= renewal.seq:
            self._behind = None
        elif self._behind is None or view.seq >= self._behind[1]:
            self._behind = (now, renewal.seq)
        elif now - self._behind[0] > BEHIND_S:
            self._behind = None
            self.look_again()
            return
        grace_ms = self._grace_ms()
        # up_since moves only after a gap of some seconds, and a failover with losses may be quicker
        if view.beside and renewal.now_ms >= renewal.up_since_ms + grace_ms and now >= self._lost_at + grace_ms / 1000:
            logger.warning("the grace is over: only what Redis holds is served")
            view.end_beside()
        tail_hears = now - self._tail_heard_at < BLOCK_MS / 1000 + BEHIND_S
        if tail_hears and not self._rebuild_asked.is_set() and not view.beside:
            view.fresh = True
        elif not tail_hears:
            self._lose_sight()

    def look_again(self) -> None:
        """Somebody found Redis in another state than the view: read the tables anew, beside it."""
        self._lose_sight()
        self._rebuild_asked.set()

    def _lose_sight(self) -> None:
        self._view.fresh = False
