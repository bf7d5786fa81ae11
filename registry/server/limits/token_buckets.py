"""Token buckets: limit how often an event may happen for each key. Pure: the caller passes the time.

A bucket holds the tokens of ``burst_s`` seconds and is filled again at its rate. It is stored as one number: the moment
at which it will be full again. Taking a token makes this moment later by the time for one token. A bucket has a token
if the moment would then be at most ``burst_s`` from now. A full bucket need not be stored.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

SECOND_NS: Final = 1_000_000_000


class TokenBuckets:
    """Buckets of one rate, by key; the ``most`` buckets that were used last are kept.

    A bucket that is not kept begins again as a full one. So these buckets do not limit a peer that uses more keys than
    are kept: a second bucket for all keys together must.

    Args:
        rate: tokens a second. burst_s: a full bucket holds the tokens of this time. most: buckets that are kept.
    """

    def __init__(self, rate: int, burst_s: float, most: int = 1) -> None:
        self._most = most
        self._full_at_ns: OrderedDict[str, int] = OrderedDict()  # the bucket that was used last comes last
        self.change(rate, burst_s)

    def __len__(self) -> int:
        return len(self._full_at_ns)

    def change(self, rate: int, burst_s: float) -> None:
        """Use another rate and size from now on; tokens that were taken stay taken."""
        self._token_ns = SECOND_NS // rate
        self._bucket_ns = int(burst_s * SECOND_NS)

    def has_token(self, key: str, now_ns: int) -> bool:
        """Whether this bucket has a token."""
        return self._full_at_ns.get(key, 0) + self._token_ns <= now_ns + self._bucket_ns

    def empty_s(self, key: str, now_ns: int) -> float:
        """How long until this bucket has a token again."""
        return max(0, self._full_at_ns.get(key, 0) + self._token_ns - now_ns - self._bucket_ns) / SECOND_NS

    def is_in_use(self, key: str, now_ns: int) -> bool:
        """Whether this bucket is not full."""
        return self._full_at_ns.get(key, 0) > now_ns

    def take(self, key: str, now_ns: int, for_ns: int | None = None) -> None:
        """Take one token, or the tokens of ``for_ns``, even if the bucket has fewer."""
        buckets = self._full_at_ns
        buckets[key] = max(buckets.get(key, 0), now_ns) + (self._token_ns if for_ns is None else for_ns)
        buckets.move_to_end(key)
        if len(buckets) > self._most:
            buckets.popitem(last=False)
