"""Answers lookups (105) from Redis while a worker still reads the tables, which takes seconds for a large fleet."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, Protocol

from ...behaviour import behaviour_of
from ...config.in_force import in_force
from ...config.settings import Settings
from ...names import fault_of_name
from ...protocol import headers
from ...protocol.codes import RequestCode
from ...protocol.command import Command
from ...store.operator_reads import read_topic_tables
from ...store.store import Store
from ..auth.peer import Peer
from ..limits.loop_time import Waiter
from ..view.freshness import Freshness
from ..view.route_answers import RouteAnswers
from ..view.view import View
from .context import RequestContext
from .reads import quoted_wanted, reads
from .writes import get_routeinfo_of_product

_AFTER_S: Final = 0.5


class AnsweringPlace(Protocol):
    """Answers the requests of a worker; ``early``: answers lookups before there are tables."""

    early: EarlyLookups | None


class EarlyLookups:
    """The lookups of one worker before it has tables, and the connections that wait for the tables.

    If Redis has a route, it is the answer. Otherwise the lookup waits for the tables: only they show whether the topic
    has no route, or Redis has lost changes. Topics are read one at a time, each read is followed by an equally long
    pause, and so reading the tables is hardly delayed.

    Args:
        own: the settings of this process.
    """

    def __init__(self, store: Store, own: Settings) -> None:
        self._store = store
        self._own = own
        self._behaviour = behaviour = behaviour_of(own.compat)
        self._is_quoted = quoted_wanted(behaviour)
        self._from_tables = reads(behaviour)[RequestCode.GET_ROUTEINFO_BY_TOPIC]
        self._reading: dict[str, asyncio.Task[RouteAnswers]] = {}
        self._turn = asyncio.Lock()
        self._ended = asyncio.Event()
        self._waiting: list[Waiter] = []

    def wait(self, waiter: Waiter) -> None:
        """Resume this connection when the tables have been read."""
        self._waiting.append(waiter)

    def end(self) -> None:
        """Resume all waiting connections: the tables have been read, or cannot be read now."""
        self._ended.set()
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            waiter.go_on()

    async def lookup(self, context: RequestContext, command: Command, opaque: int, peer: Peer) -> bytes:
        """Answer a lookup that came before the tables."""
        topic = (command.ext_fields or {}).get("topic")
        if topic and fault_of_name(topic) is None and not self._ended.is_set():
            body = self._body(command, topic, await self._route(topic))
            if body is not None and not (context.authorization and context.authorization.enforces):
                context.counters.lookups_found += 1
                context.lookup_counts.found(topic)
                return context.replies.success.reply(opaque, body)
        await self._ended.wait()
        if context.view.freshness is Freshness.LOADING:
            return context.replies.no_tables_yet.reply(opaque)
        refusal = context.authorization and context.authorization.of_read(command, peer)
        if refusal:
            return context.replies.no_permission(opaque, refusal.text)
        answer = self._from_tables(context, command, opaque)
        return await get_routeinfo_of_product(context, command, opaque, peer) if answer is None else answer

    def _body(self, command: Command, topic: str, answers: RouteAnswers) -> bytes | None:
        zone = headers.GetRouteInfo.from_ext_fields(command.ext_fields).zone_filter
        if zone is not None and self._behaviour.zones:
            return answers.zone_route_body(topic, zone)
        kept = answers.kept_route(topic, quoted_keys=self._is_quoted(command))
        return None if kept is None else kept.body

    async def _route(self, topic: str) -> RouteAnswers:
        """The topic's route in Redis; simultaneous lookups of one topic share one read."""
        reading = self._reading.get(topic)
        if reading is None:
            reading = self._reading[topic] = asyncio.create_task(self._read(topic))
            reading.add_done_callback(lambda _: self._reading.pop(topic, None))
        return await asyncio.shield(reading)

    async def _read(self, topic: str) -> RouteAnswers:
        view = View()
        answers = RouteAnswers(view, self._behaviour)
        await self._turn.acquire()
        since_s = time.monotonic()
        try:
            if not self._ended.is_set():
                view.tables = await read_topic_tables(self._store, topic)
        finally:
            asyncio.get_running_loop().call_later(time.monotonic() - since_s, self._turn.release)
        settings = in_force(self._own, view.tables.config, compat=self._store.compat)
        answers.configure(acting_master=settings.support_acting_master, order_messages=settings.has_order_in_routes)
        return answers


@contextlib.asynccontextmanager
async def answering_early(
    early: EarlyLookups, answering: AnsweringPlace, listen: Callable[[], Awaitable[object]]
) -> AsyncIterator[None]:
    """Listen and answer lookups early if the code in this context, which reads the tables, takes more than 0.5 s.

    Until then clients wait in the socket's backlog, which costs less.
    """

    async def begin() -> None:
        answering.early = early
        await listen()

    loop, begun = asyncio.get_running_loop(), list[asyncio.Task[None]]()
    timer = loop.call_later(_AFTER_S, lambda: begun.append(loop.create_task(begin())))
    try:
        yield
    finally:
        timer.cancel()
        await asyncio.gather(*begun)
        answering.early = None
        early.end()
