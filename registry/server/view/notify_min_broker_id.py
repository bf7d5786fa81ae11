"""Sends 905 to brokers, at their own listening address, when the smallest broker id of their group changed.

A slave that acts for its master learns from a 905 that the master is back or gone. One worker of each front end
connects to the brokers. Source: RouteInfoManager.notifyMinBrokerIdChanged and chooseBrokerAddrsToNotify (RocketMQ 5.x).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from msgspec import UNSET

from ...events.changes import BrokerRegistered, BrokerRemoved, Change
from ...model import BrokerRow
from ...protocol.codes import FLAG_ONEWAY, SERVER_VERSION, RequestCode
from ...protocol.command import Command, encode_command
from ...protocol.headers import NotifyMinBrokerIdChange
from ...tasks import cancelled
from .view import Applied

logger = logging.getLogger(__name__)

_CONNECT_S = 3.0
# The most notices that wait for one broker; beyond that the oldest are dropped, because the broker cannot be reached.
_WAITING = 100
# The most connections that are kept, and the most brokers that are notified at the same time.
_CONNECTIONS = 512
_AT_ONCE = 256


class Notice(NamedTuple):
    """One 905 and the broker that gets it."""

    broker_addr: str
    header: NotifyMinBrokerIdChange


def notices(before: BrokerRow | None, change: Change) -> list[Notice]:
    """The notices of a change, given the row of its brokerName before it.

    When a broker with a smaller id arrives, all other brokers of the name get its HA address. When the broker with the
    smallest id leaves, the other brokers get its address.
    """
    if not isinstance(change, (BrokerRegistered, BrokerRemoved)):
        return []
    if before is None or not before.broker_addrs or change.row is None or change.row is UNSET:
        return []
    addrs, smallest = change.row.addrs, min(before.broker_addrs)
    if not addrs or change.broker_id is None:
        return []
    lowest = min(addrs)
    if isinstance(change, BrokerRegistered) and change.broker_id < smallest:
        header = NotifyMinBrokerIdChange(
            min_broker_id=lowest,
            min_broker_addr=addrs[lowest],
            ha_broker_addr=change.live.ha if change.live else None,
        )
        return [Notice(addr, header) for broker_id, addr in addrs.items() if broker_id != lowest]
    if isinstance(change, BrokerRemoved) and change.broker_id == smallest:
        header = NotifyMinBrokerIdChange(
            min_broker_id=lowest, min_broker_addr=addrs[lowest], offline_broker_addr=change.addr
        )
        return [Notice(addr, header) for addr in addrs.values()]
    return []


class MinBrokerIdNotifier:
    """Sends notices to many brokers at the same time, to each in order, and keeps the connections; listens to the view.

    A broker that cannot be reached gets no notices.

    Args:
        enabled: called for each change: whether to notify brokers (setting notifyMinBrokerIdChanged).
    """

    def __init__(self, enabled: Callable[[], bool]) -> None:
        self._enabled = enabled
        self._waiting: dict[str, deque[Notice]] = {}  # by broker address; there while a task sends them
        self._begun: asyncio.Queue[str] = asyncio.Queue()  # addresses that need a task
        self._streams: dict[str, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}
        self._opaque = 0

    def applied(self, applied: Applied) -> None:
        """Queue the notices of this change, without waiting."""
        if not self._enabled():
            return
        for notice in notices(applied.row_before, applied.change):
            waiting = self._waiting.get(notice.broker_addr)
            if waiting is None:
                waiting = self._waiting[notice.broker_addr] = deque(maxlen=_WAITING)
                self._begun.put_nowait(notice.broker_addr)
            waiting.append(notice)

    async def run(self) -> None:
        """Send what is queued. Runs until cancelled."""
        at_once = asyncio.Semaphore(_AT_ONCE)
        try:
            async with asyncio.TaskGroup() as group:
                while not cancelled():
                    addr = await self._begun.get()
                    await at_once.acquire()
                    group.create_task(self._tell(addr)).add_done_callback(lambda _: at_once.release())
        finally:
            for addr in list(self._streams):
                self._forget(addr)

    async def _tell(self, addr: str) -> None:
        waiting = self._waiting[addr]
        while waiting:
            notice = waiting.popleft()
            try:
                async with asyncio.timeout(_CONNECT_S):
                    await self._send(notice)
                logger.info("told %s that the smallest broker id is %s now", addr, notice.header.min_broker_id)
            except (OSError, TimeoutError, ValueError, RuntimeError) as error:
                logger.warning("cannot tell broker %s of its new smallest id: %s", addr, error or "no answer")
                self._forget(addr)
        del self._waiting[addr]

    async def _send(self, notice: Notice) -> None:
        addr = notice.broker_addr
        if addr in self._streams:
            reader, writer = self._streams[addr]
            # The broker has closed the connection, or its machine has reset it: uvloop then raises RuntimeError.
            if reader.at_eof() or writer.is_closing():
                self._forget(addr)
        if addr not in self._streams:
            host, _, port = addr.rpartition(":")
            while len(self._streams) >= _CONNECTIONS:
                self._forget(next(iter(self._streams)))
            self._streams[addr] = await asyncio.open_connection(host.strip("[]"), int(port))
        writer = self._streams[addr][1]
        self._opaque += 1
        writer.write(
            encode_command(
                Command(
                    code=RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE,
                    opaque=self._opaque,
                    flag=FLAG_ONEWAY,
                    version=SERVER_VERSION,
                    ext_fields=notice.header.to_ext_fields(),
                )
            )
        )
        await writer.drain()

    def _forget(self, addr: str) -> None:
        streams = self._streams.pop(addr, None)
        if streams is not None:
            with contextlib.suppress(OSError):
                streams[1].close()
