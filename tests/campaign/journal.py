"""Reads the change stream from outside: nobody who lives may be removed for silence, whatever answers show of it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

import redis

from mqregistry.events.changes import BrokerExpired, BrokerReaped, decode_change

if TYPE_CHECKING:
    from .world import World

EVERY_S = 0.3
BLOCK = 500


class Journal:
    """Follows the stream of the world's namespace. Entry ids are times of the machine's clock, whatever the registry's
    clock says, so they tell when a change was made."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._last = b"0-0"
        self._to_monotonic_s = time.monotonic() - time.time()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            for at, change in await asyncio.to_thread(self._new):
                self._judge(at, change)

    def _new(self) -> list[tuple[float, Any]]:
        found: list[tuple[float, Any]] = []
        key = f"{self.world.prefix}changes"
        with contextlib.suppress(redis.RedisError, OSError), self.world.admin_redis(0.5) as client:
            entries = client.xrange(key, min=b"(" + self._last, count=BLOCK)
            newest = client.xrevrange(key, count=1)
            if not entries and newest and _order(newest[0][0]) < _order(self._last):
                self._last = newest[0][0]  # Redis came back with less
            for entry_id, fields in entries:
                self._last = entry_id
                text = fields[b"e"]
                if b'"type":"broker_expired"' in text or b'"type":"broker_reaped"' in text:
                    at = int(entry_id.split(b"-")[0]) / 1000 + self._to_monotonic_s
                    found.append((at, decode_change(text)))
        return found

    def _judge(self, at: float, change: Any) -> None:
        if not isinstance(change, (BrokerExpired, BrokerReaped)) or change.addr is None:
            return
        broker = self.world.model.by_addr.get((change.broker_name, change.addr))
        if broker is None or change.who != broker.who or at < broker.moved_at + 2:
            return
        if self.world.model.lived(broker, at):
            self.world.judged([f"{change.type} of {broker.uid}, which lives: {self.world.model.says(broker, at)}"])


def _order(entry_id: bytes) -> tuple[int, int]:
    ms, _, number = entry_id.partition(b"-")
    return int(ms), int(number)
