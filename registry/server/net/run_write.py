"""Runs the writes of a connection one after the other: checks rights and limits, and makes replies of failures."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from time import perf_counter

from ...errors import ChangesLost, RateExceeded, RegistryError, StoreUnavailable
from ...protocol.codes import RequestCode, ResponseCode, with_name
from ...protocol.command import Command
from ..auth.peer import Peer
from ..requests.context import NotAllowed, RequestContext, SenderGone
from ..requests.writes import Write
from .connection_interface import OpenConnection

logger = logging.getLogger(__name__)

_REGISTER = int(RequestCode.REGISTER_BROKER)
_LOOKUP = int(RequestCode.GET_ROUTEINFO_BY_TOPIC)
# Requests that prove that a broker is alive; after its connection has closed they prove nothing.
_SIGNS_OF_LIFE = {RequestCode.REGISTER_BROKER, RequestCode.QUERY_DATA_VERSION, RequestCode.BROKER_HEARTBEAT}
# A broker closes its connection after this request (104): so it is executed although the connection has closed. Its
# script finds out whether the broker has come back meanwhile (lua/include/late).
_GOODBYE = int(RequestCode.UNREGISTER_BROKER)
# Unless this process was paused, it reads a request that was sent right before the close within this time.
_LATE_S = 0.1


class WriteQueue:
    """The writes of one connection, in the order in which they came. ``bytes``: the memory of unfinished writes.

    The connection refers to this queue, but the queue does not refer back: such a cycle might never be freed
    (registry/server/process/memory.py).
    """

    __slots__ = ("_context", "_waiting", "bytes", "task")

    def __init__(self, context: RequestContext) -> None:
        self._context = context
        self._waiting: deque[tuple[Write, Command, int, int, float, float]] = deque()
        self.bytes = 0
        self.task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, connection: OpenConnection, write: Write, command: Command, opaque: int, held_bytes: int) -> None:
        """Execute a write after all earlier writes of this connection."""
        self._context.in_flight += 1
        now_s = perf_counter()
        self._waiting.append((write, command, opaque, held_bytes, now_s, connection.sent_at_s(now_s)))
        self.bytes += held_bytes
        if self.task is None:
            self.task = asyncio.get_running_loop().create_task(self._run(connection))

    def drop(self, connection: OpenConnection) -> None:
        """Cancel all waiting writes, and the one that is executed."""
        task, self.task = self.task, None
        self._forget(connection.host)
        if task is not None:
            task.cancel()
            connection.writes_done()

    async def _run(self, connection: OpenConnection) -> None:
        waiting = self._waiting
        try:
            while waiting:
                write, command, opaque, held_bytes, since_s, connection.said_s = waiting[0]
                answer = await run_write(self._context, write, command, opaque, connection)
                waiting.popleft()
                self._ended(1, connection.host)
                self.bytes -= held_bytes
                self._context.counters.wrote(command.code, answer, since_s)
                connection.write_done(command, answer)
        finally:
            if self.task is not None:  # else drop() has done this
                self._forget(connection.host)
                self.task = None
                connection.writes_done()

    def _forget(self, host: str) -> None:
        self._ended(len(self._waiting), host)
        self._waiting.clear()
        self.bytes = 0

    def _ended(self, writes: int, host: str) -> None:
        self._context.in_flight -= writes
        self._context.rates.ended(host, writes)


async def run_write(context: RequestContext, write: Write, command: Command, opaque: int, connection: Peer) -> bytes:
    """Run one write to its end; returns its answer."""
    try:
        if command.code != _GOODBYE:
            _check_sender(command, connection)
        authorization = context.authorization
        if authorization is None:  # rules are no longer in use: forget the caller of an earlier write
            connection.caller = None
        elif command.code != _LOOKUP:  # a lookup was authorized already, as a read
            refusal = await authorization.of_write(command, connection)
            if refusal is not None:
                context.rates.check_refused(command.code, connection.host)
                raise NotAllowed(refusal.text)
        context.rates.check_request(command.code, connection.host)
        await context.given_back()
        try:
            return await write(context, command, opaque, connection)
        except ChangesLost:  # nothing was written: try again when Redis has got back what it lost
            context.health.look_again(has_lost=True)
            await context.given_back()
            return await write(context, command, opaque, connection)
    except RateExceeded as error:  # context.rates logs it, at once or in a summary
        return context.replies.reply(opaque, ResponseCode.SYSTEM_BUSY, str(error))
    except NotAllowed as error:
        if command.code == _REGISTER:
            context.counters.registrations_refused += 1
        return context.replies.no_permission(opaque, str(error))
    except RegistryError as error:
        if command.code == _REGISTER:
            context.counters.registrations_error += 1
        # the lease loop logs once that Redis is away: do not log it again for each request
        away = isinstance(error, StoreUnavailable) and not context.view.freshness.redis_answers
        asked = with_name(command.code, RequestCode)
        if away:
            logger.debug("request %s of %s: %s", asked, connection.address, error)
        else:
            context.rates.tell(f"request {asked}", connection.host, f"request {asked} of {connection.address}: {error}")
        return context.replies.system_error(opaque, str(error))
    except Exception as error:  # a defect in this code: the broker gets an error and tries again
        if command.code == _REGISTER:
            context.counters.registrations_error += 1
        logger.exception("request %s of %s failed", with_name(command.code, RequestCode), connection.address)
        return context.replies.system_error(opaque, f"{type(error).__name__}: {error}")


def _check_sender(command: Command, connection: Peer) -> None:
    """Refuse a request whose connection has closed (SenderGone), if it is a sign of life or older than 0.1 s.

    A process that was paused reads such requests when it goes on. Nobody waits for the answers, and the senders may
    have ended, or have sent newer requests that contradict these to another front end.
    """
    late = connection.said_ago_s > _LATE_S
    if (late and connection.has_hung_up()) or (command.code in _SIGNS_OF_LIFE and connection.hung_up):
        raise SenderGone("its connection closed before it was stored; nothing was changed")
