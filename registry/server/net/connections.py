"""All connections of one worker: what they share, and the limits that hold for them together."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Container
from functools import partial
from typing import Final, NamedTuple

from ...protocol.command import Command, decode_command
from ..counting.counters import Closed
from ..counting.lookup_samples import AT_A_TIME, sample_next
from ..requests.context import RequestContext
from ..requests.lookup_cache import LookupCache
from ..view.drains import MOST_ASKED, Drains
from .answering import Answering
from .connection_interface import OpenConnection
from .held_memory import HeldMemory
from .large_frames import LargeFrames

_TICK_S: Final = 0.5
# Clients close a connection when an answer takes 3 s or more. So after a pause of about this time, this process may
# read requests from connections that their clients have closed.
_STILL_S: Final = 2.0
_AT_A_TIME: Final = 1000


class ConnectionLimits(NamedTuple):
    """The limits of one worker's connections."""

    idle_s: float = 120.0  # a connection that sends nothing for this long is closed
    slow_client_s: float = 30.0  # a connection that does not read its answers for this long is closed
    connections: int = 20_000  # more connections are closed at once
    in_flight: int = 10_000  # more writes of all connections are answered with SYSTEM_BUSY
    held_bytes: int = 256 << 20  # unfinished frames, waiting writes and unread answers of all connections together
    frame_s: float = 30.0  # a connection whose frame is neither whole nor much longer after this time is closed
    queued_writes: int = 64  # with this number of waiting writes, a connection is not read
    queued_bytes: int = 16 << 20  # the same for the bytes of its waiting writes
    write_buffer_bytes: int = 4 << 20  # the same for the bytes of answers that its client has not read


class Connections:
    """Every connection of this worker, the handlers of their requests, and a clock that ticks twice a second."""

    def __init__(self, context: RequestContext, limits: ConnectionLimits) -> None:
        self.context = context
        self.limits = limits
        self.known = LookupCache(context)
        self._unknown = LookupCache(context)  # learns nothing: for connections whose lookups the rules may refuse
        self.decode: Callable[[bytes], Command] = decode_command
        if context.behaviour.keeps_empty_binary_fields:
            self.decode = partial(decode_command, keep_empty_fields=True)
        self.answering = Answering(
            context, self.known, limits.in_flight, self.decode, lambda one: self.not_sent_away.add(one)
        )
        self.all: set[OpenConnection] = set()
        self._counted: set[OpenConnection] = set()
        self.not_sent_away: set[OpenConnection] = set()
        """Connections that sent a request during a drain, and whose clients are too old for code 1500 (GO_AWAY)."""
        # clock_s leaves out the time in which the loop was blocked: no connection is closed because a machine is slow
        self.clock_s = self._looked_at_s = asyncio.get_running_loop().time()
        self._stood_still_until_s = -math.inf
        context.on_policy = self.policy_changed
        context.signed_again = self.known.used
        # finds clients that have routes from before a brokerName lost its write permission
        self.drains = Drains(context.view, context.answers, lambda: self.all, lambda: self.clock_s)
        context.view.subscribe(self.drains.applied)
        rates = context.rates
        self.loop_time = rates.loop_time(asyncio.get_running_loop().call_later)
        context.decoding_turns.worked = self.loop_time.worked
        self.held = HeldMemory(limits.held_bytes, rates.account_of, rates.limited_account)
        self.large_frames = LargeFrames(
            lambda: self.clock_s, share_bytes=self.held.share_bytes, room_bytes=lambda: self.held.room_bytes
        )

    def add(self, connection: OpenConnection) -> None:
        """Add a new connection, or close it if there are too many."""
        if len(self.all) >= self.limits.connections:
            self.context.rates.no_place()
            connection.abort(Closed.TOO_MANY, f"more than {self.limits.connections} connections")
        else:
            self.all.add(connection)

    def count(self, connection: OpenConnection) -> None:
        """Count an added connection for its host, or close it if the host has too many."""
        if connection in self.all:
            self._counted.add(connection)
            why_not = self.context.rates.opened(connection.host)
            if why_not:
                connection.abort(Closed.RATE, why_not, level=logging.DEBUG)  # rates logs it, at once or in a summary

    def gone(self, connection: OpenConnection) -> None:
        """Forget a connection that is closed."""
        self.all.discard(connection)
        if connection.closed_as is Closed.CLIENT and self._reads_late:
            connection.closed_as = Closed.LATE
        self.context.counters.closed[connection.closed_as] += 1
        self.not_sent_away.discard(connection)
        if connection in self._counted:
            self._counted.discard(connection)
            self.context.rates.closed(connection.host)

    def _turn_clock(self, loop_s: float) -> None:
        if loop_s - self._looked_at_s > _STILL_S:
            self._stood_still_until_s = loop_s
        self.clock_s += min(loop_s - self._looked_at_s, 2 * _TICK_S)
        self._looked_at_s = loop_s

    @property
    def _reads_late(self) -> bool:
        """Whether bytes that are read now may be old, because this process was paused."""
        now_s = time.monotonic()
        return now_s - self._looked_at_s > _STILL_S or now_s - self._stood_still_until_s < _STILL_S

    async def tick(self) -> None:
        """Advance the clock; close connections that send nothing, send too slowly or do not read.

        Runs until cancelled.
        """
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_TICK_S)
            self._turn_clock(loop.time())
            now = self.clock_s
            self.context.watches.expire(now)
            self.large_frames.tick()
            self.held.tick(now, self.large_frames.crowded)
            self.context.rates.tick(self._looked_at_s)
            idle_before, slow_before = now - self.limits.idle_s, now - self.limits.slow_client_s
            frame_before, quiet_before = now - self.limits.frame_s, now - 3 * _TICK_S
            samples, asked = AT_A_TIME, 0
            for number, connection in enumerate(list(self.all)):
                if number % _AT_A_TIME == _AT_A_TIME - 1:
                    await asyncio.sleep(0)  # answer lookups meanwhile: there may be 20,000 connections
                asked += len(connection.asked.routes)
                if connection.unread_bytes or connection.active_at_s > quiet_before:
                    connection.measure()
                if samples and connection.active_at_s > quiet_before:
                    samples -= 1
                    sample_next(connection, self.context.counters)
                since_s = connection.frame_since_s
                if since_s is not None and since_s < frame_before:
                    connection.abort(
                        Closed.SLOW_FRAME, f"a frame was not whole, nor much longer, after {self.limits.frame_s:g} s"
                    )
                elif connection.paused_at_s is not None and connection.paused_at_s < slow_before:
                    self.context.counters.slow_clients += 1
                    connection.abort(
                        Closed.SLOW_CLIENT, f"it has not read its answers for {self.limits.slow_client_s:g} s"
                    )
                elif since_s == math.inf:
                    continue  # not idle: its large frame waits until it may be read
                elif connection.active_at_s < idle_before:
                    connection.close(Closed.IDLE, f"idle for {self.limits.idle_s:g} s")
            if asked > MOST_ASKED:
                self.drains.bound()

    @property
    def known_at_first(self) -> LookupCache:
        """The lookup cache of a connection whose user is not known yet."""
        return self.known if self.context.authorization is None else self._unknown

    def policy_changed(self) -> None:
        """Forget what the old rules decided; close the connections of users that enforced rules no longer know."""
        self.known.clear()
        authorization = self.context.authorization
        for connection in list(self.all):
            connection.known = self.known_at_first
            why = authorization.why_out(connection) if authorization is not None and authorization.enforces else ""
            connection.own_caller = connection.verified = connection.looked = None
            if why:
                connection.close(Closed.RULES, why)

    def revoked(self, certificates: Container[tuple[bytes, int]]) -> None:
        """Close the connections that showed one of these certificates."""
        for connection in list(self.all):
            if connection.certificate.id in certificates:
                connection.close(Closed.RULES, "its certificate was revoked")
