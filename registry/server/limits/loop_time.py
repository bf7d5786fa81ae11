"""Shares the event loop's time among addresses: an address that has used its share waits while others are served."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from .token_buckets import SECOND_NS, TokenBuckets

PART: Final = 4
"""One address gets 1/PART of the loop's time in the long run, and may use ``AT_ONCE_S`` of this time at once."""
AT_ONCE_S: Final = 0.05
"""The time that one address may use without a pause."""
SLICE_S: Final = 0.005
"""A connection works for this time before it checks whether its address has time left."""
_MOST_ADDRESSES: Final = 8192


class Waiter(Protocol):
    """A connection that waits until its address has time, or until the tables are read."""

    @property
    def host(self) -> str:
        """The client's address without its port."""

    def go_on(self) -> None:
        """The wait is over: answer the waiting requests, and resume reading."""


class Slice:
    """Measures the work that a connection does without a pause, and says when the connection must wait."""

    __slots__ = ("_account", "_first", "_since_ns", "_time")

    def __init__(self, loop_time: LoopTime, account: str, now_ns: int) -> None:
        self._time, self._account, self._since_ns, self._first = loop_time, account, now_ns, True

    def is_over(self) -> bool:
        """Whether the address has used its share of the time: checked at the start, and after each slice."""
        if self._first:
            self._first = False
            return not self._time.has(self._account, self._since_ns)
        now_ns = self._time.now_ns()
        if now_ns - self._since_ns < SLICE_S * SECOND_NS:
            return False
        self.end(now_ns)
        return not self._time.has(self._account, now_ns)

    def end(self, now_ns: int = 0) -> None:
        """Count the time of the work so far for its address."""
        now_ns = now_ns or self._time.now_ns()
        self._time.spent(self._account, now_ns - self._since_ns, now_ns)
        self._since_ns = now_ns


class LoopTime:
    """The time of one worker's event loop, by address.

    Args:
        limited_account: gives the account of a host: the address, or the network, under which it is counted; "" = the
            host has no limit.
        later: calls a function after a number of seconds.
    """

    def __init__(
        self, limited_account: Callable[[str], str], later: Callable[[float, Callable[[], None]], object],
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:  # fmt: skip
        self._account_of = limited_account
        self._later = later
        self.now_ns = clock_ns  # the clock of all measurements
        self._buckets = TokenBuckets(SECOND_NS, PART * AT_ONCE_S, _MOST_ADDRESSES)
        self._waiting: dict[str, deque[Waiter]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def begin(self, host: str) -> Slice | None:
        """Begin to work for this host; None: it has no limit."""
        account = self._account_of(host)
        return Slice(self, account, self.now_ns()) if account else None

    def has(self, account: str, now_ns: int) -> bool:
        """Whether this account has time left, and none of its connections waits."""
        return account not in self._waiting and self._buckets.has_token(account, now_ns)

    def spent(self, account: str, spent_ns: int, now_ns: int) -> None:
        """Count the time that work for this account took."""
        self._buckets.take(account, now_ns, for_ns=PART * spent_ns)

    def worked(self, host: str, spent_ns: int) -> None:
        """Count work for this host that ran in a task of its own, unless the host has no limit."""
        account = self._account_of(host)
        if account:
            self.spent(account, spent_ns, self.now_ns())

    def wait(self, waiter: Waiter) -> None:
        """Queue a connection behind the waiting connections of its address; resume it when the address has time."""
        account = self._account_of(waiter.host)
        waiting = self._waiting.get(account)
        if waiting is not None:
            waiting.append(waiter)
            return
        self._waiting[account] = deque((waiter,))
        self._arm(account)

    def _arm(self, account: str) -> None:
        self._later(self._buckets.empty_s(account, self.now_ns()), lambda: self._go_on(account))

    def _go_on(self, account: str) -> None:
        waiting = self._waiting.pop(account)
        if waiting and self._buckets.has_token(account, self.now_ns()):
            waiting.popleft().go_on()  # if the connection calls wait() again, it comes after the others
        waiting += self._waiting.get(account, ())
        if waiting:
            first = account not in self._waiting
            self._waiting[account] = waiting
            if first:
                self._arm(account)
