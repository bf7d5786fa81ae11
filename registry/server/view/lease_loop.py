"""Renews this worker's lease every second or more often, and compares the view with what each renewal returns."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ...errors import RegistryError, StoreError, StoreUnavailable
from ...store.leases import RENEW_EVERY_S, LeaseStore, Renewal
from ...store.processes import encode_peers
from ...store.store import Store
from ...tasks import cancelled, pause
from .channels import ChannelOwner
from .follower import BLOCK_MS, Follower
from .freshness import Freshness, Seen
from .view import View

logger = logging.getLogger(__name__)

# How long the view may lack a change of Redis before the tables are read again.
BEHIND_S: Final = 1.0
# How much longer than BLOCK_MS a read of the change stream may take.
_SILENT_S: Final = 1.0
# If a renewal takes longer, its Redis may be dead, and another Redis may have replaced it.
_PATIENCE_S: Final = 0.25
# A busy Redis may answer an older call this much later than a new one.
_BUSY_S: Final = 0.1
# How often to renew in the states that a renewal may end.
_RENEW_SOON_S: Final = 0.2
_SETTLED: Final = (Freshness.FRESH, Freshness.AWAITING)
# After a loss each live broker registers again in this time: its heartbeat period, and 5 s.
_BEAT_PERIOD_S: Final = 35.0
# In this time every front end has noticed a loss.
_NOTICED_S: Final = 3.0


class _Behind(NamedTuple):
    """Since ``since_s`` (time.monotonic) the view is known to lack the change with this seq, which Redis has."""

    since_s: float
    seq: int


class LeaseLoop:
    """Renews one worker's lease, and changes the view's freshness by what each renewal returns.

    Args:
        leases: has connections of its own, so that a renewal does not wait for other calls.
        own_store: the store of ``leases``. other_stores: this worker's other connections to Redis.
        renewed: called with each renewal.
        process: returns the status that each renewal writes (``LeaseStore.renew``).
    """

    def __init__(
        self, leases: LeaseStore, view: View, follower: Follower, channels: ChannelOwner, *,
        own_store: Store, other_stores: Sequence[Store] = (),
        renewed: Callable[[Renewal], object] = lambda renewal: None,
        process: Callable[[], bytes] = lambda: b"",
    ) -> None:  # fmt: skip
        self._leases = leases
        self._view = view
        self._follower = follower
        self._channels = channels
        self._renewed = renewed
        self._process = process
        self._peers_told: int | None = None
        self._soon = False
        self._own_store, self._other_stores = own_store, other_stores
        self._unanswered = False
        self._behind: _Behind | None = None
        self._must_attach = False
        self._losses = 0
        self.renewal: Renewal | None = None

    async def run(self) -> None:
        """Renew every second, and every 0.2 s in states that a renewal may end. Runs until cancelled."""
        while not cancelled():
            started = time.monotonic()
            try:
                await self._renew_where_it_answers()
            except StoreUnavailable as error:
                if self._view.freshness is not Freshness.AWAY:
                    logger.warning("%s", error)
                self._view.saw(Seen.UNANSWERED)
            except RegistryError:
                logger.exception("cannot renew this worker's lease")
                self._view.saw(Seen.UNHEARD)
            while not cancelled():
                await pause(_RENEW_SOON_S)
                unsettled = self._soon or self._view.freshness not in _SETTLED
                if unsettled or time.monotonic() - started >= RENEW_EVERY_S:
                    break

    def renew_soon(self) -> None:
        """Renew within 0.2 s, because the status of this worker has changed."""
        self._soon = True

    async def _renew_where_it_answers(self) -> None:
        """Renew once; close the open connections if Redis does not answer over them but over a new connection.

        Connections to a paused master, or to a host that is gone, stay open. Each call over them would wait for its
        timeout, although new connections already lead to a new master, by Sentinel or an address that has moved.
        """
        renewal = asyncio.create_task(self.renew(), name="renews the lease")
        try:
            while not (await asyncio.wait((renewal,), timeout=_PATIENCE_S))[0]:
                if not await self._own_store.is_answered_anew(_PATIENCE_S):
                    continue
                if not (await asyncio.wait((renewal,), timeout=_BUSY_S))[0]:
                    logger.warning("Redis answers new connections, but not the open ones, which are closed now")
                    await self._own_store.hang_up()
                    await asyncio.wait((renewal,), timeout=_BUSY_S)
                    break
            if not renewal.done():  # the renewal was still connecting
                raise StoreUnavailable("Redis does not answer the lease renewal, but it answers a new connection")
            await renewal
        except StoreUnavailable:
            self._unanswered = True
            raise
        finally:
            renewal.cancel()
        if self._unanswered:
            self._unanswered = False
            for store in self._other_stores:
                await store.hang_up()

    async def renew(self) -> None:
        """Renew once, and act on the state of Redis that the renewal returns.

        Raises:
            StoreUnavailable: Redis does not answer.
            StoreError: Redis refuses the renewal.
        """
        view = self._view
        load_id, known_seq = view.load_id, view.seq
        self._soon = False
        changed = self._channels.changed
        peers = encode_peers(self._channels.peers()) if changed != self._peers_told else b""
        self.renewal = renewal = await self._leases.renew(
            self._channels.incarnation, process=self._process(), peers=peers
        )
        self._peers_told = None if renewal.lost else changed
        self._channels.renewed = renewal.up_since_ms, renewal.now_ms
        view.saw(Seen.ANSWERED)
        self._renewed(renewal)
        self._must_attach = self._must_attach or renewal.lost or self._losses != self._follower.losses
        if view.freshness is not Freshness.LOADING and view.load_id == load_id:
            self._compare(renewal, known_seq)
        if self._must_attach and not view.has_lost:
            await self._attach()

    async def _attach(self) -> None:
        """Write this worker's channels to Redis again: Redis removed them with the expired lease, or lost them.

        A Redis that lost changes may have channels of this worker that have closed since: they are removed first.
        """
        losses = self._follower.losses
        try:
            if losses != self._losses:
                await self._leases.release(self._channels.incarnation, ends=False)
            await self._leases.attach(self._channels.front_end, self._channels.channels())
        except StoreError as error:
            logger.error("cannot attach this worker's channels, it is tried again with the next renewal: %s", error)
        else:
            self._must_attach, self._losses = False, losses
            self._channels.attached.set()

    def _compare(self, renewal: Renewal, known_seq: int) -> None:
        """Compare the state of Redis that the renewal returned with the view.

        Args:
            known_seq: the view's seq before the renewal was sent; the follower may have applied more changes since.
        """
        view, follower, now = self._view, self._follower, time.monotonic()
        has_lost = (
            renewal.epoch != view.epoch
            or renewal.seq < known_seq
            or view.history.contradicts(renewal.seq, renewal.chain)
        )
        if has_lost or not follower.has_place or self._is_behind(renewal.seq, now):
            self._behind = None
            follower.look_again(has_lost=has_lost)
            return
        view.losses = max(view.losses, renewal.losses)
        if now - follower.heard_at >= BLOCK_MS / 1000 + _SILENT_S:
            view.saw(Seen.UNHEARD)
        else:
            view.saw(Seen.BROKERS_AWAITED if self._awaits(renewal) else Seen.IN_STEP)

    def _awaits(self, renewal: Renewal) -> bool:
        """Whether some broker may still have to register again after a loss."""
        view, since_s = self._view, (renewal.now_ms - renewal.lost_ms) / 1000
        if not 0 <= since_s < _BEAT_PERIOD_S:
            view.awaited = {} if view.awaited is None else view.awaited
            return False
        return view.awaited is None or bool(view.awaited) or since_s < _NOTICED_S

    def _is_behind(self, seq: int, now: float) -> bool:
        """Whether the view has lacked the same change for longer than BEHIND_S.

        While brokers register all the time, the view always lacks the newest changes: the tables need not be read then.
        """
        if self._view.seq >= seq:
            self._behind = None
        elif self._behind is None or self._view.seq >= self._behind.seq:
            self._behind = _Behind(now, seq)
        else:
            return now - self._behind.since_s > BEHIND_S
        return False
