"""Slows down the guessing of secrets: limits how many signatures are checked after wrong ones from an address or user.

Wrong signatures from one address never lock a user out at other addresses: signatures from an address that sent no
wrong one in the last ten minutes are always checked.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from .token_buckets import SECOND_NS, TokenBuckets

OF_ADDRESS_PER_S: Final = 1
OF_ADDRESS_BURST: Final = 20
OF_USER_PER_S: Final = 1
OF_USER_BURST: Final = 60
_MOST_ADDRESSES: Final = 8192
_MOST_USERS: Final = 10_000
_MEMORY_S: Final = 600
"""An address counts as failing for this time after its first wrong signature."""


class Failures:
    """Wrong signatures that one worker has seen.

    Args:
        account_of: gives the account of a host: the address, or the network, under which it is counted.
        limited_account: the same, but "" for a host without limits: then only the user's wrong signatures count.
    """

    def __init__(
        self, account_of: Callable[[str], str], limited_account: Callable[[str], str],
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:  # fmt: skip
        self._account_of = account_of
        self._limited_account = limited_account
        self._clock_ns = clock_ns
        self._of_address = TokenBuckets(OF_ADDRESS_PER_S, OF_ADDRESS_BURST // OF_ADDRESS_PER_S, _MOST_ADDRESSES)
        self._of_user = TokenBuckets(OF_USER_PER_S, OF_USER_BURST // OF_USER_PER_S, _MOST_USERS)
        self._failing = TokenBuckets(1, _MEMORY_S, _MOST_ADDRESSES)

    def too_many(self, host: str, user: str) -> str:
        """Why a signature is not checked; "" = check it."""
        now_ns, account = self._clock_ns(), self._account_of(host)
        if not self._failing.is_in_use(account, now_ns):
            return ""
        if self._limited_account(host) and not self._of_address.has_token(account, now_ns):
            return f"too many wrong signatures came from {account}: only {OF_ADDRESS_PER_S} per second is checked"
        if not self._of_user.has_token(user, now_ns):
            return f"too many wrong signatures of user {user} were sent: only {OF_USER_PER_S} per second is checked"
        return ""

    def failed(self, host: str, user: str = "") -> None:
        """Count a wrong signature; ``user``: "" if it names no known user."""
        now_ns, account = self._clock_ns(), self._account_of(host)
        if not self._failing.is_in_use(account, now_ns):
            self._failing.take(account, now_ns, for_ns=_MEMORY_S * SECOND_NS)
        for buckets, key in ((self._of_address, account), (self._of_user, user)):
            if key and buckets.has_token(key, now_ns):
                buckets.take(key, now_ns)
