"""Decides which connections may send a large frame now: a few at a time; the others are not read meanwhile.

When a whole fleet registers at once, everything that is read waits in memory for its registration. Memory that was
never used before costs more than the work on it (a page takes some microseconds in a virtual machine), and it displaces
the tables from the caches. When the frames wait in the sockets instead, the whole fleet takes a sixth less time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

LARGE_FRAME_BYTES: Final = 256 * 1024
"""Frames from this size on take turns. About as much is read from a socket at a time."""

AT_ONCE: Final = 3
PATIENCE_S: Final = 1.0


class LargeFrames:
    """The senders that have a turn, and those that wait for one, in the order in which they came.

    A turn lasts until the frame is answered, but ``patience_s`` at most, and no sender waits for longer than that: one
    that is slow or stuck delays the others by no more.

    Args:
        now: a clock in seconds; may be coarse.
    """

    def __init__(self, now: Callable[[], float], *, at_once: int = AT_ONCE, patience_s: float = PATIENCE_S) -> None:
        self._now = now
        self._at_once = at_once
        self._patience_s = patience_s
        self._turns: dict[object, float] = {}
        self._waiting: dict[object, tuple[float, Callable[[], None]]] = {}

    @property
    def waiting(self) -> int:
        """How many senders wait for a turn."""
        return len(self._waiting)

    def enter(self, sender: object, go_on: Callable[[], None]) -> bool:
        """Ask for a turn, because a sender has begun a large frame.

        Args:
            go_on: called, once, when its turn comes later.

        Returns:
            whether the sender has a turn at once.
        """
        if len(self._turns) < self._at_once:
            self._turns[sender] = self._now()
            return True
        self._waiting[sender] = self._now(), go_on
        return False

    def leave(self, sender: object) -> None:
        """Give the turn back: the frame is answered, or the sender is gone. Does nothing if it never entered."""
        self._waiting.pop(sender, None)
        if self._turns.pop(sender, None) is not None:
            self._next()

    def tick(self) -> None:
        """End the turns that last too long. To be called every now and then."""
        late = self._now() - self._patience_s
        for sender in [sender for sender, since in self._turns.items() if since <= late]:
            del self._turns[sender]
        self._next()
        for sender in [sender for sender, (since, _) in self._waiting.items() if since <= late]:
            self._waiting.pop(sender)[1]()

    def _next(self) -> None:
        while self._waiting and len(self._turns) < self._at_once:
            sender = next(iter(self._waiting))
            _, go_on = self._waiting.pop(sender)
            self._turns[sender] = self._now()
            go_on()
