"""905: brokers are told, at their own listening address, when the smallest broker id of their group changed.

A slave that acts for its master learns so that the master is back or gone. One worker of each front end dials the
brokers. Source: RouteInfoManager.notifyMinBrokerIdChanged and chooseBrokerAddrsToNotify (rocketmq 5.x), golden
notify-min-broker-id.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import NamedTuple

from msgspec import UNSET

from registry import change as kinds
from registry.change import Change
from registry.model import BrokerRow
from registry.protocol.codes import FLAG_ONEWAY, SERVER_VERSION, RequestCode
from registry.protocol.command import Command, encode_command
from registry.protocol.headers import NotifyMinBrokerIdChange
from registry.tasks import cancelled

logger = logging.getLogger(__name__)

_CONNECT_S = 3.0
# More notices than this waiting means that brokers cannot be reached: the oldest are worth nothing any more.
_WAITING = 10_000
_CONNECTIONS = 512


class Notice(NamedTuple):
    """One 905 for one broker."""

    broker_addr: str
    header: NotifyMinBrokerIdChange


def notices(before: BrokerRow | None, change: Change) -> list[Notice]:
    """Who is told what, given the row before the change.

    A smaller id arrived: every member but the newcomer, with the newcomer's HA address. The smallest id left: all
    that stay, with the address that went.
    """
    if before is None or not before.broker_addrs or change.row is None or change.row is UNSET:
        return []
    addrs, smallest = change.row.addrs, min(before.broker_addrs)
    if not addrs or change.broker_id is None:
        return []
    lowest = min(addrs)
    if change.type == kinds.BROKER_REGISTERED and change.broker_id < smallest:
        header = NotifyMinBrokerIdChange(
            min_broker_id=lowest,
            min_broker_addr=addrs[lowest],
            ha_broker_addr=change.live.ha if change.live else None,
        )
        return [Notice(addr, header) for broker_id, addr in addrs.items() if broker_id != lowest]
    if change.type in kinds.REMOVALS and change.broker_id == smallest:
        header = NotifyMinBrokerIdChange(
            min_broker_id=lowest, min_broker_addr=addrs[lowest], offline_broker_addr=change.addr
        )
        return [Notice(addr, header) for addr in addrs.values()]
    return []


class Notifier:
    """Sends notices in order, over connections that it keeps; a broker that cannot be reached misses them."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[Notice] = asyncio.Queue(_WAITING)
        self._streams: dict[str, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}
        self._opaque = 0

    def tell(self, before: BrokerRow | None, change: Change) -> None:
        """Send what this change calls for; returns at once."""
        for notice in notices(before, change):
            if self._waiting.full():
                self._waiting.get_nowait()
            self._waiting.put_nowait(notice)

    async def run(self) -> None:
        """Send. Runs until cancelled."""
        try:
            while not cancelled():
                notice = await self._waiting.get()
                try:
                    async with asyncio.timeout(_CONNECT_S):
                        await self._send(notice)
                    logger.info(
                        "told %s that the smallest broker id is %s now", notice.broker_addr, notice.header.min_broker_id
                    )
                except (OSError, TimeoutError, ValueError) as error:
                    logger.warning("cannot tell broker %s of its new smallest id: %s", notice.broker_addr, error)
                    self._forget(notice.broker_addr)
        finally:
            for addr in list(self._streams):
                self._forget(addr)

    async def _send(self, notice: Notice) -> None:
        addr = notice.broker_addr
        if addr in self._streams and self._streams[addr][0].at_eof():  # the broker hung up
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
