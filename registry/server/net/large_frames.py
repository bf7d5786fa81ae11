"""Decides which connections may send a large frame now: a few at a time; the others are not read meanwhile.

When many brokers register at once, all frames that are read wait in memory for Redis. Memory that the process has not
used before costs more time than the work on the frames (some microseconds a page in a virtual machine), and displaces
the tables from the processor's caches. If frames wait in the sockets, all registrations take a sixth less time.

The large frames of one address must also have room in the address's share of the memory: otherwise a peer that sends
only the beginnings of frames would fill the memory. Frames without room wait in the sockets.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from .small_reads import SMALL_READ_BYTES

LARGE_FRAME_BYTES: Final = 2 * SMALL_READ_BYTES
"""Frames of at least this size take turns."""

TURN_BYTES: Final = 3 << 20
"""Several senders have a turn at the same time if their frames together are no larger than this."""
AT_ONCE: Final = 3
"""This many senders may have a turn at the same time, however large their frames are."""
PATIENCE_S: Final = 1.0
# Senders that have waited longer than PATIENCE_S may exceed TURN_BYTES by this factor.
_LATE: Final = 4


class _Sender(NamedTuple):
    """A connection that sends a large frame of ``size`` bytes, which counts for the share of ``address``."""

    address: str
    size: int
    go_on: Callable[[], None]


class _Crowd:
    """The senders of one address that wait for room: smaller frames come first, so a huge frame delays no other."""

    def __init__(self) -> None:
        self._by_length: dict[int, dict[object, _Sender]] = {}  # bit length of the size -> senders, the oldest first

    def __bool__(self) -> bool:
        return bool(self._by_length)

    def add(self, sender: object, entered: _Sender) -> None:
        self._by_length.setdefault(entered.size.bit_length(), {})[sender] = entered

    def remove(self, sender: object, entered: _Sender) -> bool:
        """Remove a sender; returns whether it was here."""
        alike = self._by_length.get(entered.size.bit_length(), {})
        if alike.pop(sender, None) is None:
            return False
        if not alike:
            del self._by_length[entered.size.bit_length()]
        return True

    def first(self) -> tuple[object, _Sender]:
        return next(iter(self._by_length[min(self._by_length)].items()))


class LargeFrames:
    """The senders that have a turn, and those that wait for one, in the order in which they came.

    A turn ends when the frame is answered, at the latest after ``patience_s``. If a turn lasted that long, then for a
    while no sender waits longer than ``patience_s``, if there is memory for its frame: so a slow or stuck sender delays
    others by no more. Only senders of the same address may wait longer, for room in their share: a frame takes room
    from its beginning until it is answered or its sender is gone.

    Args:
        now: a clock in seconds; may be coarse.
        at_once, turn_bytes, patience_s: see ``AT_ONCE``, ``TURN_BYTES``, ``PATIENCE_S``.
        share_bytes: the most bytes of one address's large frames together; a single frame may be larger.
        room_bytes: gives the memory that is left for senders that have waited longer than ``patience_s``.
    """

    def __init__(
        self, now: Callable[[], float], *, at_once: int = AT_ONCE, turn_bytes: int = TURN_BYTES,
        patience_s: float = PATIENCE_S, share_bytes: float = math.inf,
        room_bytes: Callable[[], float] = lambda: math.inf,
    ) -> None:  # fmt: skip
        self._now = now
        self._patience_s = patience_s
        self._share_bytes = share_bytes
        self._room_bytes = room_bytes
        self._most_bytes = turn_bytes // at_once  # a larger frame counts as one of this size
        self._left_bytes = self._turn_bytes = turn_bytes
        self._stuck_at_s = -math.inf  # when a turn last lasted too long
        self._turns: dict[object, tuple[float, int]] = {}  # sender -> when its turn began, and its bytes in the limit
        self._waiting: dict[object, tuple[float, _Sender]] = {}
        self._with_address: dict[object, _Sender] = {}
        self._bytes: dict[str, int] = {}  # address -> bytes of its frames that have room
        self._without_room: dict[str, _Crowd] = {}

    @property
    def crowded(self) -> list[str]:
        """The addresses with a sender that waits because other senders have used up the address's share."""
        return list(self._without_room)

    def enter(self, sender: object, go_on: Callable[[], None], address: str = "", size: int = 0) -> bool:
        """Ask for a turn, because a sender has begun a large frame.

        Args:
            go_on: called once when its turn comes later.
            address: the frame counts for its share; "" = the frame needs no room in a share.
            size: the size of the frame in bytes.

        Returns:
            whether the sender has a turn at once.
        """
        entered = _Sender(address, size, go_on)
        if address:
            self._with_address[sender] = entered
            if not self._has_room(entered):
                self._without_room.setdefault(address, _Crowd()).add(sender, entered)
                return False
        return self._admit(sender, entered)

    def leave(self, sender: object) -> None:
        """Give turn and room back: the frame is answered, or the sender is gone. Does nothing if it never entered."""
        self._waiting.pop(sender, None)
        if self._end_turn(sender):
            self._next()
        entered = self._with_address.pop(sender, None)
        if entered is not None:
            self._give_room_back(sender, entered)

    def tick(self) -> None:
        """End turns that last too long, and let senders go on that waited too long. Call it regularly."""
        late = self._now() - self._patience_s
        for sender in [sender for sender, (since, _) in self._turns.items() if since <= late]:
            self._end_turn(sender)
            self._stuck_at_s = self._now()
        self._next()
        if self._stuck_at_s < late:
            return  # no turn lasted too long lately: the other senders get their turns soon
        room_bytes = min(self._room_bytes(), _LATE * self._turn_bytes)
        for sender in [sender for sender, (since, _) in self._waiting.items() if since <= late]:
            size = self._waiting[sender][1].size
            if size <= room_bytes:
                room_bytes -= size
                self._waiting.pop(sender)[1].go_on()

    def _has_room(self, entered: _Sender) -> bool:
        taken = self._bytes.get(entered.address, 0)
        return not taken or taken + entered.size <= self._share_bytes

    def _admit(self, sender: object, entered: _Sender) -> bool:
        address = entered.address
        if address:
            self._bytes[address] = self._bytes.get(address, 0) + entered.size
        if not self._waiting and self._begin_turn(sender, entered):
            return True
        self._waiting[sender] = self._now(), entered
        return False

    def _begin_turn(self, sender: object, entered: _Sender) -> bool:
        counts = min(entered.size, self._most_bytes)
        if counts > self._left_bytes:
            return False
        self._left_bytes -= counts
        self._turns[sender] = self._now(), counts
        return True

    def _end_turn(self, sender: object) -> bool:
        """End the turn of a sender; returns whether it had one."""
        turn = self._turns.pop(sender, None)
        if turn is None:
            return False
        self._left_bytes += turn[1]
        return True

    def _give_room_back(self, sender: object, entered: _Sender) -> None:
        address = entered.address
        crowd = self._without_room.get(address)
        if crowd is None or not crowd.remove(sender, entered):
            self._bytes[address] -= entered.size
            if not self._bytes[address]:
                del self._bytes[address]
        while crowd:
            first, waits = crowd.first()
            if not self._has_room(waits):
                return
            crowd.remove(first, waits)
            if self._admit(first, waits):
                waits.go_on()
        if not self._without_room.get(address, True):
            del self._without_room[address]

    def _next(self) -> None:
        while self._waiting:
            sender, (_, entered) = next(iter(self._waiting.items()))
            if not self._begin_turn(sender, entered):
                return
            del self._waiting[sender]
            entered.go_on()
