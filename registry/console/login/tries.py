"""Limits how often one address may try wrong secrets, and slows down tries as one user from all addresses."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from ipaddress import IPv6Address
from typing import Any, Final

from ...networks import Address

MOST_TRIES: Final = 10
WITHIN_S: Final = 600.0
# After too many wrong tries as a user, further tries wait this long, except from addresses where the user logged in.
SLOW_S: Final = 3.0
_MOST: Final = 10_000  # addresses, users, and both together
_IPV6_HOST_BITS: Final = 64  # one customer has all of these addresses


class Tries:
    """Tries that failed, by address; all unknown addresses count as one.

    A success resets no count, or else somebody with one secret could try others without end.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed: OrderedDict[int | None, deque[float]] = OrderedDict()
        self._of_user: OrderedDict[str, deque[float]] = OrderedDict()
        self._let_in: OrderedDict[tuple[str, int | None], None] = OrderedDict()

    def wait_s(self, source: Address | None) -> float:
        """How long until this address may try again; 0: now."""
        failed = self._failed.get(_key(source))
        if failed is None:
            return 0.0
        now = self._clock()
        while failed and failed[0] <= now - WITHIN_S:
            failed.popleft()
        return failed[0] + WITHIN_S - now if len(failed) >= MOST_TRIES else 0.0

    def slow_s(self, source: Address | None, user: str) -> float:
        """How long a try as this user from this address waits before it is checked; it is never refused for this."""
        failed = self._of_user.get(user) or deque()
        many = len(failed) >= MOST_TRIES and failed[0] > self._clock() - WITHIN_S
        return SLOW_S if many and (user, _key(source)) not in self._let_in else 0.0

    def let_in(self, source: Address | None, user: str) -> None:
        """Note that a try as this user from this address was right."""
        self._let_in[user, _key(source)] = None
        _keep_newest(self._let_in, (user, _key(source)))

    def failed(self, source: Address | None, user: str = "") -> None:
        """Note that a try from this address was wrong. ``user``: the user whose name was given; "": no user has it."""
        if user:
            self._of_user.setdefault(user, deque(maxlen=MOST_TRIES)).append(self._clock())
            _keep_newest(self._of_user, user)
        key = _key(source)
        self._failed.setdefault(key, deque(maxlen=MOST_TRIES)).append(self._clock())
        _keep_newest(self._failed, key)


def _keep_newest(entries: OrderedDict[Any, Any], key: Any) -> None:
    """Make an entry the newest one; if there are too many, forget the oldest."""
    entries.move_to_end(key)
    while len(entries) > _MOST:
        entries.popitem(last=False)


def _key(source: Address | None) -> int | None:
    if isinstance(source, IPv6Address):
        return (1 << 128) + (int(source) >> _IPV6_HOST_BITS)  # no IPv4 address has this key
    return None if source is None else int(source)
