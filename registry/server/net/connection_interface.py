"""The interface of a connection for this folder's modules; :mod:`mqregistry.server.net.connection` implements it."""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod

from ...protocol.command import Command
from ...protocol.watch import WatchAnswer
from ..auth.peer import Peer
from ..counting.counters import Closed
from ..counting.lookup_samples import KnownLookups
from ..requests.context import RequestContext
from ..requests.writes import Write
from ..view.drains import RoutesAsked


class OpenConnection(Peer, asyncio.Protocol):
    """One connection, from its opening until it is lost."""

    __slots__ = ("active_at_s", "asked", "frame_since_s", "known", "lost", "paused_at_s", "unread_bytes")

    def __init__(self, context: RequestContext, known: KnownLookups, now_s: float) -> None:
        super().__init__(context.channels.new_channel())
        self.known = known  # answers the lookups that it knows by their bytes
        self.asked = RoutesAsked()  # the routes that it looked up
        self.active_at_s = now_s  # when its last bytes came
        self.paused_at_s: float | None = None  # since when it does not read
        self.frame_since_s: float | None = None  # when its unfinished frame began or grew; inf while it does not read
        self.unread_bytes = 0  # bytes of answers that the client had not read at the last measure()
        self.lost = False

    @property
    @abstractmethod
    def reads_much(self) -> bool:
        """Whether its large frame may be read now; only few connections may send one at a time."""

    @abstractmethod
    def measure(self) -> None:
        """Measure the bytes of answers that the client has not read."""

    @abstractmethod
    def stalled_bytes(self, before_s: float) -> int:
        """Bytes of a frame that began before this time, and unread answers of a client that was silent since then."""

    @abstractmethod
    def abort(self, closed_as: Closed, reason: str, level: int = logging.WARNING) -> None:
        """Close the connection at once; the reason is logged."""

    @abstractmethod
    def drop(self, reason: str) -> None:
        """Close the connection at once, and free all that it holds, also its writes in progress."""

    @abstractmethod
    def hold_watch(self, size: int) -> None:
        """Account for the bytes that a held route watch takes; 0: none is held.

        Raises:
            RemoteProtocolError: with it, the client's address would hold more memory than its share.
        """

    @abstractmethod
    def answer_watch(self, opaque: int, answer: WatchAnswer | None) -> None:
        """Answer a route watch that was held, unless the connection is gone; None: with GO_AWAY (1500)."""

    @abstractmethod
    def queue(self, write: Write, command: Command, opaque: int, frame_bytes: int) -> None:
        """Execute and answer a write after all earlier writes of this connection."""

    @abstractmethod
    def write_done(self, command: Command, answer: bytes) -> None:
        """Send the answer of a write; if reading was paused, resume it when few writes are left."""

    @abstractmethod
    def writes_done(self) -> None:
        """Called when no write is left, or when the connection was dropped while one was executed."""
