"""Which connections may send a large frame now: a few at a time, the others are not read meanwhile.

When a whole fleet registers at once, everything that is read waits in memory until its turn comes. Memory that was
never used before costs more than what is done with it (a page of it some microseconds in a virtual machine), and
throws the tables out of the caches: left in the sockets until somebody has time for it, a storm takes a sixth less.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

LARGE_FRAME_BYTES: Final = 256 * 1024
"""A frame from this size on waits for its turn; about what is read at a time."""

AT_ONCE: Final = 3
PATIENCE_S: Final = 1.0


class LargeFrames:
    """Who has the turn, and who waits for it, in the order in which they came.

    A turn lasts until the frame is answered. It is a courtesy, not a lock: after ``patience_s`` it is taken away, and
    who has waited that long goes on, so that a sender that is slow, or stuck, holds up nobody for longer.

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
        """How many wait."""
        return len(self._waiting)

    def enter(self, sender: object, go_on: Callable[[], None]) -> bool:
        """A sender has begun with a large frame.

        Args:
            go_on: called, once, when its turn has come.

        Returns:
            whether it has come already.
        """
        if len(self._turns) < self._at_once:
            self._turns[sender] = self._now()
            return True
        self._waiting[sender] = self._now(), go_on
        return False

    def leave(self, sender: object) -> None:
        """Its frame is answered, or it has gone; nothing happens if it never entered."""
        self._waiting.pop(sender, None)
        if self._turns.pop(sender, None) is not None:
            self._next()

    def tick(self) -> None:
        """To be called every now and then: ends turns that last too long."""
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
