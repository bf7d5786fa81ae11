"""Being told of changed routes by name servers that can (ours), instead of waiting for the next poll.

A long-held request on the wire, not a look at the registry's Redis: an application needs neither its address nor
rights in it, a thousand applications are no load for it, and the worker that answers is the one whose view then
answers the lookup, so that what was announced is there. A stock NameServer is asked once for each connection, and every
five minutes, says that it does not know the request (4.x: says nothing), and is polled only.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from registry.client.connection import Connection
from registry.client.reconnecting import Backoff
from registry.errors import ClientClosed, PeerUnavailable, RegistryError, RemoteProtocolError
from registry.protocol.watch import MAX_TOPICS, ROUTE_WATCH, Position, WatchAnswer, WatchRequest

if TYPE_CHECKING:
    from registry.client.routes.client import RouteClient

logger = logging.getLogger(__name__)

# Half of the shortest time after which something on the way may take a connection for idle.
HOLD_S: Final = 30.0
PUSH_ANSWER_S: Final = 3.0
# Who did not know the request may have been too slow to say so, or be another server behind the same address now.
_ASK_AGAIN_S: Final = 300.0


class RoutePush:
    """Runs beside the polling of a route client."""

    def __init__(self, client: RouteClient, *, answer_s: float = PUSH_ANSWER_S) -> None:
        self._client = client
        self._answer_s = answer_s
        self._backoff = Backoff(0.05, 10.0)
        self.is_active = False
        """Whether changes are told at this moment."""

    async def run(self) -> None:
        """Until cancelled."""
        name_servers = self._client.name_servers
        while True:
            connection: Connection | None = None
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
            except Exception:  # a defect must not end it
                logger.exception("watching routes")
            finally:
                self.is_active = False
            await asyncio.sleep(self._backoff.failed())

    async def _watch(self, connection: Connection) -> bool:
        """Follow one server until it cannot be asked any more; false at once when it does not know how."""
        answer = await self._ask(connection, None, 0.0)
        if answer is None:
            return False
        self._backoff.succeeded()
        position = answer.position
        # From here on nothing is missed: what changed before is seen by this poll, what changes after it is told.
        await self._client.poll(over=connection)
        self.is_active = True
        while connection.is_usable:
            self._client.in_use_changed.clear()
            held = asyncio.create_task(self._ask(connection, position, HOLD_S))
            others = asyncio.create_task(self._client.in_use_changed.wait())
            try:
                await asyncio.wait((held, others), return_when=asyncio.FIRST_COMPLETED)
                if not held.done():
                    continue  # other topics: ask anew, for them
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

    async def _look_up(self, connection: Connection, answer: WatchAnswer) -> None:
        if answer.topics is None:
            await self._client.poll(over=connection)
        for topic in answer.topics or ():
            if topic in self._client.tables.topics:
                await self._client.update(topic, over=connection)

    async def _ask(self, connection: Connection, since: Position | None, hold_s: float) -> WatchAnswer | None:
        topics = sorted(self._client.tables.topics)[:MAX_TOPICS]  # more are polled
        ext_fields, body = WatchRequest(frozenset(topics if since else ()), int(hold_s * 1000), since).encode()
        try:
            reply = await connection.request(ROUTE_WATCH, ext_fields, body, timeout_s=hold_s + self._answer_s)
        except PeerUnavailable:
            if since is None and connection.is_usable:
                return None  # 4.x: no answer, and the connection is good
            raise
        return WatchAnswer.decode(reply.code, reply.ext_fields, reply.body)
