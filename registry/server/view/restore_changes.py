"""Finds the last change that the view and Redis have in common, and writes back to Redis what it lost after that.

What Redis has changed since the loss stays as it is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from ...errors import StoreError
from ...events.changes import Change
from ...follow.follow import Loaded
from ...model import MASTER_ID, BrokerRow, DataVersion, QueueData, Registration
from ...store.change_reader import chain_of, read_back
from ...store.restore_changes import Restorer, Status
from ...store.store import Store
from ...tables.live_table import LiveInfo, LiveTable
from ...tables.lost_changes import Cell, Gift, GoneBroker, LostBroker, lost, touched_by
from ...tables.registration import RegistrationDiff
from ...tasks import pause
from .view import View

logger = logging.getLogger(__name__)

Lives = list[tuple[str, LiveInfo]]
"""Broker processes (who), each with its live info (what its last heartbeat says) under one brokerName."""
Places = dict[tuple[str, str], Lives]
"""brokerName and brokerAddr -> the processes that have this address under this name."""

# How long to wait before asking again, while another worker that knows as much gives back.
_WAIT_S: Final = 0.1


class Since(NamedTuple):
    """What Redis has changed since the last common change. whole: no older of these changes has been trimmed away."""

    changes: list[Change]
    whole: bool


async def find_fork(tail_store: Store, view: View, loaded: Loaded, *, is_lost: bool) -> Since | None:
    """What Redis has changed since the last change that view and Redis have; None: Redis lost nothing of the view.

    Args:
        is_lost: Redis has certainly lost changes, although its stream may not show it any more.
    """
    history, same = view.history, loaded.epoch == view.epoch
    if same and not is_lost and view.last_entry is not None:
        found = await chain_of(tail_store, view.last_entry.entry_id)
        if found and found == history.chain(view.last_entry.seq):
            return None
    since: list[Change] = []
    if same and loaded.seq < view.seq and history.chain(loaded.seq) == loaded.follow.chain:
        return Since(since, whole=True)
    async for parts in read_back(tail_store):
        for change in reversed(parts):
            if change.seq > loaded.seq:
                continue  # later than the tables that were read: it is applied later
            if same and change.chain and history.chain(change.seq) == change.chain:
                return None if change.seq == view.seq else Since(since[::-1], whole=True)
            since.append(change)
    first_seq = since[-1].seq if since else loaded.seq + 1
    if same and not is_lost and loaded.seq >= view.seq and first_seq > view.seq:
        return None  # the stream has been trimmed beyond the view's last change
    return Since(since[::-1], whole=first_seq == 1)


class Restoration:
    """Gives Redis back what it lost, as far as one view knows it.

    Args:
        view: has the tables before the loss. loaded: the tables of Redis now; kept up to date meanwhile.
        since: what Redis has changed since the loss.
        timeout_ms: the heartbeat timeout of a broker that did not send its own.
    """

    def __init__(self, store: Store, view: View, loaded: Loaded, since: Since, timeout_ms: int) -> None:
        self._restorer = Restorer(store, view.losses, view.seq)
        self._view, self._loaded, self._whole, self._timeout_ms = view, loaded, since.whole, timeout_ms
        self._touched: set[Cell] = set()
        self._refused: set[str] = set()
        self._given = 0
        self._note(since.changes)

    async def run(self) -> None:
        """Give everything back, or wait until a worker that knew more has done it.

        Raises:
            StreamGap, StoreUnavailable, StoreError: the tables must be read again before the next attempt.
        """
        status: Status = "BUSY"
        while status in ("BUSY", "RETRY"):
            if status == "BUSY":
                status = await self._restorer.begin()
            if status == "BUSY":
                await pause(_WAIT_S)
            await self._follow()
            if status in ("OK", "RETRY"):
                status = await self._give_all()
        await self._follow()
        if self._given:
            logger.warning("Redis got back what it had lost, in %d parts", self._given)

    async def _follow(self) -> None:
        self._loaded.new.clear()
        await self._loaded.catch_up()
        self._note(self._loaded.new)

    def _note(self, changes: Iterable[Change]) -> None:
        mine = self._view.losses, self._view.seq
        for change in changes:
            if change.knew is None or tuple(change.knew) > mine:
                self._touched.update(touched_by(change))
            self._view.note_return(change)

    async def _give_all(self) -> Status:
        at_seq = self._loaded.seq
        known, there = _by_place(self._view.lives), _by_place(self._loaded.lives)
        for gift in lost(self._view.tables, self._loaded.tables, self._touched, whole=self._whole):
            if str(gift) in self._refused:
                continue
            try:
                status = await self._give(gift, at_seq, known, there)
            except StoreError as error:
                logger.error("Redis does not take back what it lost, %s: %s", str(gift)[:200], error)
                self._refused.add(str(gift))
                continue
            if status != "OK":
                return status
            self._given += 1
            at_seq = self._restorer.seq
        return await self._restorer.done(at_seq)

    async def _give(self, gift: Gift, at_seq: int, known: Places, there: Places) -> Status:
        if isinstance(gift, LostBroker):
            return await self._restore(gift, at_seq, known.get((gift.broker_name, gift.addr), []))
        if isinstance(gift, GoneBroker):
            return await self._remove(at_seq, there.get((gift.broker_name, gift.addr), []))
        given = [(key, _text(value)) for key, value in gift.given.items()]
        return await self._restorer.give(at_seq, gift.kind, gift.name, given, gift.gone)

    async def _remove(self, at_seq: int, lives: Lives) -> Status:
        self._restorer.seq = at_seq
        for who, _ in lives:
            status = await self._restorer.give(self._restorer.seq, "remove", who, [(str(self._view.last_ms), "")])
            if status != "OK":
                return status
        return "OK"

    async def _restore(self, gift: LostBroker, at_seq: int, lives: Lives) -> Status:
        """Register the address again, for each cluster in which it was alive, also if Redis keeps only one of them."""
        row = self._view.tables.brokers[gift.broker_name]
        nobody = LiveInfo(row.cluster, gift.addr, gift.broker_id, 0, None, None, None, None)
        self._restorer.seq = at_seq
        for who, info in lives or [("", nobody)]:
            if await self._register(gift, row, who, info) != "OK":
                return "RETRY"
        return "OK"

    async def _register(self, gift: LostBroker, row: BrokerRow, who: str, info: LiveInfo) -> Status:
        known, name = self._view.tables, gift.broker_name
        there = self._loaded.tables.brokers.get(name)
        mappings = [
            (topic, name, of[name])
            for topic, of in (known.mappings.items() if gift.broker_id == MASTER_ID or there is None else ())
            if name in of
        ]
        timeout_ms = info.timeout_ms or self._timeout_ms
        since = (self._view.awaited or {}).get(who)
        if since is not None and time.monotonic() - since > timeout_ms / 1000:
            return "OK"  # restored after an earlier loss, and not registered within the timeout since
        registration = Registration(
            info.cluster, name, gift.broker_id, gift.addr, info.ha, row.zone_name, row.enable_acting_master,
            timeout_ms,
            DataVersion(info.counter or 0, info.timestamp or 0, info.state_version or 0),
            filter_servers=known.filter_servers.get(who, []),
        )  # fmt: skip
        diff = RegistrationDiff(
            self._loaded.epoch, there.rev if there else 0, "0", self._loaded.tables.config_rev, {}, (), mappings
        )
        done = await self._restorer.routes.register_broker(
            registration, diff, topic_count=0, restored_at=self._restorer.seq
        )
        self._restorer.seq = done.seq
        return "RETRY" if done.status == "RETRY" else "OK"


def _by_place(lives: LiveTable) -> Places:
    places: Places = {}
    for who, names in lives.by_who.items():
        for name, info in names.items():
            places.setdefault((name, info.addr), []).append((who, info))
    return places


def _text(value: str | QueueData) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
