"""Bounds the bytes that clients make one worker hold, and decides whose connection goes when it is too much.

They are unfinished frames, requests that wait for Redis, and answers that nobody reads. Whoever fills the memory must
not keep others out: the largest holder goes, not the newcomer.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, Protocol

_SHARE: Final = 8
"""The part of the memory (one in so many) that one address may always have. It has more while nobody else needs it:
a whole fleet may come from one address, behind a balancer or a gateway."""
_ROOM: Final = 16
"""So much (one part in so many) is freed at a time: to look at all holders for each frame would cost too much."""


class Holder(Protocol):
    """A connection, as far as its memory is concerned."""

    @property
    def host(self) -> str:
        """The client's address without its port."""

    def drop(self, reason: str) -> None:
        """Hang up now, and give back all that it holds."""


class HeldMemory:
    """What all connections of a worker hold together.

    Args:
        limit_bytes: they hold no more than this.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.bytes = 0
        self._limit = limit_bytes
        self._held: dict[Holder, int] = {}  # the one that has held something for the longest time comes first

    def holds(self, holder: Holder, size: int) -> None:
        """Note how many bytes a connection holds now; drop others, or this one, when all together hold too much."""
        before = self._held.get(holder, 0)
        if size:
            self._held[holder] = size
        elif before:
            del self._held[holder]
        self.bytes += size - before
        if self.bytes > self._limit and size > before:
            self._make_room()

    def _make_room(self) -> None:
        by_host: Counter[str] = Counter()
        for holder, size in self._held.items():
            by_host[holder.host] += size
        share = self._limit // _SHARE
        # of those of one size, the one that has held it longest: the order of the dict stays
        for holder, size in sorted(self._held.items(), key=lambda one: (by_host[one[0].host] <= share, -one[1])):
            holder.drop(
                f"all clients together hold more than {self._limit} bytes of unfinished frames, waiting requests and "
                f"unread answers; it holds {size}, its address {by_host[holder.host]}"
            )
            if self.bytes <= self._limit - self._limit // _ROOM:
                return
