"""Holds route watches (ROUTE_WATCH, our extension in protocol/watch) until a route of their topics changes.

The same worker's view answers the client's next lookup, so that lookup shows the change that was announced.
A client that watches again gets what changed meanwhile, from a short history. If the history begins later, the answer
is that all its topics may have changed. The answer is the same if the view has loaded its tables again: Redis may have
lost changes, and given their numbers to other changes. No history is kept while no client watches.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection
from itertools import islice
from time import perf_counter
from typing import Final, NamedTuple, Protocol

from ...errors import RemoteProtocolError
from ...protocol.watch import TablesVersion, WatchAnswer, WatchRequest
from .view import Applied

# The longest time that a request is held: a connection that is idle for twice this time is closed.
MAX_HOLD_S: Final = 60.0
# The most topics in the history.
_HISTORY_TOPICS: Final = 100_000
# Clients are answered for this time, then the event loop serves other requests.
_TELL_S: Final = 0.001
# How many clients are answered before the time is checked.
AT_A_TIME: Final = 20
# A seq before every change in the history.
_BEFORE_ALL: Final = -1
# The most topics that all held requests of a worker may name: they take about 100 MB.
_HELD_TOPICS: Final = 1_000_000
# The bytes that a topic takes in two sets and a dict, without its name.
_TOPIC_BYTES: Final = 300


class Watcher(Protocol):
    """The connection of a client that watches."""

    def answer_watch(self, opaque: int, answer: WatchAnswer | None) -> None:
        """Send the answer, or code 1500 (GO_AWAY) for None; does nothing if the connection is closed."""

    def hold_watch(self, size: int) -> None:
        """Account for the bytes that a held request takes; 0: no request is held any more.

        Raises:
            RemoteProtocolError: the client's address holds too much.
        """


class _Held(NamedTuple):
    opaque: int
    topics: frozenset[str]
    until_s: float


class _Entry(NamedTuple):
    seq: int
    topics: frozenset[str]


class RouteWatches:
    """The held requests of one worker, at most one for each connection; listens to the view."""

    def __init__(self) -> None:
        self._epoch = ""
        self._seq = -1
        self._held: dict[Watcher, _Held] = {}
        self._held_topics = 0
        self._by_topic: dict[str, set[Watcher]] = {}
        self._watchers: set[Watcher] = set()  # every connection that has ever asked
        # The watchers that must be answered now -> the seq of the first change for them.
        self._due: dict[Watcher, int] = {}
        self._is_telling = False
        self._untold: set[Watcher] = set()  # watchers whose next answer is that all their topics may have changed
        self._history: deque[_Entry] = deque()
        self._history_topics = 0
        self._known_from = -1  # the history has every change after this seq

    def __len__(self) -> int:
        return len(self._held)

    def replaced(self, epoch: str, seq: int) -> None:
        """Take in that the view has loaded the tables again; ``epoch``, ``seq``: of these tables."""
        self._epoch, self._seq = epoch, seq
        self.all_changed()

    def all_changed(self) -> None:
        """Take in that every route may have changed."""
        self._forget_history()
        self._untold = set(self._watchers)
        self._due = dict.fromkeys(self._held, _BEFORE_ALL)
        self._tell()

    def applied(self, applied: Applied) -> None:
        """Take in a change of the view."""
        self.changed(applied.topics, applied.change.seq)

    def changed(self, topics: Collection[str], seq: int) -> None:
        """Take in that the change with this seq touched the routes of these topics."""
        self._seq = seq
        if not self._watchers:
            self._known_from = seq
            return
        if not topics:
            return
        if len(topics) > _HISTORY_TOPICS:
            self._forget_history()
        else:
            self._history.append(_Entry(seq, frozenset(topics)))
            self._history_topics += len(topics)
            while self._history_topics > _HISTORY_TOPICS:
                gone = self._history.popleft()
                self._history_topics -= len(gone.topics)
                self._known_from = gone.seq
        if self._by_topic:
            for topic in self._by_topic.keys() & topics:
                self._due.update(dict.fromkeys(self._by_topic[topic].difference(self._due), seq))
            self._tell()

    def watch(self, watcher: Watcher, request: WatchRequest, opaque: int, now_s: float) -> None:
        """Hold a request, or answer it at once.

        Raises:
            RemoteProtocolError: all clients, or the clients of this address, watch too much: the client then polls.
        """
        self._release(watcher)  # the new request replaces the held one
        self._watchers.add(watcher)
        since = request.since
        held = _Held(opaque, request.topics, now_s + min(request.hold_ms / 1000, MAX_HOLD_S))
        changed: frozenset[str] | None = frozenset()
        if since is not None:
            if since.epoch != self._epoch or watcher in self._untold:
                changed = None
            else:
                changed = self._changed_from(since.seq + 1, request.topics)
        if since is None or changed is None or changed:
            self._send(watcher, opaque, changed)
            return
        if self._held_topics + len(request.topics) > _HELD_TOPICS:
            raise RemoteProtocolError(f"all clients together watch more than {_HELD_TOPICS} topics: poll")
        watcher.hold_watch(_TOPIC_BYTES * len(request.topics) + sum(map(len, request.topics)))
        self._held_topics += len(request.topics)
        self._held[watcher] = held
        for topic in request.topics:
            self._by_topic.setdefault(topic, set()).add(watcher)

    def gone(self, watcher: Watcher) -> None:
        """Drop the request of a closed connection. If it was the last watcher, drop the history as well."""
        self._release(watcher)
        self._watchers.discard(watcher)
        self._untold.discard(watcher)
        if not self._watchers:
            self._forget_history()

    def expire(self, now_s: float) -> None:
        """Answer the requests whose hold time is over."""
        for watcher, held in self._held.items():
            if held.until_s <= now_s:
                self._due.setdefault(watcher, self._seq + 1)
        self._tell()

    def send_away(self) -> None:
        """Answer all held requests with code 1500 before a shutdown: the clients continue at another front end."""
        for watcher in list(self._held):
            held = self._release(watcher)
            assert held is not None
            watcher.answer_watch(held.opaque, None)

    def _tell(self) -> None:
        """Answer due watchers: some now, the others after the event loop has handled other requests."""
        if not self._is_telling:
            self._tell_some()

    def _tell_some(self) -> None:
        until_s = perf_counter() + _TELL_S
        while self._due:
            for watcher, first_seq in list(islice(self._due.items(), AT_A_TIME)):
                held = self._release(watcher)
                assert held is not None
                self._send(watcher, held.opaque, self._changed_from(first_seq, held.topics))
            if perf_counter() >= until_s:
                break
        self._is_telling = bool(self._due)
        if self._is_telling:
            asyncio.get_running_loop().call_soon(self._tell_some)

    def _changed_from(self, first_seq: int, topics: frozenset[str]) -> frozenset[str] | None:
        """Which of these topics changed with this seq or a later one; None: the history begins later."""
        if first_seq <= self._known_from:
            return None
        found: list[frozenset[str]] = []
        for entry in reversed(self._history):
            if entry.seq < first_seq:
                break
            found.append(entry.topics & topics)
        return frozenset().union(*found)

    def _send(self, watcher: Watcher, opaque: int, topics: frozenset[str] | None) -> None:
        self._untold.discard(watcher)
        answer = WatchAnswer(TablesVersion(self._epoch, self._seq), None if topics is None else tuple(sorted(topics)))
        watcher.answer_watch(opaque, answer)

    def _release(self, watcher: Watcher) -> _Held | None:
        self._due.pop(watcher, None)
        held = self._held.pop(watcher, None)
        if held is None:
            return None
        watcher.hold_watch(0)
        self._held_topics -= len(held.topics)
        for topic in held.topics:
            watchers = self._by_topic[topic]
            watchers.discard(watcher)
            if not watchers:
                del self._by_topic[topic]
        return held

    def _forget_history(self) -> None:
        self._history.clear()
        self._history_topics = 0
        self._known_from = self._seq
