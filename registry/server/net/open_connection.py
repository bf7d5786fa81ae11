"""What the rest of this room knows of a connection; :mod:`mqregistry.server.net.connection` is one."""

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
        self.active_at_s = now_s  # of its last bytes
        self.paused_at_s: float | None = None  # since when it does not read
        self.frame_since_s: float | None = None  # when its unfinished frame began, or last made progress
        self.unread_bytes = 0  # of answers, when it was last measured
        self.lost = False

    @property
    @abstractmethod
    def reads_much(self) -> bool:
        """Whether it has a turn to send a large frame."""

    @abstractmethod
    def measure(self) -> None:
        """Look how much of its answers the client has not read."""

    @abstractmethod
    def stalled_bytes(self, before_s: float) -> int:
        """What is held of a frame that began before this time, and of answers if the client did nothing since then."""

    @abstractmethod
    def abort(self, closed_as: Closed, reason: str, level: int = logging.WARNING) -> None:
        """Close the connection at once; the reason is logged."""

    @abstractmethod
    def drop(self, reason: str) -> None:
        """Hang up now, and let go of all that this connection holds, also of requests that are being worked on."""

    @abstractmethod
    def hold_watch(self, size: int) -> None:
        """Account for the bytes that a held route watch takes; 0: none is held.

        Raises:
            RemoteProtocolError: its address holds more than its share with it.
        """

    @abstractmethod
    def answer_watch(self, opaque: int, answer: WatchAnswer | None) -> None:
        """Answer a route watch that was held, unless the connection is gone; None tells the client to go away."""

    @abstractmethod
    def queue(self, write: Write, command: Command, opaque: int, frame_bytes: int) -> None:
        """Have a write done after those before it, and answered."""

    @abstractmethod
    def write_done(self, command: Command, answer: bytes) -> None:
        """A write has its answer: send it, and read on when few are left."""

    @abstractmethod
    def writes_done(self) -> None:
        """None is left, or the connection was dropped while one was worked on."""
