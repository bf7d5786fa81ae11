"""Knows which connection of this worker each broker uses, and reports closed connections of brokers to Redis."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Iterator
from typing import NamedTuple

from ...errors import RegistryError, StoreUnavailable
from ...events.by import ANONYMOUS, By
from ...events.changes import BrokerExpired
from ...networks import why_unreachable
from ...store.leases import opened_now
from ...store.processes import PeerAddress
from ...store.route_writes import Channel, RouteStore
from ...tasks import cancelled, pause
from ..auth.caller import Caller
from ..auth.peer import Peer
from ..counting.counters import Closed, cause_of
from .view import Applied

logger = logging.getLogger(__name__)

_RETRY_S = (0.1, 0.2, 0.5, 1.0)
# A close that could not be reported within this time removes no broker: the broker may be back.
_LATE_S = 1.0
# The most brokers with an unreachable address that are noted in Redis, and that are logged.
_UNREACHABLE_MOST = 10
_TOLD_MOST = 1000


def _unreachable(who: str, connection: Peer) -> str:
    addr = who.rpartition("|")[2]
    why = why_unreachable(addr, connection.address)
    return f"a broker registers as {addr}, {why}, over a connection from {connection.address}" if why else ""


class _Close(NamedTuple):
    """A connection of a broker closed at ``at_s`` (time.perf_counter()).

    ``cause``: why the broker is removed; "" = the close is no reason to remove it.
    """

    who: str
    channel: Channel
    cause: str
    by: By
    at_s: float


class ChannelOwner:
    """The brokers of this worker's connections; listens to the view. A *channel* is a connection's name in Redis.

    A broker belongs to the connection of its last registration. A heartbeat without registration (322, 904) assigns it
    to a connection only if no other connection of this worker has it. ``changed`` counts changes of brokers'
    connections. ``attached`` is not set while Redis may have lost the channels. ``renewed`` is up_since_ms and now_ms
    of the last lease renewal, "" before the first.

    Args:
        front_end, incarnation: names of the front end and of this worker process in Redis.
        name: of the front end, in events.
    """

    def __init__(self, routes: RouteStore, front_end: str, incarnation: str, name: str = "") -> None:
        self.front_end = front_end
        self._name = name or None
        self.incarnation = incarnation
        self._routes = routes
        self._owners: dict[str, Peer] = {}
        self._registered_at: dict[str, int] = {}  # who -> seq of its last registration
        self._held: dict[Peer, set[str]] = {}
        self._closes: asyncio.Queue[_Close] = asyncio.Queue()
        self.renewed: tuple[int | str, int | str] = "", ""
        self._untellable_s = 0.0  # when a report of a close to Redis last failed
        self._untold: dict[tuple[str, str], None] = {}  # closes that Redis does not know of yet
        self.attached = asyncio.Event()
        self.attached.set()
        self._connections = 0
        self.changed = 0
        self._unreachable: tuple[int, list[str]] = (0, [])
        self._told_unreachable: set[str] = set()
        self._telling = True

    def __len__(self) -> int:
        return len(self._owners)

    def new_channel(self) -> Channel:
        """Name a new connection; the opening time in the name tells which connection of two workers is younger."""
        self._connections += 1
        return Channel(self.front_end, f"{self.incarnation}/{self._connections}{opened_now()}")

    def by(self, connection: Peer, caller: Caller | None) -> By:
        """The author of events that a request over this connection, or its end, causes. ``caller``: the sender."""
        how, user = (str(caller.how), caller.name) if caller is not None and caller.name else (ANONYMOUS, None)
        return By(how, user, connection.address, connection.via or None, self._name)

    def registered(self, who: str, connection: Peer, seq: int) -> None:
        """Make the connection over which this broker registered its channel."""
        connection.heard_s = time.perf_counter()
        if self._owners.get(who) is not connection:
            self._owners[who] = connection
            self.changed += 1
        self._registered_at[who] = seq
        self._held.setdefault(connection, set()).add(who)

    def touched(self, who: str, connection: Peer) -> None:
        """Note a broker's heartbeat without registration over this connection."""
        connection.heard_s = time.perf_counter()
        if who not in self._owners:
            self._owners[who] = connection
            self.changed += 1
        self._held.setdefault(connection, set()).add(who)

    def closed(self, connection: Peer) -> None:
        """Take the channel from every broker of this connection: it is closed, and its last write is done."""
        for who in self._held.pop(connection, ()):
            if self._owners.get(who) is connection:
                del self._owners[who]
                self.changed += 1
                self._registered_at.pop(who, None)
            if self._telling:
                self._untold[who, connection.channel.value] = None
                by = self.by(connection, connection.last_caller)
                cause = cause_of(connection.closed_as, was_reset=connection.was_reset)
                self._closes.put_nowait(_Close(who, connection.channel, cause, by, time.perf_counter()))

    def stop_telling(self) -> None:
        """Report no more closed connections to Redis: this worker shuts down, its brokers do not."""
        self._telling = False

    def applied(self, applied: Applied) -> None:
        """Take the connection from an expired broker, unless it has registered since.

        Close the connection if no other broker uses it (docs/differences.md D30).
        """
        change = applied.change
        if not isinstance(change, BrokerExpired) or change.who is None:
            return
        who = change.who
        connection = self._owners.get(who)
        if connection is None or self._registered_at.get(who, -1) >= change.seq:
            return
        del self._owners[who]
        self.changed += 1
        self._registered_at.pop(who, None)
        held = self._held[connection]
        held.discard(who)
        if not any(self._owners.get(other) is connection for other in held):
            connection.close(Closed.BROKER_EXPIRED, f"the broker {who} expired")

    def replaced(self, *, has_lost: bool) -> None:
        """Note that the view was read again, from a Redis that may have lost this worker's channels."""
        if has_lost:
            self.attached.clear()

    def channels(self) -> list[tuple[str, str]]:
        """(who, channel value) of every broker that Redis is to know with a channel here."""
        return [*((who, connection.channel.value) for who, connection in self._owners.items()), *self._untold]

    def peers(self) -> Iterator[tuple[str, PeerAddress]]:
        """Each broker (who) with a connection here, and the addresses of that connection."""
        return ((who, PeerAddress(connection.address, connection.via)) for who, connection in self._owners.items())

    def unreachable(self) -> list[str]:
        """The first brokers whose address clients can hardly reach, each with the reason."""
        if self._unreachable[0] != self.changed:
            told = (_unreachable(who, connection) for who, connection in self._owners.items())
            self._unreachable = self.changed, list(itertools.islice(filter(None, told), _UNREACHABLE_MOST))
        return self._unreachable[1]

    def tell_unreachable(self, who: str, connection: Peer) -> None:
        """Log, once for each broker, that clients can hardly reach its address."""
        told = _unreachable(who, connection)
        if told and who not in self._told_unreachable and len(self._told_unreachable) < _TOLD_MOST:
            self._told_unreachable.add(who)
            logger.warning("%s; set brokerIP1 in its broker.conf", told)

    @property
    def closes_pending(self) -> int:
        """How many closes Redis does not know of yet."""
        return len(self._untold)

    async def tell_closes(self) -> None:
        """Report closed connections to Redis, in order, each until Redis has it. Runs until cancelled."""
        while not cancelled():
            close = await self._closes.get()
            attempt = 0
            while not cancelled() and not await self._tell(close):
                self._untellable_s = time.perf_counter()
                await pause(_RETRY_S[min(attempt, len(_RETRY_S) - 1)])
                attempt += 1
            self._untold.pop((close.who, close.channel.value), None)
            self._closes.task_done()

    async def _tell(self, close: _Close) -> bool:
        """Try once to report a close; False: Redis is away, try again."""
        if not self.attached.is_set():  # a Redis that lost changes would not know this channel
            await self.attached.wait()
            self._untellable_s = time.perf_counter()
        who = close.who
        is_late = close.at_s < self._untellable_s and time.perf_counter() - close.at_s > _LATE_S
        try:
            outcome = await self._routes.channel_destroyed(
                who, close.channel, "" if is_late else close.cause, up_since_ms=self.renewed[0], by=close.by
            )
        except StoreUnavailable:
            return False
        except RegistryError:
            logger.exception("cannot tell Redis that the channel of broker %s closed; given up", who)
            return True
        if outcome == "REMOVED":
            logger.info("the broker's channel is destroyed, %s is removed at once", who)
        elif outcome == "KEPT":
            logger.info("a channel of broker %s closed here, it is kept: it has another channel, or may come back", who)
        return True

    async def closes_told(self) -> None:
        """Return once Redis knows of every close so far."""
        await self._closes.join()
