"""Limits the memory that clients make one worker hold, and decides which connections to drop when they hold too much.

A connection holds unfinished frames, requests that wait for Redis, and answers that its client has not read. A peer
that fills the memory must not keep others out: the connection that holds most is dropped, not the newest. Each address
has a share: if it holds more, its connections that make no progress are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Final

from ...protocol.command import Command
from .connection_interface import OpenConnection

SHARE: Final = 8
"""The share of one address is the memory divided by this."""
STALLED_S: Final = 3.0
"""A connection makes no progress if for this time its frame has hardly grown, or its client sent nothing and has not
read all answers."""
_ROOM: Final = 16
"""When all together hold too much, 1 / _ROOM of the memory is freed, so that not each frame causes a search."""
# A header takes more memory once it is decoded: up to four bytes a character, and two objects for each field.
_CHARACTER_BYTES: Final = 4
_FIELD_BYTES: Final = 160


def request_bytes(command: Command, frame_bytes: int) -> int:
    """The bytes that a waiting request holds, from the size of its frame."""
    body_bytes = len(command.body)
    return body_bytes + _CHARACTER_BYTES * (frame_bytes - body_bytes) + _FIELD_BYTES * len(command.ext_fields or ())


class HeldMemory:
    """The memory that all connections of a worker hold together.

    Args:
        limit_bytes: they hold no more than this.
        account_of: gives the account of a host: the address, or the network, under which it is counted.
        limited_account: the same, but "" for a host without limits, which has no share.
    """

    def __init__(
        self, limit_bytes: int, account_of: Callable[[str], str] = str, limited_account: Callable[[str], str] = str
    ) -> None:
        self.bytes = 0
        self.share_bytes = limit_bytes // SHARE
        self._limit = limit_bytes
        self._account_of = account_of
        self._limited_account = limited_account
        self._held: dict[OpenConnection, int] = {}  # the connection that has held bytes longest comes first
        self._accounts: dict[OpenConnection, str] = {}
        self._by_account: dict[str, int] = {}

    @property
    def room_bytes(self) -> int:
        """How many more bytes may be held until half of the memory is used."""
        return self._limit // 2 - self.bytes

    def holds(self, holder: OpenConnection, size: int) -> None:
        """Note how many bytes a connection holds now; drop others, or this one, when all together hold too much."""
        before = self._held.get(holder, 0)
        if size == before:
            return
        account = self._accounts.get(holder)
        if account is None:  # kept from now on: a PROXY header may change the host later
            account = self._accounts[holder] = self._account_of(holder.host)
        left = self._by_account[account] = self._by_account.get(account, 0) + size - before
        if not left:
            del self._by_account[account]
        if size:
            self._held[holder] = size
        else:
            del self._held[holder], self._accounts[holder]
        self.bytes += size - before
        if self.bytes > self._limit and size > before:
            self._make_room()

    def has_room(self, holder: OpenConnection, more: int) -> bool:
        """Whether the address of this connection may hold ``more`` bytes; an address without limits always may."""
        account = self._limited_account(holder.host)
        return not account or self._by_account.get(account, 0) + more <= self.share_bytes

    def tick(self, now_s: float, crowded: Container[str] = ()) -> None:
        """Drop connections that make no progress, of addresses beyond their share: the largest first, then the oldest.

        Call it regularly.

        Args:
            crowded: addresses with a sender that waits for room in its address's share: all their connections without
                progress are dropped.
        """
        if self.bytes <= self.share_bytes and not crowded:
            return
        by_account, stalled = self._by_account, []
        for holder, of in self._accounts.items():
            account = self._limited_account(holder.host) and of
            if account and (by_account[account] > self.share_bytes or account in crowded):
                stalled_bytes = holder.stalled_bytes(now_s - STALLED_S)
                if stalled_bytes:
                    stalled.append((stalled_bytes, account, holder))
        for _, account, holder in sorted(stalled, key=lambda one: -one[0]):
            size = self._held.get(holder, 0)
            held = by_account.get(account, 0)
            if size and (held > self.share_bytes or account in crowded):
                holder.drop(
                    f"{account} holds {held} bytes of unfinished frames, waiting requests and unread "
                    f"answers, its share is {self.share_bytes}; it holds {size}, and made no progress for "
                    f"{STALLED_S:g} s"
                )

    def _make_room(self) -> None:
        by_account, share_bytes = dict(self._by_account), self.share_bytes

        def rank(one: tuple[OpenConnection, int]) -> tuple[bool, int]:
            return by_account[self._accounts[one[0]]] <= share_bytes, -one[1]

        # among equal sizes, the connection that has held bytes longest comes first: the sort keeps the dict's order
        for holder, size in sorted(self._held.items(), key=rank):
            holder.drop(
                f"all clients together hold more than {self._limit} bytes of unfinished frames, waiting requests and "
                f"unread answers; it holds {size}, its address {by_account[self._accounts[holder]]}"
            )
            if self.bytes <= self._limit - self._limit // _ROOM:
                return
