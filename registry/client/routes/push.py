"""Asks name servers to announce changed routes, so that a client gets a change before the next poll; ours do.

The client sends a request whose answer the name server holds until a route changes. So an application needs no access
to Redis, a thousand applications are no load for Redis, and the worker that announces a change has the change when it
answers the lookup. A Java NameServer answers that it does not know the request (4.x: does not answer). Then the client
only polls, and asks again on each new connection and every five minutes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final

from ...errors import ClientClosed, PeerUnavailable, RegistryError, RemoteProtocolError
from ...protocol.watch import MAX_TOPICS, ROUTE_WATCH, TablesVersion, WatchAnswer, WatchRequest
from ..connection import PeerConnection
from ..reconnecting import Backoff
from .updates import RouteUpdater

logger = logging.getLogger(__name__)

# How long a name server holds an answer: half of the 60 s after which some network devices drop idle connections.
HOLD_S: Final = 30.0
PUSH_ANSWER_S: Final = 3.0
# A server without a usable answer is asked again after this time: it may have been slow, or another server is there.
_ASK_AGAIN_S: Final = 300.0


class RoutePush:
    """Asks for each route that a name server announces as changed.

    ``in_use_changed``: set when the set of topics in use has changed.
    """

    def __init__(self, updater: RouteUpdater, in_use_changed: asyncio.Event, *, answer_s: float) -> None:
        self._updater = updater
        self._in_use_changed = in_use_changed
        self._answer_s = answer_s
        self._backoff = Backoff(0.05, 10.0)
        self.is_active = False
        """Whether the name server announces changes now."""

    async def run(self) -> None:
        """Follow the announcements until cancelled; no error ends it."""
        name_servers = self._updater.name_servers
        while True:
            connection: PeerConnection | None = None
            try:
                connection = await name_servers.connection()
                if await self._watch(connection):
                    self._backoff.succeeded()
                else:
                    logger.debug("%s does not announce changes: routes are polled", connection.peer)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_ASK_AGAIN_S):
                            await connection.wait_closed()
            except ClientClosed:
                return
            except (PeerUnavailable, RemoteProtocolError) as error:
                logger.debug("watching routes: %s", error)
                if connection is not None:
                    name_servers.turn_from(connection)
            except RegistryError as error:
                logger.warning("watching routes: %s", error)
            except Exception:  # a defect must not end the loop
                logger.exception("watching routes")
            finally:
                self.is_active = False
            await asyncio.sleep(self._backoff.failed())

    async def _watch(self, connection: PeerConnection) -> bool:
        """Follow one server until its connection cannot be used. False: it does not announce changes."""
        answer = await self._ask(connection, None, 0.0)
        if answer is None:
            return False
        self._backoff.succeeded()
        position = answer.position
        # From here on no change is missed: this poll gets earlier changes, and the server announces later changes.
        await self._updater.poll(over=connection)
        self.is_active = True
        while connection.is_usable:
            self._in_use_changed.clear()
            held = asyncio.create_task(self._ask(connection, position, HOLD_S))
            others = asyncio.create_task(self._in_use_changed.wait())
            try:
                await asyncio.wait((held, others), return_when=asyncio.FIRST_COMPLETED)
                if not held.done():
                    continue  # the set of topics in use has changed
                answer = held.result()
            finally:
                held.cancel()
                others.cancel()
                await asyncio.gather(held, others, return_exceptions=True)
            if answer is None:
                return False
            await self._look_up(connection, answer)
            position = answer.position
        return True

    async def _look_up(self, connection: PeerConnection, answer: WatchAnswer) -> None:
        if answer.topics is None:
            await self._updater.poll(over=connection)
        for topic in answer.topics or ():
            if topic in self._updater.tables.topics:
                await self._updater.update(topic, over=connection)

    async def _ask(self, connection: PeerConnection, since: TablesVersion | None, hold_s: float) -> WatchAnswer | None:
        topics = sorted(self._updater.tables.topics)[:MAX_TOPICS]  # other topics are only polled
        ext_fields, body = WatchRequest(frozenset(topics if since else ()), int(hold_s * 1000), since).encode()
        try:
            reply = await connection.request(ROUTE_WATCH, ext_fields, body, timeout_s=hold_s + self._answer_s)
        except PeerUnavailable:
            if since is None and connection.is_usable:
                return None  # a 4.x server does not answer
            raise
        return WatchAnswer.decode(reply.code, reply.ext_fields, reply.body)
