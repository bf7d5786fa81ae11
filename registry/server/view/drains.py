"""Tells which clients still have an old route after a broker name's write permission was taken.

Each connection remembers the routes that its client looked up. When the write permission of a broker name is taken, the
connections with a route that has this name are noted, with the topics. A connection is done when its client has looked
up all these topics again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, Protocol

from ...drain import DRAIN_SEEN_MS, DrainFacts
from ...events.changes import BrokerChange, WritePermSet
from ...model import PERM_WRITE
from .route_answers import KeptAnswer, RouteAnswers
from .view import Applied, View

MOST_ASKED: Final = 500_000
"""The most routes that all connections of a worker remember together: about 30 MB."""
_NAMES_MOST: Final = 20
_ADDRESSES_MOST: Final = 20


class RoutesAsked:
    """The routes that one connection looked up. ``note``: called with the route of each lookup.

    ``note`` only appends to a list; ``routes`` makes a set of it later. With thousands of connections, a set would
    rarely be in a cache of the processor.
    """

    __slots__ = ("_new", "_routes", "forgets", "note")

    def __init__(self) -> None:
        self._routes = set[KeptAnswer]()
        self._new: list[KeptAnswer] = []
        self.note: Callable[[KeptAnswer], object] = self._new.append
        self.forgets = False

    @property
    def routes(self) -> set[KeptAnswer]:
        """All routes that were looked up."""
        if self._new:
            self._routes.update(self._new)
            self._new.clear()
        return self._routes

    def forget(self) -> None:
        """Forget all routes, and remember no more."""
        self._routes, self._new, self.forgets = set(), [], True
        self.note = deque[Any](maxlen=0).append


class DrainClient(Protocol):
    """A connection. ``active_at_s``: when data last came over it."""

    address: str
    asked: RoutesAsked
    active_at_s: float

    @property
    def lost(self) -> bool:
        """Whether the connection is closed."""


class _Drain:
    def __init__(self) -> None:
        self.seq = 0  # of the change that took the permission last
        self.waiting: dict[DrainClient, set[str]] = {}  # client -> topics
        self.closed: dict[str, float] = {}  # address of a client that left with an old route -> its active_at_s
        self.not_known = 0  # number of clients whose remembered routes were forgotten


class Drains:
    """The broker names whose write permission was taken, of one worker; listens to the view.

    Args:
        clients: the open connections. clock_s: the time of their ``active_at_s``.
    """

    def __init__(
        self,
        view: View,
        answers: RouteAnswers,
        clients: Callable[[], Collection[DrainClient]],
        clock_s: Callable[[], float],
    ) -> None:
        self._view = view
        self._answers = answers
        self._clients = clients
        self._clock_s = clock_s
        self._drains: dict[str, _Drain] = {}

    def applied(self, applied: Applied) -> None:
        """Begin a drain when a change takes the write permission; end it when the name gets it back, or is removed."""
        change = applied.change
        if isinstance(change, WritePermSet):
            taken = [topic for topic, data in change.topics.items() if not data.perm & PERM_WRITE]
            if taken:
                self._begin(change.broker_name, change.seq, taken)
            else:
                self._drains.pop(change.broker_name, None)
        elif isinstance(change, BrokerChange) and change.broker_name not in self._view.tables.brokers:
            self._drains.pop(change.broker_name, None)

    def _begin(self, name: str, seq: int, topics: Iterable[str]) -> None:
        """Note the clients that looked up these topics. Cost: O(connections + routes that they remember)."""
        drain = self._drains.pop(name, None) or _Drain()
        self._drains[name] = drain
        drain.seq, drain.not_known = seq, 0
        while len(self._drains) > _NAMES_MOST:
            del self._drains[next(iter(self._drains))]
        topic_of = {
            kept: topic for topic in topics for form in (self._answers.quoted, self._answers.bare)
            if (kept := form.get(topic)) is not None
        }  # fmt: skip
        for client in self._clients():
            routes = client.asked.routes
            held = topic_of.keys() & routes
            drain.not_known += client.asked.forgets
            if held:
                routes -= held
                drain.waiting.setdefault(client, set()).update(topic_of[kept] for kept in held)

    def look(self) -> dict[str, DrainFacts]:
        """How far each drain is, by broker name. Called with each renewal of the lease."""
        return {name: self._look(name, drain) for name, drain in self._drains.items()}

    def _look(self, name: str, drain: _Drain) -> DrainFacts:
        quoted, bare, tables = self._answers.quoted, self._answers.bare, self._view.tables
        after_s = self._clock_s() - DRAIN_SEEN_MS / 1000
        for client, topics in list(drain.waiting.items()):
            routes = client.asked.routes
            for topic in list(topics):
                data = tables.topics.get(topic, {}).get(name)
                fetched = quoted.get(topic) in routes or bare.get(topic) in routes
                if fetched or data is None or data.perm & PERM_WRITE:
                    topics.discard(topic)
            if not topics or client.lost:
                del drain.waiting[client]
            if topics and client.lost:
                drain.closed[client.address] = client.active_at_s
        drain.closed = {address: at_s for address, at_s in drain.closed.items() if at_s > after_s}
        open_ = [client.address for client in drain.waiting if client.active_at_s > after_s]
        addresses = sorted({*open_, *drain.closed})
        return DrainFacts(
            seq=drain.seq, waiting=len(addresses), addresses=addresses[:_ADDRESSES_MOST], not_known=drain.not_known
        )

    def bound(self) -> None:
        """Let connections forget their routes, those with the most routes first, until half of MOST_ASKED are left."""
        most = sorted(self._clients(), key=lambda client: -len(client.asked.routes))
        left = sum(len(client.asked.routes) for client in most)
        for client in most:
            if left <= MOST_ASKED // 2:
                break
            left -= len(client.asked.routes)
            client.asked.forget()
            for drain in self._drains.values():
                drain.not_known += drain.waiting.pop(client, None) is not None
