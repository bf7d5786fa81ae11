"""Decides which connections may send a large frame now: a few at a time; the others are not read meanwhile.

When a whole fleet registers at once, everything that is read waits in memory for its registration. Memory that was
never used before costs more than the work on it (a page takes some microseconds in a virtual machine), and it displaces
the tables from the caches. When the frames wait in the sockets instead, the whole fleet takes a sixth less time.

Large frames of one address must also have room in its share of the memory, or a peer that sends only the beginnings of
frames would fill it. Frames without room wait in the sockets, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from .small_reads import SMALL_READ_BYTES

LARGE_FRAME_BYTES: Final = 2 * SMALL_READ_BYTES
"""Frames from this size on take turns."""

TURN_BYTES: Final = 3 << 20
"""Senders have a turn at the same time while their frames have at most this many bytes together."""
AT_ONCE: Final = 3
"""This many senders have a turn however large their frames are."""
PATIENCE_S: Final = 1.0
# Senders that waited longer than PATIENCE_S may exceed the limit of bytes by this factor.
_LATE: Final = 4


class _Sender(NamedTuple):
    """A connection that sends a large frame. address: whose share the frame counts for. size: of the frame in bytes."""

    address: str
    size: int
    go_on: Callable[[], None]


class _Crowd:
    """The senders of one address that wait for room: smaller frames come first, so a huge frame delays no other."""

    def __init__(self) -> None:
        self._by_length: dict[int, dict[object, _Sender]] = {}  # bit length of the size -> in the order they came

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

    A turn lasts until the frame is answered, but at most ``patience_s``. After a turn ended for its length, other
    senders wait at most ``patience_s``, too, if there is memory for their frames: so a slow or stuck sender delays
    others by no more. Only senders of the same address wait longer, for room in their share: a frame takes room from
    its beginning until it is answered or its sender is gone.

    Args:
        now: a clock in seconds; may be coarse.
        at_once: senders that have a turn, however large their frames are.
        turn_bytes: more senders have a turn if all their frames together are no larger than this.
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
        self._stuck_at_s = -math.inf  # when a turn last ended for its length
        self._turns: dict[object, tuple[float, int]] = {}  # since when, and the bytes that its frame counts as
        self._waiting: dict[object, tuple[float, _Sender]] = {}
        self._with_address: dict[object, _Sender] = {}
        self._bytes: dict[str, int] = {}  # address -> bytes of its frames that have room
        self._without_room: dict[str, _Crowd] = {}

    @property
    def waiting(self) -> int:
        """How many senders wait for a turn."""
        return len(self._waiting)

    @property
    def crowded(self) -> list[str]:
        """The addresses of which a sender waits because other senders have used up the address's share."""
        return list(self._without_room)

    def enter(self, sender: object, go_on: Callable[[], None], address: str = "", size: int = 0) -> bool:
        """Ask for a turn, because a sender has begun a large frame.

        Args:
            go_on: called once when its turn comes later.
            address: whose share the frame counts for; "" = no share bounds it.
            size: of the frame, in bytes.

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
        """Give the turn back: the frame is answered, or the sender is gone. Does nothing if it never entered."""
        self._waiting.pop(sender, None)
        if self._end_turn(sender):
            self._next()
        entered = self._with_address.pop(sender, None)
        if entered is not None:
            self._give_room_back(sender, entered)

    def tick(self) -> None:
        """End the turns that last too long. Call it regularly."""
        late = self._now() - self._patience_s
        for sender in [sender for sender, (since, _) in self._turns.items() if since <= late]:
            self._end_turn(sender)
            self._stuck_at_s = self._now()
        self._next()
        if self._stuck_at_s < late:
            return  # no sender was stuck lately: each gets its turn
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
